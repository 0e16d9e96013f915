//! The driver library: what its calls are named, what its result codes ask for, and the way to a device.
#![allow(unsafe_code)]

use super::super::{
    DriverError, DriverErrorKind, Result,
    cuda_like::{
        library::{self, AllNames, CallNames, Dialect, text},
        symbols::{ExtraNames, Names, PoolNames, PoolSymbols},
    },
    symbols::{Handle, Lookup, missing, symbols},
};
use cudarc::driver::sys;
use std::{
    ffi::{c_char, c_int},
    sync::OnceLock,
};

symbols! {
    /// What only CUDA has.
    pub(super) OwnCalls, OwnNames {
        device_get(*mut c_int, c_int);
        context_retain(*mut Handle, c_int);
        context_release(c_int);
        context_current(*mut Handle);
        context_set(Handle);
        error_name(c_int, *mut *const c_char);
        error_words(c_int, *mut *const c_char);
    }
}

symbols! {
    /// What copies to another device's memory: both places with their contexts.
    pub(super) PeerCalls, PeerNames {
        copy(u64, Handle, u64, Handle, usize, Handle);
    }
}

const PEER_CALLS: PeerNames = PeerNames { copy: "cuMemcpyPeerAsync" };

const OWN: OwnNames = OwnNames {
    device_get: "cuDeviceGet",
    context_retain: "cuDevicePrimaryCtxRetain",
    context_release: "cuDevicePrimaryCtxRelease_v2",
    context_current: "cuCtxGetCurrent",
    context_set: "cuCtxSetCurrent",
    error_name: "cuGetErrorName",
    error_words: "cuGetErrorString",
};

const CALLS: CallNames = CallNames {
    init: "cuInit",
    driver_version: "cuDriverGetVersion",
    device_count: "cuDeviceGetCount",
    device_name: "cuDeviceGetName",
    device_total: "cuDeviceTotalMem_v2",
    device_attribute: "cuDeviceGetAttribute",
};

const NAMES: Names = Names {
    stream_create: "cuStreamCreate",
    stream_destroy: "cuStreamDestroy_v2",
    stream_synchronize: "cuStreamSynchronize",
    stream_wait: "cuStreamWaitEvent",
    event_create: "cuEventCreate",
    event_destroy: "cuEventDestroy_v2",
    event_record: "cuEventRecord",
    event_query: "cuEventQuery",
    allocate: "cuMemAlloc_v2",
    free: "cuMemFree_v2",
    allocate_host: "cuMemHostAlloc",
    free_host: "cuMemFreeHost",
    copy_out: "cuMemcpyDtoHAsync_v2",
    copy_in: "cuMemcpyHtoDAsync_v2",
    copy: "cuMemcpyDtoDAsync_v2",
    fill: "cuMemsetD8Async",
    memory_info: "cuMemGetInfo_v2",
};

const EXTRAS: ExtraNames = ExtraNames {
    launch_host: "cuLaunchHostFunc",
    memory_handle: "cuIpcGetMemHandle",
    synchronize: "cuCtxSynchronize",
    exchange_mode: "cuThreadExchangeStreamCaptureMode",
};

const POOLS: PoolNames = PoolNames {
    create: "cuMemPoolCreate",
    destroy: "cuMemPoolDestroy",
    set: "cuMemPoolSetAttribute",
    get: "cuMemPoolGetAttribute",
    trim: "cuMemPoolTrimTo",
    allocate: "cuMemAllocFromPoolAsync",
    free: "cuMemFreeAsync",
};

/// `CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED`.
const MEMORY_POOLS_SUPPORTED: c_int = 115;
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR`, and `_MINOR` next to it.
const COMPUTE_CAPABILITY: c_int = 75;

/// The driver library, initialised.
pub(super) type Library = library::Library<Cuda>;

/// What of it is CUDA's alone.
#[derive(Debug)]
pub struct Cuda {
    pub(super) calls: OwnCalls,
    /// What copies to another device's memory, if the library has it.
    pub(super) peer_calls: Option<PeerCalls>,
    pools: Option<PoolSymbols>,
}

impl Dialect for Cuda {
    const API: &'static str = "CUDA";
    const DEVICE: &'static str = "an NVIDIA GPU";
    const ADVICE: &'static str = "; does CUDA_VISIBLE_DEVICES leave any?";
    const CAPABILITY: [c_int; 2] = [COMPUTE_CAPABILITY, COMPUTE_CAPABILITY + 1];
    const NAMES: AllNames = AllNames { calls: CALLS, symbols: NAMES, extras: EXTRAS };

    fn kind(code: c_int) -> DriverErrorKind {
        match code {
            // OUT_OF_MEMORY: on the device, or of pinned memory.
            2 => DriverErrorKind::OutOfMemory,
            // DEINITIALIZED; ECC and NVLINK_UNCORRECTABLE, CONTAINED; ILLEGAL_ADDRESS, LAUNCH_TIMEOUT,
            // CONTEXT_IS_DESTROYED, ASSERT; HARDWARE_STACK_ERROR to LAUNCH_FAILED, TENSOR_MEMORY_LEAK, EXTERNAL_DEVICE.
            4 | 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721 | 911 => DriverErrorKind::Lost,
            // INVALID_VALUE, INVALID_CONTEXT, INVALID_HANDLE.
            1 | 201 | 400 => DriverErrorKind::Invalid,
            // STUB_LIBRARY, DEVICE_UNAVAILABLE (another process's); NO_DEVICE, INVALID_DEVICE, DEVICE_NOT_LICENSED; SYSTEM_NOT_READY, SYSTEM_DRIVER_MISMATCH,
            // COMPAT_NOT_SUPPORTED_ON_DEVICE.
            34 | 46 | 100..=102 | 802..=804 => DriverErrorKind::Unavailable,
            // CALL_REQUIRES_NEWER_DRIVER, NOT_SUPPORTED.
            36 | 801 => DriverErrorKind::Unsupported,
            _ => DriverErrorKind::Refused,
        }
    }

    fn known(&self, code: c_int) -> Option<(String, String)> {
        let said = |call: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int| {
            let mut said: *const c_char = std::ptr::null();
            // SAFETY: `said` is where the address goes. The call takes any number.
            let found = unsafe { call(code, &mut said) };
            // SAFETY: a code that is known has a text that ends with a zero and is never freed.
            unsafe { text(said) }.filter(|_| found == 0)
        };
        said(self.calls.error_name.call).zip(said(self.calls.error_words.call))
    }
}

/// The process's library, opened once. A failure is looked into anew each time: a driver may be installed meanwhile.
pub(super) fn library() -> Result<&'static Library> {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    // SAFETY: it opens libraries by NVIDIA's names and runs their initialisers, which whoever asks for CUDA wants.
    if !unsafe { sys::is_culib_present() } {
        let mut names = ["cuda", "nvcuda"].map(cudarc::get_lib_name_candidates).concat();
        names.sort();
        names.dedup();
        let usual = names.iter().find(|name| name.ends_with(".so.1")).or(names.first());
        let message = format!(
            "no CUDA driver library was found by the name {} or {} like it; is NVIDIA's driver installed, and its \
             folder in the loader's path (LD_LIBRARY_PATH)?",
            usual.map_or("cuda", String::as_str),
            names.len().saturating_sub(1)
        );
        return Err(DriverError::new(DriverErrorKind::Unavailable, "dlopen", 0, message));
    }
    let lookup = |name: &'static str| {
        // SAFETY: the library was just found, so this does not panic.
        let library = unsafe { sys::culib() };
        // SAFETY: an address is asked for; its type is given to it where the name is known.
        let found = unsafe { library.get::<Handle>(name.as_bytes()) };
        found.ok().map(|symbol| *symbol)
    };
    let library = Library::resolve(&lookup)?;
    library.init()?;
    Ok(LIBRARY.get_or_init(|| library))
}

impl Library {
    fn resolve(lookup: Lookup<'_>) -> Result<Library> {
        // SAFETY: each name is that of a CUDA driver call of this signature (cuda.h from 11.2 on), and the library is
        // never closed.
        let calls = unsafe { OwnCalls::resolve(&OWN, lookup) }?;
        // SAFETY: as above. Drivers before 11.2 have none of them.
        let pools = unsafe { PoolSymbols::resolve(&POOLS, lookup) }.ok();
        // SAFETY: as above.
        let peer_calls = unsafe { PeerCalls::resolve(&PEER_CALLS, lookup) }.ok();
        // SAFETY: as above.
        let library = unsafe { Library::find(Cuda { calls, peer_calls, pools }, lookup) }?;
        // What a program launches through cudarc must be there, since cudarc panics where it is not.
        for name in ["cuLaunchKernel", "cuModuleLoadData", "cuModuleGetFunction", "cuModuleUnload"] {
            lookup(name).ok_or_else(|| missing(name))?;
        }
        Ok(library)
    }

    pub(super) fn device(&self, ordinal: u32) -> Result<c_int> {
        let (ordinal, get, mut device) = (self.ordinal(ordinal)?, self.dialect.calls.device_get, 0);
        // SAFETY: `device` is where the device's number goes.
        let code = unsafe { (get.call)(&mut device, ordinal) };
        self.opening(get.name, code).map(|()| device)
    }

    pub(super) fn retain(&self, device: c_int) -> Result<Handle> {
        let (retain, mut context) = (self.dialect.calls.context_retain, Handle::NULL);
        // SAFETY: `context` is where the handle goes; each retain is followed by one release.
        let code = unsafe { (retain.call)(&mut context, device) };
        self.opening(retain.name, code).map(|()| context)
    }

    /// What makes pools, where the device and its driver have them.
    pub(super) fn pools(&self, device: c_int) -> Option<PoolSymbols> {
        self.dialect.pools.filter(|_| self.attribute(device, MEMORY_POOLS_SUPPORTED) == Some(1))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::super::{DevicePtr, cuda_like::symbols::*, symbols::miss_each},
        *,
    };
    use cudarc::driver::sys::{CUdevice_attribute as Device, CUmemPool_attribute as Pool, CUresult as Code};
    use std::ffi::c_uint;

    /// Cudarc's bindings are made from NVIDIA's headers, so they are what the numbers here are checked by.
    #[test]
    fn numbers_and_layouts_are_those_of_nvidias_headers() {
        assert_eq!(MEMORY_POOLS_SUPPORTED, Device::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED as c_int);
        assert_eq!(COMPUTE_CAPABILITY, Device::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as c_int);
        assert_eq!(COMPUTE_CAPABILITY + 1, Device::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as c_int);
        assert_eq!(NON_BLOCKING, sys::CUstream_flags::CU_STREAM_NON_BLOCKING as c_uint);
        assert_eq!(DISABLE_TIMING, sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as c_uint);
        assert_eq!(PORTABLE, sys::CU_MEMHOSTALLOC_PORTABLE);
        assert_eq!(RELAXED, sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED as c_int);
        assert_eq!(NOT_READY, Code::CUDA_ERROR_NOT_READY as c_int);
        assert_eq!(PINNED, sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED as c_int);
        assert_eq!(ON_DEVICE, sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE as c_int);
        for (ours, theirs) in [
            (attribute::FOLLOW_EVENT_DEPENDENCIES, Pool::CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES),
            (attribute::ALLOW_OPPORTUNISTIC, Pool::CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC),
            (attribute::ALLOW_INTERNAL_DEPENDENCIES, Pool::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES),
            (attribute::RELEASE_THRESHOLD, Pool::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD),
            (attribute::RESERVED_BYTES, Pool::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT),
            (attribute::USED_BYTES, Pool::CU_MEMPOOL_ATTR_USED_MEM_CURRENT),
        ] {
            assert_eq!(ours, theirs as c_int);
        }
        assert_eq!(size_of::<PoolProps>(), size_of::<sys::CUmemPoolProps>());
        assert_eq!(std::mem::offset_of!(PoolProps, security), 16);
        assert_eq!(size_of::<DevicePtr>(), size_of::<sys::CUdeviceptr>());
    }

    #[test]
    fn the_copy_to_a_peer_takes_what_nvidias_header_says() {
        type Copy = unsafe fn(
            sys::CUdeviceptr,
            sys::CUcontext,
            sys::CUdeviceptr,
            sys::CUcontext,
            usize,
            sys::CUstream,
        ) -> Code;
        let _: Copy = sys::cuMemcpyPeerAsync;
        let widths = [
            size_of::<Code>(),
            size_of::<sys::CUdeviceptr>(),
            size_of::<sys::CUcontext>(),
            size_of::<sys::CUdeviceptr>(),
            size_of::<sys::CUcontext>(),
            size_of::<usize>(),
            size_of::<sys::CUstream>(),
        ];
        assert_eq!(PEER_CALLS.widths(), [("cuMemcpyPeerAsync", widths.to_vec())]);
    }

    #[test]
    fn a_code_asks_for_what_its_name_says() {
        use DriverErrorKind::{Invalid, Lost, OutOfMemory, Refused, Unavailable, Unsupported};
        for (code, expected) in [
            (Code::CUDA_ERROR_OUT_OF_MEMORY, OutOfMemory),
            (Code::CUDA_ERROR_DEINITIALIZED, Lost),
            (Code::CUDA_ERROR_ECC_UNCORRECTABLE, Lost),
            (Code::CUDA_ERROR_NVLINK_UNCORRECTABLE, Lost),
            (Code::CUDA_ERROR_ILLEGAL_ADDRESS, Lost),
            (Code::CUDA_ERROR_LAUNCH_TIMEOUT, Lost),
            (Code::CUDA_ERROR_CONTEXT_IS_DESTROYED, Lost),
            (Code::CUDA_ERROR_ASSERT, Lost),
            (Code::CUDA_ERROR_HARDWARE_STACK_ERROR, Lost),
            (Code::CUDA_ERROR_LAUNCH_FAILED, Lost),
            (Code::CUDA_ERROR_EXTERNAL_DEVICE, Lost),
            (Code::CUDA_ERROR_INVALID_VALUE, Invalid),
            (Code::CUDA_ERROR_INVALID_CONTEXT, Invalid),
            (Code::CUDA_ERROR_INVALID_HANDLE, Invalid),
            (Code::CUDA_ERROR_STUB_LIBRARY, Unavailable),
            (Code::CUDA_ERROR_NO_DEVICE, Unavailable),
            (Code::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, Unavailable),
            (Code::CUDA_ERROR_NOT_SUPPORTED, Unsupported),
            (Code::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, Refused),
            (Code::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, Refused),
            (Code::CUDA_ERROR_UNKNOWN, Refused),
        ] {
            assert_eq!(Cuda::kind(code as c_int), expected, "{code:?}");
        }
        assert_eq!((Cuda::kind(46), Cuda::kind(99_999)), (Unavailable, Refused));
    }

    #[test]
    fn each_symbol_that_is_missing_is_named_or_done_without() {
        let without_it = |gone: &str, library: &Library| match gone {
            "cuLaunchHostFunc" => library.extras.launch_host.is_none(),
            "cuIpcGetMemHandle" => library.extras.memory_handle.is_none(),
            "cuThreadExchangeStreamCaptureMode" => library.extras.exchange_mode.is_none(),
            "cuCtxSynchronize" => library.extras.synchronize.is_none(),
            "cuMemcpyPeerAsync" => library.dialect.peer_calls.is_none(),
            _ => library.dialect.pools.is_none() && gone.starts_with("cuMem"),
        };
        assert_eq!(miss_each(Library::resolve, without_it), 46);
    }
}
