//! What a test asks of the library besides its vendor's calls.

use super::{
    call::{Entry, call},
    state::Library,
    stream,
};
use std::{ffi::c_int, time::Duration};
use tack_residency::driver::HostKernel;

/// How many contexts, streams, events, pools, allocations, pinned blocks and modules are open, or were when their context
/// was given up.
#[unsafe(no_mangle)]
unsafe extern "C" fn tack_sim_open() -> u64 {
    Library::get().lock().open().total() as u64
}

/// Keeps a stream of the current context busy for `nanos` nanoseconds.
#[unsafe(no_mangle)]
unsafe extern "C" fn tack_sim_spin(stream: usize, nanos: u64) -> c_int {
    call("tack_sim_spin", Entry::Ready, |library| {
        stream::launch(library, stream, HostKernel::new(Duration::from_nanos(nanos), |_| {}))
    })
}

/// How many contexts are held.
#[unsafe(no_mangle)]
unsafe extern "C" fn tack_sim_held() -> u64 {
    Library::get().lock().open().contexts as u64
}
