//! Who keeps an engine going: the device's own thread, where time is real; and the end of both.

use super::{
    Engine,
    sync::{Ordering, lock},
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
            let engine = &self.engine;
            while !engine.is_quiet()
                && (engine.turn()
                    || engine.driver.advance()
                    || engine.look_again.load(Ordering::SeqCst) && engine.lost().is_none())
            {}
        } else {
            self.engine.driver.unpark();
        }
    }
}

impl Engine {
    /// The device's thread: looks how far the device has come, does what follows, rests.
    pub(super) fn tend(&self) {
        loop {
            if !self.turn_after_others() {
                if self.closing.load(Ordering::SeqCst) && (self.is_quiet() || self.lost().is_some()) {
                    break;
                }
                self.driver.park(self.patience());
            }
        }
    }

    pub(super) fn is_quiet(&self) -> bool {
        let state = lock(&self.state);
        state.is_quiet() && state.refused_frees.is_empty() && self.jobs.load(Ordering::SeqCst) == 0
    }
}
