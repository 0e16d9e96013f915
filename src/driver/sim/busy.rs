//! What ran when on a simulated device, and for how long each engine was busy.

use crate::driver::Busy;
use std::time::Duration;

/// What an engine of the device does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Lane {
    /// Copies from the device to the host.
    CopyOut,
    /// Copies from the host to the device.
    CopyIn,
    /// Kernels, and copies and fills within the device.
    Compute,
}

impl Lane {
    pub(super) fn index(self) -> usize {
        self as usize
    }
}

/// One piece of work that a device did.
///
/// ```
/// use std::time::Duration;
/// use tack_residency::driver::{Driver, HostKernel, QueueRole, sim::{Config, Lane, Sim, Span, Trace}};
///
/// let device = Sim::open(Config::profile("pcie4")?.with_trace(Trace::Recorded))?;
/// let queue = device.create_queue(QueueRole::Compute)?;
/// device.launch_host(queue, HostKernel::new(Duration::from_millis(1), |_| ()).labelled("step"))?;
/// while device.advance() {}
/// let spans: Vec<Span> = device.spans();
/// assert_eq!((spans[0].lane, spans[0].label), (Lane::Compute, "step"));
/// assert_eq!(spans[0].end - spans[0].start, Duration::from_millis(1));
/// # Ok::<(), tack_residency::driver::DriverError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Span {
    /// The queue it was submitted to.
    pub queue: crate::driver::QueueId,
    /// The engine that did it.
    pub lane: Lane,
    /// What it was: the call's name, or the kernel's label.
    pub label: &'static str,
    /// Where on the device: of a copy with the host, its first byte; else the first argument's.
    pub ptr: crate::driver::DevicePtr,
    /// Bytes moved; of a kernel, the bytes of its arguments.
    pub bytes: u64,
    /// When the engine began, since the device was opened.
    pub start: Duration,
    /// When the engine was done.
    pub end: Duration,
}

/// Adds up busy times as work begins and ends.
#[derive(Debug, Default)]
pub(super) struct Meter {
    running: [u32; 3],
    since: u64,
    nanos: [u64; 6],
}

impl Meter {
    pub(super) fn begin(&mut self, lane: Lane, at: u64) {
        self.pass(at);
        self.running[lane.index()] += 1;
    }

    pub(super) fn end(&mut self, lane: Lane, at: u64) {
        self.pass(at);
        let running = &mut self.running[lane.index()];
        *running = running.saturating_sub(1);
    }

    pub(super) fn busy(&mut self, at: u64) -> Busy {
        self.pass(at);
        let [copy_out, copy_in, compute, copy, both_ways, copy_while_compute] =
            self.nanos.map(Duration::from_nanos);
        Busy { copy_out, copy_in, compute, copy, both_ways, copy_while_compute }
    }

    /// On a real clock, ends come to be known a little out of order; time never goes back here.
    fn pass(&mut self, at: u64) {
        let passed = at.saturating_sub(self.since);
        self.since = self.since.max(at);
        let [copy_out, copy_in, compute] = self.running.map(|running| running > 0);
        let copy = copy_out || copy_in;
        let at_work = [copy_out, copy_in, compute, copy, copy_out && copy_in, copy && compute];
        for (nanos, _) in self.nanos.iter_mut().zip(at_work).filter(|(_, at_work)| *at_work) {
            *nanos += passed;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_is_counted_where_both_ran() {
        let mut meter = Meter::default();
        meter.begin(Lane::Compute, 10);
        meter.begin(Lane::CopyOut, 20);
        meter.begin(Lane::CopyIn, 25);
        meter.end(Lane::Compute, 40);
        meter.end(Lane::CopyIn, 45);
        meter.end(Lane::CopyOut, 60);
        let nanos = Duration::from_nanos;
        let expected = Busy {
            copy_out: nanos(40),
            copy_in: nanos(20),
            compute: nanos(30),
            copy: nanos(40),
            both_ways: nanos(20),
            copy_while_compute: nanos(20),
        };
        assert_eq!(meter.busy(100), expected);
    }
}
