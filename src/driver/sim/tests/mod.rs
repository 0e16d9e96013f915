//! What a simulated device promises, by theme.

mod clocks;
mod memory;
mod misuse;
mod queues;

use super::{Clock, Config, Sim};
use crate::driver::{
    ArgAccess, DevicePtr, Driver, Fence, HostKernel, HostMemory, HostRange, QueueId, QueueRole,
};
use std::{sync::Arc, time::Duration};

/// Waits for a fence on either clock.
fn finish(device: &Sim, fence: Fence) {
    while !device.is_passed(fence).expect("the device is not lost") {
        if !device.advance() {
            device.park(Duration::from_secs(1));
        }
    }
}

/// Waits for all that is queued.
fn drain(device: &Sim, queue: QueueId) {
    let fence = device.record(queue).expect("a fence");
    finish(device, fence);
    device.retire(fence);
}

fn both_clocks(config: &Config) -> [Arc<Sim>; 2] {
    [Clock::Real, Clock::Computed].map(|clock| Sim::open(config.clone().with_clock(clock)).expect("it opens"))
}

fn compute(device: &Sim) -> QueueId {
    device.create_queue(QueueRole::Compute).expect("a queue")
}

fn pinned(device: &Sim, bytes: usize) -> HostRange {
    HostRange::whole(Arc::new(device.allocate_host(bytes).expect("host memory")))
}

fn ordinary(bytes: usize) -> HostRange {
    HostRange::whole(Arc::new(HostMemory::ordinary(bytes).expect("host memory")))
}

fn bytes_of(host: &HostRange) -> Vec<u8> {
    let mut bytes = vec![0; host.bytes];
    host.memory.read(host.offset, &mut bytes);
    bytes
}

/// A kernel that sets every byte of its one argument.
fn setter(cost: Duration, ptr: DevicePtr, bytes: u64, value: u8) -> HostKernel {
    HostKernel::new(cost, move |args| args[0].bytes_mut().fill(value)).arg(ptr, bytes, ArgAccess::Write)
}

const MIB: u64 = 1 << 20;

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}
