//! Metal: buffers in the memory that Apple's processors share with their GPU.
//!
//! Accounting only: nothing is ever spilled, since the bytes are in the host's memory already.

use super::{
    DevicePtr, DriverError, DriverErrorKind, Result,
    unified::{Gpu, Unified},
};
use objc2::{rc::Retained, runtime::ProtocolObject};
use objc2_metal::{MTLBuffer, MTLCreateSystemDefaultDevice};
use std::sync::Arc;

pub use objc2_metal;

/// The system's default GPU. Each allocation is an `MTLBuffer` of shared storage, and its pointer that of its contents.
///
/// The host's calls are done when they return; what the GPU does with a buffer is the program's to order.
///
/// ```no_run
/// use tack_residency::{Device, driver::metal::Metal};
///
/// let driver = Metal::open()?;
/// let device = Device::options().open_driver("metal", driver.clone())?;
/// let buffer = device.alloc(4096).wait()?;
/// let export = buffer.export().wait()?;
/// let argument = driver.buffer(export.ptr()).expect("it is allocated"); // to be set for a kernel
/// println!("{}", device.memory_info());
/// # drop(argument);
/// # Ok::<(), tack_residency::Error>(())
/// ```
pub type Metal = Unified<Gpu>;

impl Metal {
    /// The system's default device.
    ///
    /// # Errors
    ///
    /// `Unavailable` if there is none.
    pub fn open() -> Result<Arc<Metal>> {
        let device = MTLCreateSystemDefaultDevice().ok_or_else(|| {
            let message = "this system has no Metal device, or this process may not use it";
            DriverError::new(DriverErrorKind::Unavailable, "MTLCreateSystemDefaultDevice", 0, message)
        })?;
        Ok(Unified::new(Gpu::new(device)))
    }

    /// The buffer that an allocation is.
    pub fn buffer(&self, ptr: DevicePtr) -> Option<Retained<ProtocolObject<dyn MTLBuffer>>> {
        self.source.buffer(ptr.as_raw())
    }
}
