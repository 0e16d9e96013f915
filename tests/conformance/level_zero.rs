//! Level Zero, over its simulated loader.

use crate::backends::{Entry, Library};
use std::sync::Arc;
use tack_residency::driver::{Driver, level_zero::LevelZero};

pub const ENTRY: Entry = Entry {
    name: "level_zero",
    device: "level_zero",
    open: |which| LevelZero::open(which).map(|driver| driver as Arc<dyn Driver>),
    library: Some(Library {
        example: "simulated-level-zero",
        file: "libze_loader.so.1",
        variable: Some("TACK_LEVEL_ZERO_LIBRARY"),
        prefix: "ze",
        peer: None,
        spared: &[],
        // ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY
        full: "1879048195",
        allocating: &["zeMemAllocDevice", "zeMemAllocHost"],
        // What is free; pinned memory, in whose stead there is ordinary memory; whether a device is well that is; an event that
        // is used again, in whose stead there are fresh ones.
        unheard: &[
            "zeEventHostReset",
            "zesInit",
            "zesDriverGet",
            "zesDeviceGet",
            "zesDeviceGetProperties",
            "zesDeviceEnumMemoryModules",
            "zesMemoryGetProperties",
            "zesMemoryGetState",
            "zeMemAllocHost",
            "zeDeviceGetStatus",
        ],
        // The barrier is what a queue is given up behind.
        closing: &[
            "zeContextDestroy",
            "zeCommandListDestroy",
            "zeCommandListAppendBarrier",
            "zeEventPoolDestroy",
            "zeEventDestroy",
            "zeEventQueryStatus",
            "zeMemFree",
        ],
    }),
    settings: &[],
};
