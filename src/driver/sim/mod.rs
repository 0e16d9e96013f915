//! A discrete GPU in this process: memory with an end, queues, copy engines with a speed, and a clock.
//!
//! Misuse that a real device would turn into wrong bytes loses this one, and says what was touched.

pub(super) mod bell;
pub(super) mod block;
mod busy;
mod config;
mod fences;
mod hooks;
pub(super) mod job;
mod pool;
mod profiles;
mod queue;
mod shared;
mod submit;
pub(super) mod table;
mod timeline;
mod worker;
mod world;

#[cfg(test)]
mod tests;

pub use busy::{Lane, Span};
pub use config::{Clock, Config, Contents, Link, Pinning, PinningWaits, Pool, Trace};

use super::{
    Busy, Caps, DevicePtr, Driver, DriverError, DriverErrorKind, DriverMemory, Fence, HostKernel, HostKind,
    HostMemory, HostRange, QueueId, QueueRole, Result,
};
use fences::Early;
use job::check_kernel;
use queue::Queue;
use shared::{Shared, Turn};
use std::{
    any::Any,
    fmt,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    thread::{self, JoinHandle},
    time::Duration,
};
use submit::{invalid, transfer};

/// A simulated device.
///
/// Memory: each allocation has addresses that are never given again, and is filled with a pattern until written. A
/// copy or kernel that touches what is not allocated, is freed, or was allocated on a queue that its own does not
/// run behind, loses the device; so does a free that does not run behind every use. What was wrong is in
/// [`faults`](Sim::faults).
///
/// A kernel's body must not wait for its own device. What its closure owns may be dropped there, and may free.
///
/// ```
/// use std::time::Duration;
/// use tack_residency::driver::{Arg, ArgAccess, Driver, HostKernel, HostRange, QueueRole};
/// use tack_residency::driver::sim::{Config, Sim};
/// use std::sync::Arc;
///
/// let device = Sim::open(Config::profile("pcie4")?)?;
/// let queue = device.create_queue(QueueRole::Compute)?;
/// let ptr = device.allocate(queue, 1024)?;
/// let kernel = HostKernel::new(Duration::from_micros(50), |args| args[0].bytes_mut().fill(7));
/// device.launch_host(queue, kernel.arg(ptr, 1024, ArgAccess::Write))?;
/// let host = Arc::new(device.allocate_host(1024)?);
/// device.copy_out(queue, ptr, &HostRange::whole(host.clone()))?;
/// let fence = device.record(queue)?;
/// while !device.is_passed(fence)? {
///     device.advance();
/// }
/// let mut bytes = [0; 1024];
/// host.read(0, &mut bytes);
/// assert_eq!(bytes, [7; 1024]);
/// # Ok::<(), tack_residency::driver::DriverError>(())
/// ```
pub struct Sim {
    shared: Arc<Shared>,
    caps: Caps,
    workers: Mutex<Vec<JoinHandle<()>>>,
}

impl Sim {
    /// A device like `config`.
    ///
    /// ```
    /// # use tack_residency::driver::sim::{Config, Sim};
    /// let device = Sim::open(Config::new().with_capacity(1 << 30))?;
    /// assert_eq!(device.config().capacity, 1 << 30);
    /// # Ok::<(), tack_residency::driver::DriverError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Invalid` if the configuration makes no sense, such as a bandwidth of zero.
    pub fn open(config: Config) -> Result<Arc<Sim>> {
        config.check()?;
        let caps = Caps {
            spills: true,
            drains: config.clock == Clock::Real,
            stream_ordered: config.pool == Pool::StreamOrdered,
            granularity: config.granularity,
            max_allocation: config.max_allocation,
            overcommits: config.overcommits,
            computed_clock: config.clock == Clock::Computed,
            pageable_copies_wait: true,
        };
        Ok(Arc::new(Sim { shared: Arc::new(Shared::new(config)), caps, workers: Mutex::default() }))
    }

    /// What the device is like.
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// Takes the lock for a call that submits to `queue`.
    fn submit(&self, queue: QueueId, call: &'static str) -> Result<(Turn<'_>, usize)> {
        let turn = self.shared.begin(self.shared.config.submit)?;
        let index = turn.queue(queue, call)?;
        Ok((turn, index))
    }

    /// Sees that someone works for a queue whose work takes time.
    fn employ(&self, turn: &mut Turn<'_>, queue: usize) -> Result<()> {
        if self.caps.computed_clock || turn.queues[queue].worker.is_some() {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        shared.threads.fetch_add(1, Ordering::AcqRel);
        let thread = thread::Builder::new().name(format!("sim queue {queue}"));
        let worker = thread.spawn(move || worker::work(&shared, queue)).map_err(|error| {
            self.shared.threads.fetch_sub(1, Ordering::AcqRel);
            DriverError::new(DriverErrorKind::Refused, "spawn", 0, format!("no thread for a queue: {error}"))
        })?;
        turn.queues[queue].worker = Some(worker.thread().clone());
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
        Ok(())
    }

    /// Copies with ordinary memory make the caller wait.
    fn copy_host(
        &self,
        queue: QueueId,
        call: &'static str,
        host: &HostRange,
        submit: impl FnOnce(&mut Turn<'_>, usize, u64) -> Result<u64>,
    ) -> Result<()> {
        let (mut turn, queue) = self.submit(queue, call)?;
        let waits = host.memory.kind() == HostKind::Ordinary;
        if waits {
            turn.check_may_wait(call)?;
        }
        self.employ(&mut turn, queue)?;
        let at = turn.time();
        let seq = submit(&mut turn, queue, at)?;
        if waits { turn.wait_for(queue, seq) } else { Ok(()) }
    }
}

impl Driver for Sim {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn description(&self) -> String {
        let config = &self.shared.config;
        let clock = if self.caps.computed_clock { "computed" } else { "real" };
        format!("simulated {} with {} MiB of memory, on a {clock} clock", config.name, config.capacity >> 20)
    }

    fn memory(&self) -> DriverMemory {
        let turn = self.shared.turn();
        let total = self.shared.config.capacity;
        let free = turn.reserve.unreserved().min(total.saturating_sub(turn.reserve.in_use()));
        DriverMemory { free: Some(free), total: Some(total), cached: turn.reserve.cached() }
    }

    fn busy(&self) -> Option<Busy> {
        let mut turn = self.shared.turn();
        let at = turn.time();
        Some(turn.meter.busy(at))
    }

    fn create_queue(&self, _role: QueueRole) -> Result<QueueId> {
        let mut turn = self.shared.begin(Duration::ZERO)?;
        turn.queues.push(Queue::new());
        turn.reserve.add_queue();
        Ok(QueueId(turn.queues.len() as u32 - 1))
    }

    fn allocate(&self, queue: QueueId, bytes: u64) -> Result<DevicePtr> {
        let (mut turn, queue) = self.submit(queue, "allocate")?;
        let at = turn.time();
        turn.allocate(queue, bytes, at)
    }

    /// On a lost device it succeeds, and only takes the memory out of the books.
    fn free(&self, queue: QueueId, ptr: DevicePtr) -> Result<()> {
        let Ok((mut turn, queue)) = self.submit(queue, "free").or_else(|error| match error.kind {
            DriverErrorKind::Lost => Ok((self.shared.turn(), 0)),
            _ => Err(error),
        }) else {
            return Err(invalid("free", format!("there is no queue {}", queue.0)));
        };
        turn.check_free(ptr)?;
        if turn.lost.is_none() && self.caps.stream_ordered {
            let at = turn.time();
            turn.free_in_order(queue, ptr, at);
            return Ok(());
        }
        if turn.lost.is_none() && !turn.is_within_work() {
            turn.wait_idle();
        }
        turn.free_at_once(ptr);
        Ok(())
    }

    fn drain(&self) -> Result<()> {
        let mut turn = self.shared.turn();
        turn.check_may_wait("drain")?;
        let queued: Vec<u64> = turn.queues.iter().map(|queue| queue.submitted).collect();
        queued.into_iter().enumerate().try_for_each(|(queue, seq)| turn.wait_for(queue, seq))
    }

    fn trim(&self) -> Result<u64> {
        let mut turn = self.shared.begin(self.shared.config.submit)?;
        Ok(turn.reserve.trim())
    }

    fn allocate_host(&self, bytes: usize) -> Result<HostMemory> {
        let pinning = self.shared.config.pinning;
        let transfer = Duration::from_nanos(transfer(bytes as u64, pinning.bandwidth));
        let cost = pinning.call.saturating_add(transfer);
        let mut turn = self.shared.begin(cost)?;
        if pinning.waits == PinningWaits::Device {
            turn.check_may_wait("allocate_host")?;
            turn.wait_idle();
        }
        drop(turn);
        let memory = HostMemory::from_allocator(bytes, HostKind::Pinned).ok_or_else(|| {
            let message = format!("the host refused {bytes} bytes");
            DriverError::new(DriverErrorKind::OutOfMemory, "allocate_host", 2, message)
        })?;
        let live = Arc::clone(&self.shared.host_bytes);
        live.fetch_add(bytes as u64, Ordering::AcqRel);
        let memory = memory.on_release(move || _ = live.fetch_sub(bytes as u64, Ordering::AcqRel));
        if !self.caps.computed_clock && self.config().contents == Contents::Held {
            // Pinned pages are there; the first copy should not be what makes them.
            memory.fill(0, bytes, 0);
        }
        Ok(memory)
    }

    fn copy_out(&self, queue: QueueId, from: DevicePtr, to: &HostRange) -> Result<()> {
        self.copy_host(queue, "copy_out", to, |turn, queue, at| turn.copy_out(queue, from, to, at))
    }

    fn copy_in(&self, queue: QueueId, from: &HostRange, to: DevicePtr) -> Result<()> {
        self.copy_host(queue, "copy_in", from, |turn, queue, at| turn.copy_in(queue, from, to, at))
    }

    fn copy(&self, queue: QueueId, from: DevicePtr, to: DevicePtr, bytes: u64) -> Result<()> {
        let (mut turn, queue) = self.submit(queue, "copy")?;
        self.employ(&mut turn, queue)?;
        let at = turn.time();
        turn.copy(queue, from, to, bytes, at)
    }

    fn fill(&self, queue: QueueId, to: DevicePtr, bytes: u64, value: u8) -> Result<()> {
        let (mut turn, queue) = self.submit(queue, "fill")?;
        self.employ(&mut turn, queue)?;
        let at = turn.time();
        turn.fill(queue, to, bytes, value, at);
        Ok(())
    }

    fn launch_host(&self, queue: QueueId, kernel: HostKernel) -> Result<()> {
        check_kernel(&kernel)?;
        let (mut turn, queue) = self.submit(queue, "launch_host")?;
        self.employ(&mut turn, queue)?;
        let depth = self.shared.config.launch_depth;
        if !turn.is_within_work() {
            turn.wait_until(|world| world.queues[queue].launches < depth);
            turn.check_lost()?;
        }
        let at = turn.time();
        turn.launch(queue, kernel, at);
        Ok(())
    }

    fn record(&self, queue: QueueId) -> Result<Fence> {
        let (mut turn, queue) = self.submit(queue, "record")?;
        let at = turn.time();
        Ok(turn.record(queue, at))
    }

    fn wait(&self, queue: QueueId, fence: Fence) -> Result<()> {
        let (mut turn, queue) = self.submit(queue, "wait")?;
        let at = turn.time();
        turn.wait(queue, fence, at)
    }

    fn is_passed(&self, fence: Fence) -> Result<bool> {
        let mut turn = self.shared.begin(Duration::ZERO)?;
        let world = &mut *turn;
        let Some(known) = world.fences.known(fence) else {
            return Err(invalid("is_passed", "there is no such fence, or it has been retired"));
        };
        let passed = world.fences.passed_at(fence).is_some();
        if passed {
            shared::join(&mut world.host_known, known);
        }
        Ok(passed)
    }

    /// Retired too early, a fence lives on for those who need it, and the fault is noted.
    fn retire(&self, fence: Fence) {
        let mut turn = self.shared.turn();
        let why = match turn.fences.known(fence).is_some().then(|| turn.fences.retire(fence)) {
            Some(None) => return,
            Some(Some(Early::NotPassed)) => "it has not passed",
            Some(Some(Early::WaitedFor)) => "a queue still has to wait for it",
            None => "there is no such fence, or it has been retired",
        };
        if turn.lost.is_none() {
            turn.faults.push(invalid("retire", why));
        }
    }

    fn park(&self, patience: Duration) {
        if !self.caps.computed_clock {
            self.shared.bell.rest(patience);
        }
    }

    fn unpark(&self) {
        self.shared.bell.ring();
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.shared.turn().time())
    }

    fn advance(&self) -> bool {
        self.caps.computed_clock && self.shared.turn().advance()
    }

    fn charge(&self, pause: Duration) {
        if self.caps.computed_clock {
            self.shared.turn().charge(pause);
        }
    }

    /// At the speed of copies with ordinary memory, which one core makes.
    fn charge_copy(&self, bytes: u64) {
        let bandwidth = self.shared.config.outward.pageable_bandwidth;
        self.charge(Duration::from_nanos(transfer(bytes, bandwidth)));
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for Sim {
    /// Work that runs ends; what is queued behind it does not begin.
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        let mut turn = self.shared.turn();
        let world = &mut *turn;
        for queue in &mut world.queues {
            world.trash.extend(queue.ops.drain(..));
        }
        drop(turn);
        let workers = std::mem::take(self.workers.get_mut().unwrap_or_else(PoisonError::into_inner));
        for worker in &workers {
            worker.thread().unpark();
        }
        // The last handle may go in a kernel's own closure; that thread ends by itself.
        let me = thread::current().id();
        for worker in workers.into_iter().filter(|worker| worker.thread().id() != me) {
            // A worker catches what its work panics with, so there is nothing to learn from how it ended.
            let _ = worker.join();
        }
    }
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim").field("config", &self.shared.config).finish_non_exhaustive()
    }
}
