//! What a C caller hands over by its address: places for results, texts, host memory to copy.

use super::code::{self, Answer};
use std::ffi::{CStr, c_char, c_void};

/// A place for a result. The caller of the C function vouches for it, unless it is null.
#[derive(Debug)]
#[repr(transparent)]
pub struct Outlet<T>(*mut T);

impl<T> Outlet<T> {
    /// Writes the result.
    pub fn put(&self, value: T) -> Answer {
        if self.0.is_null() {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: the C function asks its caller for a place of this type.
        unsafe { self.0.write(value) };
        Ok(())
    }
}

impl<T> Outlet<T> {
    /// The place `at` places further on, for the next of a row: of a text's bytes, of what is listed.
    pub fn after(&self, at: usize) -> Outlet<T> {
        Outlet(self.0.wrapping_add(at))
    }
}

impl<T: Copy> Outlet<T> {
    /// What the caller has put there.
    pub fn get(&self) -> Answer<T> {
        if self.0.is_null() {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: the C function asks its caller for a value of this type.
        Ok(unsafe { self.0.read() })
    }
}

impl Outlet<c_void> {
    /// The place, for a value of the type that an attribute's number says.
    pub fn of<T>(&self) -> Outlet<T> {
        Outlet(self.0.cast())
    }
}

/// A text that ends with a zero.
#[derive(Debug)]
#[repr(transparent)]
pub struct Text(*const c_char);

impl Text {
    pub fn get(&self) -> Answer<String> {
        if self.0.is_null() {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: the C function asks its caller for a text that ends with a zero.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_string_lossy().into_owned())
    }
}

/// Host memory that a copy reads or writes.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct HostPlace(*mut c_void);

// SAFETY: who queues a copy keeps its memory, and everyone else from it, until it has run, on whichever thread.
unsafe impl Send for HostPlace {}

impl HostPlace {
    pub fn addr(&self) -> usize {
        self.0.addr()
    }

    pub fn write(&self, from: &[u8]) {
        // SAFETY: the copy that this is was given so many bytes there, which are its own until it has run.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), self.0.cast(), from.len()) };
    }

    pub fn read(&self, to: &mut [u8]) {
        // SAFETY: as above; nobody writes them meanwhile.
        unsafe { std::ptr::copy_nonoverlapping(self.0.cast_const().cast(), to.as_mut_ptr(), to.len()) };
    }
}
