//! Who waits for pins alone, and who for operations.

use super::{Ask, Bytes, Core, Outcome, Record, RequestId, Slot, WordCell};

impl<C: WordCell + Clone> Core<C> {
    /// The request that waits for pins alone, with nothing on its way.
    pub fn stalled(&self) -> Option<RequestId> {
        // What waits for the caller's hook does not end by itself.
        let is_aside = |slot| self.grants.iter().any(|grant| grant.is_aside() && grant.is_of(slot));
        let is_on_its_way = |slot, record: &Record<C>| {
            record.ops > 0 || record.holds > 0 || (record.coming && !is_aside(slot))
        };
        let under_way = !self.claims.is_empty()
            || self.issued > 0
            || self.books.leaving > Bytes::ZERO
            || self.records.iter().any(|(slot, record)| is_on_its_way(slot, record));
        if let Some(grant) = self.next_grant().and_then(|at| self.grants.get(at)) {
            return if grant.waits_for_pins() && self.nothing_but_pins() { self.asker(grant) } else { None };
        }
        if under_way || self.kept > 0 || self.hinting > 0 {
            return None;
        }
        self.requests.queue.iter().copied().find(|&id| {
            let request = self.requests.get(id);
            request.is_some_and(|request| matches!(request.outcome, Outcome::Queued) && !request.is_note())
        })
    }

    /// Whether a request is not admitted before an operation on a buffer has ended: it, or one ahead of it, is for that.
    pub fn is_behind_op(&self, id: RequestId, slot: Slot) -> bool {
        let Some(at) = self.requests.queue.iter().position(|&other| other == id) else { return false };
        let ahead = self.requests.queue.iter().take(at.saturating_add(1));
        ahead.filter_map(|&id| self.requests.get(id)).any(|request| match &request.ask {
            _ if !matches!(request.outcome, Outcome::Queued) => false,
            Ask::Spill(slots) => slots.contains(&slot) && self.is_spill_behind_op(slot),
            _ => request.slots().any(|its| its == slot),
        })
    }
}
