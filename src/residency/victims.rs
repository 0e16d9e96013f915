//! Whom a spill takes next.

use super::{Ask, Core, Record, RequestId, Slot, Victims, WordCell, recency::Passing, record::Place};
use std::collections::BTreeSet;

impl<C: WordCell + Clone> Core<C> {
    /// Takes out the next victim, and closes its word.
    pub(super) fn next_victim(&mut self) -> Option<Slot> {
        self.victim(false)
    }

    /// The same for a request. A hint takes nothing that is needed before what it is about.
    pub(super) fn next_victim_for(&mut self, id: RequestId) -> Option<Slot> {
        if self.spills && self.is_hint(id) {
            return self.order.take(&mut self.records, Passing::Hinted);
        }
        self.next_victim()
    }

    /// The same for a grant that the driver refused, and that launches behind may wait for: it waits for none.
    pub(super) fn next_victim_for_grant(&mut self) -> Option<Slot> {
        self.victim(true)
    }

    fn victim(&mut self, waits_for_none: bool) -> Option<Slot> {
        if !self.spills {
            return None;
        }
        let next = match self.victims {
            Victims::LeastRecentlyUsed => self.order.take(&mut self.records, Passing::None),
            Victims::NextUse => {
                let unwanted = self.order.take(&mut self.records, Passing::Wanted);
                unwanted.or_else(|| self.take_wanted_last())
            }
        };
        if next.is_none() && waits_for_none {
            return self.order.take(&mut self.records, Passing::Kept);
        }
        next
    }

    /// Takes out the candidate that launches wait for and that is needed last. Those met pinned are set aside: whoever
    /// ends that puts them back.
    fn take_wanted_last(&mut self) -> Option<Slot> {
        loop {
            let last = self.wanted_last()?;
            let taken = self.order.take_this(&mut self.records, last);
            if taken.is_some() {
                return taken;
            }
        }
    }

    /// Of the candidates that launches wait for, the one that is needed last; none whose pins will end by themselves.
    fn wanted_last(&self) -> Option<Slot> {
        let is_free = |record: &Record<C>| {
            let pins = record.cell.load().pins();
            matches!(record.place, Place::Listed(_)) && (pins == 0 || pins != u64::from(record.keepers))
        };
        let mut wanted: BTreeSet<Slot> = BTreeSet::new();
        let mut last = None;
        for request in self.requests.queue.iter().filter_map(|&id| self.requests.get(id)) {
            let Ask::Uses(wants) = &request.ask else { continue };
            for want in wants.iter().filter(|want| want.kept) {
                if wanted.insert(want.slot) && self.records.get(want.slot).is_some_and(is_free) {
                    last = Some(want.slot);
                }
            }
        }
        last
    }
}
