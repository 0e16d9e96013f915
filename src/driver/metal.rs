//! Metal: buffers in the memory that Apple's processors share with their GPU.
//!
//! Accounting only: nothing is ever spilled, since the bytes are in the host's memory already.
#![allow(unsafe_code)]

use super::{
    DevicePtr, DriverError, DriverErrorKind, DriverMemory, Result,
    aligned::Aligned,
    unified::{Source, Unified},
};
use objc2::{rc::Retained, runtime::ProtocolObject};
use objc2_metal::{MTLBuffer, MTLCreateSystemDefaultDevice, MTLDevice, MTLResourceOptions};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

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

type Buffers = BTreeMap<u64, Held>;

/// A buffer that is kept.
#[derive(Debug)]
struct Held(Retained<ProtocolObject<dyn MTLBuffer>>);

// SAFETY: Metal's resources may be retained, released and asked for their contents on any thread; only its encoders are one
// thread's at a time.
unsafe impl Send for Held {}
// SAFETY: as above.
unsafe impl Sync for Held {}

/// A Metal device, and the buffers made on it, by their contents' addresses.
#[derive(Debug)]
pub struct Gpu {
    device: Retained<ProtocolObject<dyn MTLDevice>>,
    buffers: Arc<Mutex<Buffers>>,
}

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
        Ok(Unified::new(Gpu { device, buffers: Arc::default() }))
    }

    /// The buffer that an allocation is.
    pub fn buffer(&self, ptr: DevicePtr) -> Option<Retained<ProtocolObject<dyn MTLBuffer>>> {
        lock(&self.source.buffers).get(&ptr.as_raw()).map(|held| held.0.clone())
    }
}

fn lock(buffers: &Mutex<Buffers>) -> MutexGuard<'_, Buffers> {
    buffers.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Source for Gpu {
    fn bytes(&self, len: usize) -> Option<Aligned> {
        let buffer = self.device.newBufferWithLength_options(len, MTLResourceOptions::StorageModeShared)?;
        let start = buffer.contents().cast::<u8>();
        let address = start.addr().get() as u64;
        let buffers = Arc::clone(&self.buffers);
        lock(&buffers).insert(address, Held(buffer));
        let release = move || drop(lock(&buffers).remove(&address));
        // SAFETY: Metal gives `len` zeroes, aligned to a page, and they live as long as their buffer, which is kept until
        // `release`. What the GPU does with them the program orders.
        Some(unsafe { Aligned::lent(start, len, release) })
    }

    fn description(&self) -> String {
        format!("{} behind Metal", self.device.name())
    }

    /// What Metal recommends to use at most, and what of it this process has not allocated.
    fn memory(&self) -> DriverMemory {
        let total = self.device.recommendedMaxWorkingSetSize();
        let used = self.device.currentAllocatedSize() as u64;
        DriverMemory { free: Some(total.saturating_sub(used)), total: Some(total), cached: 0 }
    }
}
