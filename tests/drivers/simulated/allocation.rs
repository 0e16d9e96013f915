//! Device memory: by plain calls, which wait, or from a pool in a stream's order.

use super::{
    code::{self, Answer},
    device::finish,
    outlet::Outlet,
    state::{Here, Library, State},
};
use tack_residency::driver::{DevicePtr, Driver};

/// What a call has allocated, until a call frees it.
#[derive(Debug)]
pub struct Allocation {
    pub context: usize,
    pub bytes: u64,
    /// The pool it is from; none by a plain call.
    pub pool: Option<usize>,
}

/// A handle of device memory for other processes: cuda.h's CUipcMemHandle, HIP's hipIpcMemHandle_t.
pub type Ipc = [u8; 64];

impl State {
    fn allocation(&self, ptr: u64) -> Answer<&Allocation> {
        self.allocations.get(&DevicePtr::from_raw(ptr)).ok_or(code::INVALID_VALUE)
    }

    /// "Memory Management": INVALID_VALUE for copies and fills of what no allocation of this device has. What lies in one,
    /// and is wrong for another reason, faults on the device.
    pub fn check_range(&self, ptr: u64, bytes: usize) -> Answer {
        let below = self.allocations.range(..=DevicePtr::from_raw(ptr)).next_back();
        let (start, held) = below.ok_or(code::INVALID_VALUE)?;
        let fits = (ptr - start.as_raw()).checked_add(bytes as u64).is_some_and(|end| end <= held.bytes);
        if fits { Ok(()) } else { Err(code::INVALID_VALUE) }
    }

    fn add(&mut self, here: &Here, ptr: DevicePtr, bytes: usize, pool: Option<usize>) {
        self.allocations.insert(ptr, Allocation { context: here.context, bytes: bytes as u64, pool });
    }
}

/// "Memory Management", cuMemAlloc: INVALID_VALUE for no bytes. The memory may be used by every stream at once.
pub fn allocate(library: &Library, to: &Outlet<u64>, bytes: usize) -> Answer {
    let (mut state, here) = library.enter()?;
    if bytes == 0 {
        return Err(code::INVALID_VALUE);
    }
    state.release_orphaned(&here);
    let own = state.device(here.device)?.own;
    let ptr = here.sim.allocate(own, bytes as u64).map_err(|error| code::of(&error))?;
    finish(&here.sim, own)?;
    state.add(&here, ptr, bytes, None);
    to.put(ptr.as_raw())
}

/// "Memory Management", cuMemFree; "API synchronization behavior": waits for all that the device has. INVALID_VALUE for
/// what no call has allocated, or one has freed.
pub fn free(library: &Library, ptr: u64) -> Answer {
    let (mut state, here) = library.enter()?;
    // "Memory Management", cuMemFree: a null address is freed without effect.
    if ptr == 0 {
        return Ok(());
    }
    state.allocation(ptr)?;
    let device = state.device(here.device)?;
    let (own, idle) = (device.own, device.idle());
    let ptr = DevicePtr::from_raw(ptr);
    let gone = state.allocations.remove(&ptr).ok_or(code::INVALID_VALUE)?;
    drop(state);
    idle()?;
    here.sim.free(own, ptr).map_err(|error| code::of(&error))?;
    if gone.pool.is_none() {
        // What was no pool's is the device's again.
        here.sim.trim().map_err(|error| code::of(&error))?;
    }
    Ok(())
}

/// "Stream Ordered Memory Allocator", cuMemAllocFromPoolAsync: to be used behind this call in the stream's order. Which
/// freed memory may serve it is the simulated device's to say, which never orders one stream behind another by itself.
pub fn allocate_from_pool(
    library: &Library,
    to: &Outlet<u64>,
    bytes: usize,
    pool: usize,
    stream: usize,
) -> Answer {
    let (mut state, here) = library.enter()?;
    if bytes == 0 {
        return Err(code::INVALID_VALUE);
    }
    let known = state.pools.get(pool)?;
    if known.destroyed || known.device != here.device {
        return Err(code::INVALID_VALUE);
    }
    state.release_orphaned(&here);
    let queue = state.queue(&here, stream)?;
    let ptr = here.sim.allocate(queue, bytes as u64).map_err(|error| code::of(&error))?;
    state.add(&here, ptr, bytes, Some(pool));
    to.put(ptr.as_raw())
}

/// "Stream Ordered Memory Allocator", cuMemFreeAsync: freed in the stream's order; use that is not before it in that order
/// loses the device. INVALID_VALUE for what no call has allocated, or one has freed.
pub fn free_async(library: &Library, ptr: u64, stream: usize) -> Answer {
    let (mut state, here) = library.enter()?;
    state.allocation(ptr)?;
    let queue = state.queue(&here, stream)?;
    let ptr = DevicePtr::from_raw(ptr);
    here.sim.free(queue, ptr).map_err(|error| code::of(&error))?;
    state.allocations.remove(&ptr);
    state.forget_empty_pools();
    Ok(())
}

pub fn memory_info(library: &Library, free: &Outlet<usize>, total: &Outlet<usize>) -> Answer {
    let (state, here) = library.enter()?;
    state.release_orphaned(&here);
    let memory = here.sim.memory();
    free.put(memory.free.unwrap_or(0) as usize)?;
    total.put(memory.total.unwrap_or(0) as usize)
}

/// "Memory Management", cuIpcGetMemHandle; "Stream Ordered Memory Allocator": memory from a pool has no such handle.
pub fn ipc_handle(library: &Library, to: &Outlet<Ipc>, ptr: u64) -> Answer {
    let (state, _here) = library.enter()?;
    if state.allocation(ptr)?.pool.is_some() {
        return Err(code::INVALID_VALUE);
    }
    let mut handle = [0; 64];
    handle[..8].copy_from_slice(&ptr.to_le_bytes());
    to.put(handle)
}
