//! What every exported call does around its own work.

use super::{
    code::{self, Answer},
    state::Library,
    stream,
};
use std::{
    ffi::c_int,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// When a call may be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// Before the library is initialised too.
    Early,
    /// Once it is. "Initialization": every other function returns CUDA_ERROR_NOT_INITIALIZED until cuInit was called.
    Ready,
}

/// A call by its exported name; its result code.
pub fn call(name: &'static str, entry: Entry, body: impl FnOnce(&Library) -> Answer) -> c_int {
    let answer = catch_unwind(AssertUnwindSafe(|| {
        // "Execution Control", cuLaunchHostFunc: the host function must not call CUDA; NOT_PERMITTED if it does.
        if stream::is_host_function_running() {
            return Err(code::NOT_PERMITTED);
        }
        let library = Library::get();
        library.refusals.admit(name)?;
        if entry == Entry::Ready {
            library.check_initialised()?;
            library.lock().check_captures(name)?;
        }
        body(library)
    }));
    match answer {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => code,
        Err(_) => code::UNKNOWN,
    }
}
