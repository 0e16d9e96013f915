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

/// A call by its name, if the library has it.
///
/// # Safety
///
/// `F` is a function's address, and what `lookup` finds by the name is that function, and stays loaded.
pub unsafe fn find<F: Copy>(name: &'static str, lookup: Lookup<'_>) -> Option<Symbol<F>> {
    const { assert!(size_of::<F>() == size_of::<Handle>()) };
    let address = lookup(name).filter(|&found| found != Handle::NULL)?;
    // SAFETY: both are addresses, of one size, and the caller vouches for the type.
    let call = unsafe { std::mem::transmute_copy(&address) };
    Some(Symbol { name, call })
}

/// A table of symbols, and one of their names; `optional` where each may be missing by itself. A call gives a result code
/// where nothing else is said.
macro_rules! symbols {
    (@result) => { c_int };
    (@result $result:ty) => { $result };
    (@symbol ($($arg:ty),*) $($result:ty)?) => {
        $crate::driver::symbols::Symbol<
            unsafe extern "C" fn($($arg),*) -> $crate::driver::symbols::symbols!(@result $($result)?)
        >
    };
    (@names $vis:vis $names:ident {
        $($field:ident($($arg:ty),*) $(-> $result:ty)?;)*
    }) => {
        /// What a vendor calls them.
        #[derive(Clone, Copy, Debug)]
        $vis struct $names {
            $($vis $field: &'static str,)*
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
    ($(#[$doc:meta])* optional $vis:vis $table:ident, $names:ident {
        $($field:ident($($arg:ty),*) $(-> $result:ty)?;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        $vis struct $table {
            $($vis $field: Option<$crate::driver::symbols::symbols!(@symbol ($($arg),*) $($result)?)>,)*
        }

        $crate::driver::symbols::symbols!(@names $vis $names { $($field($($arg),*) $(-> $result)?;)* });

        impl $table {
            /// Finds those that are there.
            ///
            /// # Safety
            ///
            /// What `lookup` finds by a name is the function that the vendor documents by it, and stays loaded.
            $vis unsafe fn find(names: &$names, lookup: $crate::driver::symbols::Lookup<'_>) -> $table {
                $table {
                    // SAFETY: the caller vouches for it.
                    $($field: unsafe { $crate::driver::symbols::find(names.$field, lookup) },)*
                }
            }
        }
    };
    ($(#[$doc:meta])* $vis:vis $table:ident, $names:ident {
        $($field:ident($($arg:ty),*) $(-> $result:ty)?;)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        $vis struct $table {
            $($vis $field: $crate::driver::symbols::symbols!(@symbol ($($arg),*) $($result)?),)*
        }

        $crate::driver::symbols::symbols!(@names $vis $names { $($field($($arg),*) $(-> $result)?;)* });

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
                use $crate::driver::symbols::{find, missing};
                Ok($table {
                    $($field: {
                        // SAFETY: the caller vouches for it.
                        let found = unsafe { find(names.$field, lookup) };
                        found.ok_or_else(|| missing(names.$field))?
                    },)*
                })
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
