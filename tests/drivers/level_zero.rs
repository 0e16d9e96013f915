//! A Level Zero loader with a driver over simulated devices: Intel's symbols, without Intel.
//!
//! Never more lenient than the specification: where it leaves behaviour undefined, a wrong program is refused. Sections that
//! comments name are those of its "Core Programming Guide"; what a call says is in its own entry.
#![allow(unsafe_code, non_snake_case)]

#[path = "simulated/block.rs"]
#[allow(dead_code, reason = "CUDA's and HIP's need more of it")]
mod block;
#[path = "level_zero/call.rs"]
mod call;
#[path = "level_zero/code.rs"]
mod code;
#[path = "level_zero/control.rs"]
mod control;
#[path = "level_zero/device.rs"]
mod device;
#[path = "level_zero/event.rs"]
mod event;
#[path = "../../src/driver/level_zero/ffi.rs"]
#[allow(dead_code, reason = "the backend's own")]
mod ffi;
#[path = "simulated/handles.rs"]
#[allow(dead_code, reason = "CUDA's and HIP's need more of it")]
mod handles;
#[path = "level_zero/list.rs"]
mod list;
#[path = "level_zero/memory.rs"]
mod memory;
#[path = "simulated/outlet.rs"]
#[allow(dead_code, reason = "CUDA's and HIP's need more of it")]
mod outlet;
#[path = "simulated/refusals.rs"]
mod refusals;
#[path = "simulated/settings.rs"]
#[allow(dead_code, reason = "CUDA's and HIP's need more of it")]
mod settings;
#[path = "level_zero/state.rs"]
mod state;
#[path = "level_zero/sysman.rs"]
mod sysman;

use std::ffi::c_int;

/// What the settings take from a vendor.
#[derive(Debug)]
struct Vendor {
    version: c_int,
}

/// API 1.13: lists keep their order where asked to.
static VENDOR: Vendor = Vendor { version: 1 << 16 | 13 };
