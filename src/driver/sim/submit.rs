//! What a call of the host puts into a queue: checked, costed, and noted in the books of memory.
//!
//! A wrong call is refused here. A call that real drivers take, and whose work then faults, is taken here too: it
//! loses the device when its turn comes.

use super::{
    Link, Pool,
    block::Block,
    busy::Lane,
    job::{Job, Work},
    queue::{Op, Task},
    shared::{join, nanos, raise},
    table::{Allocation, Place},
    world::{World, illegal},
};
use crate::driver::{
    DevicePtr, DriverError, DriverErrorKind, Fence, HostKernel, HostKind, HostRange, QueueId, Result,
};
use std::sync::Arc;

pub(super) fn invalid(call: &'static str, message: impl Into<String>) -> DriverError {
    DriverError::new(DriverErrorKind::Invalid, call, 1, message)
}

/// Nanoseconds that `bytes` bytes take at `bandwidth` bytes a second, rounded up.
pub(super) fn transfer(bytes: u64, bandwidth: Option<u64>) -> u64 {
    let Some(bandwidth) = bandwidth else { return 0 };
    let nanos = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(bandwidth.max(1)));
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

impl World {
    /// A queue by its id.
    pub(super) fn queue(&self, id: QueueId, call: &'static str) -> Result<usize> {
        let index = id.0 as usize;
        if index < self.queues.len() {
            Ok(index)
        } else {
            Err(invalid(call, format!("there is no queue {}", id.0)))
        }
    }

    pub(super) fn allocate(&mut self, queue: usize, bytes: u64, at: u64) -> Result<DevicePtr> {
        let call = "allocate";
        if bytes == 0 {
            return Err(invalid(call, "an allocation has at least one byte"));
        }
        let error = |kind, why: String| Err(DriverError::new(kind, call, 2, why));
        let taken = bytes.checked_next_multiple_of(self.config.granularity).unwrap_or(u64::MAX);
        if self.config.max_allocation.is_some_and(|most| taken > most) {
            return error(
                DriverErrorKind::TooLarge,
                format!("{bytes} bytes are more than one allocation may be"),
            );
        }
        let (pool, known) = (self.config.pool, &self.queues[queue].known);
        if !self.table.has_room(bytes) || !self.reserve.take(queue, taken, known) {
            let (in_use, cached) = (self.reserve.in_use(), self.reserve.cached());
            let why = format!("no room for {bytes} bytes: {in_use} in use, {cached} kept by the pool");
            return error(DriverErrorKind::OutOfMemory, why);
        }
        let block = self.holds_bytes().then(|| {
            let poison = self.config.poison.map(|seed| poison(seed, self.queues[queue].submitted));
            Arc::new(Block::new(bytes as usize, poison, &self.spares))
        });
        let ordered = pool == Pool::StreamOrdered;
        let seq = if ordered { self.queues[queue].submitted + 1 } else { 0 };
        let made = (queue, seq);
        let (freed, uses) = (false, Vec::new());
        let ptr = self.table.add(Allocation { bytes, taken, made, live: !ordered, freed, uses, block });
        if ordered {
            self.submit(queue, Op::Allocate { base: ptr.0 }, at);
        }
        Ok(ptr)
    }

    /// Refuses a free of what no call to [`allocate`](World::allocate) gave, or of what has been freed.
    pub(super) fn check_free(&self, ptr: DevicePtr) -> Result<()> {
        match self.table.get(ptr.0) {
            Some(allocation) if !allocation.freed => Ok(()),
            _ if self.table.was_freed(ptr.0) || self.table.get(ptr.0).is_some() => {
                Err(invalid("free", format!("the memory at {:#x} has been freed already", ptr.0)))
            }
            _ => Err(invalid("free", format!("no allocation starts at {:#x}", ptr.0))),
        }
    }

    /// Frees on a queue's timeline.
    pub(super) fn free_in_order(&mut self, queue: usize, ptr: DevicePtr, at: u64) {
        let seq = self.queues[queue].submitted + 1;
        let Some(allocation) = self.table.get(ptr.0) else { return };
        let (bytes, taken) = (allocation.bytes, allocation.taken);
        let uses = allocation.uses.iter().copied().chain([allocation.made]);
        let early = { uses }.find(|&used| !self.is_behind(queue, used));
        if let Some(allocation) = self.table.get_mut(ptr.0) {
            allocation.freed = true;
        }
        self.reserve.give(queue, seq, taken);
        let op = match early {
            None => Op::Free { base: ptr.0 },
            Some((user, _)) => {
                let why =
                    format!("freed on queue {queue}, which does not run behind its use on queue {user}");
                Op::Illegal(illegal("free", ptr.0, bytes, &why))
            }
        };
        self.submit(queue, op, at);
    }

    /// Frees at once: on an idle device, or a lost one.
    pub(super) fn free_at_once(&mut self, ptr: DevicePtr) {
        if self.table.get(ptr.0).is_some_and(|allocation| !allocation.freed)
            && let Some(allocation) = self.table.remove(ptr.0)
        {
            self.reserve.give_back(allocation.taken);
        }
    }

    pub(super) fn copy_out(&mut self, queue: usize, from: DevicePtr, to: &HostRange, at: u64) -> Result<u64> {
        let link = self.config.outward;
        let job = Work::CopyOut(to.clone());
        let corrupt = self.corrupt_next_copy_out;
        let seq = self.copy_host(queue, "copy_out", Lane::CopyOut, (link, to), from, job, at)?;
        self.corrupt_next_copy_out &= !corrupt;
        Ok(seq)
    }

    pub(super) fn copy_in(&mut self, queue: usize, from: &HostRange, to: DevicePtr, at: u64) -> Result<u64> {
        let link = self.config.inward;
        let job = Work::CopyIn(from.clone());
        self.copy_host(queue, "copy_in", Lane::CopyIn, (link, from), to, job, at)
    }

    #[allow(clippy::too_many_arguments)] // what the two directions differ in, and no more
    fn copy_host(
        &mut self,
        queue: usize,
        call: &'static str,
        lane: Lane,
        (link, host): (Link, &HostRange),
        device: DevicePtr,
        work: Work,
        at: u64,
    ) -> Result<u64> {
        if host.offset.checked_add(host.bytes).is_none_or(|end| end > host.memory.len()) {
            return Err(invalid(call, "the range runs past the end of its host memory"));
        }
        let bandwidth = match host.memory.kind() {
            HostKind::Pinned => link.pinned_bandwidth,
            HostKind::Ordinary => link.pageable_bandwidth,
        };
        let bytes = host.bytes as u64;
        let mut task = self.task(call, lane, work);
        task.setup = nanos(link.call);
        task.work = transfer(bytes, bandwidth);
        task.latency = nanos(link.latency);
        task.cuts = self.cuts(bytes);
        task.job.corrupt = lane == Lane::CopyOut && self.corrupt_next_copy_out;
        Ok(self.submit_task(queue, task, &[(device, bytes)], at))
    }

    pub(super) fn copy(
        &mut self,
        queue: usize,
        from: DevicePtr,
        to: DevicePtr,
        bytes: u64,
        at: u64,
    ) -> Result<()> {
        if bytes > 0 && from.0.abs_diff(to.0) < bytes {
            return Err(invalid("copy", "the two ranges overlap"));
        }
        let mut task = self.task("copy", Lane::Compute, Work::Copy);
        task.work = transfer(bytes.saturating_mul(2), self.config.memory_bandwidth);
        task.cuts = self.cuts(bytes);
        self.submit_task(queue, task, &[(from, bytes), (to, bytes)], at);
        Ok(())
    }

    pub(super) fn fill(&mut self, queue: usize, to: DevicePtr, bytes: u64, value: u8, at: u64) {
        let mut task = self.task("fill", Lane::Compute, Work::Fill(value));
        task.work = transfer(bytes, self.config.memory_bandwidth);
        self.submit_task(queue, task, &[(to, bytes)], at);
    }

    pub(super) fn launch(&mut self, queue: usize, kernel: HostKernel, at: u64) {
        let places: Vec<_> = kernel.args.iter().map(|&(ptr, bytes, _)| (ptr, bytes)).collect();
        let access = kernel.args.iter().map(|&(_, _, access)| access).collect();
        let mut task = self.task("launch_host", Lane::Compute, Work::Kernel(kernel.body, access));
        task.label = kernel.label;
        task.work = nanos(kernel.cost);
        task.is_launch = true;
        self.queues[queue].launches += 1;
        self.submit_task(queue, task, &places, at);
    }

    pub(super) fn record(&mut self, queue: usize, at: u64) -> Fence {
        let target = &mut self.queues[queue];
        raise(&mut target.known, queue, target.submitted + 1);
        let fence = self.fences.record(&target.known);
        self.submit(queue, Op::Record(fence), at);
        fence
    }

    pub(super) fn wait(&mut self, queue: usize, fence: Fence, at: u64) -> Result<()> {
        let Some(known) = self.fences.known(fence) else {
            return Err(invalid("wait", "there is no such fence, or it has been retired"));
        };
        join(&mut self.queues[queue].known, known);
        self.fences.add_wait(fence);
        self.submit(queue, Op::Wait(fence), at);
        Ok(())
    }

    /// Whether work submitted to `queue` now runs behind operation `seq` of queue `of`.
    fn is_behind(&self, queue: usize, (of, seq): (usize, u64)) -> bool {
        let reaches = |known: &[u64]| known.get(of).is_some_and(|&last| last >= seq);
        queue == of || seq == 0 || reaches(&self.queues[queue].known) || reaches(&self.host_known)
    }

    fn task(&self, call: &'static str, lane: Lane, work: Work) -> Box<Task> {
        let job = Job { work, operands: Vec::new(), target_bytes: 0, corrupt: false };
        let (places, moves) = (Vec::new(), self.holds_bytes());
        let (setup, latency, is_launch) = (0, 0, false);
        Box::new(Task {
            call,
            label: call,
            lane,
            setup,
            work: 0,
            latency,
            cuts: 1,
            is_launch,
            moves,
            places,
            job,
        })
    }

    /// In how many pieces a copy of `bytes` bytes moves.
    fn cuts(&self, bytes: u64) -> u32 {
        let most = u32::try_from(bytes).unwrap_or(u32::MAX).max(1);
        if self.holds_bytes() { self.config.copy_cuts.min(most) } else { 1 }
    }

    /// Submits a task that touches `ranges`; if it may not, something in its place that loses the device.
    fn submit_task(
        &mut self,
        queue: usize,
        mut task: Box<Task>,
        ranges: &[(DevicePtr, u64)],
        at: u64,
    ) -> u64 {
        for &(ptr, bytes) in ranges {
            match self.place(queue, ptr, bytes) {
                Ok((place, whole)) => {
                    task.places.push(place);
                    task.job.target_bytes = whole;
                }
                Err(why) => {
                    self.queues[queue].launches -= usize::from(task.is_launch);
                    let op = Op::Illegal(illegal(task.call, ptr.0, bytes, &why));
                    self.trash.push(super::queue::Queued { seq: 0, ready: at, op: Op::Timed(task) });
                    return self.submit(queue, op, at);
                }
            }
        }
        self.submit(queue, Op::Timed(task), at)
    }

    /// The place of a range that the next operation of `queue` touches, and its allocation's length.
    fn place(
        &mut self,
        queue: usize,
        ptr: DevicePtr,
        bytes: u64,
    ) -> std::result::Result<(Place, u64), String> {
        if bytes == 0 {
            return Ok((Place { base: 0, offset: 0, bytes: 0 }, 0));
        }
        let seq = self.queues[queue].submitted + 1;
        let (place, allocation) = self.table.find(ptr, bytes)?;
        if allocation.freed {
            return Err("that memory has been freed".to_owned());
        }
        let (whole, made) = (allocation.bytes, allocation.made);
        match allocation.uses.iter_mut().find(|(user, _)| *user == queue) {
            Some((_, last)) => *last = seq,
            None => allocation.uses.push((queue, seq)),
        }
        if !self.is_behind(queue, made) {
            let maker = made.0;
            return Err(format!(
                "it was allocated on queue {maker}, and queue {queue} has not waited for that"
            ));
        }
        Ok((place, whole))
    }
}

/// What fresh memory holds: one byte for each allocation, never zero.
fn poison(seed: u64, number: u64) -> u8 {
    if seed == 0 {
        return 0xCD;
    }
    let mixed = (seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (mixed >> 56) as u8 | 1
}
