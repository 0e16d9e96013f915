//! One body for CUDA and HIP: streams, events and memory over a table of a vendor's symbols.
//!
//! Must never free host memory that a copy under way may touch, nor leave another context current on a caller's thread
//! than it found there.
#![allow(unsafe_code)]

mod context;
mod events;
mod host_kernel;
pub(in crate::driver) mod library;
mod memory;
mod peer;
mod share;
#[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "HIP's pools are not used"))]
pub(in crate::driver) mod symbols;
#[cfg(test)]
mod tests;

pub use context::{PeerCopy, Vendor};

use super::{
    Caps, DevicePtr, Driver, DriverMemory, Fence, HostKernel, HostKind, HostMemory, HostRange, QueueId,
    QueueRole, Result, invalid,
    queues::{Queue, Queues},
    staged::Stages,
    symbols::Handle,
    watch::{Look, Watch},
};
use context::{Context, is_within};
use memory::Memory;
use std::{
    any::Any,
    ffi::{c_int, c_void},
    sync::Arc,
    time::Duration,
};
use symbols::{NON_BLOCKING, PORTABLE, PoolSymbols, Symbols};

/// A device of one vendor's.
#[derive(Debug)]
pub struct CudaLike<V: Vendor> {
    context: Arc<Context<V>>,
    caps: Caps,
    description: String,
    identity: String,
    memory: Memory,
    queues: Queues<Handle>,
    watch: Watch,
    stages: Stages,
}

/// What a vendor found out about a device.
#[derive(Debug)]
pub(in crate::driver) struct Found {
    pub(in crate::driver) description: String,
    /// Which device it is, of those of all vendors.
    pub(in crate::driver) identity: String,
    pub(in crate::driver) total_bytes: u64,
    /// What sizes are rounded up to, in bytes.
    pub(in crate::driver) granularity: u64,
    /// The device's ordinal, as pools name it, and what makes them; none where memory is allocated by plain calls.
    pub(in crate::driver) pools: Option<(c_int, PoolSymbols)>,
}

impl<V: Vendor> CudaLike<V> {
    /// A device whose vendor has opened its library and context.
    pub(in crate::driver) fn new(vendor: V, found: Found) -> Result<Arc<CudaLike<V>>> {
        let context = Arc::new(Context::new(vendor));
        let entered = context.enter()?;
        let memory = Memory::new(&context, found.pools, found.total_bytes)?;
        drop(entered);
        let caps = Caps {
            spills: true,
            stream_ordered: memory.is_pool(),
            granularity: found.granularity,
            max_allocation: Some(found.total_bytes).filter(|&bytes| bytes > 0),
            overcommits: false,
            computed_clock: false,
            drains: context.vendor.library().extras.synchronize.is_some(),
            pageable_copies_wait: true,
        };
        Ok(Arc::new(CudaLike {
            context,
            caps,
            description: found.description,
            identity: found.identity,
            memory,
            queues: Queues::default(),
            watch: Watch::default(),
            stages: Stages::default(),
        }))
    }

    /// What is the vendor's alone.
    #[cfg(feature = "cuda")]
    pub(in crate::driver) fn vendor(&self) -> &V {
        &self.context.vendor
    }

    fn symbols(&self) -> &Symbols {
        self.context.symbols()
    }

    /// The vendor's handle of a queue's stream.
    pub(in crate::driver) fn stream(&self, queue: QueueId) -> Result<Handle> {
        self.queues.find(queue, "stream").map(|queue| queue.stream)
    }

    fn take(&self, queue: QueueId, bytes: u64, fixed: bool) -> Result<DevicePtr> {
        let stream = self.stream(queue)?;
        if bytes == 0 {
            return Err(invalid("allocate", "an allocation has at least one byte"));
        }
        let _entered = self.context.enter()?;
        self.memory.allocate(&self.context, stream, bytes, fixed)
    }

    /// Queues a copy in. The context is current, and the queue's turn the caller's.
    fn bring_in(&self, queue: &Queue<Handle>, from: &HostRange, to: DevicePtr) -> Result<()> {
        let copy = self.symbols().copy_in;
        queue.copy(from, copy.name, |start| {
            // SAFETY: as for a copy out; nobody writes these bytes meanwhile.
            let code = unsafe { (copy.call)(to.as_raw(), start, from.bytes, queue.stream) };
            self.context.check(copy.name, code)
        })
    }
}

impl<V: Vendor> Driver for CudaLike<V> {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn description(&self) -> String {
        self.description.clone()
    }

    fn identity(&self) -> Option<String> {
        Some(self.identity.clone())
    }

    fn may_call(&self) -> bool {
        !is_within()
    }

    fn memory(&self) -> DriverMemory {
        let Ok(_entered) = self.context.enter() else { return DriverMemory::default() };
        let info = self.symbols().memory_info;
        let (mut free, mut total) = (0usize, 0usize);
        // SAFETY: the context is current, and both places are for the call to write.
        let code = unsafe { (info.call)(&mut free, &mut total) };
        let known = self.context.check(info.name, code).is_ok();
        let bytes = |bytes: usize| known.then_some(bytes as u64);
        DriverMemory { free: bytes(free), total: bytes(total), cached: self.memory.cached(&self.context) }
    }

    fn create_queue(&self, role: QueueRole) -> Result<QueueId> {
        let _entered = self.context.enter()?;
        let (create, mut stream) = (self.symbols().stream_create, Handle::NULL);
        // SAFETY: the context is current, and `stream` is where the new stream's handle goes.
        let code = unsafe { (create.call)(&mut stream, NON_BLOCKING) };
        self.context.check(create.name, code)?;
        self.queues.add(stream, role, create.name, |stream| self.context.destroy_stream(stream))
    }

    fn allocate(&self, queue: QueueId, bytes: u64) -> Result<DevicePtr> {
        self.take(queue, bytes, false)
    }

    fn allocate_fixed(&self, queue: QueueId, bytes: u64) -> Result<DevicePtr> {
        self.take(queue, bytes, true)
    }

    fn share(&self, ptr: DevicePtr) -> Result<[u8; 64]> {
        share::memory_handle(&self.context, ptr)
    }

    fn free(&self, queue: QueueId, ptr: DevicePtr) -> Result<()> {
        let stream = self.stream(queue)?;
        let _entered = self.context.enter()?;
        self.memory.free(&self.context, stream, ptr)
    }

    /// Waits for the queues that carry nothing but frees: a pool gives back only what the host has seen freed.
    fn trim(&self) -> Result<u64> {
        let _entered = self.context.enter()?;
        let frees = self.queues.all().filter(|(_, queue)| queue.role == QueueRole::Release);
        for (_, queue) in frees.filter(|_| self.memory.is_pool()) {
            self.context.synchronize(queue.stream)?;
        }
        self.stages.trim();
        self.memory.trim(&self.context)
    }

    fn drain(&self) -> Result<()> {
        let _entered = self.context.enter()?;
        self.synchronize()
    }

    fn allocate_host(&self, bytes: usize) -> Result<HostMemory> {
        let _entered = self.context.enter()?;
        let (allocate, mut start) = (self.symbols().allocate_host, std::ptr::null_mut());
        // SAFETY: the context is current, and `start` is where the new block's address goes.
        let code = unsafe { (allocate.call)(&mut start, bytes.max(1), PORTABLE) };
        self.context.check_allocation(allocate.name, code)?;
        let context = Arc::clone(&self.context);
        let block = Handle(start);
        let release = move || context.free_host(block);
        // SAFETY: the block is `bytes` bytes of the process's own memory, given to nobody else, and freed by `release`
        // alone, which keeps the context it belongs to.
        unsafe { HostMemory::from_driver(allocate.name, start.cast(), bytes, HostKind::Pinned, release) }
    }

    fn copy_out(&self, queue: QueueId, from: DevicePtr, to: &HostRange) -> Result<()> {
        let copy = self.symbols().copy_out;
        let queue = self.queues.find(queue, copy.name)?;
        let _entered = self.context.enter()?;
        queue.copy(to, copy.name, |start| {
            // SAFETY: the context is current; `start` has as many bytes, and they are kept until the copy has run. Whoever
            // queues it keeps everyone else from them meanwhile.
            let code = unsafe { (copy.call)(start, from.as_raw(), to.bytes, queue.stream) };
            self.context.check(copy.name, code)
        })
    }

    fn copy_in(&self, queue: QueueId, from: &HostRange, to: DevicePtr) -> Result<()> {
        let queue = self.queues.find(queue, self.symbols().copy_in.name)?;
        let _entered = self.context.enter()?;
        let _turn = queue.turn();
        self.bring_in(queue, from, to)
    }

    fn copy(&self, queue: QueueId, from: DevicePtr, to: DevicePtr, bytes: u64) -> Result<()> {
        let copy = self.symbols().copy;
        let queue = self.queues.find(queue, copy.name)?;
        let _entered = self.context.enter()?;
        let _turn = queue.turn();
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the context is current; the addresses are the device's, which checks them.
        let code = unsafe { (copy.call)(to.as_raw(), from.as_raw(), bytes as usize, queue.stream) };
        self.context.check(copy.name, code)
    }

    fn is_peer(&self, other: &dyn Driver) -> bool {
        peer::find(self, other).is_some()
    }

    fn copy_to_peer(
        &self,
        queue: QueueId,
        from: DevicePtr,
        peer: &dyn Driver,
        to: DevicePtr,
        bytes: u64,
    ) -> Result<()> {
        peer::copy(self, queue, [from, to], peer, bytes)
    }

    fn fill(&self, queue: QueueId, to: DevicePtr, bytes: u64, value: u8) -> Result<()> {
        let fill = self.symbols().fill;
        let queue = self.queues.find(queue, fill.name)?;
        let _entered = self.context.enter()?;
        let _turn = queue.turn();
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the context is current; the address is the device's, which checks it.
        let code = unsafe { (fill.call)(to.as_raw(), value, bytes as usize, queue.stream) };
        self.context.check(fill.name, code)
    }

    fn launch_host(&self, queue: QueueId, kernel: HostKernel) -> Result<()> {
        host_kernel::launch(self, queue, kernel)
    }

    fn record(&self, queue: QueueId) -> Result<Fence> {
        let (index, queue) = (queue.0 as usize, self.queues.find(queue, "record")?);
        let _entered = self.context.enter()?;
        let _turn = queue.turn();
        let (event, record) = (self.new_event()?, self.symbols().event_record);
        self.watch.record(index, queue, event, || {
            // SAFETY: the context is current, and event and stream are this device's.
            let code = unsafe { (record.call)(event, queue.stream) };
            self.context.check(record.name, code)
        })
    }

    fn wait(&self, queue: QueueId, fence: Fence) -> Result<()> {
        let (stream, wait) = (self.stream(queue)?, self.symbols().stream_wait);
        let _entered = self.context.enter()?;
        let Some(event) = self.watch.outstanding(fence, wait.name)? else { return Ok(()) };
        // SAFETY: the context is current, and event and stream are this device's.
        let code = unsafe { (wait.call)(stream, event, 0) };
        self.context.check(wait.name, code)
    }

    fn is_passed(&self, fence: Fence) -> Result<bool> {
        let _entered = self.context.enter()?;
        self.watch.is_passed(fence, |event| self.query(event))
    }

    fn retire(&self, fence: Fence) {
        self.watch.fences.retire(fence);
    }

    fn park(&self, patience: Duration) {
        self.watch.park(patience, |next| {
            let Ok(_entered) = self.context.enter() else { return Look::Blind };
            let pending = next.iter().all(|&(_, event)| matches!(self.query(event), Ok(false)));
            if pending { Look::Nothing } else { Look::Something }
        });
    }

    fn unpark(&self) {
        self.watch.bell.ring();
    }

    fn now(&self) -> Duration {
        self.watch.pace.now()
    }

    fn raw_queue(&self, queue: QueueId) -> Result<*mut c_void> {
        let queue = self.queues.find(queue, "raw_queue")?;
        self.context.enter()?.stay();
        Ok(queue.stream.0)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<V: Vendor> Drop for CudaLike<V> {
    /// Waits only where a copy may still use host memory. What still runs ends by itself: the vendor gives a stream, an
    /// event and a pool up when their work is over.
    fn drop(&mut self) {
        let Ok(_entered) = self.context.enter_anyway() else { return };
        for (index, queue) in self.queues.all() {
            if self.watch.fences.holds(index) || !queue.copying().is_empty() {
                // Refused, the device is lost and copies nothing more.
                let _ = self.context.synchronize(queue.stream);
            }
        }
        let (events, held) = self.watch.fences.drain();
        drop(held);
        self.context.free_given_up();
        self.memory.destroy(&self.context);
        for event in events {
            self.context.destroy_event(event);
        }
        for (index, queue) in self.queues.all() {
            if self.context.vendor.let_go(index) {
                self.context.destroy_stream(queue.stream);
            }
        }
    }
}
