//! HIP, over its simulated library.

use crate::backends::{Entry, Library};
use std::sync::Arc;
use tack_residency::driver::{Driver, hip::Hip};

pub const ENTRY: Entry = Entry {
    name: "hip",
    device: "hip",
    open: |which| Hip::open(which).map(|driver| driver as Arc<dyn Driver>),
    library: Some(Library {
        example: "simulated-hip",
        file: "libamdhip64.so.6",
        variable: Some("TACK_HIP_LIBRARY"),
        prefix: "hip",
        peer: Some("hipMemcpyPeerAsync"),
        // What only programs call, and not this crate.
        spared: &[
            "hipDeviceGet",
            "hipDeviceReset",
            "hipDeviceSynchronize",
            "hipFreeAsync",
            "hipGraph",
            "hipIpc",
            "hipLaunchHostFunc",
            "hipMallocFromPoolAsync",
            "hipMemPool",
            "hipMemcpyPeerAsync",
            "hipMemsetAsync",
            "hipModule",
            "hipStreamBeginCapture",
            "hipStreamEndCapture",
            "hipThreadExchangeStreamCaptureMode",
        ],
        full: "2",
        allocating: &["hipMalloc", "hipHostMalloc"],
        // What describes the device; pinned memory, in whose stead there is ordinary memory; what only matters while a
        // graph is captured.
        unheard: &[
            "hipThreadExchangeStreamCaptureMode",
            "hipDriverGetVersion",
            "hipDeviceGetName",
            "hipDeviceGetAttribute",
            "hipMemGetInfo",
            "hipHostMalloc",
        ],
        closing: &[
            "hipGetDevice",
            "hipSetDevice",
            "hipStreamDestroy",
            "hipEventDestroy",
            "hipFree",
            "hipHostFree",
        ],
    }),
    settings: &[],
};
