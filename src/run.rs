//! What the closure of a launch is given.

use crate::{
    device::Device,
    driver::{ArgAccess, DevicePtr, Driver, HostKernel, QueueId},
    error::{Error, Result},
    queue,
    usage::Use,
};
use std::time::Duration;

/// What a launch's closure is given: the queue, and each buffer's pointer.
///
/// ```
/// use tack_residency::{Device, Error, Use};
///
/// let device = Device::open("sim")?;
/// let buffer = device.alloc(4096).wait()?;
/// let half = buffer.view(2048, 2048)?;
/// device.prepare([Use::read(&buffer), Use::read(&half)]).wait()?.submit(|run| {
///     assert_eq!((run.len(), run.is_empty()), (2, false));
///     assert_eq!((run.bytes(0), run.bytes(1)), (4096, 2048));
///     assert_eq!(run.ptr(1), run.ptr(0).offset(2048));
///     assert_eq!(run.queue(), device.queue().id());
///     assert!(run.driver().caps().spills);
///     Ok::<(), Error>(())
/// })?;
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Debug)]
pub struct Run<'a> {
    device: &'a Device,
    uses: &'a [Use<'a>],
    queue: usize,
}

impl<'a> Run<'a> {
    pub(crate) fn new(device: &'a Device, uses: &'a [Use<'a>], queue: usize) -> Run<'a> {
        Run { device, uses, queue }
    }
}

impl Run<'_> {
    /// The queue to queue the kernel on.
    pub fn queue(&self) -> QueueId {
        self.device.engine().queue_id(self.queue)
    }

    /// The vendor's own handle of that queue, such as a `CUstream`, for kernels queued by the vendor's calls. What those
    /// need current on this thread is so afterwards.
    ///
    /// ```
    /// # use tack_residency::{Device, Error, ErrorKind, Use};
    /// # let device = Device::open("sim")?;
    /// # let buffer = device.alloc(4096).wait()?;
    /// # device.prepare([Use::read(&buffer)]).wait()?.submit(|run| {
    /// // A simulated device is no vendor's: it runs `host_kernel`s.
    /// assert_eq!(run.raw_queue().unwrap_err().kind(), ErrorKind::Unsupported);
    /// # Ok::<(), Error>(())
    /// # })?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Unsupported` on a device of no vendor's.
    pub fn raw_queue(&self) -> Result<*mut std::ffi::c_void> {
        queue::raw(self.device, self.queue())
    }

    /// That queue as cudarc has it; the pointers of [`ptr`](Run::ptr) are arguments of its launch builder, as
    /// [`Cuda`](crate::driver::cuda::Cuda) shows.
    ///
    /// ```
    /// # use tack_residency::{Device, Error, ErrorKind, Use};
    /// # let device = Device::open("sim")?;
    /// # let buffer = device.alloc(4096).wait()?;
    /// # device.prepare([Use::read(&buffer)]).wait()?.submit(|run| {
    /// let error = run.cuda_stream().unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Unsupported);
    /// assert!(error.to_string().contains("open `cuda`"));
    /// # Ok::<(), Error>(())
    /// # })?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Unsupported` on a device that is not CUDA's; what cudarc is refused.
    #[cfg(feature = "cuda")]
    pub fn cuda_stream(&self) -> Result<std::sync::Arc<cudarc::driver::CudaStream>> {
        queue::cuda_stream(self.device, self.queue())
    }

    /// The device's driver.
    pub fn driver(&self) -> &dyn Driver {
        &**self.device.driver()
    }

    /// The pointer of the use at `index`, in the order they were given.
    ///
    /// # Panics
    ///
    /// If there are not so many.
    pub fn ptr(&self, index: usize) -> DevicePtr {
        self.uses[index].ptr()
    }

    /// The bytes of the use at `index`.
    ///
    /// # Panics
    ///
    /// If there are not so many.
    pub fn bytes(&self, index: usize) -> u64 {
        self.uses[index].bytes()
    }

    /// How many uses there are.
    pub fn len(&self) -> usize {
        self.uses.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.uses.is_empty()
    }

    /// Queues a kernel that runs on the host, on a device that has those: its arguments are the launch's uses, in
    /// order. It keeps a simulated device's compute engine for `cost`. A body that panics loses the device.
    /// A body must not wait for the device: all that is waited for there comes behind it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tack_residency::{Device, Use};
    ///
    /// let device = Device::open("sim")?;
    /// let (from, to) = (device.alloc(4).wait()?, device.alloc(4).wait()?);
    /// from.fill(7).wait()?;
    /// device.prepare([Use::read(&from), Use::write(&to)]).wait()?.submit(|run| {
    ///     run.host_kernel(Duration::from_micros(50), |args| {
    ///         let [from, to] = args else { unreachable!() };
    ///         to.bytes_mut().copy_from_slice(from.bytes());
    ///     })
    /// })?;
    /// assert_eq!(to.read().wait()?, [7; 4]);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Unsupported` on a device that runs no such kernels; `Misuse` if two uses overlap and one is written.
    pub fn host_kernel(
        &self,
        cost: Duration,
        body: impl FnOnce(&mut [crate::driver::Arg<'_>]) + Send + 'static,
    ) -> Result<()> {
        let mut kernel = HostKernel::new(cost, body);
        for used in self.uses {
            let access = if used.writes() { ArgAccess::Write } else { ArgAccess::Read };
            kernel = kernel.arg(used.ptr(), used.bytes(), access);
        }
        self.driver().launch_host(self.queue(), kernel).map_err(|error| Error::from(error).on(self.device))
    }
}
