//! Launches that wait in queues of their own: run when they are ready, by whoever finds them so.

use super::{
    Cell, Engine, Flags, Owner,
    alarm::Alarm,
    nested::NESTED_WAIT,
    sync::{Event, Ordering, fence, lock},
    wait::Watch,
};
use crate::residency::{Ask, Bytes, Failure, Outcome, RequestId, Want};
use std::{
    fmt,
    sync::{Arc, Weak},
    task::{Context, Poll},
    time::Duration,
};

/// A queue of launches.
pub trait Launcher: Send + Sync + fmt::Debug {
    /// Runs what is ready, in order, unless someone else is at it; true if anything was.
    fn run_ready(&self) -> bool;
}

/// A wait for a queue of launches.
#[derive(Debug, Default)]
pub struct LaunchWait {
    watch: Watch,
    alarm: Alarm,
}

impl LaunchWait {
    /// Waits until `look` finds something, for which `event` is rung; or for the end of `patience` from the first poll on.
    pub fn poll<T>(
        &mut self,
        owner: &Arc<Owner>,
        event: &Arc<Event>,
        cx: &mut Context<'_>,
        patience: Option<Duration>,
        mut look: impl FnMut() -> Option<T>,
    ) -> Poll<Result<T, Failure>> {
        self.alarm.set(owner, event, patience);
        let alarm = &self.alarm;
        let late = || alarm.is_over().then_some(Err(Failure::TimedOut));
        let nested = || owner.engine.launches_wait_for_caller().then_some(Err(NESTED_WAIT));
        self.watch.poll(&owner.engine, event, cx, || look().map(Ok).or_else(late).or_else(nested))
    }
}

impl Engine {
    /// Has a queue of launches run from now on, for as long as it lives.
    pub fn add_launcher(&self, launcher: Weak<dyn Launcher>) {
        let mut launchers = lock(&self.launchers);
        launchers.retain(|launcher| launcher.strong_count() > 0);
        launchers.push(launcher);
        self.has_launchers.store(true, Ordering::SeqCst);
    }

    /// Runs what is ready in every queue of launches; true if anything was.
    pub(super) fn run_launchers(&self) -> bool {
        if !self.has_launchers.load(Ordering::SeqCst) || self.leaves_launchers() {
            return false;
        }
        let launchers: Vec<Arc<dyn Launcher>> =
            lock(&self.launchers).iter().filter_map(Weak::upgrade).collect();
        launchers.iter().fold(false, |any, launcher| launcher.run_ready() | any)
    }

    /// Whether a launch is being queued that those in queues must come behind: whoever queues it takes them up then.
    fn leaves_launchers(&self) -> bool {
        if !self.flags.has(Flags::MULTI) {
            return false;
        }
        self.launchers_left.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let left = self.is_ordering();
        if left {
            // It may be another device's.
            self.driver.unpark();
        } else {
            self.launchers_left.store(false, Ordering::SeqCst);
        }
        left
    }

    /// Whether queues of launches were left that can be taken up now.
    pub(super) fn has_left_launchers(&self) -> bool {
        self.launchers_left.load(Ordering::SeqCst) && !self.is_ordering()
    }

    /// A launch has been queued: takes up the queues of launches that were left meanwhile.
    pub(super) fn take_up_launchers(&self) {
        fence(Ordering::SeqCst);
        if self.launchers_left.swap(false, Ordering::SeqCst) {
            self.pump();
        }
    }

    /// Asks for the buffers of a launch that keeps them; without a wait of its own. `bell`
    /// is rung when the caller's hook is to be run for it.
    pub fn ask_kept(&self, wants: Vec<Want>, bell: &Arc<Event>) -> RequestId {
        let mut state = lock(&self.state);
        let id = state.core.ask(Ask::Uses(wants), self.stamp());
        state.add_bell(id, bell);
        if state.lost.is_some() {
            state.core.fail(id, Failure::Lost);
        }
        id
    }

    /// Adds a buffer that gets its device memory later, when it is first used there.
    pub fn add_unborn(&self, cell: &Arc<Cell>, bytes: Bytes) {
        let slot = lock(&self.state).core.add_unborn(cell.clone(), bytes);
        cell.set_slot(slot);
    }

    /// The launch that asked has ended, or is taken back.
    pub fn unbell(&self, id: RequestId) {
        lock(&self.state).remove_bell(id);
    }

    /// Whether the request of a launch has ended.
    pub fn has_ended(&self, id: RequestId) -> bool {
        lock(&self.state).core.request(id).is_none_or(|request| !request.is_waiting())
    }

    /// How the request of a launch has ended, if it has: what it holds is not taken back from here on.
    pub fn take_up(&self, id: RequestId) -> Option<Result<(), Failure>> {
        let mut state = lock(&self.state);
        match state.core.request(id).map(|request| &request.outcome) {
            Some(Outcome::Done) => {
                state.core.begin_kept(id);
                Some(Ok(()))
            }
            Some(Outcome::Failed(failure)) => Some(Err(failure.clone())),
            Some(_) => None,
            None => Some(Err(Failure::Misuse("the launch was taken back"))),
        }
    }
}
