//! Opens a vendor's library at run time, for good: what it has started may run on, so it is never closed.
#![allow(unsafe_code)]

use super::{DriverError, DriverErrorKind, Result, symbols::Handle};
use std::{error::Error, ffi::OsString, mem::ManuallyDrop};

/// A library that is open.
#[derive(Debug)]
pub(super) struct Loaded {
    name: String,
    library: ManuallyDrop<libloading::Library>,
}

impl Loaded {
    /// The library that the environment variable names; where it is not set, the first of `names` that opens.
    ///
    /// # Errors
    ///
    /// `Unavailable` with what the system's loader said of each name that was tried.
    ///
    /// # Safety
    ///
    /// Whoever calls this wants the initialisers of a library of such a name to run.
    pub(super) unsafe fn open(api: &str, variable: &str, names: &[&str]) -> Result<Loaded> {
        let named = std::env::var_os(variable).filter(|name| !name.is_empty());
        let tried = named.map_or_else(|| names.iter().map(OsString::from).collect(), |name| vec![name]);
        let mut said = Vec::new();
        for name in tried {
            // SAFETY: the caller vouches for it.
            let opened = unsafe { libloading::Library::new(&name) };
            let name = name.to_string_lossy().into_owned();
            match opened {
                Ok(library) => return Ok(Loaded { name, library: ManuallyDrop::new(library) }),
                Err(error) => said.push(reason(&name, &error)),
            }
        }
        let message = format!(
            "no {api} library could be opened: {}; is its driver installed, and its folder in the loader's path? \
             {variable} may name the file",
            said.join("; ")
        );
        Err(DriverError::new(DriverErrorKind::Unavailable, "dlopen", 0, message))
    }

    /// An error of what was opened, with its name.
    pub(super) fn blame(&self, error: DriverError) -> DriverError {
        DriverError { message: format!("{}: {}", self.name, error.message), ..error }
    }

    /// A symbol's address.
    pub(super) fn find(&self, name: &str) -> Option<Handle> {
        // SAFETY: an address is asked for; its type is given to it where the name is known.
        let found = unsafe { self.library.get::<Handle>(name.as_bytes()) };
        found.ok().map(|symbol| *symbol)
    }
}

/// What the system's loader said, with the name that it may leave out.
fn reason(name: &str, error: &libloading::Error) -> String {
    let said = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    if said.contains(name) { said } else { format!("{name}: {said}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_tried_is_told_and_what_opens_is_asked() {
        let names = ["libtack-none.so.2", "libtack-none.so.1"];
        // SAFETY: there is no library of these names.
        let error = unsafe { Loaded::open("fake", "TACK_NO_LIBRARY", &names) }.expect_err("none is there");
        assert_eq!((error.kind, error.call), (DriverErrorKind::Unavailable, "dlopen"));
        assert!(names.iter().all(|name| error.message.contains(name)), "{error}");
        assert!(error.message.contains("TACK_NO_LIBRARY"), "{error}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_first_that_opens_is_asked() {
        let names = ["libtack-none.so.1", "libc.so.6"];
        // SAFETY: the process uses this library already.
        let library = unsafe { Loaded::open("C", "TACK_NO_LIBRARY", &names) }.expect("it is there");
        assert!(library.find("malloc").is_some() && library.find("no_such_symbol").is_none());
    }
}
