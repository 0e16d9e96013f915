//! A HIP runtime library over simulated devices: AMD's symbols, without AMD.
#![allow(unsafe_code, non_snake_case)]

#[path = "hip/compiler.rs"]
mod compiler;
mod simulated;

use simulated::{
    Outlet, Vendor,
    calls::{self, HostFunction, HostPlace, Params, Text},
    code, context, current, export, face, set_current, settings,
};
use std::ffi::{c_char, c_int, c_uint, c_void};

static VENDOR: Vendor = Vendor {
    device: "AMD Simulated",
    version: 60_443_483,
    // As HIP 5.2 says on a machine without a GPU.
    without_device: (code::INVALID_DEVICE, code::NO_DEVICE),
    implicit: true,
    // hipDeviceAttributeIntegrated, ComputeCapabilityMajor and Minor, CanMapHostMemory.
    attributes: &[(16, 0), (23, 9), (61, 0), (3, 1)],
    // hipDeviceAttributeMemoryPoolsSupported.
    pools_attribute: 88,
    // hipHostMallocPortable, Mapped, WriteCombined, NumaUser, Coherent, NonCoherent.
    host_flags: 1 | 2 | 4 | 0x2000_0000 | 0x4000_0000 | 0x8000_0000,
    names: &[
        (0, c"hipSuccess"),
        (code::INVALID_VALUE, c"hipErrorInvalidValue"),
        (code::OUT_OF_MEMORY, c"hipErrorOutOfMemory"),
        (code::NOT_INITIALISED, c"hipErrorNotInitialized"),
        (code::NO_DEVICE, c"hipErrorNoDevice"),
        (code::INVALID_DEVICE, c"hipErrorInvalidDevice"),
        (code::INVALID_IMAGE, c"hipErrorInvalidImage"),
        (code::INVALID_CONTEXT, c"hipErrorInvalidContext"),
        (code::INVALID_HANDLE, c"hipErrorInvalidHandle"),
        (code::ILLEGAL_STATE, c"hipErrorIllegalState"),
        (code::NOT_FOUND, c"hipErrorNotFound"),
        (code::NOT_READY, c"hipErrorNotReady"),
        (code::ILLEGAL_ADDRESS, c"hipErrorIllegalAddress"),
        (code::CONTEXT_IS_DESTROYED, c"hipErrorContextIsDestroyed"),
        (code::NOT_PERMITTED, c"hipErrorNotPermitted"),
        (code::NOT_SUPPORTED, c"hipErrorNotSupported"),
        (code::CAPTURE_UNSUPPORTED, c"hipErrorStreamCaptureUnsupported"),
        (code::CAPTURE_INVALIDATED, c"hipErrorStreamCaptureInvalidated"),
        (code::CAPTURE_WRONG_THREAD, c"hipErrorStreamCaptureWrongThread"),
        (code::UNKNOWN, c"hipErrorUnknown"),
    ],
};

export! {
    init = hipInit;
    driver_version = hipDriverGetVersion;
    device_count = hipGetDeviceCount;
    device_get = hipDeviceGet;
    device_name = hipDeviceGetName;
    device_total = hipDeviceTotalMem;
    device_attribute = hipDeviceGetAttribute;
    stream_create = hipStreamCreateWithFlags;
    stream_destroy = hipStreamDestroy;
    stream_synchronize = hipStreamSynchronize;
    synchronize_all = hipDeviceSynchronize;
    stream_wait = hipStreamWaitEvent;
    host_function = hipLaunchHostFunc;
    event_create = hipEventCreateWithFlags;
    event_destroy = hipEventDestroy;
    event_record = hipEventRecord;
    event_query = hipEventQuery;
    allocate = hipMalloc;
    free = hipFree;
    allocate_host = hipHostMalloc;
    free_host = hipHostFree;
    copy_out = hipMemcpyDtoHAsync;
    copy_in = hipMemcpyHtoDAsync;
    copy = hipMemcpyDtoDAsync;
    fill = hipMemsetD8Async;
    memory_info = hipMemGetInfo;
    ipc_handle = hipIpcGetMemHandle;
    pool_create = hipMemPoolCreate;
    pool_destroy = hipMemPoolDestroy;
    pool_set = hipMemPoolSetAttribute;
    pool_get = hipMemPoolGetAttribute;
    pool_trim = hipMemPoolTrimTo;
    pool_allocate = hipMallocFromPoolAsync;
    pool_free = hipFreeAsync;
    module_load = hipModuleLoadData;
    module_unload = hipModuleUnload;
    module_function = hipModuleGetFunction;
    launch = hipModuleLaunchKernel;
    capture_mode = hipThreadExchangeStreamCaptureMode;
    capture_begin = hipStreamBeginCapture;
    capture_end = hipStreamEndCapture;
    graph_make = hipGraphInstantiateWithFlags;
    graph_launch = hipGraphLaunch;
    graph_destroy = hipGraphDestroy;
    graph_destroy = hipGraphExecDestroy;
}

// "Device Management", hipGetDevice, hipSetDevice: each thread has a device of its own, the first at first.
face!(hipGetDevice, Ready, (to: Outlet<c_int>) => |_| to.put(current() as c_int));
face!(hipSetDevice, Ready, (device: c_int) => |library| {
    set_current(library.find_device(device)?);
    Ok(())
});

// "Device Management", hipDeviceReset: gives up all that the current device has.
face!(hipDeviceReset, Ready, () => |library| {
    let here = library.enter()?.1;
    context::release(library, here.context)
});

// "Memory Management", hipMemcpyPeerAsync: INVALID_DEVICE for a number of no device.
face!(hipMemcpyPeerAsync, Ready, (
    to: u64, to_device: c_int, from: u64, from_device: c_int, bytes: usize, stream: usize,
) => |library| {
    let context = |device| {
        let device = library.find_device(device)?;
        library.lock().implicit(device)
    };
    let (to, from) = ((to, context(to_device)?), (from, context(from_device)?));
    calls::copy_to_peer(library, to, from, bytes, stream)
});

// A fill of bytes, whose value is an int.
face!(hipMemsetAsync, Ready, (to: u64, value: c_int, bytes: usize, stream: usize) => |library| {
    calls::fill(library, to, value as u8, bytes, stream)
});

/// "Error Handling": a text for every code, known or not.
#[unsafe(no_mangle)]
unsafe extern "C" fn hipGetErrorName(of: c_int) -> *const c_char {
    let found = VENDOR.names.iter().find(|(code, _)| *code == of);
    found.map_or(c"hipErrorUnknown", |(_, name)| *name).as_ptr()
}

/// As [`hipGetErrorName`].
#[unsafe(no_mangle)]
unsafe extern "C" fn hipGetErrorString(of: c_int) -> *const c_char {
    code::words(of).unwrap_or(c"unknown error").as_ptr()
}
