//! A block of pinned host memory.

use std::{
    alloc::{Layout, alloc, dealloc},
    ffi::c_void,
    ptr::NonNull,
};

/// A pinned block, freed when this is dropped.
#[derive(Debug)]
pub struct Block {
    pub context: usize,
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the block is the library's to free, on any thread.
unsafe impl Send for Block {}

/// What fresh pinned memory holds: nothing that a program could take for its own.
const FRESH: u8 = 0xA5;
const PAGE: usize = 4096;

impl Block {
    pub fn new(context: usize, bytes: usize) -> Option<Block> {
        let layout = Layout::from_size_align(bytes, PAGE).ok()?;
        // SAFETY: it has bytes, as its caller has checked.
        let start = NonNull::new(unsafe { alloc(layout) })?;
        // SAFETY: they were just allocated.
        unsafe { start.write_bytes(FRESH, bytes) };
        Some(Block { context, start, layout })
    }

    pub fn start(&self) -> *mut c_void {
        self.start.as_ptr().cast()
    }

    pub fn bytes(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: it was allocated so, and is freed once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}
