//! How a device is opened.

use crate::{
    device::Device,
    devices,
    driver::{Driver, HostKind},
    engine::{Engine, HostTier, Owner, Settings},
    error::{Error, ErrorKind, Result},
    residency::{Bytes, Policy, Victims},
};
use std::{fmt, sync::Arc, time::Duration};

/// Options of a device: budget, host memory, hook, tags.
///
/// ```
/// use tack_residency::{Device, HostMemoryKind};
///
/// let device = Device::options()
///     .budget(64 << 20)
///     .host_memory(HostMemoryKind::Ordinary)
///     .on_memory_pressure(|bytes| println!("{bytes} bytes are wanted"))
///     .tag("example") // of buffers that name none
///     .open("sim")?;
/// assert_eq!(device.memory_info().budget, Some(64 << 20));
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct Options {
    budget: Option<u64>,
    host: HostMemoryKind,
    host_limit: u64,
    pinned_limit: u64,
    hook: Option<crate::engine::Hook>,
    tag: Option<Arc<str>>,
    stall_after: Duration,
    policy: Policy,
    victims: Victims,
    spilling: bool,
    write_back: Option<(u8, u8)>,
}

/// Where host copies live.
///
/// ```
/// # use tack_residency::{Device, HostMemoryKind};
/// let device = Device::options().host_memory(HostMemoryKind::Ordinary).open("sim")?;
/// let buffer = device.alloc(4096).wait()?;
/// buffer.spill().wait()?;
/// assert_eq!((device.memory_info().host_ordinary, device.memory_info().host_pinned), (4096, 0));
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum HostMemoryKind {
    /// Pinned memory: copies run beside everything else. The default of the async API.
    Pinned,
    /// Ordinary memory: whoever asks waits for the copy. The default of the blocking facade.
    Ordinary,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            budget: None,
            host: HostMemoryKind::Pinned,
            host_limit: u64::MAX,
            pinned_limit: u64::MAX,
            hook: None,
            tag: None,
            stall_after: Duration::from_secs(10),
            policy: Policy::Aware,
            victims: Victims::default(),
            spilling: true,
            write_back: None,
        }
    }
}

impl Options {
    /// The most bytes of live buffers the device may hold. Without one, memory is short when the driver refuses. A
    /// device that spills nothing, as `cpu`, has none.
    pub fn budget(mut self, bytes: u64) -> Options {
        self.budget = Some(bytes);
        self
    }

    /// As [`budget`](Options::budget), or none.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let asked: Option<u64> = std::env::var("BUDGET").ok().and_then(|bytes| bytes.parse().ok());
    /// let device = Device::options().maybe_budget(asked).open("sim")?;
    /// assert_eq!(device.memory_info().budget, asked);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn maybe_budget(mut self, bytes: Option<u64>) -> Options {
        self.budget = bytes;
        self
    }

    /// Where host copies live.
    pub fn host_memory(mut self, kind: HostMemoryKind) -> Options {
        self.host = kind;
        self
    }

    /// The most bytes of host memory for copies and staging.
    ///
    /// ```
    /// # use tack_residency::{Device, ErrorKind};
    /// let device = Device::options().budget(4096).host_limit(1024).open("sim")?;
    /// let first = device.alloc(4096).wait()?;
    /// // There is no room for the first one's host copy.
    /// assert_eq!(device.alloc(4096).wait().unwrap_err().kind(), ErrorKind::OutOfMemory);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn host_limit(mut self, bytes: u64) -> Options {
        self.host_limit = bytes;
        self
    }

    /// The most bytes of pinned host memory, of those that [`host_limit`](Options::host_limit) allows. Beyond it, and where
    /// the driver refuses to pin, host copies live in ordinary memory: spills and restores go on through a few pinned
    /// chunks of this memory, six of 1 MiB or of a sixteenth of it if that is less, and the host copies from them and to them. No
    /// limit of its own if not set; with [`HostMemoryKind::Ordinary`] nothing is pinned.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::options().pinned_limit(1 << 20).open("sim")?;
    /// let buffer = device.alloc(4 << 20).wait()?;
    /// buffer.spill().wait()?;
    /// let info = device.memory_info();
    /// assert_eq!((info.host_ordinary, info.host_ring_bytes), (4 << 20, 4 << 20));
    /// assert!(info.host_pinned + info.host_spare <= 1 << 20);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn pinned_limit(mut self, bytes: u64) -> Options {
        self.pinned_limit = bytes;
        self
    }

    /// Called when memory is short: with a budget, when what may be spilled is not enough; without one, when the driver
    /// refuses. It is given the bytes asked for, on the asking thread, no lock held; for a launch in a queue, on any
    /// thread that waits for something of the device. It may allocate and free; it is not entered twice.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use tack_residency::Device;
    ///
    /// let guards = Arc::new(Mutex::new(Vec::new()));
    /// let let_go = guards.clone();
    /// let device = Device::options()
    ///     .budget(4096)
    ///     .on_memory_pressure(move |_bytes| let_go.lock().unwrap().clear())
    ///     .open("sim")?;
    /// let a = device.alloc(4096).wait()?;
    /// guards.lock().unwrap().push(a.ensure_resident().wait()?);
    /// let b = device.alloc(4096).wait()?;
    /// assert!(guards.lock().unwrap().is_empty() && a.is_spilled());
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn on_memory_pressure(mut self, hook: impl Fn(u64) + Send + Sync + 'static) -> Options {
        self.hook = Some(Arc::new(hook));
        self
    }

    /// The tag of buffers that name none.
    pub fn tag(mut self, tag: impl Into<Arc<str>>) -> Options {
        self.tag = Some(tag.into());
        self
    }

    /// How long a request waits with only pins in its way before it fails as stalled. Ten seconds if not set.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tack_residency::{Device, ErrorKind};
    ///
    /// let device = Device::options().budget(4096).stall_after(Duration::ZERO).open("sim")?;
    /// let buffer = device.alloc(4096).wait()?;
    /// let guard = buffer.ensure_resident().wait()?;
    /// assert_eq!(device.alloc(4096).wait().unwrap_err().kind(), ErrorKind::Stalled);
    /// drop(guard);
    /// assert!(device.alloc(4096).wait().is_ok());
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn stall_after(mut self, patience: Duration) -> Options {
        self.stall_after = patience;
        self
    }

    /// Which copies are made: [`Policy::Plain`] makes all, to compare with.
    ///
    /// ```
    /// # use tack_residency::{Device, Policy, Use};
    /// for (policy, copied) in [(Policy::Plain, 8192), (Policy::Aware, 4096)] {
    ///     let device = Device::options().policy(policy).open("sim")?;
    ///     let buffer = device.alloc(4096).wait()?;
    ///     buffer.spill().wait()?;
    ///     device.prepare([Use::read(&buffer)]).wait()?.submit(|_| Ok::<(), tack_residency::Error>(()))?;
    ///     buffer.spill().wait()?; // its host copy is still current
    ///     assert_eq!(device.memory_info().copied_out_bytes, copied);
    /// }
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn policy(mut self, policy: Policy) -> Options {
        self.policy = policy;
        self
    }

    /// Whether buffers are spilled at all. Without, memory is counted and nothing more: there is no budget, and an
    /// allocation that the driver refuses fails once the memory hook has run and the caches are empty. On if not set.
    ///
    /// ```
    /// # use tack_residency::{Device, ErrorKind, driver::sim::{Config, Sim}};
    /// let small = Sim::open(Config::new().with_capacity(8192).with_granularity(4096))?;
    /// let device = Device::options().spilling(false).open_driver("small", small)?;
    /// let held = [device.alloc(4096).wait()?, device.alloc(4096).wait()?];
    /// assert_eq!(device.alloc(4096).wait().unwrap_err().kind(), ErrorKind::OutOfMemory);
    /// assert_eq!(device.memory_info().in_use, 8192);
    /// # drop(held);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn spilling(mut self, on: bool) -> Options {
        self.spilling = on;
        self
    }

    /// Whom a spill takes: strictly the least recently used if not set. [`Victims::NextUse`] spares what the launches
    /// of a [`LaunchQueue`](crate::LaunchQueue) are about to use, and copies less.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tack_residency::{Device, Use, Victims};
    ///
    /// // Five arrays in turn on a device that holds four, and launches taken four ahead.
    /// let restores = |victims| {
    ///     let device = Device::options().budget(4 << 20).victims(victims).open("sim:pcie4")?;
    ///     let arrays: Vec<_> = (0..5).map(|_| device.alloc(1 << 20).wait()).collect::<Result<_, _>>()?;
    ///     let mut queue = device.launch_queue(4);
    ///     for array in arrays.iter().cycle().take(50) {
    ///         queue.push([Use::read(array)], |run| run.host_kernel(Duration::from_millis(1), |_| ())).wait()?;
    ///     }
    ///     queue.flush().wait()?;
    ///     Ok::<u64, tack_residency::Error>(device.memory_info().restores)
    /// };
    /// assert!(restores(Victims::NextUse)? < restores(Victims::LeastRecentlyUsed)?);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn victims(mut self, victims: Victims) -> Options {
        self.victims = victims;
        self
    }

    /// Cleans the buffers that would be spilled next while they stay usable, so that making room is a release and not a
    /// copy: from less than `low` percent of the budget free or clean, until `high` percent are. Off if not set, and
    /// without a budget.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::options().budget(8192).write_back(25, 50).open("sim")?;
    /// let (a, b) = (device.alloc(4096).wait()?, device.alloc(4096).wait()?);
    /// device.idle().wait()?;
    /// assert_eq!(device.memory_info().clean, 4096); // `a` has a copy on the host, and is still on the device
    /// assert!(!a.is_spilled());
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn write_back(mut self, low: u8, high: u8) -> Options {
        self.write_back = Some((low.min(100), high.clamp(low.min(100), 100)));
        self
    }

    /// Opens a device by name: `cuda` or `cuda:ORDINAL` (with the feature `cuda`), `hip` or `hip:ORDINAL` (with the feature
    /// `hip`), `level_zero` or `level_zero:ORDINAL` (with the feature `level-zero`), `sim`, `sim:PROFILE` (as
    /// [`Config::profile`](crate::driver::sim::Config::profile) knows them), `cpu`, or `auto`: the first of `cuda:0`, `hip:0`
    /// and `level_zero:0` that opens, else `sim`, with a warning. [`devices`](fn@crate::devices) lists them.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::options().open("sim:h200")?;
    /// assert_eq!(device.memory_info().device_total, Some(141 << 30));
    /// assert!(["cuda:0", "hip:0", "level_zero:0", "sim"].contains(&Device::options().open("auto")?.name()));
    /// let error = Device::options().open("gpu").unwrap_err(); // no device is called "gpu": there are [...]
    /// assert!(error.to_string().contains("there are") && error.to_string().contains("`sim`"));
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Unavailable` if there is no such device; the message names those there are, and what was tried.
    pub fn open(self, name: &str) -> Result<Device> {
        if name == "auto" {
            let (name, driver) = devices::open_first()?;
            return self.open_driver(&name, driver);
        }
        let driver = devices::open(name)?;
        self.open_driver(name, driver)
    }

    /// Opens the device of a driver made by the caller, such as a simulated one of its own configuration.
    ///
    /// ```
    /// use tack_residency::{Device, driver::sim::{Config, Sim}};
    ///
    /// let driver = Sim::open(Config::new().with_capacity(1 << 20))?;
    /// let device = Device::options().open_driver("small", driver)?;
    /// let a = device.alloc(1 << 20).wait()?;
    /// let b = device.alloc(1 << 20).wait()?; // without a budget, it is the driver that refuses
    /// assert!(a.is_spilled());
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The driver's, if it can make no queues; `Unavailable` if the host can start no thread; `Misuse` where options are
    /// set for a physical device that is managed in this process already. Without any, what is open is given.
    pub fn open_driver(self, name: &str, driver: Arc<dyn Driver>) -> Result<Device> {
        let is_plain = self.is_plain();
        let caps = driver.caps();
        let spills = caps.spills && self.spilling;
        let total = driver.memory().total.filter(|_| spills);
        let overcommitted = total.filter(|_| caps.overcommits);
        let budget = self.budget.filter(|_| spills).or(overcommitted.map(|total| total / 10 * 9));
        let kind = match self.host {
            HostMemoryKind::Pinned => HostKind::Pinned,
            HostMemoryKind::Ordinary => HostKind::Ordinary,
        };
        let settings = Settings {
            name: name.to_owned(),
            hook: self.hook,
            stall_after: self.stall_after,
            policy: self.policy,
            victims: self.victims,
            spills,
            write_back: self.write_back,
            total,
            tag: self.tag,
        };
        let host = HostTier::new(kind, self.host_limit, self.pinned_limit);
        devices::managed(driver.identity(), is_plain, || {
            let engine = Engine::new(driver, budget.map_or(Bytes::MAX, Bytes), host, settings)?;
            Owner::new(engine).map_err(|error| {
                let what = format!("the device's thread could not be started: {error}");
                Error::new(ErrorKind::Unavailable, what)
            })
        })
        .map(Device::from_owner)
    }
}

impl Options {
    /// Whether nothing is asked for but a device, with either kind of host memory.
    fn is_plain(&self) -> bool {
        let plain = Options::default();
        let sets =
            self.budget.is_some() || self.hook.is_some() || self.tag.is_some() || self.write_back.is_some();
        !sets
            && (self.host_limit, self.pinned_limit) == (plain.host_limit, plain.pinned_limit)
            && (self.stall_after, self.spilling) == (plain.stall_after, plain.spilling)
            && (self.policy, self.victims) == (plain.policy, plain.victims)
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("budget", &self.budget)
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}
