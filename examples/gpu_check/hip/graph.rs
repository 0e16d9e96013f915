//! Graphs, by HIP's own calls.

use super::{
    Amd,
    library::{call, check},
};
use crate::graph::{BYTES, Graphs, Outcome, Plan};
use std::{
    ffi::{c_int, c_uint, c_void},
    ptr::null_mut,
};

type Place = *mut *mut c_void;
type Of = unsafe extern "C" fn(*mut c_void) -> c_int;

/// `hipStreamNonBlocking`, `hipStreamCaptureModeGlobal`.
const NON_BLOCKING: c_uint = 1;
const GLOBAL: c_int = 0;

struct Calls {
    stream: unsafe extern "C" fn(Place, c_uint) -> c_int,
    begin: unsafe extern "C" fn(*mut c_void, c_int) -> c_int,
    end: unsafe extern "C" fn(*mut c_void, Place) -> c_int,
    instantiate: unsafe extern "C" fn(Place, *mut c_void, u64) -> c_int,
    launch: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
    synchronize: Of,
    destroy_stream: Of,
    destroy: Of,
    destroy_instance: Of,
}

impl Graphs for Amd {
    fn run(&self, plan: &Plan<'_>) -> Outcome {
        let library = &self.calls.library;
        let calls = Calls {
            stream: call!(library, "hipStreamCreateWithFlags"),
            begin: call!(library, "hipStreamBeginCapture"),
            end: call!(library, "hipStreamEndCapture"),
            instantiate: call!(library, "hipGraphInstantiateWithFlags"),
            launch: call!(library, "hipGraphLaunch"),
            synchronize: call!(library, "hipStreamSynchronize"),
            destroy_stream: call!(library, "hipStreamDestroy"),
            destroy: call!(library, "hipGraphDestroy"),
            destroy_instance: call!(library, "hipGraphExecDestroy"),
        };
        self.calls.set_device(self.ordinal)?;
        let mut stream = null_mut();
        // SAFETY: `stream` is where the handle goes.
        check("hipStreamCreateWithFlags", unsafe { (calls.stream)(&mut stream, NON_BLOCKING) })?;
        for capture in 1..=plan.captures {
            let launches = if capture == plan.captures { plan.launches } else { 0 };
            self.once(&calls, stream, plan, launches)?;
        }
        // SAFETY: the stream was made above, and nobody else has it.
        Ok(check("hipStreamDestroy", unsafe { (calls.destroy_stream)(stream) })?)
    }
}

impl Amd {
    fn once(&self, calls: &Calls, stream: *mut c_void, plan: &Plan<'_>, launches: u32) -> Outcome {
        let (mut graph, mut instance) = (null_mut(), null_mut());
        // SAFETY: the stream lives.
        check("hipStreamBeginCapture", unsafe { (calls.begin)(stream, GLOBAL) })?;
        for array in plan.arrays {
            let params = [array.as_raw(), BYTES / 4];
            // SAFETY: the kernel takes these; the arrays stay where they are while the graph lives.
            unsafe { self.calls.launch(self.add_one, (256, 256), stream, &params) }?;
        }
        (plan.meanwhile)();
        // SAFETY: `graph` is where the handle goes.
        check("hipStreamEndCapture", unsafe { (calls.end)(stream, &mut graph) })?;
        // SAFETY: `instance` is where the handle goes; there are no flags.
        check("hipGraphInstantiateWithFlags", unsafe { (calls.instantiate)(&mut instance, graph, 0) })?;
        for _ in 0..launches {
            // SAFETY: both live.
            check("hipGraphLaunch", unsafe { (calls.launch)(instance, stream) })?;
        }
        // SAFETY: the stream lives.
        check("hipStreamSynchronize", unsafe { (calls.synchronize)(stream) })?;
        // SAFETY: its launches are over.
        check("hipGraphExecDestroy", unsafe { (calls.destroy_instance)(instance) })?;
        // SAFETY: it was made above.
        Ok(check("hipGraphDestroy", unsafe { (calls.destroy)(graph) })?)
    }
}
