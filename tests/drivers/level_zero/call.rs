//! What every exported call does around its own work.

use crate::{
    code::{self, Answer},
    state::Library,
};
use std::{
    ffi::c_int,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// A call by its exported name; its result code. "Initialization and Discovery": every other call says UNINITIALIZED until
/// `zeInit` was called, or, of Sysman's, `zesInit`.
pub fn call(name: &'static str, body: impl FnOnce(&Library) -> Answer) -> c_int {
    let answer = catch_unwind(AssertUnwindSafe(|| {
        let library = Library::get();
        library.refusals.admit(name)?;
        if !name.ends_with("Init") && !library.lock().initialised {
            return Err(code::UNINITIALISED);
        }
        body(library)
    }));
    match answer {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => code,
        Err(_) => code::UNKNOWN,
    }
}

/// Exported calls: their names, what C hands them, and what they do with that.
macro_rules! export {
    ($($name:ident($($arg:ident: $kind:ty),* $(,)?) => $body:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($arg: $kind),*) -> std::ffi::c_int {
                $crate::call::call(stringify!($name), $body)
            }
        )*
    };
}
pub(crate) use export;
