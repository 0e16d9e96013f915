//! Result codes. Both vendors use the same numbers for what is simulated here.

use std::ffi::{CStr, c_int};
use tack_residency::driver::{DriverError, DriverErrorKind};

/// A result code other than success.
pub type Code = c_int;

/// What a call comes to.
pub type Answer<T = ()> = Result<T, Code>;

pub const INVALID_VALUE: Code = 1;
pub const OUT_OF_MEMORY: Code = 2;
pub const NOT_INITIALISED: Code = 3;
pub const NO_DEVICE: Code = 100;
pub const INVALID_DEVICE: Code = 101;
pub const INVALID_IMAGE: Code = 200;
pub const INVALID_CONTEXT: Code = 201;
pub const INVALID_HANDLE: Code = 400;
pub const ILLEGAL_STATE: Code = 401;
pub const NOT_FOUND: Code = 500;
pub const NOT_READY: Code = 600;
pub const ILLEGAL_ADDRESS: Code = 700;
pub const CONTEXT_IS_DESTROYED: Code = 709;
pub const NOT_PERMITTED: Code = 800;
pub const NOT_SUPPORTED: Code = 801;
pub const CAPTURE_UNSUPPORTED: Code = 900;
pub const CAPTURE_INVALIDATED: Code = 901;
pub const CAPTURE_WRONG_THREAD: Code = 908;
pub const UNKNOWN: Code = 999;

/// A code in words; none if nobody knows it.
pub fn words(of: Code) -> Option<&'static CStr> {
    Some(match of {
        0 => c"no error",
        INVALID_VALUE => c"invalid argument",
        OUT_OF_MEMORY => c"out of memory",
        NOT_INITIALISED => c"initialization error",
        NO_DEVICE => c"no device is detected",
        INVALID_DEVICE => c"invalid device ordinal",
        INVALID_IMAGE => c"device kernel image is invalid",
        INVALID_CONTEXT => c"invalid device context",
        INVALID_HANDLE => c"invalid resource handle",
        ILLEGAL_STATE => c"the operation cannot be performed in the present state",
        NOT_FOUND => c"named symbol not found",
        NOT_READY => c"device not ready",
        ILLEGAL_ADDRESS => c"an illegal memory access was encountered",
        CONTEXT_IS_DESTROYED => c"context is destroyed",
        NOT_PERMITTED => c"operation not permitted",
        NOT_SUPPORTED => c"operation not supported",
        CAPTURE_UNSUPPORTED => c"operation not permitted when stream is capturing",
        CAPTURE_INVALIDATED => c"operation failed due to a previous error during capture",
        CAPTURE_WRONG_THREAD => c"attempt to terminate a thread-local capture sequence from another thread",
        UNKNOWN => c"unknown error",
        _ => return None,
    })
}

/// What a vendor says where the simulated device says this.
pub fn of(error: &DriverError) -> Code {
    match error.kind {
        DriverErrorKind::OutOfMemory | DriverErrorKind::TooLarge => OUT_OF_MEMORY,
        DriverErrorKind::Lost => ILLEGAL_ADDRESS,
        DriverErrorKind::Invalid => INVALID_VALUE,
        _ => UNKNOWN,
    }
}
