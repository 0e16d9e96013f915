//! Makes room: admits requests in turn and chooses whom to spill for them, not one more than needed.

use super::{
    Ask, Bytes, Core, Decision, Failure, Outcome, Phase, Record, RequestId, Slot, Step, Want, WordCell,
    decision::GrantFor, record::HostCopy,
};
use std::collections::BTreeSet;

pub(super) enum Admit {
    Yes,
    /// An operation on a buffer comes first, whatever room there is.
    Busy,
    NotYet,
    Never(Failure),
}

impl<C: WordCell + Clone> Core<C> {
    /// Admits the first request that waits, if it fits; true if anything changed.
    pub(super) fn admit_next(&mut self) -> bool {
        let mut index = 0;
        while let Some(&id) = self.requests.queue.get(index) {
            let Some(request) = self.requests.get(id) else {
                self.unqueue(id);
                continue;
            };
            let is_in_order = request.is_note() || request.keeps(None);
            if matches!(request.outcome, Outcome::AskHook) || (is_in_order && self.is_kept_before(index)) {
                index = index.saturating_add(1);
                continue;
            }
            let is_note = request.is_note();
            let (ask, stamp, bytes, hooked) =
                (request.ask.clone(), request.stamp, request.bytes, request.hooked);
            if !matches!(ask, Ask::Spill(_)) && !is_note && self.is_refused() {
                return false;
            }
            match self.admit(id, &ask, stamp, bytes) {
                Admit::Yes => {
                    self.unqueue(id);
                    if is_note {
                        self.requests.remove(id);
                    }
                    return true;
                }
                // What is handed out may be given back by the caller's hook.
                Admit::Never(Failure::Blocked { .. }) if self.has_hook && !hooked => {
                    self.ask_hook_of(id);
                    return true;
                }
                Admit::Never(failure) => {
                    self.fail(id, failure);
                    return true;
                }
                Admit::NotYet if self.has_hook && !hooked && !self.will_fit(bytes) => {
                    self.ask_hook_of(id);
                    return true;
                }
                Admit::Busy | Admit::NotYet => return false,
            }
        }
        false
    }

    /// Has the caller's hook run for a request, once.
    fn ask_hook_of(&mut self, id: RequestId) {
        if let Some(request) = self.requests.get_mut(id) {
            request.hooked = true;
        }
        self.wake(id, Outcome::AskHook);
    }

    /// Whether a launch taken ahead of time, that others and notes must not come before, asks the caller's hook ahead of a
    /// place.
    fn is_kept_before(&self, index: usize) -> bool {
        let mut before = self.requests.queue.iter().take(index);
        before.any(|&id| self.requests.get(id).is_some_and(|request| request.keeps(None)))
    }

    /// Whether the wait is for an operation or a launch being queued, not for room.
    fn will_fit(&self, bytes: Bytes) -> bool {
        self.books.decided.plus(bytes) <= self.budget() || self.kept > 0 || self.hinting > 0
    }

    fn admit(&mut self, id: RequestId, ask: &Ask, stamp: u64, bytes: Bytes) -> Admit {
        match ask {
            Ask::Uses(wants) => self.admit_uses(id, wants, stamp, bytes),
            Ask::Fresh(_) => self.admit_memory(id, GrantFor::Fresh(id), bytes),
            Ask::Room(_) => self.admit_memory(id, GrantFor::Room(id), bytes),
            Ask::Spill(slots) => self.admit_spill(id, slots),
            Ask::Drop(slot) => {
                self.depart(*slot);
                Admit::Yes
            }
            Ask::Cool(slot) => {
                self.cool(*slot);
                Admit::Yes
            }
            Ask::Touch(slot) => {
                self.stamp(*slot, stamp);
                Admit::Yes
            }
        }
    }

    fn admit_memory(&mut self, id: RequestId, want: GrantFor, bytes: Bytes) -> Admit {
        // What cannot be counted beside the others fits nowhere.
        let countable = Bytes::MAX.minus(self.books.decided);
        if bytes > self.most().min(countable) {
            return Admit::Never(Failure::TooLarge { bytes, most: self.most().min(countable) });
        }
        if !self.make_room(id, bytes) {
            return self.blocked(bytes, Bytes::ZERO).map_or(Admit::NotYet, Admit::Never);
        }
        self.books.decided = self.books.decided.plus(bytes);
        self.asked = self.asked.plus(bytes);
        self.admitted(id, 1);
        self.grant(want, bytes);
        Admit::Yes
    }

    pub(super) fn admit_uses(&mut self, id: RequestId, wants: &[Want], stamp: u64, bytes: Bytes) -> Admit {
        let (mut need, mut unmovable) = (Bytes::ZERO, Bytes::ZERO);
        for want in wants {
            let Some(record) = self.records.get(want.slot).filter(|record| !record.departed) else {
                return Admit::Never(Failure::Misuse("a buffer of the request has been dropped"));
            };
            // The host uses it: nothing may be queued ahead of that, or copied from under it.
            let is_hosted = record.ops > 0 || (record.room.is_some() && record.holds > 0);
            // A launch taken ahead of time finds a victim gone, as it would in its turn. No one takes a victim back whose
            // room is counted on: the books have some to give for what launches have dropped and still wait for.
            let is_counted_on = || want.kept || self.kept_beside_books() > Bytes::ZERO;
            if is_hosted {
                return Admit::Busy;
            }
            if record.claimed.is_some() && is_counted_on() {
                return Admit::NotYet;
            }
            if !record.present {
                need = need.plus(record.bytes);
            }
            if record.fixed || record.exports > 0 {
                unmovable = unmovable.plus(record.bytes);
            }
        }
        let own = wants.iter().filter_map(|want| self.records.get(want.slot));
        let foreign: Bytes = own.filter(|record| record.foreign).map(|record| record.bytes).sum();
        if need > Bytes::ZERO && bytes.minus(foreign) > self.most() {
            return Admit::Never(Failure::TooLarge { bytes, most: self.most() });
        }
        for (index, want) in wants.iter().enumerate() {
            let pinned =
                self.records.get(want.slot).and_then(|record| record.cell.update(|word| word.with_pin()));
            if pinned.is_none() {
                wants.iter().take(index).for_each(|want| self.unpin(want.slot));
                return Admit::Never(Failure::Misuse("a buffer has as many pins as can be counted"));
            }
        }
        if !self.make_room(id, need) {
            wants.iter().for_each(|want| self.unpin(want.slot));
            return self.blocked(bytes, unmovable).map_or(Admit::NotYet, Admit::Never);
        }
        self.kept = self.kept.saturating_add(usize::from(wants.iter().any(|want| want.kept)));
        let missing = wants.iter().filter(|want| self.bring(id, want, stamp)).count();
        self.admitted(id, missing);
        Admit::Yes
    }

    /// Counts a pinned buffer in and has it brought to the device; true if the request must wait for that.
    fn bring(&mut self, id: RequestId, want: &Want, stamp: u64) -> bool {
        let Some(record) = self.records.get_mut(want.slot) else { return false };
        record.keepers = record.keepers.saturating_add(u32::from(want.kept));
        let phase = record.cell.load().phase();
        let dirty = want.writes && phase != Phase::Spilled;
        record.cell.set(|word| word.stamped(stamp).with_dirty(word.is_dirty() || dirty));
        let bytes = record.bytes;
        if record.claimed.is_some() {
            self.unclaim(want.slot);
            return false;
        }
        if !record.present {
            record.present = true;
            self.books.decided = self.books.decided.plus(bytes);
        }
        if phase != Phase::Spilled {
            return false;
        }
        record.trips.ask(stamp);
        let holder = record.room;
        if want.kept {
            // Victims are taken in the order that they would be with nothing taken ahead of time: it has its place there.
            self.list(want.slot);
        }
        let sees_holder = want.kept && holder.is_some_and(|holder| self.is_kept(holder, want.slot));
        let Some(record) = self.records.get_mut(want.slot) else { return false };
        if sees_holder {
            // What that launch writes, once its work is queued.
            record.waiters.push(id);
            return true;
        }
        if record.room.is_some() && record.host == HostCopy::None {
            // Another launch was to overwrite contents that are nobody's: there is nothing to copy for this one.
            record.room = None;
            self.take_step(want.slot, Step::Overwrite, |word| Some(word.with_dirty(true)));
            self.count_back(want.slot, false);
            self.list(want.slot);
            self.tell_waiters(want.slot);
            return false;
        }
        record.waiters.push(id);
        if let Some(holder) = record.room.take() {
            record.lent = Some(holder);
            // Another launch was to overwrite it, and this one comes first or beside it: its bytes are needed.
            record.coming = true;
            record.written = true;
            self.decide(Decision::CopyIn(want.slot));
        } else if !record.coming {
            record.coming = true;
            self.grant(GrantFor::Restore(want.slot), bytes);
        }
        true
    }

    /// Whether a spill waits for an operation: the host uses the buffer, or others may still. That ends by itself.
    pub(super) fn is_spill_behind_op(&self, slot: Slot) -> bool {
        let is_busy = |record: &Record<C>| {
            let word = record.cell.load();
            record.ops > 0 && record.moves() && word.pins() == 0 && !word.is_exported()
        };
        self.spills && self.records.get(slot).is_some_and(is_busy)
    }

    fn admit_spill(&mut self, id: RequestId, slots: &[Slot]) -> Admit {
        if slots.iter().any(|&slot| self.is_spill_behind_op(slot)) {
            return Admit::Busy;
        }
        let mut waits = 0usize;
        for &slot in slots {
            let Some(record) = self.records.get_mut(slot) else { continue };
            let closed = self.spills
                && record.moves()
                && record.ops == 0
                && record
                    .cell
                    .update(|word| {
                        (word.pins() == 0 && !word.is_exported()).then_some(word.with_closed(true))
                    })
                    .is_some();
            if closed {
                self.order.unlist(slot, record);
            } else if record.claimed.is_none() {
                continue;
            }
            record.spill_waiters.push(id);
            waits = waits.saturating_add(1);
        }
        self.admitted(id, waits);
        for &slot in slots {
            if self.records.get(slot).is_some_and(|r| r.spill_waiters.contains(&id) && r.claimed.is_none()) {
                self.claim(slot, None);
            }
        }
        Admit::Yes
    }

    fn admitted(&mut self, id: RequestId, missing: usize) {
        let turn = self.number();
        if let Some(request) = self.requests.get_mut(id) {
            request.turn = turn;
            request.missing = missing;
            request.outcome = Outcome::Admitted;
        }
        if missing == 0 {
            self.wake(id, Outcome::Done);
        }
    }

    /// Claims victims until `need` fits beside what is decided. All of them, or none and false.
    fn make_room(&mut self, id: RequestId, need: Bytes) -> bool {
        let mut over = self.books.decided.plus(need).minus(self.budget());
        if need == Bytes::ZERO || over == Bytes::ZERO {
            return true;
        }
        if self.order.bytes() < over {
            return false;
        }
        let mut chosen = Vec::new();
        while over > Bytes::ZERO {
            let Some(slot) = self.next_victim_for(id) else {
                chosen.into_iter().for_each(|slot| self.reopen(slot));
                return false;
            };
            over = over.minus(self.records.get(slot).map(|record| record.bytes).unwrap_or_default());
            chosen.push(slot);
        }
        for slot in chosen {
            self.claim(slot, Some(id));
        }
        true
    }

    /// The failure of a request that exports and fixed buffers alone keep out.
    pub(super) fn blocked(&self, bytes: Bytes, own: Bytes) -> Option<Failure> {
        let others = self.books.fixed.plus(self.exported).minus(own);
        (bytes.plus(others) > self.budget()).then_some(Failure::Blocked { bytes, exported: others })
    }

    /// Spills what a lowered budget has no room for, as far as that may be spilled. Requests that were admitted under
    /// the old one and have no memory yet are admitted anew, in their order.
    pub(super) fn shrink_to_budget(&mut self) {
        if !std::mem::take(&mut self.shrink) || self.is_lost {
            return;
        }
        if std::mem::take(&mut self.is_overbooked) {
            // Launches taken ahead of time were admitted beside buffers that have left the books since, and that some of
            // them keep on the device: they may not fit any more, though the books do.
            while self.books.decided.plus(self.kept_beside_books()) > self.budget()
                && let Some(id) = self.last_kept_admitted(0)
            {
                self.requeue(id);
            }
        }
        while self.is_over_budget()
            && let Some(id) = self.last_ungranted()
        {
            self.requeue(id);
        }
        while self.is_over_budget() && !self.is_copy_out_refused {
            let Some(slot) = self.next_victim() else { return };
            self.claim(slot, None);
        }
    }

    /// The last request in turn that waits for a grant not yet issued.
    fn last_ungranted(&self) -> Option<RequestId> {
        self.grants.iter().rev().find_map(|grant| self.asker(grant))
    }

    /// What launches taken ahead of time keep, or wait for, though it has left the decided book.
    pub(super) fn kept_beside_books(&self) -> Bytes {
        let kept = self.requests.iter().filter(|(_, request)| request.is_kept_admitted());
        let slots: BTreeSet<Slot> = kept.flat_map(|(_, request)| request.slots()).collect();
        let left = slots.iter().filter_map(|&slot| self.records.get(slot)).filter(|record| !record.present);
        left.map(|record| record.bytes).sum()
    }

    /// Of the launches taken ahead of time that are not being queued yet, the one admitted last, if it was after `turn`.
    pub(super) fn last_kept_admitted(&self, turn: u64) -> Option<RequestId> {
        let kept =
            self.requests.iter().filter(|(_, request)| request.is_kept_admitted() && request.turn > turn);
        kept.max_by_key(|(_, request)| request.turn).map(|(id, _)| id)
    }

    /// Takes all back that an admitted request was given, and puts it first among those that wait; and before it what was
    /// given to launches taken ahead of time that were admitted after it, if it is one: none holds what one ahead waits
    /// for.
    pub(super) fn requeue(&mut self, id: RequestId) {
        let Some(request) = self.requests.get(id) else { return };
        if request.keeps(None) {
            let turn = request.turn;
            while let Some(last) = self.last_kept_admitted(turn) {
                self.requeue_one(last);
            }
        }
        self.requeue_one(id);
    }

    /// Buffers that it keeps and that have left the books come back into them, to leave once it is admitted anew.
    fn requeue_one(&mut self, id: RequestId) {
        let kept: Vec<Slot> = self
            .requests
            .get(id)
            .filter(|request| request.keeps(None))
            .map(|request| request.slots().collect())
            .unwrap_or_default();
        for slot in kept {
            if self.come_back(slot) {
                let note = self.ask(Ask::Drop(slot), 0);
                self.unqueue(note);
                self.queue_first(note);
            }
        }
        self.abandon(id);
        if let Some(request) = self.requests.get_mut(id) {
            (request.outcome, request.turn) = (Outcome::Queued, 0);
            self.queue_first(id);
        }
    }
}
