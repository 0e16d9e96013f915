//! What the simulated driver libraries share: a vendor's calls as thin faces over this crate's simulated device.
//!
//! Never more lenient than a real driver: where the vendor leaves behaviour undefined, a wrong program is refused or loses
//! its device. Sections that comments name are those of NVIDIA's "CUDA Driver API" manual, by their titles; AMD's "HIP
//! Runtime API" says the same of the call of the same name, unless a comment says otherwise.

mod allocation;
mod block;
mod call;
mod capture;
pub mod code;
pub mod context;
mod control;
mod copy;
mod device;
mod event;
mod exports;
mod handles;
mod kernels;
#[path = "../../common/mixing.rs"]
mod mixing;
mod module;
mod open;
mod outlet;
mod peer;
mod pinned;
mod pool;
mod refusals;
mod settings;
pub mod state;
mod stream;

pub use call::{Entry, call};
pub(crate) use exports::{export, face};
pub use outlet::Outlet;
pub use settings::settings;
pub use state::{current, set_current};

/// What the exported calls are made of.
pub mod calls {
    pub use super::{
        allocation::{allocate, allocate_from_pool, free, free_async, ipc_handle, memory_info},
        capture::{begin, destroy as destroy_graph, end, exchange_mode, instantiate, launch as launch_graph},
        copy::{copy, copy_in, copy_out, fill},
        device::{attribute, count, name, total},
        event::{create as event_create, destroy as event_destroy, query, record, wait},
        kernels::{Params, launch},
        module::{find as function, load, unload},
        outlet::{HostPlace, Text},
        peer::copy as copy_to_peer,
        pinned::{allocate as allocate_host, free as free_host},
        pool::{
            create as pool_create, destroy as pool_destroy, get as pool_get, set as pool_set,
            trim as pool_trim,
        },
        stream::{
            HostFunction, create as stream_create, destroy as stream_destroy, host_function, synchronize,
            synchronize_all,
        },
    };
}

use code::Code;
use std::ffi::{CStr, c_int, c_uint};

/// In what a vendor's library differs from the other's.
#[derive(Debug)]
pub struct Vendor {
    /// What a device of its is called.
    pub device: &'static str,
    /// The driver's version, as the vendor counts.
    pub version: c_int,
    /// What initialising says on a machine without a device, and what every other call says there.
    pub without_device: (Code, Code),
    /// Each call initialises the library, and has the context of its thread's device.
    pub implicit: bool,
    /// A device's attributes, by the vendor's numbers.
    pub attributes: &'static [(c_int, c_int)],
    /// The attribute that says whether a device has pools.
    pub pools_attribute: c_int,
    /// The flags that pinned memory may have.
    pub host_flags: c_uint,
    /// Codes by their vendor's names.
    pub names: &'static [(Code, &'static CStr)],
}
