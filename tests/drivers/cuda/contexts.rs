//! CUDA's own calls on contexts: which there are, and which is current.

use crate::simulated::{
    Outlet,
    code::{self, Answer},
    context::{Context, release},
    current, face, set_current,
    state::Library,
};
use std::ffi::{c_int, c_uint, c_void};

fn hold(library: &Library, context: usize) -> Answer {
    let _turn = library.turn_of_contexts();
    library.lock().hold(context)
}

face!(cuDevicePrimaryCtxRetain, Ready, (to: Outlet<usize>, device: c_int) => |library| {
    let device = library.find_device(device)?;
    let context = library.lock().primary(device)?;
    hold(library, context)?;
    to.put(context)
});

face!(cuDevicePrimaryCtxRelease_v2, Ready, (device: c_int) => |library| {
    let device = library.find_device(device)?;
    let context = library.lock().primary(device)?;
    release(library, context)
});

face!(cuCtxCreate_v3, Ready, (
    to: Outlet<usize>, _affinity: *mut c_void, _affinities: c_int, flags: c_uint, device: c_int,
) => |library| {
    if flags != 0 {
        return Err(code::NOT_SUPPORTED);
    }
    let device = library.find_device(device)?;
    let context = library.lock().contexts.add(Context::new(device, false));
    hold(library, context)?;
    // "Context Management", cuCtxCreate: the new context is current on the calling thread.
    set_current(context);
    to.put(context)
});

face!(cuCtxDestroy_v2, Ready, (context: usize) => |library| {
    if library.lock().contexts.get(context).map_err(|_| code::INVALID_CONTEXT)?.primary {
        return Err(code::INVALID_CONTEXT);
    }
    if current() == context {
        set_current(0);
    }
    release(library, context)
});

// "Context Management", cuCtxGetCurrent: null if none is current; one that is no more is still named.
face!(cuCtxGetCurrent, Ready, (to: Outlet<usize>) => |_| to.put(current()));

// "Context Management", cuCtxSetCurrent: null for none.
face!(cuCtxSetCurrent, Ready, (context: usize) => |library| {
    if context != 0 {
        library.lock().contexts.get(context).map_err(|_| code::INVALID_CONTEXT)?;
    }
    set_current(context);
    Ok(())
});
