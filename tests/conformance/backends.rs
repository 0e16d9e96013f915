//! The backends to check, each by how it is opened; a new one is one more entry.

use crate::{
    backend::{Backend, Mix, Rig},
    control::Control,
    host_kernels,
};
use std::{sync::Arc, time::Duration};
use tack_residency::{
    Error, Run,
    driver::{
        Driver, HostKernel, QueueId, QueueRole,
        sim::{Config, Sim},
    },
};

/// A backend.
pub struct Entry {
    /// What its lines call it.
    pub name: &'static str,
    /// What it is opened by.
    pub device: &'static str,
    /// The device with this ordinal.
    pub open: fn(u32) -> tack_residency::driver::Result<Arc<dyn Driver>>,
    /// The library it opens; none if it opens none.
    pub library: Option<Library>,
    /// What is set in the environment of its process.
    pub settings: &'static [(&'static str, &'static str)],
}

/// A vendor's library, and its simulated stand-in.
#[derive(Clone, Copy)]
pub struct Library {
    /// What builds the stand-in.
    pub example: &'static str,
    /// What the vendor calls the file.
    pub file: &'static str,
    /// Names the file, if it is set; else the loader finds it in its path.
    pub variable: Option<&'static str>,
    /// What the names of its calls start with.
    pub prefix: &'static str,
    /// The call that copies from one device's memory to another's, if it has one.
    pub peer: Option<&'static str>,
    /// How those start that the backend opens and works without.
    pub spared: &'static [&'static str],
    /// The code for want of memory.
    pub full: &'static str,
    /// Calls that allocate memory: refused for want of it, they have room made, and the error is about that.
    pub allocating: &'static [&'static str],
    /// Calls that the backend does without whenever they are refused.
    pub unheard: &'static [&'static str],
    /// Calls without which something stays open, which nobody can help then.
    pub closing: &'static [&'static str],
}

pub const BACKENDS: &[Entry] = &[
    Entry {
        name: "sim",
        device: "sim",
        open: |_| Sim::open(Config::new()).map(|driver| driver as Arc<dyn Driver>),
        library: None,
        settings: &[],
    },
    #[cfg(feature = "cuda")]
    crate::cuda::WITH_POOLS,
    #[cfg(feature = "cuda")]
    crate::cuda::WITHOUT,
    #[cfg(feature = "hip")]
    crate::hip::ENTRY,
    #[cfg(feature = "level-zero")]
    crate::level_zero::ENTRY,
];

impl Library {
    /// What this process opens it by.
    pub fn path(&self) -> String {
        self.variable
            .and_then(|variable| std::env::var(variable).ok())
            .unwrap_or_else(|| self.file.to_owned())
    }
}

/// A backend that is opened here, in this process.
#[derive(Clone)]
pub struct Opened {
    pub entry: &'static Entry,
    pub control: Option<Control>,
    pub ordinal: u32,
}

impl Opened {
    pub fn rig(self) -> Rig {
        Arc::new(self)
    }

    /// Whether kernels whose bodies are closures run.
    pub fn runs_kernels(&self) -> bool {
        let driver = self.open();
        let queue = driver.create_queue(QueueRole::Compute).expect("a queue");
        driver.launch_host(queue, HostKernel::new(Duration::ZERO, |_| {})).is_ok()
    }
}

impl Backend for Opened {
    fn open(&self) -> Arc<dyn Driver> {
        (self.entry.open)(self.ordinal).expect("the backend opens")
    }

    fn other(&self) -> Option<Rig> {
        let other = Opened { ordinal: self.ordinal + 1, ..self.clone() };
        (self.entry.open)(other.ordinal).is_ok().then(|| other.rig())
    }

    fn spin(&self, driver: &dyn Driver, queue: QueueId, time: Duration) {
        match &self.control {
            Some(control) => control.spin(driver.raw_queue(queue).expect("a stream"), time),
            None => driver.launch_host(queue, HostKernel::new(time, |_| {})).expect("it is queued"),
        }
    }

    /// What every backend rounds to itself.
    fn array_bytes(&self) -> u64 {
        1 << 16
    }

    fn add_one(&self, run: &Run<'_>, index: usize) -> Result<(), Error> {
        host_kernels::add_one(run, index)
    }

    fn mix_uses(&self, run: &Run<'_>, mix: Mix) -> Result<(), Error> {
        host_kernels::mix(run, mix)
    }
}
