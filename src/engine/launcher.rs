//! Launches that wait in queues of their own: run when they are ready, by whoever finds them so.

use super::{
    Cell, Engine, Flags,
    sync::{Event, Ordering, fence, lock},
    wait::Watch,
};
use crate::residency::{Ask, Bytes, Failure, Outcome, RequestId, Want};
use std::{
    fmt,
    sync::{Arc, Weak},
    task::{Context, Poll},
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
}

impl LaunchWait {
    /// Waits until `look` finds something; `event` is rung when it may.
    pub fn poll<T>(
        &mut self,
        engine: &Engine,
        event: &Event,
        cx: &mut Context<'_>,
        look: impl FnMut() -> Option<T>,
    ) -> Poll<T> {
        self.watch.poll(engine, event, cx, look)
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

    /// How a request has ended, if it has; looks alone.
    pub fn ended(&self, id: RequestId) -> Option<Result<(), Failure>> {
        let state = lock(&self.state);
        match state.core.request(id).map(|request| &request.outcome) {
            Some(Outcome::Done) => Some(Ok(())),
            Some(Outcome::Failed(failure)) => Some(Err(failure.clone())),
            Some(_) => None,
            None => Some(Err(Failure::Misuse("the launch was taken back"))),
        }
    }

    /// Runs the caller's hook on this thread if the request waits for that.
    pub fn run_hook_for(&self, id: RequestId) {
        let asked = {
            let state = lock(&self.state);
            let request = state.core.request(id);
            request.filter(|request| matches!(request.outcome, Outcome::AskHook)).map(|request| request.bytes)
        };
        if let Some(bytes) = asked {
            self.run_hook(id, bytes);
        }
    }
}
