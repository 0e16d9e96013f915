//! Contexts: held, and given up with all that is in them.

use super::{
    code::{self, Answer},
    device::is_lost,
    state::{Library, State},
};
use crate::VENDOR;
use std::sync::Arc;
use tack_residency::driver::{DevicePtr, Driver, QueueId};

/// A context: the primary one of its device, whose handle is always the same, or another.
#[derive(Debug)]
pub struct Context {
    pub device: usize,
    pub primary: bool,
    /// How often it is held. The primary one is there, and of no use, while nobody holds it.
    pub held: u32,
    /// The stream that is named by a null handle.
    pub default: Option<QueueId>,
}

impl Context {
    pub fn new(device: usize, primary: bool) -> Context {
        Context { device, primary, held: 0, default: None }
    }
}

/// "Primary Context Management", cuDevicePrimaryCtxRelease: with the last hold goes all that is in the context, once it
/// has run. What the program had not given up is noted, unless the device is lost.
pub fn release(library: &Library, context: usize) -> Answer {
    let _turn = library.turn_of_contexts();
    let mut state = library.lock();
    let known = state.contexts.get_mut(context)?;
    known.held = known.held.checked_sub(1).ok_or(code::INVALID_CONTEXT)?;
    if known.held > 0 {
        return Ok(());
    }
    let device = known.device;
    let idle = state.device(device)?.idle();
    drop(state);
    // A lost device has nothing to wait for.
    let _ = idle();
    let gone = library.lock().end(context, device);
    gone.map(drop)
}

impl State {
    pub fn hold(&mut self, context: usize) -> Answer {
        let known = self.contexts.get_mut(context)?;
        known.held += 1;
        let device = known.device;
        self.device(device).map(drop)
    }

    /// Takes all that is in a context, to be dropped without the state.
    fn end(&mut self, context: usize, device: usize) -> Answer<impl Sized + use<>> {
        let (sim, own) = self.device(device).map(|device| (Arc::clone(&device.sim), device.own))?;
        if !is_lost(&sim) {
            let left = self.open_in(|within| within == context);
            self.abandoned.add(&left);
        }
        let known = self.contexts.get_mut(context)?;
        let default = known.default.take();
        if !known.primary {
            self.contexts.remove(context)?;
        }
        let streams = self.streams.take(|stream| stream.context == context);
        for queue in streams.into_iter().map(|stream| stream.queue).chain(default) {
            let _ = self.device(device)?.give_queue(queue);
        }
        self.events.take(|event| event.context == context);
        self.modules.take(|module| module.context == context);
        let within = |context_of: usize| context_of == context;
        let lost: Vec<DevicePtr> =
            self.allocations.iter().filter(|(_, held)| within(held.context)).map(|(ptr, _)| *ptr).collect();
        for ptr in lost {
            let _ = sim.free(own, ptr);
            self.allocations.remove(&ptr);
        }
        let pinned: Vec<usize> =
            self.pinned.iter().filter(|(_, block)| within(block.context)).map(|(start, _)| *start).collect();
        let pinned: Vec<_> = pinned.iter().filter_map(|start| self.pinned.remove(start)).collect();
        let mut others = self.contexts.iter();
        let is_used = others.any(|(_, context)| context.held > 0 && context.device == device);
        if is_used {
            return Ok((pinned, None));
        }
        let pools = self.pools.take(|pool| pool.device == device);
        self.abandoned.pools += pools.iter().filter(|_| !VENDOR.implicit).count();
        Ok((pinned, self.devices.get_mut(device).and_then(Option::take)))
    }
}
