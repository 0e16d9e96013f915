//! What the library's functions are called, and what their codes mean.

use super::super::{
    super::DriverErrorKind,
    library::{AllNames, CallNames, Dialect},
    symbols::{ExtraNames, Names, PoolNames},
};
use std::ffi::c_int;

const CALLS: CallNames = CallNames {
    init: "opening",
    driver_version: "opening",
    device_count: "opening",
    device_name: "opening",
    device_total: "opening",
    device_attribute: "opening",
};

pub(super) const NAMES: Names = Names {
    stream_create: "stream_create",
    stream_destroy: "stream_destroy",
    stream_synchronize: "stream_synchronize",
    stream_wait: "stream_wait",
    event_create: "event_create",
    event_destroy: "event_destroy",
    event_record: "event_record",
    event_query: "event_query",
    allocate: "allocate",
    free: "free",
    allocate_host: "allocate_host",
    free_host: "free_host",
    copy_out: "copy_out",
    copy_in: "copy_in",
    copy: "copy",
    fill: "fill",
    memory_info: "memory_info",
};

const EXTRAS: ExtraNames = ExtraNames {
    launch_host: "launch_host",
    memory_handle: "memory_handle",
    synchronize: "drain",
    exchange_mode: "exchange_mode",
};

pub(super) const POOLS: PoolNames = PoolNames {
    create: "pool_create",
    destroy: "pool_destroy",
    set: "pool_set",
    get: "pool_get",
    trim: "pool_trim",
    allocate: "pool_allocate",
    free: "pool_free",
};

/// Says a code's number and nothing else.
#[derive(Debug)]
pub(super) struct Numbers;

impl Dialect for Numbers {
    const API: &'static str = "fake";
    const DEVICE: &'static str = "a fake device";
    const ADVICE: &'static str = "";
    const CAPABILITY: [c_int; 2] = [0, 1];
    const NAMES: AllNames = AllNames { calls: CALLS, symbols: NAMES, extras: EXTRAS };

    fn kind(code: c_int) -> DriverErrorKind {
        match code {
            2 => DriverErrorKind::OutOfMemory,
            700 => DriverErrorKind::Lost,
            201 | 400 => DriverErrorKind::Invalid,
            _ => DriverErrorKind::Refused,
        }
    }

    fn known(&self, _: c_int) -> Option<(String, String)> {
        None
    }
}
