//! What a driver's calls name: addresses, queues, fences.

/// An address in device memory.
///
/// A view's pointer is its buffer's pointer plus its offset.
///
/// ```
/// use tack_residency::driver::DevicePtr;
///
/// let ptr = DevicePtr::from_raw(0x1000);
/// assert_eq!(ptr.offset(16).as_raw(), 0x1010);
/// assert_ne!(ptr, DevicePtr::NULL);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct DevicePtr(pub(super) u64);

impl DevicePtr {
    /// The null address: what an empty buffer has.
    pub const NULL: DevicePtr = DevicePtr(0);

    /// An address another library or driver gave.
    pub const fn from_raw(address: u64) -> DevicePtr {
        DevicePtr(address)
    }

    /// The address as a number, as kernels take it.
    pub const fn as_raw(self) -> u64 {
        self.0
    }

    /// This address, `bytes` further on.
    #[must_use]
    pub const fn offset(self, bytes: u64) -> DevicePtr {
        DevicePtr(self.0.wrapping_add(bytes))
    }
}

/// One of a device's queues: its work runs in order, and beside the work of the others.
///
/// ```
/// use tack_residency::driver::{Driver, QueueId, QueueRole, sim::{Config, Sim}};
///
/// let device = Sim::open(Config::new())?;
/// assert_eq!(device.create_queue(QueueRole::Compute)?, QueueId(0));
/// assert_eq!(device.create_queue(QueueRole::Spill)?, QueueId(1));
/// # Ok::<(), tack_residency::driver::DriverError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QueueId(pub u32);

/// A mark in a queue that has been recorded. Passed when all work queued before it has ended.
///
/// A fence not yet recorded does not exist as a value, since drivers call such a one complete.
///
/// ```
/// use tack_residency::driver::{Driver, Fence, QueueRole, sim::{Config, Sim}};
///
/// let device = Sim::open(Config::profile("pcie4")?)?;
/// let [compute, spill] = [device.create_queue(QueueRole::Compute)?, device.create_queue(QueueRole::Spill)?];
/// let written: Fence = device.record(compute)?;
/// device.wait(spill, written)?; // what is queued on `spill` from here on comes behind it
/// # Ok::<(), tack_residency::driver::DriverError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Fence(pub u64);

/// What a queue is for. A driver may choose a copy engine by it.
///
/// ```
/// use tack_residency::driver::{Driver, QueueRole, sim::{Config, Sim}};
///
/// let device = Sim::open(Config::new())?;
/// let roles = [QueueRole::Compute, QueueRole::Spill, QueueRole::Restore, QueueRole::Release];
/// for role in roles {
///     device.create_queue(role)?;
/// }
/// # Ok::<(), tack_residency::driver::DriverError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum QueueRole {
    /// Kernels, and whatever is ordered with them.
    Compute,
    /// Copies from the device to the host.
    Spill,
    /// Copies from the host to the device.
    Restore,
    /// Frees, and nothing else.
    Release,
}
