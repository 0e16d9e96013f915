//! Graphs, as cudarc has them.

use super::Gpu;
use crate::graph::{BYTES, Graphs, linger};
use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use std::error::Error;
use tack_residency::driver::DevicePtr;

impl Graphs for Gpu {
    fn capture_and_launch(
        &self,
        arrays: &[DevicePtr],
        captures: u32,
        launches: u32,
    ) -> Result<(), Box<dyn Error>> {
        let stream = self.context.new_stream()?;
        let mut graph = None;
        for _ in 0..captures {
            drop(graph.take());
            stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL)?;
            arrays.iter().for_each(|&array| self.add_one(&stream, array, BYTES));
            linger();
            graph = stream.end_capture(CUgraphInstantiate_flags(0))?;
        }
        let graph = graph.ok_or("nothing was captured")?;
        for _ in 0..launches {
            graph.launch()?;
        }
        Ok(stream.synchronize()?)
    }
}
