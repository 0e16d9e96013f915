//! What a device's driver must offer: one small, object-safe trait that submits work and hands back fences.
//!
//! A driver knows nothing of residency. It never waits for the device, and it is the only layer with `unsafe`.

mod aligned;
mod busy;
#[cfg(any(feature = "cuda", feature = "hip", feature = "level-zero"))]
mod cache;
mod caps;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(any(feature = "cuda", feature = "hip"))]
mod cuda_like;
mod error;
pub mod fault;
#[cfg(any(feature = "cuda", feature = "hip", feature = "level-zero"))]
mod fences;
#[cfg(all(test, any(feature = "hip", feature = "level-zero")))]
mod headers;
#[cfg(feature = "hip")]
pub mod hip;
mod host;
mod kernel;
#[cfg(feature = "level-zero")]
pub mod level_zero;
#[cfg(any(feature = "hip", feature = "level-zero"))]
mod loader;
#[cfg(target_vendor = "apple")]
pub mod metal;
mod names;
#[cfg(any(feature = "cuda", feature = "hip", feature = "level-zero"))]
mod pace;
#[cfg(any(feature = "cuda", feature = "hip", feature = "level-zero"))]
mod queues;
pub mod sim;
#[cfg(any(feature = "cuda", feature = "hip", feature = "level-zero"))]
mod staged;
#[cfg(any(feature = "cuda", feature = "hip", feature = "level-zero"))]
mod symbols;
mod unified;
#[cfg(any(feature = "cuda", feature = "hip", feature = "level-zero"))]
mod watch;

pub use busy::Busy;
pub(crate) use busy::Share;
pub use caps::{Caps, DriverMemory};
#[cfg(any(feature = "cuda", feature = "hip", feature = "level-zero"))]
use error::invalid;
pub use error::{DriverError, DriverErrorKind, Result};
pub(crate) use host::HostSlab;
pub use host::{HostKind, HostMemory, HostRange};
pub use kernel::{Arg, ArgAccess, HostKernel};
pub use names::{DevicePtr, Fence, QueueId, QueueRole};

use std::{any::Any, ffi::c_void, fmt, time::Duration};

/// One device behind its vendor's library, or the simulated one.
///
/// Calls may come from any thread. All of them submit and return; none waits for the device, except where
/// [`Caps::pageable_copies_wait`] says so, a queue is full, memory is freed or trimmed that is not
/// [`stream_ordered`](Caps::stream_ordered), or the device is [drained](Driver::drain). Sizes are in bytes.
///
/// ```
/// use std::{sync::Arc, time::Duration};
/// use tack_residency::driver::{ArgAccess, Driver, DriverErrorKind, HostKernel, HostRange, QueueRole};
/// use tack_residency::driver::sim::{Config, Sim};
///
/// let device = Sim::open(Config::profile("pcie4")?)?;
/// let queue = device.create_queue(QueueRole::Compute)?;
/// let [from, to] = [device.allocate(queue, 1024)?, device.allocate(queue, 1024)?];
/// device.fill(queue, from, 1024, 7)?;
/// device.copy(queue, from, to, 1024)?;
/// let host = Arc::new(device.allocate_host(1024)?);
/// device.copy_out(queue, to, &HostRange::whole(host.clone()))?;
/// device.copy_in(queue, &HostRange::whole(host.clone()), from)?;
/// let fence = device.record(queue)?;
/// while !device.is_passed(fence)? {
///     device.advance(); // on a real clock: `park`
/// }
/// device.retire(fence);
/// let mut bytes = [0; 1024];
/// host.read(0, &mut bytes);
/// assert_eq!(bytes, [7; 1024]);
///
/// let before = device.now();
/// device.charge(Duration::from_millis(1));
/// assert_eq!(device.now() - before, Duration::from_millis(1));
/// device.charge_copy(6_000_000); // at 6 GB/s
/// assert_eq!(device.now() - before, Duration::from_millis(2));
///
/// device.free(queue, from)?;
/// device.free(queue, to)?;
/// device.trim()?;
/// device.drain()?;
/// assert_eq!(device.memory().free, device.memory().total);
/// assert!(device.caps().computed_clock && device.description().contains("pcie4"));
/// assert!(device.as_any().is::<Sim>());
///
/// // Where kernels are closures:
/// let ptr = device.allocate(queue, 4)?;
/// let kernel = HostKernel::new(Duration::ZERO, |args| args[0].bytes_mut().fill(7));
/// device.launch_host(queue, kernel.arg(ptr, 4, ArgAccess::Write))?;
///
/// // Where they are the vendor's, its calls take the queue's own handle:
/// assert_eq!(device.raw_queue(queue).unwrap_err().kind, DriverErrorKind::Unsupported);
///
/// // And where there are other processes, they can be given memory of no pool:
/// let fixed = device.allocate_fixed(queue, 1024)?;
/// assert_eq!(device.share(fixed).unwrap_err().kind, DriverErrorKind::Unsupported);
/// device.free(queue, fixed)?;
///
/// // On a real clock, whoever waits for fences rests in between.
/// let device = Sim::open(Config::new())?;
/// device.unpark(); // from another thread: there is something new to wait for
/// device.park(Duration::from_secs(60)); // does not rest, since that was before
/// # Ok::<(), tack_residency::driver::DriverError>(())
/// ```
///
/// # Errors
///
/// A call that returns an error has done nothing. A failure of work already queued shows in
/// [`is_passed`](Driver::is_passed) and every later call as [`DriverErrorKind::Lost`].
pub trait Driver: Send + Sync + fmt::Debug + 'static {
    /// What the device can do.
    fn caps(&self) -> &Caps;

    /// A line for people: the device's model, and what it is behind.
    fn description(&self) -> String;

    /// Which physical device it is, where it is one: all drivers of one say the same, and no others do. One
    /// [`Device`](crate::Device) manages it in a process at a time.
    ///
    /// ```
    /// use tack_residency::driver::{Driver, sim::{Config, Sim}};
    ///
    /// assert_eq!(Sim::open(Config::new())?.identity(), None); // each simulated one is a device of its own
    /// # Ok::<(), tack_residency::driver::DriverError>(())
    /// ```
    fn identity(&self) -> Option<String> {
        None
    }

    /// Whether the calling thread may call the driver now: not where it runs a host kernel's body for a vendor, who refuses
    /// that, or would wait for this very work. What is to be done is then another thread's.
    ///
    /// ```
    /// use tack_residency::driver::{Driver, sim::{Config, Sim}};
    ///
    /// assert!(Sim::open(Config::new())?.may_call());
    /// # Ok::<(), tack_residency::driver::DriverError>(())
    /// ```
    fn may_call(&self) -> bool {
        true
    }

    /// What the driver says of the device's memory now.
    fn memory(&self) -> DriverMemory;

    /// How long the device's engines were busy, if the driver can say.
    ///
    /// ```
    /// # use tack_residency::{Device, driver::{Driver, sim::{Config, Sim}}};
    /// let driver = Sim::open(Config::profile("pcie4")?)?;
    /// let device = Device::options().open_driver("sim:pcie4", driver.clone())?;
    /// device.alloc(1 << 20).wait()?.spill().wait()?;
    /// let busy = driver.busy().expect("a simulated device can tell");
    /// assert!(busy.copy_out > busy.copy_in);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    fn busy(&self) -> Option<Busy> {
        None
    }

    /// Makes a further queue.
    fn create_queue(&self, role: QueueRole) -> Result<QueueId>;

    /// Allocates on `queue`'s timeline; `bytes` is above zero and a multiple of the granularity.
    fn allocate(&self, queue: QueueId, bytes: u64) -> Result<DevicePtr>;

    /// As [`allocate`](Driver::allocate), memory that is never freed in a queue's order, and that
    /// [`share`](Driver::share) takes: of no pool, where the driver has one.
    fn allocate_fixed(&self, queue: QueueId, bytes: u64) -> Result<DevicePtr> {
        self.allocate(queue, bytes)
    }

    /// Frees on `queue`'s timeline what [`allocate`](Driver::allocate) gave. Where memory is not
    /// [`stream_ordered`](Caps::stream_ordered), no work that is queued may use it any more: the next allocation, on
    /// whatever queue, may be given it at once.
    fn free(&self, queue: QueueId, ptr: DevicePtr) -> Result<()>;

    /// Gives what the driver's pool keeps beyond use back to the device; how many bytes that was.
    fn trim(&self) -> Result<u64>;

    /// Waits, where [`Caps::drains`] says so, until all that anyone has queued on the device so far is done, on whatever stream.
    fn drain(&self) -> Result<()> {
        Ok(())
    }

    /// Allocates pinned host memory. Never write-combined. Freed when the value is dropped.
    fn allocate_host(&self, bytes: usize) -> Result<HostMemory>;

    /// Queues a copy from the device to the host. The driver keeps `to` alive until it has run.
    fn copy_out(&self, queue: QueueId, from: DevicePtr, to: &HostRange) -> Result<()>;

    /// Queues a copy from the host to the device. The driver keeps `from` alive until it has run.
    fn copy_in(&self, queue: QueueId, from: &HostRange, to: DevicePtr) -> Result<()>;

    /// Queues a copy within the device.
    fn copy(&self, queue: QueueId, from: DevicePtr, to: DevicePtr, bytes: u64) -> Result<()>;

    /// Whether [`copy_to_peer`](Driver::copy_to_peer) takes this device for its peer.
    ///
    /// ```
    /// use tack_residency::driver::{Driver, DriverErrorKind, QueueRole, sim::{Config, Sim}};
    ///
    /// let [device, other] = [Sim::open(Config::new())?, Sim::open(Config::new())?];
    /// assert!(!device.is_peer(&*other)); // between simulated devices bytes go through the host
    ///
    /// let queue = device.create_queue(QueueRole::Compute)?;
    /// let (from, to) = (device.allocate(queue, 512)?, other.allocate(other.create_queue(QueueRole::Compute)?, 512)?);
    /// let error = device.copy_to_peer(queue, from, &*other, to, 512).unwrap_err();
    /// assert_eq!(error.kind, DriverErrorKind::Unsupported);
    /// # Ok::<(), tack_residency::driver::DriverError>(())
    /// ```
    fn is_peer(&self, other: &dyn Driver) -> bool {
        let _ = other;
        false
    }

    /// Queues a copy to the memory of another device, its peer. It is in no order of that device's queues: what is queued
    /// there and touches `to` has been passed before, and what comes behind the copy waits, on the host, for a fence of
    /// `queue`.
    fn copy_to_peer(
        &self,
        queue: QueueId,
        from: DevicePtr,
        peer: &dyn Driver,
        to: DevicePtr,
        bytes: u64,
    ) -> Result<()> {
        let _ = (queue, from, peer, to, bytes);
        let message = "this device copies to no other's memory: copy through the host";
        Err(DriverError::new(DriverErrorKind::Unsupported, "copy_to_peer", 0, message))
    }

    /// Queues the setting of every byte to `value`.
    fn fill(&self, queue: QueueId, to: DevicePtr, bytes: u64, value: u8) -> Result<()>;

    /// Queues a kernel that runs on the host. On a vendor's device its arguments' bytes are brought to pinned memory for it,
    /// and those it may write are taken back, all in the queue's order.
    fn launch_host(&self, queue: QueueId, kernel: HostKernel) -> Result<()> {
        let _ = (queue, kernel);
        Err(DriverError::new(
            DriverErrorKind::Unsupported,
            "launch_host",
            0,
            "this device runs no host kernels",
        ))
    }

    /// The vendor's own handle of a queue, for kernels that the program queues by the vendor's calls: CUDA's
    /// `CUstream`, HIP's `hipStream_t`, Level Zero's `ze_command_list_handle_t`. What those calls need current on the
    /// calling thread, its context, is so afterwards.
    fn raw_queue(&self, queue: QueueId) -> Result<*mut c_void> {
        let _ = queue;
        Err(DriverError::new(
            DriverErrorKind::Unsupported,
            "raw_queue",
            0,
            "this device's queues are no vendor's: it runs host kernels",
        ))
    }

    /// The vendor's handle by which another process opens what [`allocate_fixed`](Driver::allocate_fixed) gave: CUDA's
    /// `CUipcMemHandle`, HIP's `hipIpcMemHandle_t`.
    fn share(&self, ptr: DevicePtr) -> Result<[u8; 64]> {
        let _ = ptr;
        let message = "this device's memory cannot be shared with another process";
        Err(DriverError::new(DriverErrorKind::Unsupported, "share", 0, message))
    }

    /// Records a fence behind all that is queued on `queue` so far.
    fn record(&self, queue: QueueId) -> Result<Fence>;

    /// Makes work queued on `queue` from now on wait, on the device, for `fence`.
    fn wait(&self, queue: QueueId, fence: Fence) -> Result<()>;

    /// Whether the device has passed `fence`.
    fn is_passed(&self, fence: Fence) -> Result<bool>;

    /// Gives a fence back for reuse: it has passed, and so has every queue told to wait for it.
    fn retire(&self, fence: Fence);

    /// Rests the calling thread until a fence may have passed, [`unpark`](Driver::unpark) is called, or
    /// `patience` is over. For the device's own thread alone; never called on a computed clock.
    fn park(&self, patience: Duration);

    /// Ends a [`park`](Driver::park) early, or the next one.
    fn unpark(&self);

    /// Time since the device was opened.
    fn now(&self) -> Duration;

    /// On a computed clock, moves time on to when the host learns of the next completion; false if nothing is
    /// under way. On a real clock, always false.
    fn advance(&self) -> bool {
        false
    }

    /// On a computed clock, moves time on by `pause` as if the host had been busy with other things.
    fn charge(&self, pause: Duration) {
        let _ = pause;
    }

    /// On a computed clock, moves time on by what the host takes to copy `bytes` bytes between two places of its own
    /// memory, if the driver can say.
    fn charge_copy(&self, bytes: u64) {
        let _ = bytes;
    }

    /// The driver itself, for programs that need what only it has.
    fn as_any(&self) -> &dyn Any;
}
