//! Who keeps an engine going: the device's own thread, where time is real, and those that wait for it; and the end of all.

use super::{
    Engine,
    queue::Queue,
    sync::{Ordering, lock},
    waiter::{WAITERS, Waiter},
};
use std::sync::Arc;

/// Keeps an engine alive for its device's and its buffers' handles. Dropped with the last of them.
#[derive(Debug)]
pub struct Owner {
    /// The engine.
    pub engine: Arc<Engine>,
}

impl Owner {
    /// Starts an engine's threads, where its driver's time is real.
    pub fn new(engine: Engine) -> std::io::Result<Arc<Owner>> {
        // Whatever has been started ends with this, should the next not start.
        let owner = Arc::new(Owner { engine: Arc::new(engine) });
        if !owner.engine.driver.caps().computed_clock {
            owner.spawn("", Engine::tend)?;
        }
        for lane in WAITERS.into_iter().filter(|&lane| owner.engine.waiter(lane).is_some()) {
            owner.spawn(" waiter", move |engine| engine.tend_waits(lane))?;
        }
        Ok(owner)
    }

    fn spawn(&self, suffix: &str, tend: impl FnOnce(&Engine) + Send + 'static) -> std::io::Result<()> {
        let engine = self.engine.clone();
        let name = format!("tack {}{suffix}", engine.settings.name);
        std::thread::Builder::new().name(name).spawn(move || tend(&engine)).map(drop)
    }
}

impl Drop for Owner {
    /// Never waits: the device's threads see to what is still to be freed, and end.
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
        let mut tries = 0;
        loop {
            if !self.turn_after_others() {
                if self.is_closed(&mut tries) {
                    break;
                }
                self.driver.park(self.patience());
            }
        }
        self.waiters.iter().for_each(Waiter::end);
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
            // What still comes from another device comes to this one's memory.
            return !self.has_crossings();
        }
        if self.is_quiet() {
            if !self.queues().any(Queue::has_fences) {
                return true;
            }
            // A queue may have been told to wait for one with nothing behind that which would show that it has.
            self.queues().for_each(Queue::need_all);
            self.driver.unpark();
        }
        // What is being tried again just now is no answer yet.
        let is_tried = self.jobs.load(Ordering::SeqCst) > 0;
        *tries = if self.asks_again() { *tries + 1 } else { *tries * u32::from(is_tried) };
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
        if self.has_crossings() {
            return false;
        }
        let state = lock(&self.state);
        state.is_quiet() && state.refused.is_empty() && self.jobs.load(Ordering::SeqCst) == 0
    }
}
