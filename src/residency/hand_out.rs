//! What holds a buffer beside pins: exports, operations being queued, host writes in its host copy; and its end.

use super::{
    Ask, Bytes, Core, Decision, Phase, Policy, Record, Request, RequestId, Slot, Victims, Want, WordCell,
    record::{HostCopy, Place},
};

impl<C: WordCell + Clone> Core<C> {
    /// Hands a pinned buffer's pointer out: it does not move, and counts as written, while the export lives.
    pub fn begin_export(&mut self, slot: Slot) {
        let Some(record) = self.records.get_mut(slot) else { return };
        record.exports = record.exports.saturating_add(1);
        record.cell.set(|word| word.with_exported(true).with_dirty(true));
        if record.exports == 1 && !record.fixed && !record.foreign {
            self.exported = self.exported.plus(record.bytes);
        }
    }

    /// An export has ended.
    pub fn end_export(&mut self, slot: Slot) {
        let Some(record) = self.records.get_mut(slot) else { return };
        record.exports = record.exports.saturating_sub(1);
        record.cell.set(|word| word.with_dirty(true));
        if record.exports == 0 && !record.fixed && !record.foreign {
            self.exported = self.exported.minus(record.bytes);
            let stays = record.bytes == Bytes::ZERO;
            record.cell.set(|word| word.with_exported(stays));
            self.unpinned(slot);
        }
    }

    /// An operation on a buffer is decided, and its work not yet queued: no pin is taken, and no claim goes on.
    pub fn begin_op(&mut self, slot: Slot) {
        if let Some(record) = self.records.get_mut(slot) {
            record.ops = record.ops.saturating_add(1);
            record.cell.set(|word| word.with_closed(true));
        }
    }

    /// The operation's work is queued, or was refused.
    pub fn end_op(&mut self, slot: Slot, wrote: bool) {
        let Some(record) = self.records.get_mut(slot) else { return };
        record.ops = record.ops.saturating_sub(1);
        let closed = record.ops > 0 || record.claimed.is_some();
        record.cell.set(|word| word.with_closed(closed).with_dirty(word.is_dirty() || wrote));
        self.try_release(slot);
        self.finish_drop(slot);
    }

    /// The host starts to write into the host copy of a spilled buffer: no restore starts meanwhile.
    pub fn begin_hold(&mut self, slot: Slot) {
        if let Some(record) = self.records.get_mut(slot) {
            record.holds = record.holds.saturating_add(1);
        }
    }

    /// The host has written. `held` says that there is a host copy now, if there was none.
    pub fn end_hold(&mut self, slot: Slot) {
        if let Some(record) = self.records.get_mut(slot) {
            record.holds = record.holds.saturating_sub(1);
            record.host = HostCopy::Held;
        }
        self.finish_drop(slot);
    }

    /// The host could not write after all: there is no memory for a host copy.
    pub fn end_hold_without_copy(&mut self, slot: Slot) {
        if let Some(record) = self.records.get_mut(slot) {
            record.holds = record.holds.saturating_sub(1);
        }
        self.finish_drop(slot);
    }

    /// The host used a buffer. Launches asked for ahead of their turn before that are still decided without it.
    pub fn touch(&mut self, slot: Slot, stamp: u64) {
        if self.last_kept_waiting(None).is_some() {
            self.ask(Ask::Touch(slot), stamp);
        } else {
            self.stamp(slot, stamp);
        }
    }

    /// Where in the queue the last request stands that keeps its buffers, this one if one is named.
    fn last_kept_waiting(&self, slot: Option<Slot>) -> Option<usize> {
        self.requests
            .queue
            .iter()
            .rposition(|&id| self.requests.get(id).is_some_and(|request| request.keeps(slot)))
    }

    /// The host will not use a buffer soon, nor will launches asked for from now on: it is the next to be spilled.
    pub fn wont_use(&mut self, slot: Slot) {
        if self.last_kept_waiting(None).is_some() {
            self.ask(Ask::Cool(slot), 0);
        } else {
            self.cool(slot);
        }
    }

    pub(super) fn cool(&mut self, slot: Slot) {
        let Some(record) = self.records.get_mut(slot) else { return };
        let is_listed = matches!(record.place, Place::Listed(_));
        if is_listed {
            self.order.unlist(slot, record);
        }
        record.cell.set(super::Word::unstamped);
        if is_listed {
            self.order.list(slot, record);
        }
    }

    pub(super) fn stamp(&mut self, slot: Slot, stamp: u64) {
        if let Some(record) = self.records.get(slot) {
            record.cell.set(|word| word.stamped(stamp));
        }
    }

    /// The contents are not needed: neither a spill nor a restore copies them, until they are written again.
    /// False if they are on their way to someone who asked before.
    pub fn discard(&mut self, slot: Slot) -> bool {
        let Some(record) = self.records.get_mut(slot) else { return false };
        if record.room.is_some() || record.coming || record.ops > 0 || record.exports > 0 {
            return false;
        }
        match record.cell.load().phase() {
            Phase::Restoring => {}
            Phase::Resident => {
                // A launch that holds a pin may be about to write what the next spill must copy.
                let clean = record.cell.update(|word| (word.pins() == 0).then_some(word.with_dirty(false)));
                if clean.is_some() {
                    self.drop_host(slot);
                    self.try_release(slot);
                }
            }
            Phase::Spilled => self.drop_host(slot),
        }
        true
    }

    /// The last handle is gone.
    pub fn drop_buffer(&mut self, slot: Slot) {
        self.is_copy_out_refused = false;
        let Some(record) = self.records.get_mut(slot).filter(|record| !record.dropped) else { return };
        record.dropped = true;
        // Those that go strictly by recency spill what they would without looking ahead.
        let named = (self.victims == Victims::NextUse).then_some(slot);
        if let Some(last) = self.last_kept_waiting(named) {
            let note = self.ask(Ask::Drop(slot), 0);
            if named.is_some() {
                self.unqueue(note);
                self.requests.queue.insert(last.saturating_add(1), note);
            }
        } else {
            self.depart(slot);
        }
    }

    /// A dropped buffer leaves the decided book: those that keep it will let go of it by themselves. Pins beside theirs
    /// are those of a guard that was forgotten: its pointer may be in use, and the buffer stays.
    pub(super) fn depart(&mut self, slot: Slot) {
        let Some(record) = self.records.get_mut(slot) else { return };
        record.departed = true;
        let pins = record.cell.load().pins();
        if pins > 0 && pins == u64::from(record.keepers) {
            self.order.unlist(slot, record);
            if record.present {
                record.present = false;
                self.books.decided = self.books.decided.minus(record.bytes);
            }
        }
        self.finish_drop(slot);
    }

    /// A dropped buffer that left the decided book comes back into it; false if it did not leave.
    pub(super) fn come_back(&mut self, slot: Slot) -> bool {
        let Some(record) = self.records.get_mut(slot).filter(|record| record.departed && !record.settled)
        else {
            return false;
        };
        record.departed = false;
        if !record.present {
            record.present = true;
            self.books.decided = self.books.decided.plus(record.bytes);
        }
        if record.cell.load().phase() != Phase::Spilled {
            self.list(slot);
        }
        self.shrink |= self.is_over_budget();
        true
    }

    /// A launch that keeps its buffers, and has all of them, is being queued.
    pub fn begin_kept(&mut self, id: RequestId) {
        if let Some(request) = self.requests.get_mut(id) {
            request.begun = true;
        }
    }

    /// A launch that kept its buffers has ended, queued or not.
    pub fn release_kept(&mut self, id: RequestId) {
        let Some(Request { ask: Ask::Uses(wants), .. }) = self.take_request(id) else { return };
        self.kept = self.kept.saturating_sub(1);
        for want in wants {
            self.room_unused(want.slot, id);
            self.unkeep(&want);
            self.unpin(want.slot);
        }
    }

    pub(super) fn unkeep(&mut self, want: &Want) {
        let Some(record) = self.records.get_mut(want.slot) else { return };
        record.keepers = record.keepers.saturating_sub(u32::from(want.kept));
        if record.keepers == 0 && record.cell.load().phase() == Phase::Spilled {
            self.order.unlist(want.slot, record);
        }
    }

    /// Takes a dropped buffer out of the books.
    fn settle_drop(&mut self, slot: Slot) {
        let Some(record) = self.records.get_mut(slot).filter(|record| !record.settled) else { return };
        record.settled = true;
        self.order.unlist(slot, record);
        let (claim, bytes) = (record.claimed.take(), record.bytes);
        let spilled = record.cell.load().phase() == Phase::Spilled && !record.unborn;
        let (present, memory, foreign) = (record.present, record.memory, record.foreign);
        let (fixed, exported) = (record.fixed, record.exports > 0);
        record.present = false;
        let waiters = std::mem::take(&mut record.spill_waiters);
        let copied = claim.is_some_and(|claim| claim.copied) || record.copying.is_some();
        if let Some(claim) = claim {
            self.claim_over(claim, bytes);
            if !foreign {
                self.books.dropped_victim(bytes, copied);
            }
        }
        for id in waiters {
            self.one_less(id);
        }
        if foreign {
            self.books.foreign = self.books.foreign.minus(bytes);
            return;
        }
        if present {
            self.books.decided = self.books.decided.minus(bytes);
        }
        if memory {
            self.books.give_up(bytes);
        }
        if spilled {
            self.books.dropped_spilled(bytes);
        }
        if fixed {
            self.books.fixed = self.books.fixed.minus(bytes);
        } else if exported {
            self.exported = self.exported.minus(bytes);
        }
    }

    /// Whether something of a buffer is on its way that ends by itself.
    fn is_under_way(&self, slot: Slot) -> bool {
        let is_on_its_way =
            |record: &Record<C>| record.ops > 0 || record.cell.load().phase() == Phase::Restoring;
        !self.is_lost && self.records.get(slot).is_some_and(is_on_its_way)
    }

    /// Frees a dropped buffer once nothing of it is being queued.
    pub(super) fn finish_drop(&mut self, slot: Slot) {
        let Some(record) = self.records.get(slot).filter(|record| record.departed) else { return };
        let word = record.cell.load();
        if word.pins() > 0 {
            return;
        }
        // Strictly by recency, a victim that cannot be copied out yet is, all the same.
        let is_due = record.claimed.is_some_and(|claim| !claim.copied)
            && record.copying.is_none()
            && (word.is_dirty() || self.policy == Policy::Plain);
        if is_due && self.victims == Victims::LeastRecentlyUsed && self.is_under_way(slot) {
            return;
        }
        self.settle_drop(slot);
        let Some(record) = self.records.get(slot) else { return };
        let busy = record.ops > 0 || record.holds > 0 || record.coming || record.copying.is_some();
        if busy {
            return;
        }
        if let Some(record) = self.records.remove(slot) {
            let memory = record.memory && !record.foreign;
            self.decide(Decision::FreeDropped { cell: record.cell, bytes: record.bytes, memory });
        }
    }
}
