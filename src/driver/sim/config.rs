//! What a simulated device is like: how much memory, how fast, on which clock.

use super::{profiles, table::ALIGN};
use crate::driver::{DriverError, DriverErrorKind, Result};
use std::{str::FromStr, time::Duration};

const GIB: u64 = 1 << 30;

/// How a simulated device's time passes.
///
/// ```
/// use std::time::Duration;
/// use tack_residency::driver::{Driver, sim::{Clock, Config, Sim}};
///
/// let device = Sim::open(Config::new().with_clock(Clock::Computed))?;
/// device.charge(Duration::from_secs(3600)); // nobody sleeps
/// assert_eq!(device.now(), Duration::from_secs(3600));
/// # Ok::<(), tack_residency::driver::DriverError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Clock {
    /// The host's own: work runs on threads and takes at least as long as the model says.
    Real,
    /// A number: work takes exactly as long as the model says, and nobody waits. Time moves only when the host
    /// is charged for a call, or by [`Driver::advance`](crate::driver::Driver::advance) and
    /// [`charge`](crate::driver::Driver::charge).
    Computed,
}

/// How a simulated device allocates.
///
/// ```
/// use tack_residency::{Device, driver::sim::{Config, Pool, Sim}};
///
/// let config = Config::new().with_pool(Pool::None); // as HIP and Level Zero
/// let device = Device::options().open_driver("sim", Sim::open(config)?)?;
/// assert!(!device.driver().caps().stream_ordered);
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Pool {
    /// In the order of a queue, from a pool of the device's own without hidden dependencies between queues: what
    /// was freed on one queue may be allocated again there at once, and on another once that queue waits for a
    /// fence behind the free, or once the free has happened.
    StreamOrdered,
    /// By plain calls of the host. A free waits for the whole device, as `cudaFree` does; on a computed clock it
    /// moves time to when the device is idle.
    None,
}

/// Whether a simulated device holds the bytes of its memory.
///
/// ```
/// use tack_residency::{Device, driver::sim::{Config, Contents, Sim}};
///
/// let config = Config::profile("h200")?.with_contents(Contents::NotHeld);
/// let device = Device::options().open_driver("sim:h200", Sim::open(config)?)?;
/// let buffer = device.alloc(100 << 30).uninitialised().wait()?; // takes no memory of the host
/// assert_eq!(device.memory_info().in_use, 100 << 30);
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Contents {
    /// It does: copies copy and kernels run.
    Held,
    /// It does not: only sizes and times are simulated, so that a device of any size fits anywhere.
    NotHeld,
}

/// Whether a simulated device keeps a record of what ran when.
///
/// ```
/// use tack_residency::{Device, driver::sim::{Config, Sim, Trace}};
///
/// let driver = Sim::open(Config::profile("pcie4")?.with_trace(Trace::Recorded))?;
/// let device = Device::options().open_driver("sim:pcie4", driver.clone())?;
/// device.alloc(4096).wait()?.spill().wait()?;
/// assert!(driver.spans().iter().any(|span| span.label == "copy_out"));
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Trace {
    /// It does, for [`Sim::spans`](super::Sim::spans).
    Recorded,
    /// It does not.
    Off,
}

/// One direction between host and device, with a copy engine of its own.
///
/// ```
/// use std::time::Duration;
/// use tack_residency::{Device, driver::{Driver, sim::{Clock, Config, Link, Sim}}};
///
/// let link = Link { pinned_bandwidth: Some(1_000_000_000), call: Duration::from_micros(10), ..Link::default() };
/// let config = Config::new().with_clock(Clock::Computed).with_outward(link).with_inward(link);
/// let driver = Sim::open(config)?;
/// let device = Device::options().open_driver("sim", driver.clone())?;
/// device.alloc(1_000_000).wait()?.spill().wait()?;
/// assert_eq!(driver.busy().expect("it can tell").copy_out, Duration::from_micros(1010));
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Link {
    /// Bytes a second to or from pinned memory; none is as fast as memory goes.
    pub pinned_bandwidth: Option<u64>,
    /// Bytes a second to or from ordinary memory; none is as fast as memory goes.
    pub pageable_bandwidth: Option<u64>,
    /// What each copy keeps the engine for besides its bytes.
    pub call: Duration,
    /// What passes between the engine's end of a copy and the queue's: the engine is free meanwhile.
    pub latency: Duration,
}

/// What pinning host memory costs.
///
/// ```
/// use std::time::Duration;
/// use tack_residency::driver::{Driver, sim::{Clock, Config, Pinning, PinningWaits, Sim}};
///
/// let pinning = Pinning { call: Duration::from_millis(1), waits: PinningWaits::Device, ..Pinning::default() };
/// let device = Sim::open(Config::new().with_clock(Clock::Computed).with_pinning(pinning))?;
/// let memory = device.allocate_host(4096)?;
/// assert_eq!(device.now(), Duration::from_millis(1));
/// # Ok::<(), tack_residency::driver::DriverError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pinning {
    /// Host time a call.
    pub call: Duration,
    /// Bytes a second besides; none is at once.
    pub bandwidth: Option<u64>,
    /// What else pinning waits for.
    pub waits: PinningWaits,
}

/// What a call that pins host memory waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum PinningWaits {
    /// Nothing.
    #[default]
    Nothing,
    /// For the whole device to be idle.
    Device,
}

/// What a simulated device is like. Fields may be set one by one, or through the `with_` calls.
///
/// ```
/// use std::time::Duration;
/// use tack_residency::driver::sim::{Config, Sim};
///
/// let device = Sim::open(Config::profile("pcie4")?.with_capacity(1 << 30))?;
/// assert_eq!(device.config().capacity, 1 << 30);
///
/// // Two whose addresses are apart, as those of real devices are.
/// let [first, second] = [1, 2].map(|place| Config::new().with_first_address(place << 44));
/// assert_ne!(first, second);
///
/// // A card with quirks: large pages, small allocations, one kernel at a time, a slow host.
/// let quirky = Config::new()
///     .with_granularity(64 << 10)
///     .with_max_allocation(Some(4 << 30))
///     .with_concurrent_kernels(Some(1))
///     .with_launch_depth(64)
///     .with_submit(Duration::from_micros(20))
///     .with_reaction(Duration::from_micros(50))
///     .with_copy_cuts(8) // a copy's bytes move in eight pieces
///     .with_poison(Some(7)); // fresh memory is filled by this seed
/// assert_eq!(Sim::open(quirky)?.config().granularity, 64 << 10);
/// # Ok::<(), tack_residency::driver::DriverError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Config {
    /// What the device is called.
    pub name: String,
    /// Device memory, in bytes.
    pub capacity: u64,
    /// The address of its first allocation, a multiple of 256: several devices of one process need not share addresses.
    pub first_address: u64,
    /// What sizes are rounded up to, in bytes.
    pub granularity: u64,
    /// The most bytes one allocation may be.
    pub max_allocation: Option<u64>,
    /// Grants more than `capacity`, as drivers that page do.
    pub overcommits: bool,
    /// From the device to the host.
    pub outward: Link,
    /// From the host to the device.
    pub inward: Link,
    /// Bytes a second the device's memory reads or writes, for copies within it and fills.
    pub memory_bandwidth: Option<u64>,
    /// How many kernels of different queues run at the same time; none is as many as there are queues.
    pub concurrent_kernels: Option<usize>,
    /// Host time for each call that submits work.
    pub submit: Duration,
    /// Time until the host learns of a completion that it waits for, on a computed clock.
    pub reaction: Duration,
    /// What pinning host memory costs.
    pub pinning: Pinning,
    /// Kernels pending in one queue at which a launch makes the host wait.
    pub launch_depth: usize,
    /// How the device allocates.
    pub pool: Pool,
    /// How its time passes.
    pub clock: Clock,
    /// Whether it holds bytes.
    pub contents: Contents,
    /// In how many pieces a copy's bytes move, evenly over its time: what else touches them may come between. A
    /// single piece is the fastest on a real clock without a bandwidth.
    pub copy_cuts: u32,
    /// Seeds what fresh memory is filled with before it is written: 0 gives 0xCD everywhere, any other seed a
    /// byte for each allocation. None leaves whatever is there, which saves the time to fill.
    pub poison: Option<u64>,
    /// Whether it keeps a record of what ran when.
    pub trace: Trace,
}

impl Default for Config {
    /// A modest device on the real clock, whose copies go as fast as memory does: 8 GiB, a stream-ordered pool.
    fn default() -> Config {
        Config {
            name: "sim".to_owned(),
            capacity: 8 * GIB,
            first_address: 0x7f00_0000_0000,
            granularity: 512,
            max_allocation: None,
            overcommits: false,
            outward: Link::default(),
            inward: Link::default(),
            memory_bandwidth: None,
            concurrent_kernels: None,
            submit: Duration::ZERO,
            reaction: Duration::ZERO,
            pinning: Pinning::default(),
            launch_depth: 1024,
            pool: Pool::StreamOrdered,
            clock: Clock::Real,
            contents: Contents::Held,
            copy_cuts: 4,
            poison: Some(0),
            trace: Trace::Off,
        }
    }
}

/// One setter for each field that programs set often.
macro_rules! with {
    ($($(#[$doc:meta])* $name:ident: $field:ident: $kind:ty;)*) => {
        $($(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $field: $kind) -> Config {
            self.$field = $field;
            self
        })*
    };
}

impl Config {
    /// The modest device of [`Config::default`].
    pub fn new() -> Config {
        Config::default()
    }

    /// A device by its name in [`Config::profiles`].
    ///
    /// ```
    /// # use tack_residency::driver::sim::Config;
    /// assert_eq!(Config::profile("h200")?.capacity, 141 << 30);
    /// let same: Config = "h200".parse()?;
    /// assert!(Config::profiles().contains(&same.name.as_str()));
    /// # Ok::<(), tack_residency::driver::DriverError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Unavailable` if there is no profile of that name; the message lists those there are.
    pub fn profile(name: &str) -> Result<Config> {
        profiles::find(name).ok_or_else(|| {
            let known = Config::profiles().join(", ");
            let message = format!("no simulated device is called {name:?}: the profiles are {known}");
            DriverError::new(DriverErrorKind::Unavailable, "profile", 0, message)
        })
    }

    /// The names that [`Config::profile`] knows.
    ///
    /// ```
    /// # use tack_residency::driver::sim::Config;
    /// assert!(Config::profiles().contains(&"rtx6000ada"));
    /// ```
    pub fn profiles() -> Vec<&'static str> {
        profiles::names().collect()
    }

    with! {
        /// Sets the device memory, in bytes.
        with_capacity: capacity: u64;
        /// Sets the address of the first allocation.
        with_first_address: first_address: u64;
        /// Sets what sizes are rounded up to, in bytes.
        with_granularity: granularity: u64;
        /// Sets the most bytes one allocation may be.
        with_max_allocation: max_allocation: Option<u64>;
        /// Sets the link from the device to the host.
        with_outward: outward: Link;
        /// Sets the link from the host to the device.
        with_inward: inward: Link;
        /// Sets how many kernels of different queues run at the same time.
        with_concurrent_kernels: concurrent_kernels: Option<usize>;
        /// Sets the host time for each call that submits work.
        with_submit: submit: Duration;
        /// Sets the time until the host learns of a completion.
        with_reaction: reaction: Duration;
        /// Sets what pinning costs.
        with_pinning: pinning: Pinning;
        /// Sets at how many pending kernels a launch waits.
        with_launch_depth: launch_depth: usize;
        /// Sets how the device allocates.
        with_pool: pool: Pool;
        /// Sets how time passes.
        with_clock: clock: Clock;
        /// Sets whether bytes are held.
        with_contents: contents: Contents;
        /// Sets in how many pieces a copy's bytes move.
        with_copy_cuts: copy_cuts: u32;
        /// Sets what fresh memory is filled with.
        with_poison: poison: Option<u64>;
        /// Sets whether a record of what ran is kept.
        with_trace: trace: Trace;
    }

    pub(super) fn check(&self) -> Result<()> {
        let links = [self.outward, self.inward];
        let speeds = links.iter().flat_map(|link| [link.pinned_bandwidth, link.pageable_bandwidth]);
        let mut speeds = speeds.chain([self.memory_bandwidth, self.pinning.bandwidth]);
        let wrong = if self.granularity == 0 {
            "granularity must be at least 1 byte"
        } else if self.copy_cuts == 0 {
            "copy_cuts must be at least 1"
        } else if self.launch_depth == 0 || self.concurrent_kernels == Some(0) {
            "launch_depth and concurrent_kernels must be at least 1"
        } else if self.first_address == 0 || !self.first_address.is_multiple_of(ALIGN) {
            "first_address must be a multiple of 256 above zero"
        } else if speeds.any(|speed| speed == Some(0)) {
            "a bandwidth must be above zero: leave it out for one without limit"
        } else {
            return Ok(());
        };
        Err(DriverError::new(DriverErrorKind::Invalid, "open", 0, wrong))
    }
}

impl FromStr for Config {
    type Err = DriverError;

    fn from_str(name: &str) -> Result<Config> {
        Config::profile(name)
    }
}
