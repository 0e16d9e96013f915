//! The HIP library: where it is looked for, what its calls are named, and what its result codes ask for.
#![allow(unsafe_code)]

use super::super::{
    DriverErrorKind, Result,
    cuda_like::{
        library::{self, AllNames, CallNames, Dialect, text},
        symbols::{ExtraNames, Names},
    },
    loader::Loaded,
    symbols::{Handle, Lookup, symbols},
};
use std::{
    ffi::{c_char, c_int},
    sync::OnceLock,
};

/// The environment variable that names the one library to open.
const VARIABLE: &str = "TACK_HIP_LIBRARY";

/// Where it is looked for else, the newest first. What is used here is the same in each.
const FILES: &[&str] = if cfg!(windows) {
    &["amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll"]
} else {
    &["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"]
};

symbols! {
    /// What only HIP has.
    pub(super) OwnCalls, OwnNames {
        device_current(*mut c_int);
        device_set(c_int);
        error_name(c_int) -> *const c_char;
        error_words(c_int) -> *const c_char;
    }
}

symbols! {
    /// What copies to another device's memory: both places with their devices' numbers.
    pub(super) PeerCalls, PeerNames {
        copy(u64, c_int, u64, c_int, usize, Handle);
    }
}

const PEER_CALLS: PeerNames = PeerNames { copy: "hipMemcpyPeerAsync" };

const OWN: OwnNames = OwnNames {
    device_current: "hipGetDevice",
    device_set: "hipSetDevice",
    error_name: "hipGetErrorName",
    error_words: "hipGetErrorString",
};

const CALLS: CallNames = CallNames {
    init: "hipInit",
    driver_version: "hipDriverGetVersion",
    device_count: "hipGetDeviceCount",
    device_name: "hipDeviceGetName",
    device_total: "hipDeviceTotalMem",
    device_attribute: "hipDeviceGetAttribute",
};

const NAMES: Names = Names {
    stream_create: "hipStreamCreateWithFlags",
    stream_destroy: "hipStreamDestroy",
    stream_synchronize: "hipStreamSynchronize",
    stream_wait: "hipStreamWaitEvent",
    event_create: "hipEventCreateWithFlags",
    event_destroy: "hipEventDestroy",
    event_record: "hipEventRecord",
    event_query: "hipEventQuery",
    allocate: "hipMalloc",
    free: "hipFree",
    allocate_host: "hipHostMalloc",
    free_host: "hipHostFree",
    copy_out: "hipMemcpyDtoHAsync",
    copy_in: "hipMemcpyHtoDAsync",
    copy: "hipMemcpyDtoDAsync",
    fill: "hipMemsetD8Async",
    memory_info: "hipMemGetInfo",
};

const EXTRAS: ExtraNames = ExtraNames {
    launch_host: "hipLaunchHostFunc",
    memory_handle: "hipIpcGetMemHandle",
    synchronize: "hipDeviceSynchronize",
    exchange_mode: "hipThreadExchangeStreamCaptureMode",
};

/// 5.2 declares it, and does not have it.
/// `hipDeviceAttributeComputeCapabilityMajor`, and `Minor`, as HIP has numbered them from 5 on.
const COMPUTE_CAPABILITY: [c_int; 2] = [23, 61];

/// The library, initialised.
pub(super) type Library = library::Library<Hip>;

/// What of it is HIP's alone.
#[derive(Debug)]
pub struct Hip {
    pub(super) calls: OwnCalls,
    /// What copies to another device's memory, if the library has it.
    pub(super) peer_calls: Option<PeerCalls>,
}

impl Dialect for Hip {
    const API: &'static str = "HIP";
    const DEVICE: &'static str = "an AMD GPU";
    const ADVICE: &'static str = "; is there an AMD GPU, may this user open /dev/kfd (groups `render` and `video`), and does \
                                  HIP_VISIBLE_DEVICES leave any?";
    const CAPABILITY: [c_int; 2] = COMPUTE_CAPABILITY;
    const NAMES: AllNames = AllNames { calls: CALLS, symbols: NAMES, extras: EXTRAS };

    fn kind(code: c_int) -> DriverErrorKind {
        match code {
            // OutOfMemory; RuntimeMemory: what an allocation of ROCr's was refused with.
            2 | 1052 => DriverErrorKind::OutOfMemory,
            // Deinitialized; ECCNotCorrectable; IllegalAddress, LaunchTimeOut, ContextIsDestroyed, Assert, LaunchFailure.
            4 | 214 | 700 | 702 | 709 | 710 | 719 => DriverErrorKind::Lost,
            // InvalidValue, InvalidDevicePointer, InvalidContext, InvalidHandle.
            1 | 17 | 201 | 400 => DriverErrorKind::Invalid,
            // InsufficientDriver, NoDevice, InvalidDevice.
            35 | 100 | 101 => DriverErrorKind::Unavailable,
            // NotSupported.
            801 => DriverErrorKind::Unsupported,
            _ => DriverErrorKind::Refused,
        }
    }

    fn known(&self, code: c_int) -> Option<(String, String)> {
        let said = |call: unsafe extern "C" fn(c_int) -> *const c_char| {
            // SAFETY: the call takes any number.
            let said = unsafe { call(code) };
            // SAFETY: what it gives is a literal of the library's.
            unsafe { text(said) }
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
    // SAFETY: whoever asks for HIP wants AMD's library, or what the environment names, to start.
    let loaded = unsafe { Loaded::open("HIP", VARIABLE, FILES) }?;
    let library = Library::resolve(&|name| loaded.find(name)).map_err(|error| loaded.blame(error))?;
    library.init().map_err(|error| loaded.blame(error))?;
    Ok(LIBRARY.get_or_init(|| library))
}

impl Library {
    fn resolve(lookup: Lookup<'_>) -> Result<Library> {
        // SAFETY: each name is that of a HIP call of this signature (hip_runtime_api.h from 5 on), and the library is
        // never closed.
        let calls = unsafe { OwnCalls::resolve(&OWN, lookup) }?;
        // SAFETY: as above.
        let peer_calls = unsafe { PeerCalls::resolve(&PEER_CALLS, lookup) }.ok();
        // SAFETY: as above.
        unsafe { Library::find(Hip { calls, peer_calls }, lookup) }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::super::{cuda_like::symbols::*, headers::Headers, symbols::miss_each},
        *,
    };
    use DriverErrorKind::{Invalid, Lost, OutOfMemory, Refused, Unavailable, Unsupported};

    const CODES: [(&str, c_int, DriverErrorKind); 24] = [
        ("OutOfMemory", 2, OutOfMemory),
        ("RuntimeMemory", 1052, OutOfMemory),
        ("Deinitialized", 4, Lost),
        ("ECCNotCorrectable", 214, Lost),
        ("IllegalAddress", 700, Lost),
        ("LaunchTimeOut", 702, Lost),
        ("ContextIsDestroyed", 709, Lost),
        ("Assert", 710, Lost),
        ("LaunchFailure", 719, Lost),
        ("InvalidValue", 1, Invalid),
        ("InvalidDevicePointer", 17, Invalid),
        ("InvalidContext", 201, Invalid),
        ("InvalidHandle", 400, Invalid),
        ("InsufficientDriver", 35, Unavailable),
        ("NoDevice", 100, Unavailable),
        ("InvalidDevice", 101, Unavailable),
        ("NotSupported", 801, Unsupported),
        ("NotInitialized", 3, Refused),
        ("LaunchOutOfResources", 701, Refused),
        ("HostMemoryAlreadyRegistered", 712, Refused),
        ("StreamCaptureUnsupported", 900, Refused),
        ("StreamCaptureWrongThread", 908, Refused),
        ("Unknown", 999, Refused),
        ("RuntimeOther", 1053, Refused),
    ];

    #[test]
    fn a_code_asks_for_what_its_name_says() {
        for (name, code, expected) in CODES {
            assert_eq!(Hip::kind(code), expected, "{name}");
        }
        assert_eq!(Hip::kind(99_999), Refused);
    }

    #[test]
    fn numbers_and_signatures_are_those_of_amds_headers() {
        let include = "#define __HIP_PLATFORM_AMD__ 1\n#define __HIP_PLATFORM_HCC__ 1\n\
                       #define __HIP_DISABLE_CPP_FUNCTIONS__ 1\n#include <hip/hip_runtime_api.h>\n";
        let mut headers = Headers::new("libamdhip64-dev", include);
        for (name, code, _) in CODES {
            headers.number(&format!("hipError{name}"), code);
        }
        headers.number("hipSuccess", 0);
        headers.number("hipErrorNotReady", NOT_READY);
        headers.number("hipStreamNonBlocking", NON_BLOCKING);
        headers.number("hipEventDisableTiming", DISABLE_TIMING);
        headers.number("hipHostMallocPortable", PORTABLE);
        headers.number("hipDeviceAttributeComputeCapabilityMajor", COMPUTE_CAPABILITY[0]);
        headers.number("hipDeviceAttributeComputeCapabilityMinor", COMPUTE_CAPABILITY[1]);
        headers.number("hipStreamCaptureModeRelaxed", RELAXED);
        let all = [OWN.widths(), PEER_CALLS.widths(), CALLS.widths(), NAMES.widths(), EXTRAS.widths()];
        for calls in &all {
            headers.calls(calls);
        }
        headers.check();
    }

    #[test]
    fn each_symbol_that_is_missing_is_named_or_done_without() {
        let may = |gone: &str, library: &Library| match gone {
            "hipLaunchHostFunc" => library.extras.launch_host.is_none(),
            "hipIpcGetMemHandle" => library.extras.memory_handle.is_none(),
            "hipThreadExchangeStreamCaptureMode" => library.extras.exchange_mode.is_none(),
            "hipDeviceSynchronize" => library.extras.synchronize.is_none(),
            "hipMemcpyPeerAsync" => library.dialect.peer_calls.is_none(),
            _ => false,
        };
        assert_eq!(miss_each(Library::resolve, may), 32);
    }
}
