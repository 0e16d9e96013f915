//! Events: made, and asked whether they have passed.
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
            code if CAPTURING.contains(&code) => self.context.check(query.name, code).map(|()| true),
            code => Err(self.context.lose(query.name, code)),
        }
    }
}
