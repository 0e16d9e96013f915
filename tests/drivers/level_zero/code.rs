//! Result codes, under the names that what is shared with the other vendors' libraries has for them.

use std::ffi::c_int;
use tack_residency::driver::{DriverError, DriverErrorKind};

/// A result code other than success.
pub type Code = c_int;

/// What a call comes to.
pub type Answer<T = ()> = Result<T, Code>;

pub const NOT_READY: Code = 1;
pub const DEVICE_LOST: Code = 0x7000_0001;
pub const OUT_OF_HOST_MEMORY: Code = 0x7000_0002;
pub const OUT_OF_DEVICE_MEMORY: Code = 0x7000_0003;
pub const UNINITIALISED: Code = 0x7800_0001;
pub const INVALID_VALUE: Code = 0x7800_0004;
pub const INVALID_HANDLE: Code = 0x7800_0005;
pub const IN_USE: Code = 0x7800_0006;
pub const INVALID_SIZE: Code = 0x7800_0008;
pub const UNSUPPORTED_SIZE: Code = 0x7800_0009;
pub const INVALID_SYNCHRONISATION: Code = 0x7800_000b;
pub const INVALID_ENUMERATION: Code = 0x7800_000c;
pub const UNKNOWN: Code = 0x7fff_fffe;

/// What the driver says where the simulated device says this.
pub fn of(error: &DriverError) -> Code {
    match error.kind {
        DriverErrorKind::OutOfMemory | DriverErrorKind::TooLarge => OUT_OF_DEVICE_MEMORY,
        DriverErrorKind::Lost => DEVICE_LOST,
        DriverErrorKind::Invalid => INVALID_VALUE,
        _ => UNKNOWN,
    }
}
