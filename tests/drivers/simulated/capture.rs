//! Streams that are captured, the graphs that come of it, and the calls that a capture forbids.
//!
//! A capture takes kernels alone here: whatever else is queued on its stream spoils it.

use super::{
    code::{self, Answer},
    kernels::{Kernel, Params, Values},
    outlet::Outlet,
    state::{Library, State},
    stream,
};
use std::{
    cell::Cell,
    ffi::c_int,
    sync::Arc,
    thread::{self, ThreadId},
};

/// A stream's capture.
#[derive(Debug)]
pub struct Capture {
    by: ThreadId,
    mode: c_int,
    is_spoilt: bool,
    launches: Launches,
}

/// What a graph launches, in order.
pub type Launches = Vec<(Kernel, Values)>;

const GLOBAL: c_int = 0;
const RELAXED: c_int = 2;

/// Calls that queue nothing on a stream, so that a capture would not notice them. "Stream Management",
/// cuThreadExchangeStreamCaptureMode, names cudaMalloc among the "potentially unsafe"; that the look at an event is one is
/// what pull request 104487 of PyTorch is about. The others are as little ordered.
const UNSAFE: [&str; 18] = [
    "cuCtxSynchronize",
    "hipDeviceSynchronize",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuEventQuery",
    "cuStreamSynchronize",
    "cuMemPoolCreate",
    "cuMemPoolTrimTo",
    "cuModuleLoadData",
    "hipMalloc",
    "hipFree",
    "hipHostMalloc",
    "hipHostFree",
    "hipEventQuery",
    "hipStreamSynchronize",
    "hipModuleLoadData",
];

thread_local! {
    /// "Stream Management", cuThreadExchangeStreamCaptureMode: each thread's; GLOBAL by default.
    static MODE: Cell<c_int> = const { Cell::new(GLOBAL) };
}

/// Exchanges the thread's mode with that which is there. INVALID_VALUE for one that does not exist.
pub fn exchange_mode(mode: &Outlet<c_int>) -> Answer {
    let new = mode.get()?;
    if !(GLOBAL..=RELAXED).contains(&new) {
        return Err(code::INVALID_VALUE);
    }
    mode.put(MODE.replace(new))
}

impl State {
    /// "Stream Management", cuThreadExchangeStreamCaptureMode: an unsafe call is prohibited to a thread with a capture of its
    /// own that is not relaxed, and by another thread's that is global, unless this thread's mode says otherwise. It spoils
    /// the capture.
    pub fn check_captures(&mut self, call: &str) -> Answer {
        let (mode, caller) = (MODE.get(), thread::current().id());
        if mode == RELAXED || !UNSAFE.contains(&call) {
            return Ok(());
        }
        let forbids = |capture: &Capture| match capture.by == caller {
            true => capture.mode != RELAXED,
            false => capture.mode == GLOBAL && mode == GLOBAL,
        };
        let mut answer = Ok(());
        for capture in self.captures.values_mut().filter(|capture| forbids(capture)) {
            capture.is_spoilt = true;
            answer = Err(code::CAPTURE_UNSUPPORTED);
        }
        answer
    }

    /// "Graph Management": what cannot be captured spoils the capture of its stream.
    pub fn check_captured(&mut self, stream: usize) -> Answer {
        self.captures.get_mut(&stream).map_or(Ok(()), |capture| {
            capture.is_spoilt = true;
            Err(code::CAPTURE_UNSUPPORTED)
        })
    }

    /// As [`check_captured`](State::check_captured), of every stream.
    pub fn check_all_captured(&mut self) -> Answer {
        let streams: Vec<usize> = self.captures.keys().copied().collect();
        let spoilt: Vec<Answer> = streams.into_iter().map(|stream| self.check_captured(stream)).collect();
        spoilt.into_iter().collect()
    }

    /// Takes a launch into the capture of its stream; false if there is none.
    pub fn capture(&mut self, stream: usize, kernel: Kernel, params: &Params) -> bool {
        let capture = self.captures.get_mut(&stream);
        capture.map(|capture| capture.launches.push((kernel, params.values(kernel)))).is_some()
    }
}

/// "Stream Management", cuStreamBeginCapture: not of the default stream; ILLEGAL_STATE for one that is captured already.
pub fn begin(library: &Library, stream: usize, mode: c_int) -> Answer {
    let (mut state, here) = library.enter()?;
    if stream == 0 {
        return Err(code::CAPTURE_UNSUPPORTED);
    }
    if state.captures.contains_key(&stream) {
        return Err(code::ILLEGAL_STATE);
    }
    state.queue(&here, stream)?;
    let capture = Capture { by: thread::current().id(), mode, is_spoilt: false, launches: Vec::new() };
    state.captures.insert(stream, capture);
    Ok(())
}

/// "Stream Management", cuStreamEndCapture: by the thread that began it, unless it is relaxed; no graph comes of one that was
/// spoilt.
pub fn end(library: &Library, stream: usize, to: &Outlet<usize>) -> Answer {
    let (mut state, _here) = library.enter()?;
    let capture = state.captures.get(&stream).ok_or(code::ILLEGAL_STATE)?;
    if capture.mode != RELAXED && capture.by != thread::current().id() {
        return Err(code::CAPTURE_WRONG_THREAD);
    }
    let Some(capture) = state.captures.remove(&stream).filter(|capture| !capture.is_spoilt) else {
        to.put(0)?;
        return Err(code::CAPTURE_INVALIDATED);
    };
    let graph = state.graphs.add(Arc::new(capture.launches));
    to.put(graph)
}

/// "Graph Management", cuGraphInstantiate: an executable graph is one of its own. No flags are known here.
pub fn instantiate(library: &Library, to: &Outlet<usize>, graph: usize, flags: u64) -> Answer {
    let (mut state, _here) = library.enter()?;
    if flags != 0 {
        return Err(code::INVALID_VALUE);
    }
    let launches = state.graphs.get(graph)?.clone();
    let made = state.graphs.add(launches);
    to.put(made)
}

/// "Graph Management", cuGraphLaunch: in the stream's order.
pub fn launch(library: &Library, graph: usize, stream: usize) -> Answer {
    let (state, _here) = library.enter()?;
    let launches = state.graphs.get(graph)?.clone();
    drop(state);
    launches.iter().try_for_each(|(kernel, values)| {
        stream::launch(library, stream, values.launch(*kernel).labelled("graph"))
    })
}

/// Gives a graph up, of either kind.
pub fn destroy(library: &Library, graph: usize) -> Answer {
    library.lock().graphs.remove(graph).map(drop)
}
