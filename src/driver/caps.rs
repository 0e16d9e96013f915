//! What a driver says of its device: what it can do, and what memory it has.

/// What a device and its driver can do. Constant for a driver's life.
///
/// ```
/// use tack_residency::Device;
///
/// let [sim, cpu] = [Device::open("sim")?, Device::open("cpu")?];
/// assert!(sim.driver().caps().spills);
/// assert!(!cpu.driver().caps().spills);
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Caps {
    /// Buffers can be moved to host memory. False where the host's memory is the device's.
    pub spills: bool,
    /// Allocation and free take effect in their queue's order, and memory freed in a queue can be allocated
    /// again in the same queue at once. False where both are plain calls of the host.
    pub stream_ordered: bool,
    /// What sizes are rounded up to, in bytes. At least 1.
    pub granularity: u64,
    /// The most bytes one allocation may be, where the driver has such a limit.
    pub max_allocation: Option<u64>,
    /// The driver grants more memory than the device has, so that a refusal never comes.
    pub overcommits: bool,
    /// Time is computed: it moves only when the host is charged for a call or calls
    /// [`Driver::advance`](super::Driver::advance).
    pub computed_clock: bool,
    /// [`Driver::drain`](super::Driver::drain) waits for what others of the process have queued on streams that are not this
    /// driver's.
    pub drains: bool,
    /// Copies to and from ordinary (not pinned) host memory make the caller wait.
    pub pageable_copies_wait: bool,
}

/// What the driver says of a device's memory, in bytes.
///
/// ```
/// use tack_residency::driver::{Driver, DriverMemory, sim::{Config, Sim}};
///
/// let device = Sim::open(Config::new().with_capacity(1 << 30))?;
/// let memory: DriverMemory = device.memory();
/// assert_eq!((memory.free, memory.total, memory.cached), (Some(1 << 30), Some(1 << 30), 0));
/// # Ok::<(), tack_residency::driver::DriverError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DriverMemory {
    /// Free, if the driver can say. A report, never a basis for decisions.
    pub free: Option<u64>,
    /// All there is, if the driver can say.
    pub total: Option<u64>,
    /// Held by the driver's pool beyond what is allocated from it.
    pub cached: u64,
}
