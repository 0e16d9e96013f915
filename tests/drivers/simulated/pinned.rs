//! Pinned host memory.

use super::{
    code::{self, Answer},
    outlet::Outlet,
    state::{Library, State},
};
use crate::VENDOR;
use std::{
    alloc::{Layout, alloc, dealloc},
    ffi::{c_uint, c_void},
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
    fn new(context: usize, bytes: usize) -> Option<Block> {
        let layout = Layout::from_size_align(bytes, PAGE).ok()?;
        // SAFETY: it has bytes, as its caller has checked.
        let start = NonNull::new(unsafe { alloc(layout) })?;
        // SAFETY: they were just allocated.
        unsafe { start.write_bytes(FRESH, bytes) };
        Some(Block { context, start, layout })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: it was allocated so, and is freed once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

impl State {
    /// Whether a range of host memory is pinned. "API synchronization behavior": copies with pinned memory are
    /// asynchronous, those with pageable memory are not. A range that runs past its block's end is refused.
    pub fn is_pinned(&self, start: usize, bytes: usize) -> Answer<bool> {
        let Some((first, block)) = self.pinned.range(..start.saturating_add(bytes)).next_back() else {
            return Ok(false);
        };
        let end = first + block.layout.size();
        match start >= end {
            true => Ok(false),
            false if start >= *first && start + bytes <= end => Ok(true),
            false => Err(code::INVALID_VALUE),
        }
    }
}

/// "Memory Management", cuMemHostAlloc: INVALID_VALUE for no bytes, and for flags that it does not know.
pub fn allocate(library: &Library, to: &Outlet<*mut c_void>, bytes: usize, flags: c_uint) -> Answer {
    let (mut state, here) = library.enter()?;
    if bytes == 0 || flags & !VENDOR.host_flags != 0 {
        return Err(code::INVALID_VALUE);
    }
    let block = Block::new(here.context, bytes).ok_or(code::OUT_OF_MEMORY)?;
    let start = block.start;
    state.pinned.insert(start.addr().get(), block);
    to.put(start.as_ptr().cast())
}

/// "Memory Management", cuMemFreeHost; "API synchronization behavior": waits for all that the device has. INVALID_VALUE for
/// what no call has allocated, or one has freed.
pub fn free(library: &Library, start: usize) -> Answer {
    let (mut state, _here) = library.enter()?;
    let block = state.pinned.get(&start).ok_or(code::INVALID_VALUE)?;
    let device = state.contexts.get(block.context)?.device;
    let idle = state.device(device)?.idle();
    drop(state);
    idle()?;
    library.lock().pinned.remove(&start).map(drop).ok_or(code::INVALID_VALUE)
}
