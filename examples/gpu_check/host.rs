//! A device whose kernels are the crate's own, on the host: the simulated one, and a vendor's without a compiler.

use crate::{
    backend::{Backend, Mix, Rig},
    host_kernels, mixing,
    options::Extent,
    subject::{Block, Subject, Way, next, open_driver},
};
use std::{sync::Arc, thread, time::Duration};
use tack_residency::{
    Error, Run,
    driver::{ArgAccess, DevicePtr, Driver, HostKernel, HostRange, QueueId, sim::Sim},
};

/// Such a device.
pub struct Host {
    name: String,
    extent: Extent,
    /// Why there are no kernels of the device's own, where there might be.
    why: Option<String>,
}

impl Host {
    pub fn new(name: &str, extent: Extent, why: Option<String>) -> Host {
        Host { name: name.to_owned(), extent, why }
    }
}

impl Backend for Host {
    fn open(&self) -> Arc<dyn Driver> {
        open_driver(&self.name).expect("the device opens")
    }

    fn other(&self) -> Option<Rig> {
        let name = next(&self.name);
        open_driver(&name).is_ok().then(|| Arc::new(Host::new(&name, self.extent, self.why.clone())) as Rig)
    }

    fn spin(&self, driver: &dyn Driver, queue: QueueId, time: Duration) {
        // Only a simulated device charges for its kernels.
        let pause = if driver.as_any().is::<Sim>() { Duration::ZERO } else { time };
        let kernel = HostKernel::new(time, move |_| thread::sleep(pause));
        driver.launch_host(queue, kernel).expect("it is queued");
    }

    fn array_bytes(&self) -> u64 {
        self.extent.array_bytes()
    }

    fn add_one(&self, run: &Run<'_>, index: usize) -> Result<(), Error> {
        host_kernels::add_one(run, index)
    }

    fn mix_uses(&self, run: &Run<'_>, mix: Mix) -> Result<(), Error> {
        host_kernels::mix(run, mix)
    }
}

impl Subject for Host {
    fn kernels(&self) -> String {
        let why = self.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        format!("the crate's host kernels{why}")
    }

    fn is_slow(&self) -> bool {
        true
    }

    fn add(&self, driver: &dyn Driver, queue: QueueId, ptr: DevicePtr, bytes: u64) -> Result<(), Error> {
        let kernel = HostKernel::new(Duration::ZERO, |args| {
            args.iter_mut().for_each(|arg| mixing::add_one(arg.bytes_mut()));
        });
        Ok(driver.launch_host(queue, kernel.arg(ptr, bytes, ArgAccess::Write))?)
    }

    fn block(&self, driver: &Arc<dyn Driver>, bytes: usize) -> Box<dyn Block> {
        let memory = driver.allocate_host(bytes).expect("pinned memory");
        Box::new(ByDriver { driver: driver.clone(), range: HostRange::whole(Arc::new(memory)) })
    }
}

/// A block whose copies are the driver's, as the crate calls it.
struct ByDriver {
    driver: Arc<dyn Driver>,
    range: HostRange,
}

impl Block for ByDriver {
    fn copy(&self, queue: QueueId, way: Way, ptr: DevicePtr) {
        match way {
            Way::Out => self.driver.copy_out(queue, ptr, &self.range),
            Way::In => self.driver.copy_in(queue, &self.range, ptr),
        }
        .expect("a copy");
    }
}
