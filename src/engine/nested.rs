//! Calls made while a launch is being queued, on the thread that queues it: what waits for that launch must not be
//! waited for within.

use super::{
    Cell, Engine, Flags, block::is_blocking, host_op::HostOp, jobs::Job, queue::Queue, state::State,
    sync::lock,
};
use crate::residency::{Failure, Outcome, RequestId};
use std::sync::Arc;

/// What is wrong with such a wait.
pub(super) const NESTED_WAIT: Failure = Failure::Misuse(
    "it waits for the launch whose closure it is called in: call it after that launch is queued",
);
/// What is wrong with such a launch.
pub(super) const NESTED_LAUNCH: Failure =
    Failure::Misuse("a launch is submitted within the closure of another");

impl Engine {
    /// Whether a job that `counts` is handed on only once the calling thread has queued its launch.
    fn is_behind_caller(&self, state: &State, counts: impl Fn(&Job) -> bool) -> bool {
        state.settling.iter().any(|waiting| {
            let mut begun = waiting.begun.iter();
            counts(&waiting.job) && begun.any(|&(index, number)| self.queue(index).is_callers(number))
        })
    }

    /// Whether the calling thread may wait, and something waits for launches being queued.
    fn may_wait_for_caller(&self) -> bool {
        self.flags.has(Flags::SETTLE) && is_blocking()
    }

    /// Whether launches in queues of their own wait for the calling thread, which waits here for them.
    pub(super) fn launches_wait_for_caller(&self) -> bool {
        self.is_in_order() && self.crossing_waits_for_caller()
    }

    /// Whether a copy from another device, which comes behind every launch being queued, waits for the calling thread, which
    /// waits here for it.
    pub(super) fn crossing_waits_for_caller(&self) -> bool {
        let is_callers = |queue: &Queue| queue.is_callers(u64::MAX);
        is_blocking() && self.compute_queues().any(is_callers)
    }

    /// Whether a copy from this device waits, behind what the buffer's word is closed for, for the calling thread, which waits
    /// here for it.
    pub(super) fn copy_waits_for_caller(&self, from: &Cell) -> bool {
        is_blocking() && self.is_closed_by_caller(from)
    }

    /// Whether anything waits for the calling thread, which waits here.
    pub(super) fn all_waits_for_caller(&self) -> bool {
        self.may_wait_for_caller() && self.is_behind_caller(&lock(&self.state), |_| true)
    }

    /// Whether a host operation waits for the calling thread, which waits here for it.
    pub(super) fn op_waits_for_caller(&self, op: &HostOp) -> bool {
        if !self.may_wait_for_caller() {
            return false;
        }
        let state = lock(&self.state);
        let is_it = |other: &Arc<HostOp>| std::ptr::eq(&**other, op);
        let deferred = state.deferred.iter().find(|(_, other)| is_it(other)).map(|&(slot, _)| slot);
        self.is_behind_caller(&state, |job| match job {
            Job::Host { slot, op, .. } => is_it(op) || Some(*slot) == deferred,
            _ => false,
        })
    }

    /// Whether a request waits for the calling thread, which waits here for it.
    pub(super) fn request_waits_for_caller(&self, id: RequestId) -> bool {
        if !self.may_wait_for_caller() {
            return false;
        }
        let state = lock(&self.state);
        let Some(request) = state.core.request(id) else { return false };
        let is_queued = matches!(request.outcome, Outcome::Queued);
        self.is_behind_caller(&state, |job| match job {
            Job::Host { slot, .. } => is_queued && state.core.is_behind_op(id, *slot),
            Job::CopyIn { slot, .. } => {
                state.core.record(*slot).is_some_and(|record| record.waiters.contains(&id))
            }
            _ => false,
        })
    }

    /// Whether a buffer's word stays closed until the calling thread has queued a launch.
    pub(super) fn is_closed_by_caller(&self, cell: &Cell) -> bool {
        let slot = cell.slot();
        self.flags.has(Flags::SETTLE)
            && self.is_behind_caller(&lock(&self.state), |job| match job {
                Job::Host { slot: its, .. } | Job::CopyIn { slot: its, .. } => *its == slot,
                _ => false,
            })
    }
}
