//! The calls that CUDA and HIP share, by what they do: their vendor's names, and their addresses once found.

use super::super::symbols::{Handle, symbols};
use std::ffi::{c_int, c_uint, c_void};

/// What a pool is made of. CUDA's `CUmemPoolProps` and HIP's `hipMemPoolProps`, whose layouts are the same.
#[derive(Debug)]
#[repr(C)]
pub struct PoolProps {
    pub alloc_type: c_int,
    pub handle_types: c_int,
    pub location_type: c_int,
    pub location_id: c_int,
    pub security: Handle,
    pub max_size: usize,
    pub reserved: [u8; 56],
}

symbols! {
    /// What every device needs.
    pub Symbols, Names {
        stream_create(*mut Handle, c_uint);
        stream_destroy(Handle);
        stream_synchronize(Handle);
        stream_wait(Handle, Handle, c_uint);
        event_create(*mut Handle, c_uint);
        event_destroy(Handle);
        event_record(Handle, Handle);
        event_query(Handle);
        allocate(*mut u64, usize);
        free(u64);
        allocate_host(*mut *mut c_void, usize, c_uint);
        free_host(*mut c_void);
        copy_out(*mut c_void, u64, usize, Handle);
        copy_in(u64, *const c_void, usize, Handle);
        copy(u64, u64, usize, Handle);
        fill(u64, u8, usize, Handle);
        memory_info(*mut usize, *mut usize);
    }
}

symbols! {
    /// What a device does without where the library has it not: calls of the host's in a stream's order, handles for other
    /// processes, a wait for the device, and what says which calls of a thread a graph that is being captured forbids.
    optional pub Extras, ExtraNames {
        launch_host(Handle, unsafe extern "C" fn(*mut c_void), *mut c_void);
        memory_handle(*mut [u8; 64], u64);
        synchronize();
        exchange_mode(*mut c_int);
    }
}

symbols! {
    /// What a stream-ordered pool needs.
    pub PoolSymbols, PoolNames {
        create(*mut Handle, *const PoolProps);
        destroy(Handle);
        set(Handle, c_int, *mut c_void);
        get(Handle, c_int, *mut c_void);
        trim(Handle, usize);
        allocate(*mut u64, usize, Handle, Handle);
        free(u64, Handle);
    }
}

/// Streams that do not wait for the default stream: `CU_STREAM_NON_BLOCKING`, `hipStreamNonBlocking`.
pub const NON_BLOCKING: c_uint = 1;
/// Events without timing: `CU_EVENT_DISABLE_TIMING`, `hipEventDisableTiming`.
pub const DISABLE_TIMING: c_uint = 2;
/// Pinned for every context, and not write-combined: `CU_MEMHOSTALLOC_PORTABLE`, `hipHostMallocPortable`.
pub const PORTABLE: c_uint = 1;
/// A call that a stream's or an event's work has not ended: `CUDA_ERROR_NOT_READY`, `hipErrorNotReady`.
pub const NOT_READY: c_int = 600;
/// No more calls are forbidden than those on what is captured itself: `CU_STREAM_CAPTURE_MODE_RELAXED`,
/// `hipStreamCaptureModeRelaxed`.
pub const RELAXED: c_int = 2;
/// Device memory, of a device by its ordinal: `CU_MEM_ALLOCATION_TYPE_PINNED`, `CU_MEM_LOCATION_TYPE_DEVICE`.
pub const PINNED: c_int = 1;
/// See [`PINNED`].
pub const ON_DEVICE: c_int = 1;

/// A pool's attributes: `CUmemPool_attribute`, `hipMemPoolAttr`.
pub mod attribute {
    use std::ffi::c_int;

    pub const FOLLOW_EVENT_DEPENDENCIES: c_int = 1;
    pub const ALLOW_OPPORTUNISTIC: c_int = 2;
    pub const ALLOW_INTERNAL_DEPENDENCIES: c_int = 3;
    pub const RELEASE_THRESHOLD: c_int = 4;
    pub const RESERVED_BYTES: c_int = 5;
    pub const USED_BYTES: c_int = 7;
}
