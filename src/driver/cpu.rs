//! The host as a device: its memory is the heap.
//!
//! Accounting only: nothing is ever spilled, since there is nowhere else for the bytes to go.

use super::{
    DriverMemory,
    aligned::Aligned,
    unified::{Source, Unified},
};
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

/// The allocator's memory.
#[derive(Debug)]
pub struct Heap;

impl Source for Heap {
    fn bytes(&self, len: usize) -> Option<Aligned> {
        Aligned::zeroed(len)
    }

    fn description(&self) -> String {
        format!("the host's memory ({})", std::env::consts::ARCH)
    }

    /// What Linux calls available, since what it calls free is only what nobody uses for anything. Elsewhere
    /// unknown.
    fn memory(&self) -> DriverMemory {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        DriverMemory { free: meminfo(&text, "MemAvailable:"), total: meminfo(&text, "MemTotal:"), cached: 0 }
    }
}

/// A line of `/proc/meminfo` in bytes; it counts in KiB.
fn meminfo(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_linux_calls_available() {
        let text = "MemTotal:       16000 kB\nMemFree:          10 kB\nMemAvailable:    8000 kB\n";
        assert_eq!(
            (meminfo(text, "MemTotal:"), meminfo(text, "MemAvailable:")),
            (Some(16_384_000), Some(8_192_000))
        );
        assert_eq!(meminfo("", "MemTotal:"), None);
    }
}
