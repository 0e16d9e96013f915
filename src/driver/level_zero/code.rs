//! Level Zero's result codes: what each is called, what it says, and what it asks for.

use super::super::DriverErrorKind::{
    self, Invalid, Lost, OutOfMemory, Refused, TooLarge, Unavailable, Unsupported,
};
use std::ffi::c_int;

/// A code by its number, with its name after `ZE_RESULT_` and its words.
type Code = (c_int, &'static str, DriverErrorKind, &'static str);

/// Those that the calls used here may give. Any other is a refusal.
pub(super) const CODES: &[Code] = &[
    (
        0x7000_0001,
        "ERROR_DEVICE_LOST",
        Lost,
        "the device hung, was reset or removed, or its driver was updated",
    ),
    (0x7000_0002, "ERROR_OUT_OF_HOST_MEMORY", OutOfMemory, "not enough host memory"),
    (0x7000_0003, "ERROR_OUT_OF_DEVICE_MEMORY", OutOfMemory, "not enough device memory"),
    (0x7000_0006, "ERROR_DEVICE_REQUIRES_RESET", Lost, "the device needs a reset"),
    (0x7000_0007, "ERROR_DEVICE_IN_LOW_POWER_STATE", Refused, "the device is in a low power state"),
    (0x7001_0000, "ERROR_INSUFFICIENT_PERMISSIONS", Refused, "permission denied"),
    (0x7001_0001, "ERROR_NOT_AVAILABLE", Refused, "in use by others"),
    (
        0x7002_0000,
        "ERROR_DEPENDENCY_UNAVAILABLE",
        Unavailable,
        "something that the driver depends on is not there",
    ),
    (0x7800_0001, "ERROR_UNINITIALIZED", Unavailable, "no driver could be initialised"),
    (0x7800_0002, "ERROR_UNSUPPORTED_VERSION", Unavailable, "the driver is of another version"),
    (0x7800_0003, "ERROR_UNSUPPORTED_FEATURE", Unsupported, "the driver has no such feature"),
    (0x7800_0004, "ERROR_INVALID_ARGUMENT", Invalid, "an argument is wrong"),
    (0x7800_0005, "ERROR_INVALID_NULL_HANDLE", Invalid, "a handle is null"),
    (0x7800_0006, "ERROR_HANDLE_OBJECT_IN_USE", Invalid, "the device still uses what is to be given up"),
    (0x7800_0007, "ERROR_INVALID_NULL_POINTER", Invalid, "a pointer is null"),
    (0x7800_0008, "ERROR_INVALID_SIZE", Invalid, "a size is wrong"),
    (0x7800_0009, "ERROR_UNSUPPORTED_SIZE", TooLarge, "more than the device can do at once"),
    (0x7800_000a, "ERROR_UNSUPPORTED_ALIGNMENT", Unsupported, "an alignment that the device does not have"),
    (0x7800_000b, "ERROR_INVALID_SYNCHRONIZATION_OBJECT", Invalid, "an event is in the wrong state"),
    (0x7800_000c, "ERROR_INVALID_ENUMERATION", Invalid, "an unknown number"),
    (0x7800_000d, "ERROR_UNSUPPORTED_ENUMERATION", Unsupported, "a number that the device does not support"),
    (0x7800_0019, "ERROR_INVALID_COMMAND_LIST_TYPE", Invalid, "the command list is of another kind"),
    (0x7800_001a, "ERROR_OVERLAPPING_REGIONS", Invalid, "source and target overlap"),
    (0x7fff_fffe, "ERROR_UNKNOWN", Refused, "an unknown or internal error"),
];

fn find(code: c_int) -> Option<&'static Code> {
    CODES.iter().find(|known| known.0 == code)
}

/// What a code other than success asks for.
pub(super) fn kind(code: c_int) -> DriverErrorKind {
    find(code).map_or(Refused, |&(_, _, kind, _)| kind)
}

/// A code in words.
pub(super) fn words(code: c_int) -> String {
    find(code).map_or_else(
        || format!("a code that has no words here: {code:#x}"),
        |(_, name, _, words)| format!("{words} (ZE_RESULT_{name})"),
    )
}
