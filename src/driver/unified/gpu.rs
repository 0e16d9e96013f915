//! Memory that Apple's processors share with their GPU.
#![allow(unsafe_code)]

use super::{
    super::{DriverMemory, aligned::Aligned},
    Source,
};
use objc2::{rc::Retained, runtime::ProtocolObject};
use objc2_metal::{MTLBuffer, MTLDevice, MTLResourceOptions};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

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

fn lock(buffers: &Mutex<Buffers>) -> MutexGuard<'_, Buffers> {
    buffers.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gpu {
    pub fn new(device: Retained<ProtocolObject<dyn MTLDevice>>) -> Gpu {
        Gpu { device, buffers: Arc::default() }
    }

    /// The buffer whose contents are at an address.
    pub fn buffer(&self, address: u64) -> Option<Retained<ProtocolObject<dyn MTLBuffer>>> {
        lock(&self.buffers).get(&address).map(|held| held.0.clone())
    }
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
