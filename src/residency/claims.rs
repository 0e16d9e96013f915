//! Claims on victims: from the choice to the release, and back.

use super::{
    Bytes, Core, Decision, Failure, Pace, Phase, Policy, Request, RequestId, Slot, Step, WordCell,
    record::{Claim, HostCopy, Record},
};

impl<C: WordCell + Clone> Core<C> {
    /// Counts a buffer whose word was just closed out of the decided book, and sets out to release it.
    pub(super) fn claim(&mut self, slot: Slot, request: Option<RequestId>) {
        let serial = self.number();
        let Some(record) = self.records.get_mut(slot) else { return };
        record.claimed = Some(Claim { request, grant: None, serial, copied: false });
        record.present = false;
        record.trips.stay();
        let (bytes, copying) = (record.bytes, record.copying);
        self.books.decided = self.books.decided.minus(bytes);
        if let Some(token) = copying {
            self.decide(Decision::Hurry { token });
        }
        if let Some(id) = request {
            self.claimed = self.claimed.plus(bytes);
            self.leaves_for(slot, id);
        }
        self.claims.insert(serial, slot);
        self.try_release(slot);
    }

    /// As [`claim`](Core::claim), for a grant that the driver refused: it fails if the buffer cannot be copied out.
    pub(super) fn claim_for_grant(&mut self, slot: Slot, serial: u64) {
        self.claim(slot, None);
        let grant = self.grants.iter().find(|grant| grant.serial == serial);
        if let Some(id) = grant.and_then(|grant| self.asker(grant)) {
            self.leaves_for(slot, id);
        }
        if let Some(claim) = self.records.get_mut(slot).and_then(|record| record.claimed.as_mut()) {
            claim.grant = Some(serial);
        }
    }

    /// A claim has ended, one way or another.
    pub(super) fn claim_over(&mut self, claim: Claim, bytes: Bytes) {
        self.claims.remove(&claim.serial);
        if claim.request.is_some() {
            self.claimed = self.claimed.minus(bytes);
        }
    }

    /// A closed word that was not claimed after all.
    pub(super) fn reopen(&mut self, slot: Slot) {
        if let Some(record) = self.records.get_mut(slot) {
            let closed = record.ops > 0;
            record.cell.set(|word| word.with_closed(closed));
            self.order.list(slot, record);
        }
    }

    /// Takes a claimed buffer back. A copy under way goes on, and leaves it clean unless it is written meanwhile.
    pub(super) fn unclaim(&mut self, slot: Slot) {
        let Some(record) = self.records.get_mut(slot) else { return };
        let Some(claim) = record.claimed.take() else { return };
        record.present = true;
        record.trips.stay();
        let closed = record.ops > 0;
        record.cell.set(|word| word.with_closed(closed));
        let bytes = record.bytes;
        self.books.decided = self.books.decided.plus(bytes);
        self.order.list(slot, record);
        self.claim_over(claim, bytes);
        self.tell_spill_waiters(slot, Bytes::ZERO);
    }

    /// Takes back the claims made for a request that needs them no more, as far as there is room.
    pub(super) fn unclaim_surplus(&mut self, id: RequestId) {
        let made: Vec<Slot> = self.claims.values().rev().copied().collect();
        let beside = if made.is_empty() { Bytes::ZERO } else { self.kept_beside_books() };
        for slot in made {
            let Some(record) = self.records.get(slot) else { continue };
            let for_it = record.claimed.is_some_and(|claim| claim.request == Some(id));
            let back = self.books.decided.plus(beside).plus(record.bytes);
            if for_it && back <= self.budget() && !record.dropped {
                self.unclaim(slot);
            }
        }
    }

    /// Takes the next step of a claim: a copy out if the bytes are needed and the host has none, else the release.
    pub(super) fn try_release(&mut self, slot: Slot) {
        let token = self.number();
        let policy = self.policy;
        let Some(record) = self.records.get_mut(slot) else { return };
        let Some(claim) = record.claimed else { return };
        if record.copying.is_some() || record.ops > 0 || record.cell.load().phase() != Phase::Resident {
            return;
        }
        let dirty = record.cell.load().is_dirty();
        let plain = policy == Policy::Plain && !claim.copied && record.host == HostCopy::Held;
        if dirty || plain {
            record.cell.set(|word| word.with_dirty(false));
            record.copying = Some(token);
            self.decide(Decision::CopyOut { slot, token, pace: Pace::AtOnce });
            return;
        }
        let released = self.take_step(slot, Step::Release, |word| {
            (word.pins() == 0 && !word.is_dirty()).then_some(word.with_closed(false))
        });
        let Some(record) = self.records.get_mut(slot).filter(|_| released) else { return };
        record.claimed = None;
        record.memory = false;
        let cleaned = std::mem::take(&mut record.cleaned);
        let (cell, bytes) = (record.cell.clone(), record.bytes);
        self.claim_over(claim, bytes);
        self.books.spilled(bytes, claim.copied || cleaned);
        self.decide(Decision::Free { cell, bytes });
        self.tell_spill_waiters(slot, bytes);
    }

    /// What some asked to have spilled was, with so many bytes, or was not.
    fn tell_spill_waiters(&mut self, slot: Slot, spilled: Bytes) {
        let Some(record) = self.records.get_mut(slot) else { return };
        for id in std::mem::take(&mut record.spill_waiters) {
            if let Some(request) = self.requests.get_mut(id) {
                request.spilled = request.spilled.plus(spilled);
            }
            self.one_less(id);
        }
    }

    /// A copy out has ended: the host copy is current, unless the buffer was written meanwhile.
    pub fn copied_out(&mut self, slot: Slot, token: u64) {
        let Some(record) = self.records.get_mut(slot) else { return };
        self.books.totals.copied_out = self.books.totals.copied_out.plus(record.bytes);
        if record.copying != Some(token) {
            return;
        }
        record.copying = None;
        record.host = HostCopy::Held;
        (self.is_write_back_refused, self.is_copy_out_refused) = (false, false);
        match &mut record.claimed {
            Some(claim) => claim.copied = true,
            None => record.cleaned = true,
        }
        if record.cell.load().is_dirty() {
            self.drop_host(slot);
        }
        self.try_release(slot);
        self.finish_drop(slot);
    }

    /// A copy out could not be queued: the buffer stays where it is, and whoever needed its room is told.
    pub fn copy_out_refused(&mut self, slot: Slot, token: u64, failure: Failure) {
        let Some(record) = self.records.get_mut(slot) else { return };
        if record.copying != Some(token) {
            return;
        }
        record.copying = None;
        record.cell.set(|word| word.with_dirty(true));
        let claim = record.claimed;
        self.is_write_back_refused |= claim.is_none();
        self.is_copy_out_refused = true;
        let waiting = std::mem::take(&mut record.spill_waiters);
        self.unclaim(slot);
        (self.is_overbooked, self.shrink) = (true, true);
        for id in waiting.into_iter().chain(claim.and_then(|claim| claim.request)) {
            // A launch that has all its buffers, and is not being queued yet, has no room beside them all the same.
            let fails = |request: &Request| request.is_waiting() || request.is_kept_admitted();
            if self.requests.get(id).is_some_and(fails) {
                self.fail(id, failure.clone());
            }
        }
        let serial = claim.and_then(|claim| claim.grant);
        if let Some(grant) = self.grants.iter().find(|grant| Some(grant.serial) == serial).cloned() {
            self.fail_grant(&grant, failure.clone());
        }
        self.fail_what_no_longer_fits(&failure);
        self.finish_drop(slot);
    }

    /// After a claim that came to nothing, the last requests admitted give way until the rest fits.
    fn fail_what_no_longer_fits(&mut self, failure: &Failure) {
        while self.is_over_budget() {
            let Some(grant) = self.grants.back().cloned() else { return };
            let before = self.grants.len();
            self.fail_grant(&grant, failure.clone());
            if self.grants.len() >= before {
                return;
            }
        }
    }

    /// Gives up host copies of clean buffers, those last that are to be spilled first, until `bytes` bytes are free;
    /// or none and false if there are not as many.
    pub fn give_up_clean(&mut self, bytes: Bytes) -> bool {
        let is_spare = |record: &Record<C>| {
            let word = record.cell.load();
            let unused = record.claimed.is_none() && record.copying.is_none() && record.holds == 0;
            record.host == HostCopy::Held && word.phase() == Phase::Resident && !word.is_dirty() && unused
        };
        let spare = self.records.iter().filter(|(_, record)| is_spare(record));
        let mut spare: Vec<_> = spare
            .map(|(slot, record)| ((record.cell.load().stamp(), record.age), record.bytes, slot))
            .collect();
        if spare.iter().map(|&(_, bytes, _)| bytes).sum::<Bytes>() < bytes {
            return false;
        }
        spare.sort_by_key(|&(used, ..)| std::cmp::Reverse(used));
        let mut free = Bytes::ZERO;
        for (_, bytes_of, slot) in spare {
            if free >= bytes {
                break;
            }
            let Some(record) = self.records.get(slot) else { continue };
            record.cell.set(|word| word.with_dirty(true));
            free = free.plus(bytes_of);
            self.drop_host(slot);
        }
        true
    }

    pub(super) fn drop_host(&mut self, slot: Slot) {
        if let Some(record) = self.records.get_mut(slot)
            && record.host == HostCopy::Held
        {
            record.host = HostCopy::None;
            record.cleaned = false;
            self.decide(Decision::DropHost(slot));
        }
    }
}
