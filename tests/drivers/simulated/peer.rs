//! Copies from one device's memory to another's, in the order of a stream of the first.

use super::{
    code::{self, Answer},
    device::{finish, is_lost},
    state::{Library, State},
};
use std::{sync::Arc, time::Duration};
use tack_residency::driver::{ArgAccess, DevicePtr, Driver, HostKernel, QueueId, sim::Sim};

impl State {
    /// The device of a context. "Memory Management", cuMemcpyPeerAsync: INVALID_CONTEXT for what is none.
    fn device_of(&self, context: usize) -> Answer<usize> {
        let known = self.contexts.get(context).map_err(|_| code::INVALID_CONTEXT)?;
        if known.held > 0 { Ok(known.device) } else { Err(code::CONTEXT_IS_DESTROYED) }
    }

    /// "Memory Management", cuMemcpyPeerAsync: each address is of memory in the context that is named with it; INVALID_VALUE
    /// where it is not.
    fn check_range_in(&self, context: usize, ptr: u64, bytes: usize) -> Answer {
        self.check_range(ptr, bytes)?;
        let below = self.allocations.range(..=DevicePtr::from_raw(ptr)).next_back();
        below.filter(|(_, held)| held.context == context).map(drop).ok_or(code::INVALID_VALUE)
    }
}

/// "Memory Management", cuMemcpyPeerAsync: asynchronous, in its stream's order and in none of the other device's. The manual
/// does not say whose stream it takes: here it is one of the device that is copied from.
pub fn copy(
    library: &Library,
    (to, to_context): (u64, usize),
    (from, from_context): (u64, usize),
    bytes: usize,
    stream: usize,
) -> Answer {
    let (mut state, here) = library.enter()?;
    let queue = state.queue(&here, stream)?;
    let (device, peer) = (state.device_of(from_context)?, state.device_of(to_context)?);
    if device != here.device {
        return Err(code::NOT_SUPPORTED);
    }
    if bytes == 0 {
        return Ok(());
    }
    state.check_range_in(from_context, from, bytes)?;
    state.check_range_in(to_context, to, bytes)?;
    let peer = state.device(peer)?;
    let (sim, arrivals) = (Arc::clone(&peer.sim), peer.arrivals);
    drop(state);
    if is_lost(&sim) {
        return Err(code::ILLEGAL_ADDRESS);
    }
    let kernel = HostKernel::new(Duration::ZERO, move |args| arrive(&sim, arrivals, to, args[0].bytes()));
    let kernel = kernel.labelled("copy to a peer");
    let kernel = kernel.arg(DevicePtr::from_raw(from), bytes as u64, ArgAccess::Read);
    here.sim.launch_host(queue, kernel).map_err(|error| code::of(&error))
}

/// Writes what has come into the other device's memory. If that is freed by then, its device faults, as with any kernel.
fn arrive(sim: &Sim, arrivals: QueueId, to: u64, bytes: &[u8]) {
    let (staged, count) = (bytes.to_vec(), bytes.len() as u64);
    let kernel = HostKernel::new(Duration::ZERO, move |args| args[0].bytes_mut().copy_from_slice(&staged));
    let kernel = kernel.labelled("copy from a peer").arg(DevicePtr::from_raw(to), count, ArgAccess::Write);
    // Refused, that device is lost, which its own calls say.
    if sim.launch_host(arrivals, kernel).is_ok() {
        let _ = finish(sim, arrivals);
    }
}
