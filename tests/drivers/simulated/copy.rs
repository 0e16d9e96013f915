//! Copies and fills, in a stream's order.

use super::{
    code::{self, Answer},
    device::finish,
    outlet::HostPlace,
    state::Library,
};
use std::time::Duration;
use tack_residency::driver::{ArgAccess, DevicePtr, Driver, HostKernel};

/// "Memory Management", cuMemcpyDtoHAsync; "API synchronization behavior": with pageable memory it returns when the copy has
/// run.
pub fn copy_out(library: &Library, to: HostPlace, from: u64, bytes: usize, stream: usize) -> Answer {
    let (mut state, here) = library.enter()?;
    let queue = state.queue(&here, stream)?;
    if bytes == 0 {
        return Ok(());
    }
    state.check_range(from, bytes)?;
    let pinned = state.is_pinned(to.addr(), bytes)?;
    drop(state);
    let kernel = HostKernel::new(Duration::ZERO, move |args| to.write(args[0].bytes())).labelled("copy out");
    let kernel = kernel.arg(DevicePtr::from_raw(from), bytes as u64, ArgAccess::Read);
    here.sim.launch_host(queue, kernel).map_err(|error| code::of(&error))?;
    if pinned { Ok(()) } else { finish(&here.sim, queue) }
}

/// "Memory Management", cuMemcpyHtoDAsync; "API synchronization behavior": pageable memory is read once the stream has run
/// out, and when this returns; the copy from there may be under way still.
pub fn copy_in(library: &Library, to: u64, from: HostPlace, bytes: usize, stream: usize) -> Answer {
    let (mut state, here) = library.enter()?;
    let queue = state.queue(&here, stream)?;
    if bytes == 0 {
        return Ok(());
    }
    state.check_range(to, bytes)?;
    let pinned = state.is_pinned(from.addr(), bytes)?;
    drop(state);
    let kernel = if pinned {
        HostKernel::new(Duration::ZERO, move |args| from.read(args[0].bytes_mut()))
    } else {
        finish(&here.sim, queue)?;
        let mut staged = vec![0; bytes];
        from.read(&mut staged);
        HostKernel::new(Duration::ZERO, move |args| args[0].bytes_mut().copy_from_slice(&staged))
    };
    let kernel = kernel.labelled("copy in").arg(DevicePtr::from_raw(to), bytes as u64, ArgAccess::Write);
    here.sim.launch_host(queue, kernel).map_err(|error| code::of(&error))
}

/// "Memory Management", cuMemcpyDtoDAsync: INVALID_VALUE for ranges that overlap, which the vendor leaves undefined.
pub fn copy(library: &Library, to: u64, from: u64, bytes: usize, stream: usize) -> Answer {
    let (mut state, here) = library.enter()?;
    let queue = state.queue(&here, stream)?;
    if bytes == 0 {
        return Ok(());
    }
    state.check_range(to, bytes)?;
    state.check_range(from, bytes)?;
    drop(state);
    let [from, to] = [from, to].map(DevicePtr::from_raw);
    here.sim.copy(queue, from, to, bytes as u64).map_err(|error| code::of(&error))
}

/// "Memory Management", cuMemsetD8Async.
pub fn fill(library: &Library, to: u64, value: u8, bytes: usize, stream: usize) -> Answer {
    let (mut state, here) = library.enter()?;
    let queue = state.queue(&here, stream)?;
    if bytes == 0 {
        return Ok(());
    }
    state.check_range(to, bytes)?;
    drop(state);
    here.sim.fill(queue, DevicePtr::from_raw(to), bytes as u64, value).map_err(|error| code::of(&error))
}
