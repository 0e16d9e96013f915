//! The host as a device: its memory is the heap.
//!
//! Accounting only: nothing is ever spilled, since there is nowhere else for the bytes to go.

use super::unified::{Heap, Unified};
use std::sync::Arc;

/// The host's memory as a device. Fresh memory is zero.
///
/// ```
/// use tack_residency::{Device, driver::cpu::Cpu};
///
/// let driver = Cpu::open();
/// let device = Device::options().open_driver("cpu", driver.clone())?;
/// let buffer = device.alloc(4096).wait()?;
/// buffer.fill(7).wait()?;
/// assert_eq!(buffer.spill().wait()?, 0); // there is nowhere to spill to
/// assert_eq!((device.memory_info().in_use, driver.live_allocations()), (4096, 1));
/// # Ok::<(), tack_residency::Error>(())
/// ```
pub type Cpu = Unified<Heap>;

impl Cpu {
    /// The host.
    pub fn open() -> Arc<Cpu> {
        Unified::new(Heap)
    }
}
