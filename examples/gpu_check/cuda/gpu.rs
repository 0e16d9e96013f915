//! A GPU as cudarc has it: PTX that its driver compiles, and how those kernels are launched.
#![allow(unsafe_code)]

use crate::{
    backend::{Backend, Mix, Rig},
    graph::Graphs,
    options::Extent,
    subject::{Block, Subject, Way},
};
use cudarc::{
    driver::{CudaContext, CudaFunction, CudaStream, DriverError, LaunchConfig, PushKernelArg, result},
    nvrtc::Ptx,
};
use std::{ffi::c_void, sync::Arc, time::Duration};
use tack_residency::{
    Error, Run,
    driver::{DevicePtr, Driver, QueueId, cuda::Cuda},
};

/// For devices of compute capability 7.0 and later.
const KERNELS: &str = include_str!("kernels.ptx");

/// The device with the kernels. Clones share them.
#[derive(Clone)]
pub struct Gpu {
    pub context: Arc<CudaContext>,
    ordinal: u32,
    extent: Extent,
    add_one: CudaFunction,
    mix: CudaFunction,
    fold: CudaFunction,
    spin: CudaFunction,
}

impl Gpu {
    pub fn open(ordinal: u32, extent: Extent) -> Result<Gpu, DriverError> {
        let context = CudaContext::new(ordinal as usize)?;
        let module = context.load_module(Ptx::from_src(KERNELS))?;
        let [add_one, mix, fold, spin] =
            ["add_one", "mix", "fold", "spin"].map(|name| module.load_function(name));
        let (add_one, mix, fold, spin) = (add_one?, mix?, fold?, spin?);
        let gpu = Gpu { context, ordinal, extent, add_one, mix, fold, spin };
        // A kernel is loaded when it is first launched, which may wait for the device.
        let (stream, none) = (gpu.context.default_stream(), (DevicePtr::NULL, 0));
        gpu.add_one(&stream, none.0, 0);
        gpu.mix(&stream, none, none, (true, 0));
        gpu.fold(&stream, none, none);
        gpu.spin(&stream, Duration::ZERO);
        stream.synchronize()?;
        Ok(gpu)
    }

    /// What the crate opens it by.
    pub fn name(&self) -> String {
        format!("cuda:{}", self.ordinal)
    }

    pub fn ordinal(&self) -> u32 {
        self.ordinal
    }

    pub fn extent(&self) -> Extent {
        self.extent
    }

    pub fn add_one(&self, stream: &CudaStream, data: DevicePtr, bytes: u64) {
        let count = bytes / 4;
        let mut launch = stream.launch_builder(&self.add_one);
        launch.arg(&data).arg(&count);
        // SAFETY: `data` has `count` numbers, ordered on this stream.
        unsafe { launch.launch(grid(count)) }.expect("add_one is launched");
    }

    /// Mixes what there is of `from` into `to`; each an address and its bytes.
    fn mix(
        &self,
        stream: &CudaStream,
        to: (DevicePtr, u64),
        from: (DevicePtr, u64),
        (keeps, salt): (bool, u32),
    ) {
        let (count, inputs, keeps) = (to.1 / 4, from.1 / 4, u32::from(keeps));
        let mut launch = stream.launch_builder(&self.mix);
        launch.arg(&to.0).arg(&count).arg(&from.0).arg(&inputs).arg(&keeps).arg(&salt);
        // SAFETY: both have so many numbers, ordered on this stream.
        unsafe { launch.launch(grid(count)) }.expect("mix is launched");
    }

    /// Adds all of `from` to `to`.
    fn fold(&self, stream: &CudaStream, to: (DevicePtr, u64), from: (DevicePtr, u64)) {
        let (count, inputs) = (to.1 / 4, from.1 / 4);
        let mut launch = stream.launch_builder(&self.fold);
        launch.arg(&to.0).arg(&count).arg(&from.0).arg(&inputs);
        // SAFETY: both have so many numbers, ordered on this stream.
        unsafe { launch.launch(grid(inputs)) }.expect("fold is launched");
    }

    /// Keeps a stream busy.
    pub fn spin(&self, stream: &CudaStream, time: Duration) {
        let nanos = time.as_nanos() as u64;
        let mut launch = stream.launch_builder(&self.spin);
        launch.arg(&nanos);
        // SAFETY: it touches no memory.
        unsafe { launch.launch(LaunchConfig::for_num_elems(1)) }.expect("spin is launched");
    }

    /// The same, for the checks that are every device's.
    pub fn rig(&self) -> Rig {
        Arc::new(self.clone())
    }
}

impl Backend for Gpu {
    fn open(&self) -> Arc<dyn Driver> {
        Cuda::open(self.ordinal).expect("the device opens")
    }

    fn other(&self) -> Option<Rig> {
        Gpu::open(self.ordinal + 1, self.extent).ok().map(|gpu| gpu.rig())
    }

    fn spin(&self, driver: &dyn Driver, queue: QueueId, time: Duration) {
        Gpu::spin(self, &stream(driver, queue), time);
    }

    fn array_bytes(&self) -> u64 {
        self.extent.array_bytes()
    }

    fn add_one(&self, run: &Run<'_>, index: usize) -> Result<(), Error> {
        self.add(run.driver(), run.queue(), run.ptr(index), run.bytes(index))
    }

    fn mix_uses(&self, run: &Run<'_>, mix: Mix) -> Result<(), Error> {
        let stream = run.cuda_stream()?;
        let of = |index: usize| (run.ptr(index), run.bytes(index));
        let (to, from) = (of(mix.to), mix.from.map_or((DevicePtr::NULL, 0), of));
        let folds = from.1 > to.1;
        Gpu::mix(self, &stream, to, if folds { (DevicePtr::NULL, 0) } else { from }, (mix.keeps, mix.salt));
        if folds {
            self.fold(&stream, to, from);
        }
        Ok(())
    }
}

impl Subject for Gpu {
    fn kernels(&self) -> String {
        "PTX".to_owned()
    }

    fn add(&self, driver: &dyn Driver, queue: QueueId, ptr: DevicePtr, bytes: u64) -> Result<(), Error> {
        Gpu::add_one(self, &stream(driver, queue), ptr, bytes);
        Ok(())
    }

    fn graphs(&self) -> Option<&dyn Graphs> {
        Some(self)
    }

    fn block(&self, driver: &Arc<dyn Driver>, bytes: usize) -> Box<dyn Block> {
        self.context.bind_to_thread().expect("it is current");
        // SAFETY: the block is freed once, at the value's end.
        let start = unsafe { result::malloc_host(bytes, 1) }.expect("pinned memory");
        Box::new(ByCuda { gpu: self.clone(), driver: driver.clone(), start, bytes })
    }
}

/// Memory that `cuMemHostAlloc` gave.
struct ByCuda {
    gpu: Gpu,
    driver: Arc<dyn Driver>,
    start: *mut c_void,
    bytes: usize,
}

impl Block for ByCuda {
    fn copy(&self, queue: QueueId, way: Way, ptr: DevicePtr) {
        let stream = stream(&*self.driver, queue);
        self.gpu.context.bind_to_thread().expect("it is current");
        // SAFETY: the block has so many bytes, which nobody reads or writes here but the device.
        let block = unsafe { std::slice::from_raw_parts_mut(self.start.cast::<u8>(), self.bytes) };
        let copied = match way {
            // SAFETY: both places live until the stream has been waited for.
            Way::Out => unsafe { result::memcpy_dtoh_async(block, ptr.as_raw(), stream.cu_stream()) },
            // SAFETY: as above.
            Way::In => unsafe { result::memcpy_htod_async(ptr.as_raw(), block, stream.cu_stream()) },
        };
        copied.expect("a copy");
    }
}

impl Drop for ByCuda {
    fn drop(&mut self) {
        let _ = self.gpu.context.bind_to_thread();
        // SAFETY: it was allocated with this value, and no copy of it is under way.
        let _ = unsafe { result::free_host(self.start) };
    }
}

/// A queue's stream.
pub fn stream(driver: &dyn Driver, queue: QueueId) -> Arc<CudaStream> {
    let cuda = driver.as_any().downcast_ref::<Cuda>().expect("it is CUDA's");
    cuda.cuda_stream(queue).expect("a stream")
}

fn grid(count: u64) -> LaunchConfig {
    let blocks = count.div_ceil(256).clamp(1, 1056) as u32;
    LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 }
}
