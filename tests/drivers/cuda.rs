//! A CUDA driver library over simulated devices: NVIDIA's symbols, without NVIDIA.
#![allow(unsafe_code, non_snake_case)]

#[path = "cuda/contexts.rs"]
mod contexts;
mod simulated;

use simulated::{
    Outlet, Vendor,
    calls::{self, HostFunction, HostPlace, Params, Text},
    code::{self, Answer, Code},
    export, face, settings,
};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

static VENDOR: Vendor = Vendor {
    device: "NVIDIA Simulated",
    version: 12_080,
    without_device: (code::NO_DEVICE, code::NO_DEVICE),
    implicit: false,
    // Compute capability.
    attributes: &[(75, 9), (76, 0)],
    pools_attribute: 115,
    // CU_MEMHOSTALLOC_PORTABLE, _DEVICEMAP, _WRITECOMBINED.
    host_flags: 1 | 2 | 4,
    names: &[
        (0, c"CUDA_SUCCESS"),
        (code::INVALID_VALUE, c"CUDA_ERROR_INVALID_VALUE"),
        (code::OUT_OF_MEMORY, c"CUDA_ERROR_OUT_OF_MEMORY"),
        (code::NOT_INITIALISED, c"CUDA_ERROR_NOT_INITIALIZED"),
        (code::NO_DEVICE, c"CUDA_ERROR_NO_DEVICE"),
        (code::INVALID_DEVICE, c"CUDA_ERROR_INVALID_DEVICE"),
        (code::INVALID_IMAGE, c"CUDA_ERROR_INVALID_IMAGE"),
        (code::INVALID_CONTEXT, c"CUDA_ERROR_INVALID_CONTEXT"),
        (code::INVALID_HANDLE, c"CUDA_ERROR_INVALID_HANDLE"),
        (code::ILLEGAL_STATE, c"CUDA_ERROR_ILLEGAL_STATE"),
        (code::NOT_FOUND, c"CUDA_ERROR_NOT_FOUND"),
        (code::NOT_READY, c"CUDA_ERROR_NOT_READY"),
        (code::ILLEGAL_ADDRESS, c"CUDA_ERROR_ILLEGAL_ADDRESS"),
        (code::CONTEXT_IS_DESTROYED, c"CUDA_ERROR_CONTEXT_IS_DESTROYED"),
        (code::NOT_PERMITTED, c"CUDA_ERROR_NOT_PERMITTED"),
        (code::NOT_SUPPORTED, c"CUDA_ERROR_NOT_SUPPORTED"),
        (code::CAPTURE_UNSUPPORTED, c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"),
        (code::CAPTURE_INVALIDATED, c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"),
        (code::CAPTURE_WRONG_THREAD, c"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"),
        (code::UNKNOWN, c"CUDA_ERROR_UNKNOWN"),
    ],
};

export! {
    init = cuInit;
    driver_version = cuDriverGetVersion;
    device_count = cuDeviceGetCount;
    device_get = cuDeviceGet;
    device_name = cuDeviceGetName;
    device_total = cuDeviceTotalMem_v2;
    device_attribute = cuDeviceGetAttribute;
    stream_create = cuStreamCreate;
    stream_destroy = cuStreamDestroy_v2;
    stream_synchronize = cuStreamSynchronize;
    synchronize_all = cuCtxSynchronize;
    stream_wait = cuStreamWaitEvent;
    host_function = cuLaunchHostFunc;
    event_create = cuEventCreate;
    event_destroy = cuEventDestroy_v2;
    event_record = cuEventRecord;
    event_query = cuEventQuery;
    allocate = cuMemAlloc_v2;
    free = cuMemFree_v2;
    allocate_host = cuMemHostAlloc;
    free_host = cuMemFreeHost;
    copy_out = cuMemcpyDtoHAsync_v2;
    copy_in = cuMemcpyHtoDAsync_v2;
    copy = cuMemcpyDtoDAsync_v2;
    fill = cuMemsetD8Async;
    memory_info = cuMemGetInfo_v2;
    ipc_handle = cuIpcGetMemHandle;
    pool_create = cuMemPoolCreate;
    pool_destroy = cuMemPoolDestroy;
    pool_set = cuMemPoolSetAttribute;
    pool_get = cuMemPoolGetAttribute;
    pool_trim = cuMemPoolTrimTo;
    pool_allocate = cuMemAllocFromPoolAsync;
    pool_free = cuMemFreeAsync;
    module_load = cuModuleLoadData;
    module_unload = cuModuleUnload;
    module_function = cuModuleGetFunction;
    launch = cuLaunchKernel;
    capture_mode = cuThreadExchangeStreamCaptureMode;
    capture_begin = cuStreamBeginCapture_v2;
    capture_end = cuStreamEndCapture;
    graph_make = cuGraphInstantiateWithFlags;
    graph_launch = cuGraphLaunch;
    graph_destroy = cuGraphDestroy;
    graph_destroy = cuGraphExecDestroy;
}

fn name_of(of: Code) -> Option<&'static CStr> {
    VENDOR.names.iter().find(|(code, _)| *code == of).map(|(_, name)| *name)
}

/// "Error Handling": INVALID_VALUE, and a null text, for a code that is not known.
fn put_text(to: &Outlet<*const c_char>, text: Option<&'static CStr>) -> Answer {
    to.put(text.map_or(std::ptr::null(), CStr::as_ptr))?;
    text.map(drop).ok_or(code::INVALID_VALUE)
}

face!(cuMemcpyPeerAsync, Ready, (
    to: u64, to_context: usize, from: u64, from_context: usize, bytes: usize, stream: usize,
) => |library| calls::copy_to_peer(library, (to, to_context), (from, from_context), bytes, stream));

face!(cuGetErrorName, Early, (of: c_int, to: Outlet<*const c_char>) => |_| put_text(&to, name_of(of)));
face!(cuGetErrorString, Early, (of: c_int, to: Outlet<*const c_char>) => |_| put_text(&to, code::words(of)));
