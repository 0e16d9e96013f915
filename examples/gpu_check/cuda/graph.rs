//! Graphs, as cudarc has them.

use super::Gpu;
use crate::graph::{BYTES, Graphs, Outcome, Plan};
use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};

impl Graphs for Gpu {
    fn run(&self, plan: &Plan<'_>) -> Outcome {
        let stream = self.context.new_stream()?;
        let mut graph = None;
        for _ in 0..plan.captures {
            drop(graph.take());
            stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL)?;
            plan.arrays.iter().for_each(|&array| self.add_one(&stream, array, BYTES));
            (plan.meanwhile)();
            graph = stream.end_capture(CUgraphInstantiate_flags(0))?;
        }
        let graph = graph.ok_or("nothing was captured")?;
        for _ in 0..plan.launches {
            graph.launch()?;
        }
        Ok(stream.synchronize()?)
    }
}
