//! The caller's hook: called when memory is short, for one request at a time, on a thread that waits.

use super::{
    Engine,
    state::State,
    sync::{Mutex, lock},
};
use crate::residency::{Bytes, RequestId};
use std::{sync::Arc, thread::ThreadId, time::Duration};

/// What is called when memory is short, before anything is refused.
pub type Hook = Arc<dyn Fn(u64) + Send + Sync>;

/// Whose turn it is to run the hook.
#[derive(Debug, Default)]
pub(super) struct HookTurn(Mutex<Option<Running>>);

/// The hook runs.
#[derive(Debug)]
struct Running {
    thread: ThreadId,
    since: Duration,
    /// Those who wait for its end have been told that it takes too long.
    is_late: bool,
}

impl HookTurn {
    /// When those who wait for the hook are to be told that it takes too long, if it runs.
    pub(super) fn late_at(&self, patience: Duration) -> Option<Duration> {
        let running = lock(&self.0);
        let running = running.as_ref().filter(|running| !running.is_late);
        running.map(|running| running.since.saturating_add(patience))
    }
}

impl Engine {
    /// Runs the caller's hook for a request, on this thread. Within the hook, and when it has run for too long on another
    /// thread, the request goes on without: the hook may be waiting for it. True to look at the request again, false to
    /// wait for the hook's end.
    pub(super) fn run_hook(&self, id: RequestId, bytes: Bytes) -> bool {
        if let Some(hook) = &self.settings.hook {
            let (now, thread) = (self.driver.now(), std::thread::current().id());
            let mut turn = lock(&self.hook.0);
            match &*turn {
                None => {
                    *turn = Some(Running { thread, since: now, is_late: false });
                    drop(turn);
                    let _leave = Leave(self);
                    hook(bytes.0);
                }
                Some(running) => {
                    let is_late = now.saturating_sub(running.since) >= self.settings.stall_after;
                    if running.thread != thread && !is_late {
                        drop(turn);
                        // It is seen to when that time is over.
                        self.driver.unpark();
                        return false;
                    }
                }
            }
        }
        self.change(|core| core.hook_done(id));
        true
    }

    /// Tells those who wait for the hook's end that it takes too long, once; true if it did.
    pub(super) fn tell_late_hook(&self, state: &mut State, now: Duration) -> bool {
        let mut turn = lock(&self.hook.0);
        let late = turn.as_mut().filter(|running| {
            !running.is_late && now.saturating_sub(running.since) >= self.settings.stall_after
        });
        let Some(running) = late else { return false };
        running.is_late = true;
        state.ring_all();
        true
    }

    /// Runs the caller's hook on this thread if a launch in a queue waits for that: no one need be waiting for that queue,
    /// and what the caller waits for may be behind.
    /// True if that launch is to be looked at again.
    pub fn run_hook_of_launches(&self) -> bool {
        let asked = if self.settings.hook.is_some() { lock(&self.state).core.kept_that_asks() } else { None };
        asked.is_some_and(|(id, bytes)| self.run_hook(id, bytes))
    }
}

/// The hook has ended, well or not.
struct Leave<'a>(&'a Engine);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        *lock(&self.0.hook.0) = None;
        let waiting = {
            let mut state = lock(&self.0.state);
            state.ring_all();
            std::mem::take(&mut state.ringing)
        };
        waiting.iter().for_each(|bell| bell.notify(usize::MAX));
    }
}
