//! A compute queue, by its handle.

use crate::{
    device::Device,
    driver::QueueId,
    error::{Error, Result},
};
use std::ffi::c_void;
#[cfg(feature = "cuda")]
use {crate::error::ErrorKind, cudarc::driver::CudaStream, std::sync::Arc};

/// One of a device's compute queues.
///
/// ```
/// # use tack_residency::Device;
/// let device = Device::open("sim")?;
/// let second = device.add_queue()?;
/// assert_ne!(second.id(), device.queue().id());
/// assert_eq!(second.device().name(), "sim");
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Queue {
    device: Device,
    index: usize,
}

impl Queue {
    pub(crate) fn new(device: Device, index: usize) -> Queue {
        Queue { device, index }
    }

    /// The driver's name for it; the vendor's is [`raw`](Queue::raw).
    pub fn id(&self) -> QueueId {
        self.device.engine().queue_id(self.index)
    }

    /// The vendor's handle of it, for what the program queues by the vendor's calls outside of launches, or has another stream
    /// wait for: CUDA's `CUstream`, HIP's `hipStream_t`, Level Zero's `ze_command_list_handle_t`.
    ///
    /// ```
    /// # use tack_residency::{Device, ErrorKind};
    /// let device = Device::open("sim")?;
    /// assert_eq!(device.queue().raw().unwrap_err().kind(), ErrorKind::Unsupported); // it is no vendor's
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Unsupported` on a device of no vendor's.
    pub fn raw(&self) -> Result<*mut c_void> {
        raw(&self.device, self.id())
    }

    /// As [`raw`](Queue::raw), as cudarc has it.
    ///
    /// ```
    /// # use tack_residency::{Device, ErrorKind};
    /// let device = Device::open("sim")?;
    /// assert_eq!(device.queue().cuda_stream().unwrap_err().kind(), ErrorKind::Unsupported); // it is not CUDA's
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Unsupported` on a device that is not CUDA's; what cudarc is refused.
    #[cfg(feature = "cuda")]
    pub fn cuda_stream(&self) -> Result<Arc<CudaStream>> {
        cuda_stream(&self.device, self.id())
    }

    /// Its device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }
}

/// The vendor's handle of a device's queue.
pub(crate) fn raw(device: &Device, queue: QueueId) -> Result<*mut c_void> {
    device.driver().raw_queue(queue).map_err(|error| Error::from(error).on(device))
}

/// A device's queue as cudarc has it.
#[cfg(feature = "cuda")]
pub(crate) fn cuda_stream(device: &Device, queue: QueueId) -> Result<Arc<CudaStream>> {
    let cuda = device.driver().as_any().downcast_ref::<crate::driver::cuda::Cuda>().ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, "this device has no CUDA streams: open `cuda`").on(device)
    })?;
    cuda.cuda_stream(queue).map_err(|error| Error::from(error).on(device))
}

/// What is wrong with a queue of another device.
pub(crate) fn not_of(device: &Device) -> Error {
    Error::misuse("the queue is another device's: give one of the buffer's, as `buffer.device().queue()`")
        .on(device)
}
