//! Who keeps an engine going: the device's own thread, where time is real; and the end of both.

use super::{
    Engine, Flags,
    queue::{Queue, RELEASE},
    sync::{Ordering, current, lock},
};
use std::sync::Arc;

/// Keeps an engine alive for its device's and its buffers' handles. Dropped with the last of them.
#[derive(Debug)]
pub struct Owner {
    /// The engine.
    pub engine: Arc<Engine>,
}

impl Owner {
    /// Starts an engine's thread, where its driver's time is real.
    pub fn new(engine: Engine) -> std::io::Result<Arc<Owner>> {
        let engine = Arc::new(engine);
        if !engine.driver.caps().computed_clock {
            let engine: Arc<Engine> = engine.clone();
            std::thread::Builder::new()
                .name(format!("tack {}", engine.settings.name))
                .spawn(move || engine.tend())?;
        }
        Ok(Arc::new(Owner { engine }))
    }
}

impl Drop for Owner {
    /// Never waits: the device's thread sees to what is still to be freed, and ends.
    fn drop(&mut self) {
        self.engine.closing.store(true, Ordering::SeqCst);
        if self.engine.driver.caps().computed_clock {
            self.engine.close();
        } else {
            self.engine.driver.unpark();
        }
    }
}

/// How often a driver that refuses is asked again once the device is closed.
const TRIES: u32 = 1000;

impl Engine {
    /// The device's thread: looks how far the device has come, does what follows, rests.
    pub(super) fn tend(&self) {
        let _ = self.own_thread.set(current().id());
        let mut tries = 0;
        loop {
            if !self.turn_after_others() {
                if self.is_closed(&mut tries) {
                    break;
                }
                self.driver.park(self.patience());
            }
        }
    }

    /// Whether frees are the device's own thread's: they may wait for the whole device. On a computed clock there is no such
    /// thread, and a device that is lost frees nothing.
    fn has_own_frees(&self) -> bool {
        let caps = self.driver.caps();
        !caps.stream_ordered && !caps.computed_clock && !self.flags.has(Flags::LOST)
    }

    fn is_own_thread(&self) -> bool {
        self.own_thread.get() == Some(&current().id())
    }

    /// Whether frees are none of this thread's.
    pub(super) fn leaves_frees(&self) -> bool {
        self.has_own_frees() && !self.is_own_thread()
    }

    /// Whether there are frees that others have left to this thread.
    pub(super) fn has_left_frees(&self) -> bool {
        self.has_own_frees() && self.is_own_thread() && !self.lanes[RELEASE].is_empty()
    }

    /// On a computed clock, where no thread does: moves time on until all is done that a closed device has left to do.
    pub(super) fn close(&self) {
        if !self.closing.load(Ordering::SeqCst) || !self.driver.caps().computed_clock {
            return;
        }
        // Within what this calls, and what called it, there is more to be done: whoever is at it comes back to that.
        let Ok(_closing) = self.is_being_closed.try_lock() else { return };
        let mut tries = 0;
        while !self.is_closed(&mut tries) && (self.turn() || self.driver.advance() || self.asks_again()) {}
    }

    /// Whether a closed device has nothing left to do, or nothing that its driver lets it.
    fn is_closed(&self, tries: &mut u32) -> bool {
        if !self.closing.load(Ordering::SeqCst) {
            return false;
        }
        if self.lost().is_some() {
            return true;
        }
        if self.is_quiet() {
            if !self.queues().any(Queue::has_fences) {
                return true;
            }
            // A queue may have been told to wait for one with nothing behind that which would show that it has.
            self.queues().for_each(Queue::need_all);
            self.driver.unpark();
        }
        *tries = if self.asks_again() { *tries + 1 } else { 0 };
        if *tries > TRIES {
            let device = &self.settings.name;
            tracing::error!(target: "tack_residency", device, "closed with memory that its driver does not free");
        }
        *tries > TRIES
    }

    /// Whether the driver refused what is tried again at the next look.
    pub(super) fn asks_again(&self) -> bool {
        self.look_again.load(Ordering::SeqCst) || !lock(&self.state).refused.is_empty()
    }

    pub(super) fn is_quiet(&self) -> bool {
        let state = lock(&self.state);
        state.is_quiet() && state.refused.is_empty() && self.jobs.load(Ordering::SeqCst) == 0
    }
}
