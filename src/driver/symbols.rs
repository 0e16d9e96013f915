//! A vendor's calls, found by their names in a library that is opened at run time.
//!
//! Result codes are plain integers: a code that nobody here knows is a number, and never undefined behaviour.
#![allow(unsafe_code)]

#[cfg(test)]
use super::Result;
use super::{DriverError, DriverErrorKind};
use std::ffi::c_void;

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
            $($vis $field: $crate::driver::symbols::Symbol<
                unsafe extern "C" fn($($arg),*) -> $crate::driver::symbols::symbols!(@result $($result)?)
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
                lookup: $crate::driver::symbols::Lookup<'_>,
            ) -> $crate::driver::Result<$table> {
                use $crate::driver::symbols::{Handle, Symbol, missing};
                Ok($table {
                    $($field: {
                        let found = lookup(names.$field).filter(|&found| found != Handle::NULL);
                        let address = found.ok_or_else(|| missing(names.$field))?;
                        // SAFETY: a function's address is as large as any other, and the caller vouches for its type.
                        let call = unsafe {
                            std::mem::transmute::<
                                Handle,
                                unsafe extern "C" fn($($arg),*)
                                    -> $crate::driver::symbols::symbols!(@result $($result)?),
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
                        size_of::<$crate::driver::symbols::symbols!(@result $($result)?)>(),
                        $(size_of::<$arg>(),)*
                    ],
                ),)*]
            }
        }
    };
}
pub(super) use symbols;

/// Tests that a vendor's table is found whole, and that each of its symbols, where it is missing, is named or `may` be.
#[cfg(test)]
pub fn miss_each<T>(resolve: impl Fn(Lookup<'_>) -> Result<T>, may: impl Fn(&str, &T) -> bool) -> usize {
    extern "C" fn never_called() {}
    let there = Handle((never_called as *const ()).cast_mut().cast());
    let asked = std::sync::Mutex::new(Vec::new());
    let all = |name| {
        asked.lock().expect("no panic").push(name);
        Some(there)
    };
    assert!(resolve(&all).is_ok(), "all are there");
    let names = asked.into_inner().expect("no panic");
    for &gone in &names {
        match resolve(&|name| (name != gone).then_some(there)) {
            Ok(library) => assert!(may(gone, &library), "{gone}"),
            Err(error) => {
                assert_eq!((error.kind, error.call), (DriverErrorKind::Unavailable, gone));
                assert!(error.message.contains(gone), "{error}");
            }
        }
    }
    names.len()
}
