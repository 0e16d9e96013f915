//! The calls that CUDA and HIP share, by what they do: their vendor's names, and their addresses once found.
//!
//! Result codes are plain integers: a code that nobody here knows is a number, and never undefined behaviour.

use super::super::{DriverError, DriverErrorKind};
use std::ffi::{c_int, c_uint, c_void};

/// A vendor's handle: of a stream, an event, a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Handle(pub *mut c_void);

impl Handle {
    pub const NULL: Handle = Handle(std::ptr::null_mut());
}

// SAFETY: it is a name that only the vendor's library looks behind, and that library takes calls from any thread.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

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

/// Finds a symbol's address by its vendor's name.
pub type Lookup<'a> = &'a dyn Fn(&'static str) -> Option<Handle>;

/// A call: its vendor's name and its address.
#[derive(Clone, Copy, Debug)]
pub struct Symbol<F> {
    pub name: &'static str,
    pub call: F,
}

/// A symbol that the library does not have.
pub fn missing(name: &'static str) -> DriverError {
    let message = format!("the library has no symbol {name}: it is too old, or another library");
    DriverError::new(DriverErrorKind::Unavailable, name, 0, message)
}

/// A table of symbols, and one of their names. A call gives a result code where nothing else is said.
macro_rules! symbols {
    (@result) => { c_int };
    (@result $result:ty) => { $result };
    ($(#[$doc:meta])* $vis:vis $table:ident, $names:ident {
        $($field:ident($($arg:ty),*) $(-> $result:ty)?;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        $vis struct $table {
            $($vis $field: $crate::driver::cuda_like::symbols::Symbol<
                unsafe extern "C" fn($($arg),*) -> $crate::driver::cuda_like::symbols::symbols!(@result $($result)?)
            >,)*
        }

        /// What a vendor calls them.
        #[derive(Clone, Copy, Debug)]
        $vis struct $names {
            $($vis $field: &'static str,)*
        }

        impl $table {
            /// Finds every one of them.
            ///
            /// # Errors
            ///
            /// `Unavailable` with the first name that is not there.
            ///
            /// # Safety
            ///
            /// What `lookup` finds by a name is the function that the vendor documents by it, and stays loaded.
            $vis unsafe fn resolve(
                names: &$names,
                lookup: $crate::driver::cuda_like::symbols::Lookup<'_>,
            ) -> $crate::driver::Result<$table> {
                use $crate::driver::cuda_like::symbols::{Handle, Symbol, missing};
                Ok($table {
                    $($field: {
                        let found = lookup(names.$field).filter(|&found| found != Handle::NULL);
                        let address = found.ok_or_else(|| missing(names.$field))?;
                        // SAFETY: a function's address is as large as any other, and the caller vouches for its type.
                        let call = unsafe {
                            std::mem::transmute::<
                                Handle,
                                unsafe extern "C" fn($($arg),*)
                                    -> $crate::driver::cuda_like::symbols::symbols!(@result $($result)?),
                            >(address)
                        };
                        Symbol { name: names.$field, call }
                    },)*
                })
            }
        }

        #[cfg(test)]
        impl $names {
            /// Each name with the widths in bytes of what the call gives and takes.
            #[allow(dead_code, reason = "not every vendor's headers can be had")]
            $vis fn widths(&self) -> Vec<(&'static str, Vec<usize>)> {
                vec![$((
                    self.$field,
                    vec![
                        size_of::<$crate::driver::cuda_like::symbols::symbols!(@result $($result)?)>(),
                        $(size_of::<$arg>(),)*
                    ],
                ),)*]
            }
        }
    };
}
pub(in crate::driver) use symbols;

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
    /// What a kernel of the host's needs.
    pub HostCalls, HostNames {
        launch_host(Handle, unsafe extern "C" fn(*mut c_void), *mut c_void);
    }
}

symbols! {
    /// What another process opens memory by.
    pub ShareCalls, ShareNames {
        memory_handle(*mut [u8; 64], u64);
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
