//! Pinned host memory.

use super::{
    block::Block,
    code::{self, Answer},
    outlet::Outlet,
    state::{Library, State},
};
use crate::VENDOR;
use std::ffi::{c_uint, c_void};

impl State {
    /// Whether a range of host memory is pinned. "API synchronization behavior": copies with pinned memory are
    /// asynchronous, those with pageable memory are not. A range that runs past its block's end is refused.
    pub fn is_pinned(&self, start: usize, bytes: usize) -> Answer<bool> {
        let Some((first, block)) = self.pinned.range(..start.saturating_add(bytes)).next_back() else {
            return Ok(false);
        };
        let end = first + block.bytes();
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
    let start = block.start();
    state.pinned.insert(start.addr(), block);
    to.put(start)
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
