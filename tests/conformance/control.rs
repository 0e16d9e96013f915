//! The calls by which a test steers a simulated library that this process has open.

use std::{
    ffi::{CString, c_char, c_int, c_void},
    time::Duration,
};

unsafe extern "C" {
    fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

const NOW: c_int = 2;

/// A simulated library.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    library: usize,
}

impl Control {
    /// The library by the name that its backend opens it by; none if it is not there.
    pub fn open(file: &str) -> Option<Control> {
        let file = CString::new(file).expect("a file's name");
        // SAFETY: the name is that of a simulated library, whose initialisers do nothing.
        let library = unsafe { dlopen(file.as_ptr(), NOW) };
        (!library.is_null()).then(|| Control { library: library.expose_provenance() })
    }

    fn symbol(self, name: &str) -> *mut c_void {
        let text = CString::new(name).expect("a symbol's name");
        // SAFETY: the library is open, and is never closed.
        let found = unsafe { dlsym(std::ptr::with_exposed_provenance_mut(self.library), text.as_ptr()) };
        assert!(!found.is_null(), "the simulated library has no {name}");
        found
    }

    /// Keeps a stream of the current context busy.
    pub fn spin(self, stream: *mut c_void, time: Duration) {
        let found = self.symbol("tack_sim_spin");
        // SAFETY: this is its signature.
        let spin = unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void, u64) -> c_int>(found)
        };
        // SAFETY: the library checks the stream.
        let code = unsafe { spin(stream, time.as_nanos() as u64) };
        assert_eq!(code, 0, "the stream takes no more");
    }

    fn number(self, name: &str) -> u64 {
        let found = self.symbol(name);
        // SAFETY: this is its signature.
        let number = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> u64>(found) };
        // SAFETY: it takes no argument.
        unsafe { number() }
    }

    /// How much is open, or was when its context was given up.
    pub fn open_handles(self) -> u64 {
        self.number("tack_sim_open")
    }

    /// How many contexts are held.
    pub fn held_contexts(self) -> u64 {
        self.number("tack_sim_held")
    }
}
