//! A driver around another that fails where a test says: the n-th call of a kind, or a fixed share of them.
//!
//! Never changes what a call does that it lets through. A call it refuses has done nothing.

mod plan;
#[cfg(test)]
mod tests;

pub use plan::{Call, Effect, Step};

use super::{
    Busy, Caps, DevicePtr, Driver, DriverError, DriverErrorKind, DriverMemory, Fence, HostKernel, HostMemory,
    HostRange, QueueId, QueueRole, Result, sim::Sim,
};
use plan::Plan;
use std::{
    any::Any,
    ffi::c_void,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// A driver that fails on purpose.
///
/// ```
/// use tack_residency::driver::{Driver, DriverErrorKind, QueueRole};
/// use tack_residency::driver::fault::{Call, Effect, Fault, Step};
/// use tack_residency::driver::sim::{Config, Sim};
///
/// let refusal = Effect::Refuse(DriverErrorKind::OutOfMemory);
/// let device = Fault::new(Sim::open(Config::new())?, [Step::new(Call::Allocate, 1, refusal)]);
/// let queue = device.create_queue(QueueRole::Compute)?;
/// device.allocate(queue, 512)?;
/// assert!(device.allocate(queue, 512).is_err());
/// device.allocate(queue, 512)?;
/// assert_eq!(device.calls(Call::Allocate), 3);
/// # Ok::<(), tack_residency::driver::DriverError>(())
/// ```
#[derive(Debug)]
pub struct Fault {
    inner: Arc<dyn Driver>,
    plan: Plan,
    calls: [AtomicU64; Call::ALL.len()],
    refused: AtomicU64,
    lost: Mutex<Option<DriverError>>,
}

impl Fault {
    /// A driver that does what `script` says to the calls it names, and lets the others through.
    pub fn new(inner: Arc<dyn Driver>, script: impl IntoIterator<Item = Step>) -> Arc<Fault> {
        Fault::with_plan(inner, Plan::Script(script.into_iter().collect()))
    }

    /// A driver that refuses about one in `one_in` of the calls of these kinds: allocations as out of memory, the
    /// others as refused. The same seed and calls give the same refusals.
    ///
    /// ```
    /// use tack_residency::{Device, driver::{Driver, fault::{Call, Fault}, sim::{Config, Sim}}};
    ///
    /// let driver = Fault::random(Sim::open(Config::new())?, 1, 2, &[Call::Fill]); // about every other one
    /// let device = Device::options().open_driver("sim", driver.clone())?;
    /// let buffer = device.alloc(4096).uninitialised().wait()?;
    /// let failed = (0..100).filter(|_| buffer.fill(7).wait().is_err()).count() as u64;
    /// assert!((20..80).contains(&failed));
    /// assert_eq!((driver.calls(Call::Fill), driver.refused()), (100, failed));
    /// assert!(driver.inner().caps().spills);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn random(inner: Arc<dyn Driver>, seed: u64, one_in: u64, calls: &[Call]) -> Arc<Fault> {
        Fault::with_plan(inner, Plan::Random { seed, one_in: one_in.max(1), calls: calls.to_vec() })
    }

    fn with_plan(inner: Arc<dyn Driver>, plan: Plan) -> Arc<Fault> {
        let (calls, refused, lost) = Default::default();
        Arc::new(Fault { inner, plan, calls, refused, lost })
    }

    /// The driver inside.
    pub fn inner(&self) -> &Arc<dyn Driver> {
        &self.inner
    }

    /// Calls of this kind so far, those that failed included.
    ///
    /// ```
    /// # use tack_residency::{Device, driver::{fault::{Call, Fault}, sim::{Config, Sim}}};
    /// let driver = Fault::new(Sim::open(Config::new())?, []);
    /// let device = Device::options().open_driver("sim", driver.clone())?;
    /// device.alloc(4096).wait()?.spill().wait()?;
    /// assert_eq!((driver.calls(Call::CopyOut), driver.calls(Call::CopyIn)), (1, 0));
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn calls(&self, call: Call) -> u64 {
        self.calls[call as usize].load(Ordering::Acquire)
    }

    /// Calls refused so far.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Acquire)
    }

    /// Counts a call, and lets it through or does not.
    fn pass(&self, call: Call) -> Result<()> {
        let nth = self.calls[call as usize].fetch_add(1, Ordering::AcqRel);
        if let Some(lost) = self.lost() {
            return Err(lost);
        }
        match self.plan.effect(call, nth) {
            None => Ok(()),
            Some(Effect::Delay(pause)) => {
                if self.inner.caps().computed_clock {
                    self.inner.charge(pause);
                } else {
                    thread::sleep(pause);
                }
                Ok(())
            }
            Some(Effect::Refuse(kind)) => {
                self.refused.fetch_add(1, Ordering::AcqRel);
                let message = format!("call {nth} of its kind was to be refused");
                Err(DriverError::new(kind, call.name(), -1, message))
            }
            Some(Effect::Lose) => {
                let message = format!("call {nth} of its kind was to find the device lost");
                let error = DriverError::new(DriverErrorKind::Lost, call.name(), -2, message);
                *self.lost.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
                if let Some(device) = self.inner.as_any().downcast_ref::<Sim>() {
                    device.lose(error.clone());
                }
                self.inner.unpark();
                Err(error)
            }
        }
    }

    fn lost(&self) -> Option<DriverError> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Driver for Fault {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn description(&self) -> String {
        format!("{}, failing on purpose", self.inner.description())
    }

    fn identity(&self) -> Option<String> {
        self.inner.identity()
    }

    fn may_call(&self) -> bool {
        self.inner.may_call()
    }

    fn memory(&self) -> DriverMemory {
        self.inner.memory()
    }

    fn busy(&self) -> Option<Busy> {
        self.inner.busy()
    }

    fn create_queue(&self, role: QueueRole) -> Result<QueueId> {
        self.pass(Call::CreateQueue)?;
        self.inner.create_queue(role)
    }

    fn allocate(&self, queue: QueueId, bytes: u64) -> Result<DevicePtr> {
        self.pass(Call::Allocate)?;
        self.inner.allocate(queue, bytes)
    }

    fn allocate_fixed(&self, queue: QueueId, bytes: u64) -> Result<DevicePtr> {
        self.pass(Call::Allocate)?;
        self.inner.allocate_fixed(queue, bytes)
    }

    fn share(&self, ptr: DevicePtr) -> Result<[u8; 64]> {
        self.inner.share(ptr)
    }

    /// Once the device is lost, a free is let through: the simulated device then only keeps its books.
    fn free(&self, queue: QueueId, ptr: DevicePtr) -> Result<()> {
        match self.pass(Call::Free) {
            Err(error) if error.kind == DriverErrorKind::Lost => {
                // Nothing more can be done for memory of a lost device.
                let _ = self.inner.free(queue, ptr);
                Ok(())
            }
            Err(error) => Err(error),
            Ok(()) => self.inner.free(queue, ptr),
        }
    }

    fn trim(&self) -> Result<u64> {
        self.pass(Call::Trim)?;
        self.inner.trim()
    }

    fn drain(&self) -> Result<()> {
        self.pass(Call::Drain)?;
        self.inner.drain()
    }

    fn allocate_host(&self, bytes: usize) -> Result<HostMemory> {
        self.pass(Call::AllocateHost)?;
        self.inner.allocate_host(bytes)
    }

    fn copy_out(&self, queue: QueueId, from: DevicePtr, to: &HostRange) -> Result<()> {
        self.pass(Call::CopyOut)?;
        self.inner.copy_out(queue, from, to)
    }

    fn copy_in(&self, queue: QueueId, from: &HostRange, to: DevicePtr) -> Result<()> {
        self.pass(Call::CopyIn)?;
        self.inner.copy_in(queue, from, to)
    }

    fn copy(&self, queue: QueueId, from: DevicePtr, to: DevicePtr, bytes: u64) -> Result<()> {
        self.pass(Call::Copy)?;
        self.inner.copy(queue, from, to, bytes)
    }

    fn is_peer(&self, other: &dyn Driver) -> bool {
        self.inner.is_peer(other)
    }

    /// A peer behind a driver of this kind is found there: it shows what is inside.
    fn copy_to_peer(
        &self,
        queue: QueueId,
        from: DevicePtr,
        peer: &dyn Driver,
        to: DevicePtr,
        bytes: u64,
    ) -> Result<()> {
        self.pass(Call::CopyToPeer)?;
        self.inner.copy_to_peer(queue, from, peer, to, bytes)
    }

    fn fill(&self, queue: QueueId, to: DevicePtr, bytes: u64, value: u8) -> Result<()> {
        self.pass(Call::Fill)?;
        self.inner.fill(queue, to, bytes, value)
    }

    fn launch_host(&self, queue: QueueId, kernel: HostKernel) -> Result<()> {
        self.pass(Call::LaunchHost)?;
        self.inner.launch_host(queue, kernel)
    }

    fn raw_queue(&self, queue: QueueId) -> Result<*mut c_void> {
        self.inner.raw_queue(queue)
    }

    fn record(&self, queue: QueueId) -> Result<Fence> {
        self.pass(Call::Record)?;
        self.inner.record(queue)
    }

    fn wait(&self, queue: QueueId, fence: Fence) -> Result<()> {
        self.pass(Call::Wait)?;
        self.inner.wait(queue, fence)
    }

    fn is_passed(&self, fence: Fence) -> Result<bool> {
        self.pass(Call::IsPassed)?;
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

    /// The driver inside, so that a test finds its simulated device through this one.
    fn as_any(&self) -> &dyn Any {
        self.inner.as_any()
    }
}
