//! What the engine reports of the work it was given.

use super::{
    Ask, Bytes, Core, Decision, Failure, Outcome, Phase, Policy, RequestId, Slot, Step, WordCell,
    decision::{Grant, GrantFor},
    record::{HostCopy, Record},
};

impl<C: WordCell + Clone> Core<C> {
    /// Device memory for a new buffer is there. Gives the buffer's place; none if no one waits for it any more,
    /// and the memory is to be freed, which [`left`](Core::left) then reports.
    pub fn allocated_fresh(&mut self, grant: &Grant, cell: C, fixed: bool) -> Option<Slot> {
        self.settle(grant);
        let GrantFor::Fresh(id) = grant.want else { return None };
        self.unask(grant.bytes);
        if self.requests.get(id).is_none_or(|request| !request.is_waiting()) {
            self.books.leaving = self.books.leaving.plus(grant.bytes);
            return None;
        }
        self.books.decided = self.books.decided.plus(grant.bytes);
        self.books.take(grant.bytes);
        let slot = self.add(cell, grant.bytes, fixed);
        self.one_less(id);
        Some(slot)
    }

    /// Adds a buffer that needs no grant: one without bytes, or foreign memory.
    pub fn add_ungranted(&mut self, cell: C, bytes: Bytes) -> Slot {
        let slot = self.add(cell, bytes, false);
        if let Some(record) = self.records.get_mut(slot) {
            record.foreign = bytes > Bytes::ZERO;
            record.present = !record.foreign;
            record.memory = !record.foreign;
            record.cell.set(|word| word.with_exported(true));
            self.order.unlist(slot, record);
            self.books.foreign = self.books.foreign.plus(bytes);
            record.present = true;
        }
        slot
    }

    /// Adds a buffer that gets its device memory when it is first used there: until then it has contents nobody needs.
    pub fn add_unborn(&mut self, cell: C, bytes: Bytes) -> Slot {
        cell.set(|word| word.with_phase(Phase::Spilled).with_dirty(false));
        let age = self.number();
        let mut record = Record::new(cell, bytes, age);
        (record.present, record.memory, record.unborn) = (false, false, true);
        self.records.insert(record)
    }

    /// Counts a buffer that has device memory again, or for the first time.
    pub(super) fn count_back(&mut self, slot: Slot, copied: bool) {
        let Some(record) = self.records.get_mut(slot) else { return };
        if !std::mem::take(&mut record.unborn) {
            self.books.restored(record.bytes, copied);
            self.came_back(slot);
        }
    }

    /// The room others asked for is there.
    pub fn allocated_room(&mut self, grant: &Grant) {
        self.settle(grant);
        self.unask(grant.bytes);
        if let GrantFor::Room(id) = grant.want {
            self.one_less(id);
        }
    }

    /// Device memory for a spilled buffer is there. False if no one waits for it any more, and the memory is to be
    /// freed, which [`left`](Core::left) then reports.
    pub fn allocated(&mut self, grant: &Grant) -> bool {
        self.settle(grant);
        let (GrantFor::Restore(slot) | GrantFor::Overwrite(slot)) = grant.want else { return false };
        let overwriter = self.overwriter(slot);
        let discarded = self.is_discarded(slot);
        let copied = matches!(grant.want, GrantFor::Restore(_));
        let Some(record) = self.records.get_mut(slot) else { return false };
        if record.waiters.is_empty() {
            self.books.leaving = self.books.leaving.plus(grant.bytes);
            self.not_coming(slot);
            self.finish_drop(slot);
            return false;
        }
        record.memory = true;
        self.books.take(grant.bytes);
        if let Some(id) = overwriter.filter(|_| !copied) {
            record.coming = false;
            record.room = Some(id);
            record.waiters.retain(|&waiter| waiter != id);
            self.one_less(id);
        } else if discarded {
            self.arrive_empty(slot);
        } else {
            self.decide(Decision::CopyIn(slot));
        }
        true
    }

    pub(super) fn settle(&mut self, grant: &Grant) {
        self.books.reserved = self.books.reserved.minus(grant.bytes);
        self.issued = self.issued.saturating_sub(1);
        self.retried = self.retried.saturating_sub(usize::from(grant.is_refused()));
    }

    /// A buffer whose contents no one needs has device memory again.
    fn arrive_empty(&mut self, slot: Slot) {
        let writes = self.is_written_by_waiters(slot);
        self.take_step(slot, Step::Overwrite, |word| Some(word.with_dirty(writes)));
        if let Some(record) = self.records.get_mut(slot) {
            record.coming = false;
        }
        self.count_back(slot, false);
        self.list(slot);
        self.tell_waiters(slot);
    }

    fn is_written_by_waiters(&self, slot: Slot) -> bool {
        let Some(record) = self.records.get(slot) else { return false };
        record.written || record.waiters.iter().any(|&id| self.want(id, slot).is_some_and(|want| want.writes))
    }

    pub(super) fn want(&self, id: RequestId, slot: Slot) -> Option<super::Want> {
        match &self.requests.get(id)?.ask {
            Ask::Uses(wants) => wants.iter().copied().find(|want| want.slot == slot),
            _ => None,
        }
    }

    /// The request a spilled buffer comes back for, if it overwrites the whole of it before any other sees it.
    pub(super) fn overwriter(&self, slot: Slot) -> Option<RequestId> {
        let record = self.records.get(slot)?;
        let (&first, others) = record.waiters.split_first()?;
        let want = self.want(first, slot).filter(|want| want.overwrites)?;
        // Launches taken ahead of time come behind one another, and see what it wrote.
        let is_first = others.is_empty() || (want.kept && others.iter().all(|&id| self.is_kept(id, slot)));
        (self.policy == Policy::Aware && !record.written && is_first).then_some(first)
    }

    /// Whether a request uses a buffer for a launch taken ahead of time.
    pub(super) fn is_kept(&self, id: RequestId, slot: Slot) -> bool {
        self.want(id, slot).is_some_and(|want| want.kept)
    }

    pub(super) fn is_discarded(&self, slot: Slot) -> bool {
        self.blank(slot).is_some()
    }

    /// A spilled buffer whose contents are nowhere, since no one needs them.
    pub fn blank(&self, slot: Slot) -> Option<&C> {
        let is_blank = |record: &&Record<C>| {
            record.host == HostCopy::None && record.cell.load().phase() == Phase::Spilled
        };
        self.records.get(slot).filter(is_blank).map(|record| &record.cell)
    }

    pub(super) fn tell_waiters(&mut self, slot: Slot) {
        let Some(record) = self.records.get_mut(slot) else { return };
        record.written = false;
        for id in std::mem::take(&mut record.waiters) {
            self.one_less(id);
        }
    }

    /// The copy to the device is queued: launches may be queued behind it.
    pub fn copy_in_queued(&mut self, slot: Slot) {
        let writes = self.is_written_by_waiters(slot);
        self.take_step(slot, Step::Restore, |word| Some(word.with_dirty(writes)));
        let Some(record) = self.records.get_mut(slot) else { return };
        record.coming = false;
        record.lent = None;
        if !record.settled {
            self.count_back(slot, true);
            self.list(slot);
        }
        // It was no victim until now, whatever the budget has become meanwhile.
        self.shrink |= self.is_over_budget();
        self.tell_waiters(slot);
        self.finish_drop(slot);
    }

    /// Whether a buffer has memory for what is still to be queued of its copy.
    pub(super) fn is_being_copied_in(&self) -> bool {
        self.records.iter().any(|(_, record)| record.coming && record.memory)
    }

    /// The copy to the device could not be queued: the buffer is as spilled as before.
    pub fn copy_in_refused(&mut self, slot: Slot, failure: Failure) {
        let Some(record) = self.records.get_mut(slot) else { return };
        record.written = false;
        if let Some(holder) = record.lent.take() {
            record.room = Some(holder);
            record.coming = false;
        } else {
            record.memory = false;
            let (cell, bytes) = (record.cell.clone(), record.bytes);
            if !record.settled {
                self.books.give_up(bytes);
            }
            self.decide(Decision::Free { cell, bytes });
            self.not_coming(slot);
        }
        let waiters = self.records.get(slot).map(|record| record.waiters.clone()).unwrap_or_default();
        for id in waiters {
            self.fail(id, failure.clone());
        }
        self.finish_drop(slot);
    }

    /// The copy to the device has ended.
    pub fn arrived(&mut self, slot: Slot) {
        let aware = self.policy == Policy::Aware;
        if !self.take_step(slot, Step::Arrive, |word| Some(word.with_dirty(word.is_dirty() || !aware))) {
            return;
        }
        if self.records.get(slot).is_some_and(|record| record.cell.load().is_dirty()) {
            self.drop_host(slot);
        }
        self.try_release(slot);
        self.finish_drop(slot);
    }

    /// Memory that no buffer came to have is to be freed; answer with `left`, or with `freed_in_order`.
    pub fn leave(&mut self, bytes: Bytes) {
        self.books.leaving = self.books.leaving.plus(bytes);
    }

    /// Memory given up before is free now.
    pub fn left(&mut self, bytes: Bytes) {
        self.books.leaving = self.books.leaving.minus(bytes);
    }

    /// Memory given up before was freed in the compute queue's order.
    pub fn freed_in_order(&mut self, bytes: Bytes) {
        self.books.leaving = self.books.leaving.minus(bytes);
        self.books.ordered = self.books.ordered.plus(bytes);
    }

    /// The compute queue has come past a free in its order.
    pub fn order_passed(&mut self, bytes: Bytes) {
        self.books.ordered = self.books.ordered.minus(bytes);
    }

    /// A launch that was given room without a copy has been queued: the buffer is what it wrote.
    pub fn overwritten(&mut self, slot: Slot, id: RequestId) {
        let its = |record: &&mut Record<C>| record.room == Some(id) || record.lent == Some(id);
        let Some(record) = self.records.get_mut(slot).filter(its) else { return };
        (record.room, record.lent, record.coming) = (None, None, false);
        self.take_step(slot, Step::Overwrite, |word| Some(word.with_dirty(true)));
        self.count_back(slot, false);
        self.drop_host(slot);
        self.list(slot);
        self.tell_waiters(slot);
    }

    /// Whether memory with a launch's claim on it is to get the bytes that were there, for another request.
    pub fn is_lent(&self, slot: Slot) -> bool {
        self.records.get(slot).is_some_and(|record| record.lent.is_some())
    }

    /// Whether a copy to the device that was decided is still to be made: not if a launch has overwritten the whole.
    pub fn is_copy_in_wanted(&self, slot: Slot) -> bool {
        let spilled = |record: &Record<C>| record.cell.load().phase() == Phase::Spilled;
        self.records.get(slot).is_some_and(|record| record.coming && spilled(record))
    }

    /// A launch that was given room without a copy will not be queued: the buffer is spilled with its bytes.
    pub fn room_unused(&mut self, slot: Slot, id: RequestId) {
        if let Some(record) = self.records.get_mut(slot).filter(|record| record.lent == Some(id)) {
            record.lent = None;
        }
        let Some(record) = self.records.get_mut(slot).filter(|record| record.room == Some(id)) else {
            return;
        };
        record.room = None;
        if !record.waiters.is_empty() {
            // Launches behind it were to see what it wrote, and see what was there instead.
            record.coming = true;
            if record.host == HostCopy::None {
                self.arrive_empty(slot);
            } else {
                self.decide(Decision::CopyIn(slot));
            }
            return;
        }
        record.memory = false;
        let (cell, bytes) = (record.cell.clone(), record.bytes);
        self.books.give_up(bytes);
        self.not_coming(slot);
        self.decide(Decision::Free { cell, bytes });
    }

    pub(super) fn not_coming(&mut self, slot: Slot) {
        let Some(record) = self.records.get_mut(slot) else { return };
        record.coming = false;
        record.trips.unask();
        if record.present {
            record.present = false;
            self.books.decided = self.books.decided.minus(record.bytes);
        }
    }

    /// Lets go of all that a request that has not ended holds.
    pub(super) fn abandon(&mut self, id: RequestId) {
        self.hook_over(id);
        let Some(request) = self.requests.get(id) else { return };
        let is_hint = request.is_hint;
        let held = match request.outcome {
            Outcome::Done => !is_hint,
            Outcome::Failed(_) => false,
            Outcome::Queued | Outcome::AskHook | Outcome::Admitted => !self.requests.is_queued(id),
        };
        let ask = request.ask.clone();
        match ask {
            Ask::Uses(wants) if held => {
                self.hinting = self.hinting.saturating_sub(usize::from(is_hint));
                self.kept = self.kept.saturating_sub(usize::from(wants.iter().any(|want| want.kept)));
                for want in wants {
                    if let Some(record) = self.records.get_mut(want.slot) {
                        record.waiters.retain(|&waiter| waiter != id);
                        if record.waiters.is_empty() && record.coming {
                            self.ungrant(want.slot);
                        }
                        self.room_unused(want.slot, id);
                    }
                    self.unkeep(&want);
                    self.unpin(want.slot);
                }
            }
            Ask::Fresh(bytes) | Ask::Room(bytes) => {
                let before = self.grants.len();
                self.grants.retain(
                    |grant| !matches!(grant.want, GrantFor::Fresh(of) | GrantFor::Room(of) if of == id),
                );
                if self.grants.len() < before {
                    self.unask(bytes);
                }
            }
            Ask::Spill(slots) => {
                for slot in slots {
                    if let Some(record) = self.records.get_mut(slot) {
                        record.spill_waiters.retain(|&waiter| waiter != id);
                    }
                }
            }
            Ask::Drop(slot) => self.depart(slot),
            Ask::Uses(_) | Ask::Touch(_) | Ask::Cool(_) => {}
        }
        self.unclaim_surplus(id);
    }

    /// Whether a spilled buffer's way back has begun: what the host writes then goes behind it.
    pub fn is_coming_for_sure(&self, slot: Slot) -> bool {
        let is_coming = self.records.get(slot).is_some_and(|record| record.coming);
        is_coming && !self.grants.iter().any(|grant| grant.is_of(slot))
    }

    /// Takes back the grant of a buffer no one waits for, if it is not issued yet.
    fn ungrant(&mut self, slot: Slot) {
        let before = self.grants.len();
        self.grants.retain(|grant| !grant.is_of(slot));
        if self.grants.len() < before {
            self.not_coming(slot);
        }
    }
}
