//! HIP: kernels that its run-time compiler makes for the device, launched by the library's own calls.
#![allow(unsafe_code)]

mod compiler;
mod graph;
mod library;

use crate::{
    backend::{Backend, Mix, Rig},
    graph::Graphs,
    options::Extent,
    subject::{Block, Subject, Way},
};
use library::{Calls, Function};
use std::{
    ffi::c_void,
    sync::Arc,
    time::{Duration, Instant},
};
use tack_residency::{
    Error, Run,
    driver::{DevicePtr, Driver, QueueId, QueueRole, hip::Hip},
};

const KERNELS: &str = include_str!("kernels.hip");

/// How long a kernel's measured loop is, in ticks of the device's clock.
const MEASURED_TICKS: u64 = 2_000_000;

/// A GPU with the kernels.
pub struct Amd {
    calls: &'static Calls,
    ordinal: u32,
    extent: Extent,
    add_one: Function,
    mix: Function,
    fold: Function,
    spin: Function,
    /// Ticks of the device's clock in a nanosecond.
    pace: f64,
}

impl Amd {
    /// Compiles and loads the kernels.
    ///
    /// # Errors
    ///
    /// Why there are none.
    pub fn open(ordinal: u32, extent: Extent) -> Result<Amd, String> {
        let calls = library::calls()?;
        calls.set_device(ordinal)?;
        let code = compiler::compile(calls, KERNELS)?;
        let module = calls.load(&code)?;
        let [add_one, mix, fold, spin] =
            [c"add_one", c"mix", c"fold", c"spin"].map(|name| calls.function(module, name));
        let (add_one, mix, fold, spin) = (add_one?, mix?, fold?, spin?);
        let mut amd = Amd { calls, ordinal, extent, add_one, mix, fold, spin, pace: 1.0 };
        amd.measure_clock()?;
        Ok(amd)
    }

    /// How fast the device's clock goes: a kernel that counts its ticks, beside the host's clock. The first launch of a
    /// kernel takes longer, since it is loaded.
    fn measure_clock(&mut self) -> Result<(), String> {
        let driver = self.open_hip().map_err(|error| error.to_string())?;
        let queue = driver.create_queue(QueueRole::Compute).map_err(|error| error.to_string())?;
        let mut least = Duration::MAX;
        for _ in 0..3 {
            let begun = Instant::now();
            self.launch(&*driver, queue, (self.spin, 1), &[MEASURED_TICKS])?;
            let fence = driver.record(queue).map_err(|error| error.to_string())?;
            while !driver.is_passed(fence).map_err(|error| error.to_string())? {
                std::thread::yield_now();
            }
            driver.retire(fence);
            least = least.min(begun.elapsed());
        }
        self.pace = MEASURED_TICKS as f64 / least.as_nanos().max(1) as f64;
        Ok(())
    }

    fn open_hip(&self) -> tack_residency::driver::Result<Arc<Hip>> {
        Hip::open(self.ordinal)
    }

    /// Queues a kernel for so many numbers. All of the kernels' parameters are eight bytes long.
    fn launch(
        &self,
        driver: &dyn Driver,
        queue: QueueId,
        (function, count): (Function, u64),
        params: &[u64],
    ) -> Result<(), String> {
        let stream = driver.raw_queue(queue).map_err(|error| error.to_string())?;
        let blocks = count.div_ceil(256).clamp(1, 1056) as u32;
        let threads = if count == 1 { 1 } else { 256 };
        // SAFETY: the kernels take these numbers; what they name as addresses is ordered on this stream.
        unsafe { self.calls.launch(function, (blocks, threads), stream, params) }
    }
}

fn refused(what: String) -> Error {
    use tack_residency::driver::{DriverError, DriverErrorKind};
    DriverError::new(DriverErrorKind::Refused, "hipModuleLaunchKernel", 0, what).into()
}

impl Backend for Amd {
    fn open(&self) -> Arc<dyn Driver> {
        self.open_hip().expect("the device opens")
    }

    fn other(&self) -> Option<Rig> {
        Amd::open(self.ordinal + 1, self.extent).ok().map(|amd| Arc::new(amd) as Rig)
    }

    fn spin(&self, driver: &dyn Driver, queue: QueueId, time: Duration) {
        let ticks = (time.as_nanos() as f64 * self.pace) as u64;
        self.launch(driver, queue, (self.spin, 1), &[ticks]).expect("spin is launched");
    }

    fn array_bytes(&self) -> u64 {
        self.extent.array_bytes()
    }

    fn add_one(&self, run: &Run<'_>, index: usize) -> Result<(), Error> {
        self.add(run.driver(), run.queue(), run.ptr(index), run.bytes(index))
    }

    fn mix_uses(&self, run: &Run<'_>, mix: Mix) -> Result<(), Error> {
        let of = |index: usize| [run.ptr(index).as_raw(), run.bytes(index) / 4];
        let (to, from) = (of(mix.to), mix.from.map_or([0, 0], of));
        let folds = from[1] > to[1];
        let mixed = if folds { [0, 0] } else { from };
        let params = [to[0], to[1], mixed[0], mixed[1], mix.keeps.into(), mix.salt.into()];
        self.launch(run.driver(), run.queue(), (self.mix, to[1]), &params).map_err(refused)?;
        if folds {
            let params = [to[0], to[1], from[0], from[1]];
            self.launch(run.driver(), run.queue(), (self.fold, from[1]), &params).map_err(refused)?;
        }
        Ok(())
    }
}

impl Subject for Amd {
    fn kernels(&self) -> String {
        "HIP, compiled at run time".to_owned()
    }

    fn add(&self, driver: &dyn Driver, queue: QueueId, ptr: DevicePtr, bytes: u64) -> Result<(), Error> {
        self.launch(driver, queue, (self.add_one, bytes / 4), &[ptr.as_raw(), bytes / 4]).map_err(refused)
    }

    fn graphs(&self) -> Option<&dyn Graphs> {
        Some(self)
    }

    fn block(&self, driver: &Arc<dyn Driver>, bytes: usize) -> Box<dyn Block> {
        self.calls.set_device(self.ordinal).expect("it is current");
        let start = self.calls.allocate_host(bytes).expect("pinned memory");
        Box::new(ByHip { calls: self.calls, driver: driver.clone(), start, bytes })
    }
}

/// Memory that `hipHostMalloc` gave.
struct ByHip {
    calls: &'static Calls,
    driver: Arc<dyn Driver>,
    start: *mut c_void,
    bytes: usize,
}

impl Block for ByHip {
    fn copy(&self, queue: QueueId, way: Way, ptr: DevicePtr) {
        let stream = self.driver.raw_queue(queue).expect("a stream");
        // SAFETY: both places live until the stream has been waited for.
        unsafe { self.calls.copy(way, (self.start, ptr), self.bytes, stream) }.expect("a copy");
    }
}

impl Drop for ByHip {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this value, and no copy of it is under way.
        unsafe { self.calls.free_host(self.start) };
    }
}
