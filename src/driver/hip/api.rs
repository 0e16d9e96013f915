//! One device of the HIP library. HIP has no contexts to be made current: what is current on a thread is a device.
#![allow(unsafe_code)]

use super::{
    super::{
        Result,
        cuda_like::{PeerCopy, Vendor},
        symbols::Handle,
    },
    library::{Hip, Library},
};
use std::ffi::c_int;

/// What is HIP's alone of a device.
#[derive(Debug)]
pub struct Api {
    library: &'static Library,
    device: c_int,
}

impl Api {
    pub(super) fn new(library: &'static Library, device: c_int) -> Api {
        Api { library, device }
    }
}

/// A device as what is current: never null, since a thread always has one.
fn handle(device: c_int) -> Handle {
    Handle(std::ptr::without_provenance_mut(device as usize + 1))
}

impl Vendor for Api {
    type Dialect = Hip;
    type Place = c_int;

    fn library(&self) -> &Library {
        self.library
    }

    fn own(&self) -> Handle {
        handle(self.device)
    }

    fn current(&self) -> Result<Handle> {
        let (call, mut device) = (self.library.dialect.calls.device_current, 0);
        // SAFETY: `device` is where the number goes.
        match unsafe { (call.call)(&mut device) } {
            0 => Ok(handle(device)),
            code => Err(self.library.error(call.name, code)),
        }
    }

    fn set_current(&self, what: Handle) -> Result<()> {
        let (call, device) = (self.library.dialect.calls.device_set, what.0.addr() - 1);
        // SAFETY: the device is this one, or was current on this thread when its call began.
        match unsafe { (call.call)(device as c_int) } {
            0 => Ok(()),
            code => Err(self.library.error(call.name, code)),
        }
    }
    fn peer_copy(&self) -> Option<PeerCopy<c_int>> {
        self.library.dialect.peer_calls.map(|calls| calls.copy)
    }

    fn place(&self) -> c_int {
        self.device
    }
}
