//! Handles by which other processes open a device's memory.
#![allow(unsafe_code)]

use super::{
    super::{DevicePtr, DriverError, DriverErrorKind, Result},
    context::{Context, Vendor},
};

/// The handle of an allocation. The driver refuses memory of a pool.
pub(super) fn memory_handle<V: Vendor>(context: &Context<V>, ptr: DevicePtr) -> Result<[u8; 64]> {
    let Some(call) = context.vendor.library().extras.memory_handle else {
        let message = "the library has no call that makes a handle for another process";
        return Err(DriverError::new(DriverErrorKind::Unsupported, "share", 0, message));
    };
    let _entered = context.enter()?;
    let mut handle = [0; 64];
    // SAFETY: the context is current; `handle` has the 64 bytes that both vendors' handles have, to be written.
    let code = unsafe { (call.call)(&mut handle, ptr.as_raw()) };
    context.check(call.name, code).map(|()| handle)
}
