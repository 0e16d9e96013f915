//! A driver around another that notes which calls are made, in their order.

use std::{
    any::Any,
    collections::BTreeSet,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};
use tack_residency::driver::{
    Busy, Caps, DevicePtr, Driver, DriverMemory, Fence, HostKernel, HostKind, HostMemory, HostRange, QueueId,
    QueueRole, Result,
};

#[derive(Debug)]
pub struct Recorder {
    inner: Arc<dyn Driver>,
    log: Mutex<Vec<String>>,
    /// The names of the threads that freed or trimmed.
    freed_by: Mutex<BTreeSet<Option<String>>>,
}

impl Recorder {
    pub fn new(inner: Arc<dyn Driver>) -> Arc<Recorder> {
        Arc::new(Recorder { inner, log: Mutex::default(), freed_by: Mutex::default() })
    }

    /// Notes something that is no call.
    pub fn note(&self, what: &str) {
        self.log.lock().expect("not poisoned").push(what.to_owned());
    }

    /// Takes what was noted so far.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().expect("not poisoned"))
    }

    /// The names of the threads that freed or trimmed so far.
    pub fn freed_by(&self) -> Vec<Option<String>> {
        self.freed_by.lock().expect("not poisoned").iter().cloned().collect()
    }

    fn note_thread(&self) {
        self.freed_by.lock().expect("not poisoned").insert(thread::current().name().map(str::to_owned));
    }

    fn noted<T>(&self, what: &str, result: Result<T>) -> Result<T> {
        self.note(&format!("{what}{}", if result.is_ok() { "" } else { " refused" }));
        result
    }
}

/// Names memory that is not pinned.
fn kind(range: &HostRange) -> &'static str {
    if range.memory.kind() == HostKind::Ordinary { " with ordinary memory" } else { "" }
}

impl Driver for Recorder {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn description(&self) -> String {
        self.inner.description()
    }

    fn memory(&self) -> DriverMemory {
        self.inner.memory()
    }

    fn busy(&self) -> Option<Busy> {
        self.inner.busy()
    }

    fn create_queue(&self, role: QueueRole) -> Result<QueueId> {
        self.noted("create_queue", self.inner.create_queue(role))
    }

    fn allocate(&self, queue: QueueId, bytes: u64) -> Result<DevicePtr> {
        self.noted("allocate", self.inner.allocate(queue, bytes))
    }

    fn free(&self, queue: QueueId, ptr: DevicePtr) -> Result<()> {
        self.note_thread();
        self.noted("free", self.inner.free(queue, ptr))
    }

    fn trim(&self) -> Result<u64> {
        self.note_thread();
        self.noted("trim", self.inner.trim())
    }

    fn allocate_host(&self, bytes: usize) -> Result<HostMemory> {
        self.inner.allocate_host(bytes)
    }

    fn copy_out(&self, queue: QueueId, from: DevicePtr, to: &HostRange) -> Result<()> {
        self.noted(&format!("copy_out{}", kind(to)), self.inner.copy_out(queue, from, to))
    }

    fn copy_in(&self, queue: QueueId, from: &HostRange, to: DevicePtr) -> Result<()> {
        self.noted(&format!("copy_in{}", kind(from)), self.inner.copy_in(queue, from, to))
    }

    fn copy(&self, queue: QueueId, from: DevicePtr, to: DevicePtr, bytes: u64) -> Result<()> {
        self.inner.copy(queue, from, to, bytes)
    }

    fn fill(&self, queue: QueueId, to: DevicePtr, bytes: u64, value: u8) -> Result<()> {
        self.inner.fill(queue, to, bytes, value)
    }

    fn launch_host(&self, queue: QueueId, kernel: HostKernel) -> Result<()> {
        self.inner.launch_host(queue, kernel)
    }

    fn record(&self, queue: QueueId) -> Result<Fence> {
        self.inner.record(queue)
    }

    fn wait(&self, queue: QueueId, fence: Fence) -> Result<()> {
        self.inner.wait(queue, fence)
    }

    fn is_passed(&self, fence: Fence) -> Result<bool> {
        self.inner.is_passed(fence)
    }

    fn retire(&self, fence: Fence) {
        self.inner.retire(fence);
    }

    fn park(&self, patience: Duration) {
        self.inner.park(patience);
    }

    fn unpark(&self) {
        self.inner.unpark();
    }

    fn now(&self) -> Duration {
        self.inner.now()
    }

    fn advance(&self) -> bool {
        self.inner.advance()
    }

    fn charge(&self, pause: Duration) {
        self.inner.charge(pause);
    }

    fn charge_copy(&self, bytes: u64) {
        self.inner.charge_copy(bytes);
    }

    fn as_any(&self) -> &dyn Any {
        self.inner.as_any()
    }
}
