//! Device memory handed to admitted requests, in turn, as the device has it; and the way out when the driver refuses.

use super::{
    Ask, Bytes, Core, Decision, Failure, Outcome, Request, RequestId, Slot, WordCell,
    decision::{Grant, GrantFor, Stage},
    record::Place,
};

impl Grant {
    /// The driver refused it, and the way out is being gone.
    pub(super) fn is_refused(&self) -> bool {
        self.stage != Stage::Untried
    }

    /// The caller's hook runs for it, and may ask for more: others are served meanwhile.
    pub(super) fn is_aside(&self) -> bool {
        self.stage == Stage::Asking
    }

    /// Whether it brings this buffer back.
    pub(super) fn is_of(&self, slot: Slot) -> bool {
        matches!(self.want, GrantFor::Restore(of) | GrantFor::Overwrite(of) if of == slot)
    }

    pub(super) fn waits_for_pins(&self) -> bool {
        self.stage == Stage::Victim
    }
}

impl<C: WordCell + Clone> Core<C> {
    pub(super) fn grant(&mut self, want: GrantFor, bytes: Bytes) {
        let serial = self.number();
        self.grants.push_back(Grant { want, bytes, serial, stage: Stage::Untried });
    }

    /// Where the grant stands that is next in turn.
    pub(super) fn next_grant(&self) -> Option<usize> {
        self.grants.iter().position(|grant| !grant.is_aside())
    }

    /// Issues the grants there is room for, in turn; true if anything changed.
    pub(super) fn pump_grants(&mut self) -> bool {
        let mut changed = false;
        while let Some(at) = self.next_grant()
            && let Some(stage) = self.grants.get(at).map(|grant| grant.stage)
        {
            let next = match stage {
                Stage::Untried | Stage::Retry => {
                    if self.issue(at) {
                        changed = true;
                        continue;
                    }
                    if !self.is_kept_out(at) {
                        break;
                    }
                    Stage::Victim
                }
                Stage::Hook => self.ask_hook(at),
                Stage::Asking | Stage::Trimming => break,
                Stage::Leaving if self.is_leaving() => break,
                Stage::Leaving => Stage::Trim,
                Stage::Trim => {
                    self.decide(Decision::Trim);
                    Stage::Trimming
                }
                Stage::Victim => {
                    if let Some(slot) = self.next_victim_for_grant() {
                        let serial = self.grants.get(at).map(|grant| grant.serial).unwrap_or_default();
                        self.claim_for_grant(slot, serial);
                        Stage::Room
                    } else if !self.claims.is_empty() || self.is_leaving() {
                        // Chosen for others, or dropped: room all the same once it is gone.
                        Stage::Room
                    } else if self.give_way(at) {
                        changed = true;
                        continue;
                    } else {
                        break;
                    }
                }
                Stage::Room if !self.claims.is_empty() || self.is_leaving() => break,
                Stage::Room => Stage::Retry,
            };
            if let Some(grant) = self.grants.get_mut(at) {
                grant.stage = next;
            }
            changed = true;
        }
        changed
    }

    /// Whether the way out of a refusal is being gone for some grant: until its end no one else is admitted.
    pub(super) fn is_refused(&self) -> bool {
        self.retried > 0 || self.grants.iter().any(|grant| grant.is_refused() && !grant.is_aside())
    }

    /// Whether no memory is on its way, to a buffer or back to the device.
    pub(super) fn nothing_but_pins(&self) -> bool {
        self.claims.is_empty()
            && self.issued == 0
            && self.books.leaving == Bytes::ZERO
            && !self.is_being_copied_in()
    }

    /// Whether memory given up before is on its way back to the device.
    fn is_leaving(&self) -> bool {
        self.books.leaving > Bytes::ZERO || self.books.ordered > Bytes::ZERO
    }

    /// Issues the grant next in turn if the device has room for it now.
    fn issue(&mut self, at: usize) -> bool {
        let Some(grant) = self.grants.get(at) else { return false };
        let held = self.books.in_use.plus(self.books.leaving).plus(self.books.reserved).plus(grant.bytes);
        // What is freed in the compute queue's order is room for what is allocated there.
        let want = self.cheapest(grant.want);
        let held = match want {
            GrantFor::Fresh(_) | GrantFor::Overwrite(_) => held,
            GrantFor::Restore(_) | GrantFor::Room(_) => held.plus(self.books.ordered),
        };
        if held > self.budget() || self.is_ahead_of_victims(grant.bytes) {
            return false;
        }
        if let GrantFor::Restore(slot) = grant.want
            && self.records.get(slot).is_some_and(|record| record.holds > 0)
        {
            return false;
        }
        let Some(mut grant) = self.grants.remove(at) else { return false };
        grant.want = want;
        self.books.reserved = self.books.reserved.plus(grant.bytes);
        self.issued = self.issued.saturating_add(1);
        self.retried = self.retried.saturating_add(usize::from(grant.is_refused()));
        self.decide(Decision::Allocate(grant));
        true
    }

    /// Whether a refused grant has no room now since others were served while the hook ran for it, and nothing is
    /// on its way that would give it some: it may be what they wait for.
    fn is_kept_out(&self, at: usize) -> bool {
        let Some(grant) = self.grants.get(at).filter(|grant| grant.stage == Stage::Retry) else {
            return false;
        };
        let is_held = |slot| self.records.get(slot).is_some_and(|record| record.holds > 0);
        let waits = matches!(grant.want, GrantFor::Restore(slot) if is_held(slot));
        !waits && self.nothing_but_pins() && !self.is_leaving()
    }

    /// Whether a grant of `bytes`, the first, would use room that the decided book does not have yet: what is claimed
    /// must be no more than what later grants will take. So a request has all its victims' room when it is served,
    /// whatever their order, and the device book never passes the decided one.
    fn is_ahead_of_victims(&self, bytes: Bytes) -> bool {
        if self.claimed == Bytes::ZERO {
            return false;
        }
        let granted: Bytes = self.grants.iter().map(|grant| grant.bytes).sum();
        self.claimed > granted.minus(bytes)
    }

    /// Whether a buffer can come back without a copy.
    fn cheapest(&self, want: GrantFor) -> GrantFor {
        match want {
            GrantFor::Restore(slot) if self.overwriter(slot).is_some() || self.is_discarded(slot) => {
                GrantFor::Overwrite(slot)
            }
            other => other,
        }
    }

    /// For whom a grant is.
    pub(super) fn asker(&self, grant: &Grant) -> Option<RequestId> {
        match grant.want {
            GrantFor::Fresh(id) | GrantFor::Room(id) => Some(id),
            GrantFor::Restore(slot) | GrantFor::Overwrite(slot) => {
                let waiters = self.records.get(slot).map(|record| &record.waiters)?;
                waiters.iter().find(|&&id| !self.is_hint(id)).or(waiters.first()).copied()
            }
        }
    }

    fn ask_hook(&mut self, at: usize) -> Stage {
        let asker = self.grants.get(at).and_then(|grant| self.asker(grant));
        let Some(id) = asker.filter(|_| self.has_hook) else { return Stage::Leaving };
        match self.requests.get_mut(id) {
            Some(request) if !request.hooked => {
                request.hooked = true;
                self.wake(id, Outcome::AskHook);
                Stage::Asking
            }
            _ => Stage::Leaving,
        }
    }

    /// The launch taken ahead of time that the caller's hook is to be run for, if there is one, and its bytes.
    pub fn kept_that_asks(&self) -> Option<(RequestId, Bytes)> {
        let mut asking = self.requests.iter().filter(|&(id, _)| self.is_kept_that_asks(id));
        asking.next().map(|(id, request)| (id, request.bytes))
    }

    /// Whether a launch taken ahead of time waits for the caller's hook.
    pub fn is_kept_that_asks(&self, id: RequestId) -> bool {
        let asks = |request: &Request| matches!(request.outcome, Outcome::AskHook) && request.keeps(None);
        self.requests.get(id).is_some_and(asks)
    }

    /// The caller's hook has run, or will not.
    pub fn hook_done(&mut self, id: RequestId) {
        let queued = self.requests.queue.contains(&id);
        if let Some(request) = self.requests.get_mut(id)
            && matches!(request.outcome, Outcome::AskHook)
        {
            request.outcome = if queued { Outcome::Queued } else { Outcome::Admitted };
        }
        self.hook_over(id);
        // Whoever could have run the hook for it did not while it ran for this one.
        if let Some((other, _)) = self.kept_that_asks() {
            self.decide(Decision::Wake(other));
        }
    }

    pub(super) fn hook_over(&mut self, id: RequestId) {
        let asked = self.grants.iter().position(|grant| {
            grant.stage == Stage::Asking && self.asker(grant).is_none_or(|asker| asker == id)
        });
        if let Some(grant) = asked.and_then(|at| self.grants.get_mut(at)) {
            grant.stage = Stage::Leaving;
        }
    }

    /// The driver has given up what it keeps, as far as it could.
    pub fn trimmed(&mut self) {
        // One refused meanwhile may stand before the one that asked.
        for grant in self.grants.iter_mut().filter(|grant| grant.stage == Stage::Trimming) {
            grant.stage = Stage::Retry;
        }
    }

    /// The driver refused an allocation.
    pub fn refused(&mut self, mut grant: Grant, failure: Failure) {
        self.settle(&grant);
        if !matches!(failure, Failure::OutOfMemory { .. }) {
            self.fail_grant(&grant, failure);
            return;
        }
        if let GrantFor::Overwrite(slot) = grant.want {
            grant.want = GrantFor::Restore(slot);
        }
        if !self.is_wanted(&grant) {
            self.fail_grant(&grant, failure);
            return;
        }
        grant.stage = if grant.is_refused() { Stage::Victim } else { Stage::Hook };
        let at = self.grants.iter().take_while(|other| other.serial < grant.serial).count();
        self.grants.insert(at, grant);
        // The budget may have fallen while the driver was asked.
        self.shrink |= self.is_over_budget();
    }

    fn is_wanted(&self, grant: &Grant) -> bool {
        let asker = self.asker(grant).and_then(|id| self.requests.get(id));
        asker.is_some_and(|request| request.is_waiting() && !request.is_hint)
    }

    /// With nothing left to spill for the first grant: a later request that waits gives its pins up, or the grant
    /// fails; false to wait for what is under way, or for pins.
    fn give_way(&mut self, at: usize) -> bool {
        if self.issued > 0 || self.is_being_copied_in() {
            return false;
        }
        let Some(grant) = self.grants.get(at).cloned() else { return false };
        let asker = self.asker(&grant);
        let turn = asker.and_then(|id| self.requests.get(id)).map_or(u64::MAX, |request| request.turn);
        // Launches taken ahead of time that were admitted after it may be queued behind it, and hold what they need.
        let later = self
            .requests
            .iter()
            .filter(|(id, request)| {
                let waits = matches!(request.outcome, Outcome::Admitted);
                let gives = waits || (request.is_kept_admitted() && request.turn > turn);
                Some(*id) != asker && gives && matches!(request.ask, Ask::Uses(_))
            })
            .max_by_key(|(_, request)| request.turn)
            .map(|(id, _)| id);
        if let Some(id) = later {
            self.requeue(id);
            return true;
        }
        let own: Vec<_> = asker
            .and_then(|id| self.requests.get(id))
            .map(|request| request.slots().collect())
            .unwrap_or_default();
        let pinned = self.records.iter().any(|(slot, record)| {
            let word = record.cell.load();
            let met = record.place == Place::Aside || record.keepers > 0;
            met && !word.is_exported() && word.pins() > 0 && !own.contains(&slot)
        });
        if pinned {
            return false;
        }
        let bytes = grant.bytes;
        let failure = if self.exported > Bytes::ZERO {
            Failure::Blocked { bytes, exported: self.exported.plus(self.books.fixed) }
        } else {
            Failure::OutOfMemory { bytes }
        };
        self.grants.remove(at);
        self.fail_grant(&grant, failure);
        true
    }

    /// Fails all that a grant was for.
    pub(super) fn fail_grant(&mut self, grant: &Grant, failure: Failure) {
        match grant.want {
            GrantFor::Fresh(id) | GrantFor::Room(id) => {
                self.grants.retain(|other| other.serial != grant.serial);
                self.unask(grant.bytes);
                if self.requests.get(id).is_some_and(|request| request.is_waiting()) {
                    self.fail(id, failure);
                }
            }
            GrantFor::Restore(slot) | GrantFor::Overwrite(slot) => {
                self.grants.retain(|other| other.serial != grant.serial);
                self.not_coming(slot);
                let waiters = self.records.get(slot).map(|record| record.waiters.clone()).unwrap_or_default();
                for id in waiters {
                    self.fail(id, failure.clone());
                }
                self.finish_drop(slot);
            }
        }
    }

    pub(super) fn unask(&mut self, bytes: Bytes) {
        self.asked = self.asked.minus(bytes);
        self.books.decided = self.books.decided.minus(bytes);
    }
}
