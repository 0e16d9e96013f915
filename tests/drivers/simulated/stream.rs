//! Streams: each is a queue of its device's.

use super::{
    code::{self, Answer},
    device::finish,
    outlet::Outlet,
    state::{Here, Library, State},
};
use std::{
    cell::Cell,
    ffi::{c_uint, c_void},
    time::Duration,
};
use tack_residency::driver::{Driver, HostKernel, QueueId};

/// A stream of a context.
#[derive(Debug)]
pub struct Stream {
    pub context: usize,
    pub queue: QueueId,
}

/// Does not wait for the default stream. Nor do the others here: less is in order than in a real driver, never more.
const NON_BLOCKING: c_uint = 1;

impl State {
    /// A stream's queue. "Stream Management": INVALID_HANDLE for what is no stream, or another context's.
    pub fn queue(&mut self, here: &Here, stream: usize) -> Answer<QueueId> {
        self.check_captured(stream)?;
        if stream != 0 {
            let stream = self.streams.get(stream)?;
            return (stream.context == here.context).then_some(stream.queue).ok_or(code::INVALID_HANDLE);
        }
        if let Some(queue) = self.contexts.get(here.context)?.default {
            return Ok(queue);
        }
        let queue = self.device(here.device)?.take_queue()?;
        self.contexts.get_mut(here.context)?.default = Some(queue);
        Ok(queue)
    }
}

/// "Stream Management", cuStreamCreate: INVALID_VALUE for flags that it does not know.
pub fn create(library: &Library, to: &Outlet<usize>, flags: c_uint) -> Answer {
    let (mut state, here) = library.enter()?;
    if flags & !NON_BLOCKING != 0 {
        return Err(code::INVALID_VALUE);
    }
    let queue = state.device(here.device)?.take_queue()?;
    let stream = state.streams.add(Stream { context: here.context, queue });
    to.put(stream)
}

/// "Stream Management", cuStreamDestroy: returns at once; what the stream has queued runs to its end.
pub fn destroy(library: &Library, stream: usize) -> Answer {
    let (mut state, here) = library.enter()?;
    let Stream { queue, .. } = state.streams.remove(stream)?;
    state.device(here.device)?.give_queue(queue)
}

pub fn synchronize(library: &Library, stream: usize) -> Answer {
    let (mut state, here) = library.enter()?;
    let queue = state.queue(&here, stream)?;
    drop(state);
    finish(&here.sim, queue)?;
    library.lock().release_beyond_thresholds(&here);
    Ok(())
}

/// "Context Management", cuCtxSynchronize: waits for all that the context's streams have queued. "CUDA Programming Guide", on
/// graphs, prohibited operations: no device or context is synchronised while a stream of it is captured; it spoils that.
pub fn synchronize_all(library: &Library) -> Answer {
    let (mut state, here) = library.enter()?;
    state.check_all_captured()?;
    let of_context = state.streams.iter().filter(|(_, stream)| stream.context == here.context);
    let queues: Vec<QueueId> = of_context.map(|(_, stream)| stream.queue).collect();
    let default = state.contexts.get(here.context)?.default;
    drop(state);
    queues.into_iter().chain(default).try_for_each(|queue| finish(&here.sim, queue))
}

/// What a stream calls on the host.
pub type HostFunction = Option<unsafe extern "C" fn(*mut c_void)>;

thread_local! {
    static IS_RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is within a host function.
pub fn is_host_function_running() -> bool {
    IS_RUNNING.get()
}

struct Given(*mut c_void);

// SAFETY: who queues a host function lets it have its argument on whichever thread it runs.
unsafe impl Send for Given {}

impl Given {
    fn pass_to(self, function: unsafe extern "C" fn(*mut c_void)) {
        IS_RUNNING.set(true);
        // SAFETY: the function and its argument were queued together.
        unsafe { function(self.0) };
        IS_RUNNING.set(false);
    }
}

/// "Execution Control", cuLaunchHostFunc: runs once all before it in the stream has, and before all behind it; not at all
/// after an error.
pub fn host_function(library: &Library, stream: usize, function: HostFunction, given: *mut c_void) -> Answer {
    let function = function.ok_or(code::INVALID_VALUE)?;
    let given = Given(given);
    let kernel = HostKernel::new(Duration::ZERO, move |_| given.pass_to(function));
    launch(library, stream, kernel.labelled("host function"))
}

/// Queues a kernel. Waits while the device has as many as it takes, without the state.
pub fn launch(library: &Library, stream: usize, kernel: HostKernel) -> Answer {
    let (mut state, here) = library.enter()?;
    let queue = state.queue(&here, stream)?;
    drop(state);
    here.sim.launch_host(queue, kernel).map_err(|error| code::of(&error))
}
