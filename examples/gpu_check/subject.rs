//! The device under check: what the checks, the replay and the figures need of it beyond its driver.

use crate::{
    backend::{Backend, Rig},
    graph::Graphs,
    host::Host,
    job::Job,
    options::Extent,
};
use std::sync::Arc;
use tack_residency::{
    Device, Error,
    driver::{
        DevicePtr, Driver, QueueId,
        sim::{Config, Sim},
    },
};

/// A device with kernels, real or simulated.
pub trait Subject: Backend {
    /// What its kernels are, for the report.
    fn kernels(&self) -> String;

    /// Whether they run on the host, on bytes that are brought there.
    fn is_slow(&self) -> bool {
        false
    }

    /// Queues what adds one to each number of `bytes` bytes: a launch alone, without the crate.
    fn add(&self, driver: &dyn Driver, queue: QueueId, ptr: DevicePtr, bytes: u64) -> Result<(), Error>;

    /// How its graphs are captured, if it has any.
    fn graphs(&self) -> Option<&dyn Graphs> {
        None
    }

    /// Pinned memory by the vendor's own call.
    fn block(&self, driver: &Arc<dyn Driver>, bytes: usize) -> Box<dyn Block>;
}

/// A device's name, its driver, and what is checked of it alone.
pub struct Opened {
    pub name: String,
    pub description: String,
    pub subject: Arc<dyn Subject>,
    pub own: Vec<Job>,
}

impl Opened {
    /// The device of this name; without one, the first GPU that opens.
    ///
    /// # Errors
    ///
    /// What was tried, and why it did not open.
    pub fn new(name: Option<&str>, extent: Extent) -> Result<Opened, String> {
        let name = name.map_or_else(first_gpu, |name| Ok(name.to_owned()))?;
        let driver = open_driver(&name).map_err(|error| format!("{name} does not open: {error}"))?;
        if driver.caps().computed_clock || !driver.caps().spills {
            return Err(format!(
                "{name} has no clock of its own, or spills nothing: there is nothing to check"
            ));
        }
        let description = driver.description();
        drop(driver);
        let (kind, ordinal) = split(&name);
        let (subject, own): (Arc<dyn Subject>, Vec<Job>) = match kind {
            #[cfg(feature = "cuda")]
            "cuda" => {
                let gpu = crate::cuda::Gpu::open(ordinal, extent)
                    .map_err(|error| format!("{name}: the kernels could not be loaded: {error:?}"))?;
                let own = crate::cuda::jobs(&gpu);
                (Arc::new(gpu), own)
            }
            #[cfg(feature = "hip")]
            "hip" => match crate::hip::Amd::open(ordinal, extent) {
                Ok(amd) => (Arc::new(amd), Vec::new()),
                Err(why) => (Arc::new(Host::new(&name, extent, Some(why))), Vec::new()),
            },
            _ => {
                let _ = ordinal;
                (Arc::new(Host::new(&name, extent, None)), Vec::new())
            }
        };
        Ok(Opened { name, description, subject, own })
    }

    /// The same, for the checks that are every device's.
    pub fn rig(&self) -> Rig {
        self.subject.clone()
    }
}

/// Which way a copy goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    Out,
    In,
}

/// A block of pinned memory, which no copy under way uses when it is dropped.
pub trait Block {
    /// Queues a copy of all of it, by the vendor's own call.
    fn copy(&self, queue: QueueId, way: Way, ptr: DevicePtr);
}

fn first_gpu() -> Result<String, String> {
    let mut tried = String::new();
    for device in tack_residency::devices() {
        match &device.unavailable {
            _ if ["sim", "cpu", "metal"].contains(&device.backend) => {}
            None if device.spills => return Ok(device.name),
            None => tried += &format!("\n  {}: it spills nothing", device.name),
            Some(why) => tried += &format!("\n  {}: {why}", device.name),
        }
    }
    Err(format!("no GPU opens; tried:{tried}\n`--device sim` checks the simulated device"))
}

/// A device's kind, and which of that kind it is.
fn split(name: &str) -> (&str, u32) {
    let (kind, which) = name.split_once(':').unwrap_or((name, "0"));
    which.parse().map_or((name, 0), |which| (kind, which))
}

/// What the device after one of this name is called; each simulated one is a device of its own.
pub fn next(name: &str) -> String {
    match split(name) {
        ("sim", _) => name.to_owned(),
        (kind, which) => format!("{kind}:{}", which + 1),
    }
}

/// A driver that nothing of the crate manages.
pub fn open_driver(name: &str) -> Result<Arc<dyn Driver>, Error> {
    Ok(match split(name) {
        #[cfg(feature = "cuda")]
        ("cuda", which) => tack_residency::driver::cuda::Cuda::open(which)?,
        #[cfg(feature = "hip")]
        ("hip", which) => tack_residency::driver::hip::Hip::open(which)?,
        #[cfg(feature = "level-zero")]
        ("level_zero", which) => tack_residency::driver::level_zero::LevelZero::open(which)?,
        ("sim", 0) => Sim::open(Config::new())?,
        // Its device is gone when this returns.
        _ => Device::open(name)?.driver().clone(),
    })
}
