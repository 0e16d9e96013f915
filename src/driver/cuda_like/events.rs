//! Events, made and asked whether they have passed; and the wait for all that anyone has queued.
#![allow(unsafe_code)]

use super::{
    super::{Result, symbols::Handle},
    CudaLike,
    context::Vendor,
    symbols::{DISABLE_TIMING, NOT_READY},
};
use std::{ffi::c_int, ops::RangeInclusive};

/// Codes of calls refused because a graph is being captured somewhere; the device is well.
const CAPTURING: RangeInclusive<c_int> = 900..=908;

impl<V: Vendor> CudaLike<V> {
    /// An event that no fence has. The context is current.
    pub(super) fn new_event(&self) -> Result<Handle> {
        if let Some(event) = self.watch.fences.spare() {
            return Ok(event);
        }
        let (create, mut event) = (self.symbols().event_create, Handle::NULL);
        // SAFETY: the context is current, and `event` is where the new event's handle goes.
        let code = unsafe { (create.call)(&mut event, DISABLE_TIMING) };
        self.context.check(create.name, code).map(|()| event)
    }

    /// Whether an event has passed. A failure found by one is the device's.
    pub(super) fn query(&self, event: Handle) -> Result<bool> {
        let query = self.symbols().event_query;
        // SAFETY: the context is current, and the event was recorded and is not destroyed before this device's end.
        match unsafe { (query.call)(event) } {
            0 => Ok(true),
            NOT_READY => Ok(false),
            code => self.failed(query.name, code).map(|()| true),
        }
    }

    /// Waits for the device, if the library has a call for that. The context is current.
    pub(super) fn synchronize(&self) -> Result<()> {
        let Some(synchronize) = self.context.vendor.library().extras.synchronize else { return Ok(()) };
        // SAFETY: the context is current.
        match unsafe { (synchronize.call)() } {
            0 => Ok(()),
            code => self.failed(synchronize.name, code),
        }
    }

    /// A call that tells how the device is has failed: so has the device, unless the call was refused.
    fn failed(&self, call: &'static str, code: c_int) -> Result<()> {
        match code {
            _ if CAPTURING.contains(&code) => self.context.check(call, code),
            code => Err(self.context.lose(call, code)),
        }
    }
}
