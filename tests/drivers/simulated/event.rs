//! Events: each stands for the fence it was last recorded as.

use super::{
    code::{self, Answer},
    outlet::Outlet,
    state::{Here, Library, State},
};
use std::ffi::c_uint;
use tack_residency::driver::{Driver, Fence};

/// An event of a context.
#[derive(Debug)]
pub struct Event {
    pub context: usize,
    pub fence: Option<Fence>,
}

impl State {
    /// An event of this context.
    fn event(&mut self, here: &Here, event: usize) -> Answer<&mut Event> {
        let event = self.events.get_mut(event)?;
        if event.context == here.context { Ok(event) } else { Err(code::INVALID_HANDLE) }
    }
}

/// CU_EVENT_BLOCKING_SYNC, CU_EVENT_DISABLE_TIMING. Events for other processes are not simulated.
const FLAGS: c_uint = 1 | 2;

/// "Event Management", cuEventCreate: INVALID_VALUE for flags that it does not know.
pub fn create(library: &Library, to: &Outlet<usize>, flags: c_uint) -> Answer {
    let (mut state, here) = library.enter()?;
    if flags & !FLAGS != 0 {
        return Err(code::INVALID_VALUE);
    }
    let event = state.events.add(Event { context: here.context, fence: None });
    to.put(event)
}

/// "Event Management", cuEventDestroy: may be called before the event has passed; who waits for it still does.
pub fn destroy(library: &Library, event: usize) -> Answer {
    let (mut state, here) = library.enter()?;
    state.event(&here, event)?;
    if let Some(fence) = state.events.remove(event)?.fence {
        here.sim.retire(fence);
    }
    Ok(())
}

/// "Event Management", cuEventRecord: event and stream must be of one context. A later record takes the place of an
/// earlier one for what is asked from then on, and not for the waits that were queued before.
pub fn record(library: &Library, event: usize, stream: usize) -> Answer {
    let (mut state, here) = library.enter()?;
    let queue = state.queue(&here, stream)?;
    let event = state.event(&here, event)?;
    let fence = here.sim.record(queue).map_err(|error| code::of(&error))?;
    if let Some(before) = event.fence.replace(fence) {
        here.sim.retire(before);
    }
    Ok(())
}

/// "Event Management", cuEventQuery: success if the event was never recorded.
pub fn query(library: &Library, event: usize) -> Answer {
    let (mut state, here) = library.enter()?;
    let Some(fence) = state.event(&here, event)?.fence else { return Ok(()) };
    match here.sim.is_passed(fence).map_err(|error| code::of(&error))? {
        true => Ok(()),
        false => Err(code::NOT_READY),
    }
}

/// "Stream Management", cuStreamWaitEvent: waits for what the event was last recorded as when this is called; does
/// nothing if it never was.
pub fn wait(library: &Library, stream: usize, event: usize, flags: c_uint) -> Answer {
    let (mut state, here) = library.enter()?;
    if flags != 0 {
        return Err(code::INVALID_VALUE);
    }
    let queue = state.queue(&here, stream)?;
    let Some(fence) = state.event(&here, event)?.fence else { return Ok(()) };
    here.sim.wait(queue, fence).map_err(|error| code::of(&error))
}
