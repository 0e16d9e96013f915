//! What a device's own thread rests on: rung when a fence has passed, or by whoever wants it awake.

use std::{
    sync::{Condvar, Mutex, PoisonError},
    time::Duration,
};

/// A flag with a place to wait for it. One ring wakes the present wait, or the next.
#[derive(Debug, Default)]
pub(in crate::driver) struct Bell {
    rung: Mutex<bool>,
    wake: Condvar,
}

impl Bell {
    pub(in crate::driver) fn ring(&self) {
        let mut rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        if !*rung {
            *rung = true;
            self.wake.notify_one();
        }
    }

    /// Returns when rung, or when `patience` is over; whether it was rung.
    pub(in crate::driver) fn rest(&self, patience: Duration) -> bool {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.wake.wait_timeout_while(rung, patience, |rung| !*rung);
        std::mem::take(&mut *waited.unwrap_or_else(PoisonError::into_inner).0)
    }
}
