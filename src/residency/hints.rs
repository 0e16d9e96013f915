//! Hints at what will be asked for: served when no one else waits, taken back when someone does, and never at the cost of
//! what is needed sooner.

use super::{
    Ask, Bytes, Core, Decision, Failure, Outcome, Phase, RequestId, Slot, Want, WordCell, decision::Grant,
    room::Admit,
};

/// The hints under way at a time: one copied out for while another is copied in, and no more that what is asked for would
/// stand behind.
const AT_ONCE: usize = 2;

impl<C: WordCell + Clone> Core<C> {
    /// Hints that buffers will be used, in this order: one request each. They count as used now.
    pub fn hint(&mut self, slots: &[Slot], stamp: u64) -> Vec<RequestId> {
        let mut asked = Vec::with_capacity(slots.len());
        for &slot in slots {
            let Some(record) = self.records.get_mut(slot) else { continue };
            record.hinted = Some(stamp);
            record.cell.set(|word| word.stamped(stamp));
            let want = Want { slot, writes: false, overwrites: false, kept: false };
            asked.push(self.requests.push(Ask::Uses(vec![want]), stamp, record.bytes, true));
        }
        asked
    }

    /// Whether a request is a hint.
    pub(super) fn is_hint(&self, id: RequestId) -> bool {
        self.requests.get(id).is_some_and(|request| request.is_hint)
    }

    fn hinted(&self, id: RequestId) -> Option<Slot> {
        self.requests.get(id).filter(|request| request.is_hint)?.slots().next()
    }

    /// Brings what the next hint is about, if no one waits; true if anything changed.
    pub(super) fn admit_hint(&mut self) -> bool {
        if !self.requests.queue.is_empty() || self.is_refused() || self.hinting >= AT_ONCE {
            return false;
        }
        let Some(&id) = self.requests.hints.front() else { return false };
        let Some(record) = self.hinted(id).and_then(|slot| self.records.get(slot)) else {
            self.pass_hint(id);
            return true;
        };
        let is_there = record.cell.load().phase() != Phase::Spilled || record.memory || record.coming;
        if is_there && record.claimed.is_none() {
            self.pass_hint(id);
            return true;
        }
        // What launches have dropped and still wait for is room that the books have to give, but not to a hint.
        let is_busy = record.ops > 0 || record.holds > 0 || record.claimed.is_some();
        if is_busy || self.kept_beside_books() > Bytes::ZERO {
            return false;
        }
        let Some((ask, stamp, bytes)) =
            self.requests.get(id).map(|request| (request.ask.clone(), request.stamp, request.bytes))
        else {
            return false;
        };
        let Ask::Uses(wants) = ask else { return false };
        self.hinting = self.hinting.saturating_add(1);
        let admitted = self.admit_uses(id, &wants, stamp, bytes);
        if let Admit::Yes = admitted {
            self.unqueue(id);
            return true;
        }
        self.hinting = self.hinting.saturating_sub(1);
        // There is no room that it may have, and who holds it may be waiting for this very hint.
        self.fail(
            id,
            if let Admit::Never(failure) = admitted { failure } else { Failure::Stalled { bytes } },
        );
        true
    }

    /// There is nothing to be done for a hint.
    fn pass_hint(&mut self, id: RequestId) {
        self.unqueue(id);
        if let Some(request) = self.requests.get_mut(id) {
            request.outcome = Outcome::Done;
            self.decide(Decision::Wake(id));
        }
    }

    /// What a hint is about is on the device, or will be before what is queued next.
    pub(super) fn end_hint(&mut self, id: RequestId) {
        self.hinting = self.hinting.saturating_sub(1);
        if let Some(slot) = self.hinted(id) {
            self.unpin(slot);
        }
    }

    /// Someone waits: hints give up what they have not been given yet, and wait behind.
    pub(super) fn take_hints_back(&mut self) {
        let waits = |&id: &RequestId| self.requests.get(id).is_some_and(|request| !request.is_note());
        if self.hinting == 0 || !self.requests.queue.iter().any(waits) {
            return;
        }
        let hint_of = |grant: &Grant| self.asker(grant).filter(|&id| self.is_hint(id));
        let hints: Vec<RequestId> = self.grants.iter().filter_map(hint_of).collect();
        hints.into_iter().rev().for_each(|id| self.requeue(id));
    }

    /// Hints that had this stamp are taken back: later ones may have what they were about spilled.
    pub fn forget_hints(&mut self, slots: &[Slot], stamp: u64) {
        for &slot in slots {
            if let Some(record) = self.records.get_mut(slot).filter(|record| record.hinted == Some(stamp)) {
                record.hinted = None;
            }
        }
    }
}
