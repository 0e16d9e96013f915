//! Devices whose memory is the host's: their addresses are real, and every call is done when it returns.
//!
//! Accounting only: nothing is ever spilled, since there is nowhere else for the bytes to go.

#[cfg(target_vendor = "apple")]
mod gpu;
mod heap;

#[cfg(target_vendor = "apple")]
pub use gpu::Gpu;
pub use heap::Heap;

use super::{
    Caps, DevicePtr, Driver, DriverError, DriverErrorKind, DriverMemory, Fence, HostKernel, HostKind,
    HostMemory, HostRange, QueueId, QueueRole, Result,
    aligned::Aligned,
    sim::{
        bell::Bell,
        block::Block,
        job::{Job, Operand, Work, check_kernel},
        table::Place,
    },
};
use std::{
    any::Any,
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Where a device's memory comes from, and what is known of it.
pub trait Source: fmt::Debug + Send + Sync + 'static {
    /// Zeroes; none if there is no room for so many.
    fn bytes(&self, len: usize) -> Option<Aligned>;

    /// A line for people.
    fn description(&self) -> String;

    /// What the system says of the memory.
    fn memory(&self) -> DriverMemory;

    /// What sizes are rounded up to, in bytes.
    const GRANULARITY: u64 = 1;
}

/// A device whose memory is the host's.
#[derive(Debug)]
pub struct Unified<S> {
    pub(super) source: S,
    caps: Caps,
    opened: Instant,
    bell: Bell,
    queues: AtomicU32,
    fences: AtomicU64,
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    live: BTreeMap<u64, (u64, Arc<Block>)>,
    lost: Option<DriverError>,
}

impl<S: Source> Unified<S> {
    pub(super) fn new(source: S) -> Arc<Unified<S>> {
        let caps = Caps {
            spills: false,
            // Every call is done at once, so it is done in any order.
            stream_ordered: true,
            granularity: S::GRANULARITY,
            max_allocation: None,
            overcommits: true,
            computed_clock: false,
            drains: false,
            pageable_copies_wait: true,
        };
        Arc::new(Unified {
            source,
            caps,
            opened: Instant::now(),
            bell: Bell::default(),
            queues: AtomicU32::new(0),
            fences: AtomicU64::new(0),
            books: Mutex::default(),
        })
    }

    /// Allocations not yet freed.
    pub fn live_allocations(&self) -> usize {
        self.lock().live.len()
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The books, for a call on one of the queues.
    fn books(&self, queue: QueueId, call: &'static str) -> Result<MutexGuard<'_, Books>> {
        if queue.0 >= self.queues.load(Ordering::Acquire) {
            return Err(invalid(call, format!("there is no queue {}", queue.0)));
        }
        let books = self.lock();
        books.lost.clone().map_or(Ok(books), Err)
    }

    /// Does work on these ranges at once.
    fn run(
        &self,
        queue: QueueId,
        call: &'static str,
        work: Work,
        ranges: impl IntoIterator<Item = (DevicePtr, u64)>,
    ) -> Result<()> {
        let books = self.books(queue, call)?;
        let operands = ranges.into_iter().map(|(ptr, bytes)| books.operand(call, ptr, bytes));
        let operands = operands.collect::<Result<_>>()?;
        drop(books);
        let mut job = Job { work, operands, target_bytes: 0, corrupt: false };
        job.step(0, 1).map_err(|panic| {
            // Half of it may be done, which is what losing a device means.
            let error =
                DriverError::new(DriverErrorKind::Lost, call, 0, format!("the work panicked: {panic}"));
            self.lock().lost = Some(error.clone());
            error
        })
    }

    fn check_fence(&self, fence: Fence, call: &'static str) -> Result<()> {
        if fence.0 == 0 || fence.0 > self.fences.load(Ordering::Acquire) {
            return Err(invalid(call, "there is no such fence"));
        }
        Ok(())
    }
}

impl Books {
    fn operand(&self, call: &'static str, ptr: DevicePtr, bytes: u64) -> Result<Operand> {
        if bytes == 0 {
            return Ok(Operand { place: Place { base: 0, offset: 0, bytes: 0 }, block: None });
        }
        let below = self.live.range(..=ptr.as_raw()).next_back();
        let found = below.and_then(|(&base, (len, block))| {
            let offset = ptr.as_raw() - base;
            let place = Place { base, offset, bytes };
            (offset < *len && bytes <= len - offset)
                .then(|| Operand { place, block: Some(Arc::clone(block)) })
        });
        found.ok_or_else(|| invalid(call, format!("{bytes} bytes at {:#x} are not allocated", ptr.as_raw())))
    }
}

fn invalid(call: &'static str, message: impl Into<String>) -> DriverError {
    DriverError::new(DriverErrorKind::Invalid, call, 0, message)
}

fn out_of_memory(call: &'static str, bytes: u64) -> DriverError {
    DriverError::new(DriverErrorKind::OutOfMemory, call, 0, format!("the host refused {bytes} bytes"))
}

fn check_range(call: &'static str, range: &HostRange) -> Result<()> {
    match range.offset.checked_add(range.bytes) {
        Some(end) if end <= range.memory.len() => Ok(()),
        _ => Err(invalid(call, "the range runs past the end of its host memory")),
    }
}

impl<S: Source> Driver for Unified<S> {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn description(&self) -> String {
        self.source.description()
    }

    fn memory(&self) -> DriverMemory {
        self.source.memory()
    }

    fn create_queue(&self, _role: QueueRole) -> Result<QueueId> {
        Ok(QueueId(self.queues.fetch_add(1, Ordering::AcqRel)))
    }

    fn allocate(&self, queue: QueueId, bytes: u64) -> Result<DevicePtr> {
        let mut books = self.books(queue, "allocate")?;
        let len = usize::try_from(bytes).map_err(|_| out_of_memory("allocate", bytes))?;
        if len == 0 {
            return Err(invalid("allocate", "an allocation has at least one byte"));
        }
        let given = self.source.bytes(len).ok_or_else(|| out_of_memory("allocate", bytes))?;
        let base = given.start().addr().get() as u64;
        books.live.insert(base, (bytes, Arc::new(Block::holding(given))));
        Ok(DevicePtr::from_raw(base))
    }

    fn free(&self, _queue: QueueId, ptr: DevicePtr) -> Result<()> {
        let freed = self.lock().live.remove(&ptr.as_raw());
        let message = || format!("no allocation starts at {:#x}, or it has been freed already", ptr.as_raw());
        freed.map(drop).ok_or_else(|| invalid("free", message()))
    }

    fn trim(&self) -> Result<u64> {
        Ok(0)
    }

    fn allocate_host(&self, bytes: usize) -> Result<HostMemory> {
        let memory = HostMemory::from_allocator(bytes, HostKind::Pinned);
        memory.ok_or_else(|| out_of_memory("allocate_host", bytes as u64))
    }

    fn copy_out(&self, queue: QueueId, from: DevicePtr, to: &HostRange) -> Result<()> {
        check_range("copy_out", to)?;
        self.run(queue, "copy_out", Work::CopyOut(to.clone()), [(from, to.bytes as u64)])
    }

    fn copy_in(&self, queue: QueueId, from: &HostRange, to: DevicePtr) -> Result<()> {
        check_range("copy_in", from)?;
        self.run(queue, "copy_in", Work::CopyIn(from.clone()), [(to, from.bytes as u64)])
    }

    fn copy(&self, queue: QueueId, from: DevicePtr, to: DevicePtr, bytes: u64) -> Result<()> {
        if bytes > 0 && from.as_raw().abs_diff(to.as_raw()) < bytes {
            return Err(invalid("copy", "the two ranges overlap"));
        }
        self.run(queue, "copy", Work::Copy, [(from, bytes), (to, bytes)])
    }

    fn fill(&self, queue: QueueId, to: DevicePtr, bytes: u64, value: u8) -> Result<()> {
        self.run(queue, "fill", Work::Fill(value), [(to, bytes)])
    }

    fn launch_host(&self, queue: QueueId, kernel: HostKernel) -> Result<()> {
        check_kernel(&kernel)?;
        let access = kernel.args.iter().map(|&(_, _, access)| access).collect();
        let ranges = kernel.args.iter().map(|&(ptr, bytes, _)| (ptr, bytes));
        self.run(queue, "launch_host", Work::Kernel(kernel.body, access), ranges)
    }

    fn record(&self, queue: QueueId) -> Result<Fence> {
        drop(self.books(queue, "record")?);
        let fence = self.fences.fetch_add(1, Ordering::AcqRel) + 1;
        self.bell.ring();
        Ok(Fence(fence))
    }

    fn wait(&self, queue: QueueId, fence: Fence) -> Result<()> {
        drop(self.books(queue, "wait")?);
        self.check_fence(fence, "wait")
    }

    fn is_passed(&self, fence: Fence) -> Result<bool> {
        self.lock().lost.clone().map_or(Ok(()), Err)?;
        self.check_fence(fence, "is_passed").map(|()| true)
    }

    fn retire(&self, _fence: Fence) {}

    fn park(&self, patience: Duration) {
        self.bell.rest(patience);
    }

    fn unpark(&self) {
        self.bell.ring();
    }

    fn now(&self) -> Duration {
        self.opened.elapsed()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{ArgAccess, cpu::Cpu},
        *,
    };

    fn kind(result: Result<()>) -> DriverErrorKind {
        result.expect_err("a refusal").kind
    }

    #[test]
    fn every_call_is_done_when_it_returns() {
        let device = Cpu::open();
        let queue = device.create_queue(QueueRole::Compute).unwrap();
        let [first, second] = [0; 2].map(|_| device.allocate(queue, 100).unwrap());
        let kernel = HostKernel::new(Duration::from_secs(9), |args| args[0].bytes_mut().fill(7));
        device.launch_host(queue, kernel.arg(first, 50, ArgAccess::Write)).unwrap();
        device.copy(queue, first, second, 100).unwrap();
        let host = HostRange::whole(Arc::new(device.allocate_host(100).unwrap()));
        device.copy_out(queue, second, &host).unwrap();
        let fence = device.record(queue).unwrap();
        assert!(device.is_passed(fence).unwrap());
        let mut bytes = [1; 100];
        host.memory.read(0, &mut bytes);
        assert_eq!((&bytes[..50], &bytes[50..]), (&[7; 50][..], &[0; 50][..]));
        device.free(queue, first).unwrap();
        device.free(queue, second).unwrap();
        assert_eq!(device.live_allocations(), 0);
    }

    #[test]
    fn what_is_not_allocated_is_refused() {
        let device = Cpu::open();
        let queue = device.create_queue(QueueRole::Compute).unwrap();
        let ptr = device.allocate(queue, 100).unwrap();
        assert_eq!(kind(device.fill(queue, ptr, 101, 0)), DriverErrorKind::Invalid);
        assert_eq!(kind(device.fill(QueueId(1), ptr, 1, 0)), DriverErrorKind::Invalid);
        assert_eq!(kind(device.free(queue, ptr.offset(1))), DriverErrorKind::Invalid);
        assert_eq!(kind(device.wait(queue, Fence(1))), DriverErrorKind::Invalid);
        device.free(queue, ptr).unwrap();
        assert_eq!(kind(device.free(queue, ptr)), DriverErrorKind::Invalid);
        let kernel = HostKernel::new(Duration::ZERO, |_| {}).arg(ptr, 1, ArgAccess::Read);
        assert_eq!(kind(device.launch_host(queue, kernel)), DriverErrorKind::Invalid);
        assert_eq!(
            device.allocate(queue, u64::MAX).expect_err("too much").kind,
            DriverErrorKind::OutOfMemory
        );
    }

    #[test]
    fn a_panicking_body_loses_the_device() {
        let device = Cpu::open();
        let queue = device.create_queue(QueueRole::Compute).unwrap();
        let ptr = device.allocate(queue, 1).unwrap();
        let launched = device.launch_host(queue, HostKernel::new(Duration::ZERO, |_| panic!("on purpose")));
        assert_eq!(kind(launched), DriverErrorKind::Lost);
        assert_eq!(kind(device.fill(queue, ptr, 1, 0)), DriverErrorKind::Lost);
        device.free(queue, ptr).unwrap();
    }
}
