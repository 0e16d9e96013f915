//! CUDA, over its simulated library.

use crate::backends::{Entry, Library};
use std::sync::Arc;
use tack_residency::driver::{Driver, cuda::Cuda};

/// A driver that has no pools yet.
pub const WITHOUT: Entry =
    Entry { name: "cuda without pools", settings: &[("TACK_SIM_POOLS", "0")], ..WITH_POOLS };

pub const WITH_POOLS: Entry = Entry {
    name: "cuda",
    device: "cuda",
    open: |which| Cuda::open(which).map(|driver| driver as Arc<dyn Driver>),
    library: Some(Library {
        example: "simulated-cuda",
        file: "libcuda.so.1",
        variable: None,
        prefix: "cu",
        peer: Some("cuMemcpyPeerAsync"),
        // Pools; what only programs call, and not this crate.
        spared: &[
            "cuMemPool",
            "cuMemAllocFromPoolAsync",
            "cuMemFreeAsync",
            "cuCtxCreate",
            "cuCtxDestroy",
            "cuCtxSynchronize",
            "cuIpc",
            "cuLaunchHostFunc",
            "cuThreadExchangeStreamCaptureMode",
            "cuStreamBeginCapture",
            "cuStreamEndCapture",
            "cuGraph",
            "cuMemcpyPeerAsync",
        ],
        full: "2",
        allocating: &["cuMemAlloc_v2", "cuMemAllocFromPoolAsync", "cuMemHostAlloc"],
        // What describes the device; pinned memory, in whose stead there is ordinary memory; what only matters while a
        // graph is captured.
        unheard: &[
            "cuThreadExchangeStreamCaptureMode",
            "cuDriverGetVersion",
            "cuDeviceGetName",
            "cuDeviceGetAttribute",
            "cuMemGetInfo_v2",
            "cuMemHostAlloc",
        ],
        closing: &[
            "cuCtxGetCurrent",
            "cuCtxSetCurrent",
            "cuDevicePrimaryCtxRelease_v2",
            "cuStreamDestroy_v2",
            "cuEventDestroy_v2",
            "cuMemFree_v2",
            "cuMemFreeAsync",
            "cuMemFreeHost",
            "cuMemPoolDestroy",
        ],
    }),
    settings: &[],
};
