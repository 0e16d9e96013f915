//! The one word every launch reads to know that nothing special is going on.

use super::sync::{AtomicU32, Ordering};

/// A device's flags.
#[derive(Debug, Default)]
pub struct Flags(AtomicU32);

impl Flags {
    /// Requests wait: new ones queue behind them.
    pub const GATE: u32 = 1;
    /// Uses are noted with their queue and number.
    pub const TRACK: u32 = 2;
    /// The device is lost.
    pub const LOST: u32 = 4;
    /// There is more than one compute queue.
    pub const MULTI: u32 = 8;
    /// Jobs wait for launches being queued to be queued.
    pub const SETTLE: u32 = 16;
    /// There has been fixed memory, which is not freed in a queue's order.
    pub const FIXED: u32 = 32;
    /// Buffers are kept until the device has been drained.
    pub const DRAIN: u32 = 64;

    /// All of them at once.
    #[inline]
    pub fn load(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }

    /// Whether any of `bits` is set.
    #[inline]
    pub fn has(&self, bits: u32) -> bool {
        self.load() & bits != 0
    }

    /// Sets `bits`.
    pub fn set(&self, bits: u32) {
        self.0.fetch_or(bits, Ordering::SeqCst);
    }

    /// Sets or clears `bits`.
    pub fn put(&self, bits: u32, on: bool) {
        if on {
            self.set(bits);
        } else {
            self.0.fetch_and(!bits, Ordering::SeqCst);
        }
    }
}
