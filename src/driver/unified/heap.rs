//! Memory from the allocator.

use super::{
    super::{DriverMemory, aligned::Aligned},
    Source,
};

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
