//! CUDA: the driver library, opened at run time through cudarc's loader, behind symbols of this crate's own.
//!
//! Cudarc panics where a call that is missing is made, in `Drop` too; so nothing here is called through it that may be.
#![allow(unsafe_code)]

mod api;
mod library;

pub use cudarc;

use super::{
    DevicePtr, QueueId, Result,
    cuda_like::{CudaLike, Found},
    symbols::Handle,
};
use api::{Api, Given};
use cudarc::driver::{CudaContext, CudaStream, DeviceRepr};
use library::{Library, library};
use std::{ffi::c_int, sync::Arc};

/// An NVIDIA GPU.
///
/// Opened by name (`cuda` or `cuda:1`), it retains the device's primary context, which other CUDA code of the process
/// shares; or it is opened from a context of cudarc's. Each call makes that context current on its thread, and puts
/// back what was current before.
///
/// ```
/// use tack_residency::{Device, ErrorKind};
///
/// match Device::open("cuda") {
///     // the GPU's name, its compute capability and the driver's version
///     Ok(device) => println!("{}", device.driver().description()),
///     // [...] no CUDA driver library was found by the name [...]; is NVIDIA's driver installed [...]?
///     Err(error) => {
///         assert_eq!(error.kind(), ErrorKind::Unavailable);
///         println!("{error}");
///     }
/// }
/// ```
///
/// With a kernel of the program's own, on a context that it has already:
///
/// ```no_run
/// use std::sync::Arc;
/// use tack_residency::{Device, Use, driver::cuda::Cuda};
/// use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};
///
/// let context = CudaContext::new(0)?;
/// let kernel = context.load_module(cudarc::nvrtc::Ptx::from_file("add.ptx"))?.load_function("add")?;
/// let device = Device::options().budget(8 << 30).open_driver("cuda:0", Cuda::from_context(context)?)?;
/// let buffer = device.alloc(4 << 20).wait()?;
/// device.prepare([Use::read_write(&buffer)]).wait()?.submit(|run| {
///     let (stream, ptr) = (run.cuda_stream()?, run.ptr(0));
///     // SAFETY: the kernel takes one pointer to a million numbers.
///     unsafe { stream.launch_builder(&kernel).arg(&ptr).launch(LaunchConfig::for_num_elems(1 << 20)) }?;
///     Ok::<(), Box<dyn std::error::Error>>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type Cuda = CudaLike<Api>;

/// What sizes are rounded up to. Pools hand out multiples of it.
const GRANULARITY: u64 = 512;

impl Cuda {
    /// The device with this ordinal, as `CUDA_VISIBLE_DEVICES` leaves them.
    ///
    /// ```
    /// use tack_residency::driver::{DriverErrorKind, cuda::Cuda};
    ///
    /// let error = Cuda::open(4_000_000_000).expect_err("nobody has so many");
    /// assert_eq!(error.kind, DriverErrorKind::Unavailable);
    /// assert_eq!(Cuda::count().unwrap_or(0) > 0, Cuda::open(0).is_ok());
    /// ```
    ///
    /// # Errors
    ///
    /// `Unavailable`, with what was tried, if there is no library, no such device, or a symbol is missing.
    pub fn open(ordinal: u32) -> Result<Arc<Cuda>> {
        let library = library()?;
        let device = library.device(ordinal)?;
        let context = library.retain(device)?;
        Cuda::with(library, device, ordinal, context, Given::Retained)
    }

    /// How many devices there are, as `CUDA_VISIBLE_DEVICES` leaves them.
    ///
    /// # Errors
    ///
    /// `Unavailable`, with what was tried, if there is no library or a symbol is missing.
    pub fn count() -> Result<u32> {
        library()?.count()
    }

    /// The device of a context of cudarc's, which is kept.
    ///
    /// # Errors
    ///
    /// As [`open`](Cuda::open).
    pub fn from_context(context: Arc<CudaContext>) -> Result<Arc<Cuda>> {
        let (device, handle) = (context.cu_device(), Handle(context.cu_ctx().cast()));
        let ordinal = context.ordinal() as u32;
        Cuda::with(library()?, device, ordinal, handle, Given::Context(context))
    }

    fn with(
        library: &'static Library,
        device: c_int,
        ordinal: u32,
        context: Handle,
        given: Given,
    ) -> Result<Arc<Cuda>> {
        let api = Api::new(library, device, ordinal, context, given);
        let pools = library.pools(device).map(|symbols| (device, symbols));
        let (device_is, version) = (library.describe(device), library.version());
        let (major, minor) = (version / 1000, version % 1000 / 10);
        let found = Found {
            description: format!("{device_is} behind CUDA's driver {major}.{minor}"),
            identity: format!("cuda:{ordinal}"),
            total_bytes: library.total(device)?,
            granularity: GRANULARITY,
            pools,
        };
        CudaLike::new(api, found)
    }

    /// The context, as cudarc has it: the one this was opened from, or its own hold of the device's primary one.
    ///
    /// # Errors
    ///
    /// What cudarc is refused.
    pub fn context(&self) -> Result<Arc<CudaContext>> {
        self.vendor().cudarc()
    }

    /// A queue's stream as cudarc has it, to launch kernels on. It may be kept: the stream then lives as long.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is no such queue; what cudarc is refused.
    pub fn cuda_stream(&self, queue: QueueId) -> Result<Arc<CudaStream>> {
        self.vendor().wrapped(queue, self.stream(queue)?)
    }
}

// SAFETY: a device pointer is a 64-bit address and nothing else, which is what a kernel takes for one.
unsafe impl DeviceRepr for DevicePtr {}
