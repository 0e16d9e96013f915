//! What kernels cost on a device whose time is computed. Where time is real, a kernel takes what it takes.

use std::time::Duration;
use tack_residency::{Device, driver::sim::Sim};

/// Bytes a second of a device that names none: a mid-range card of 2024.
const BANDWIDTH: u64 = 500_000_000_000;

/// The least a kernel takes, in microseconds.
const LEAST_MICROS: u64 = 5;

/// What the kernels of one device cost.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    bandwidth: Option<u64>,
}

impl Cost {
    pub fn on(device: &Device) -> Cost {
        let driver = device.driver();
        let named = driver.as_any().downcast_ref::<Sim>().and_then(|sim| sim.config().memory_bandwidth);
        Cost { bandwidth: driver.caps().computed_clock.then(|| named.unwrap_or(BANDWIDTH)) }
    }

    /// Of a kernel that touches `bytes` bytes once each.
    pub fn of(self, bytes: u64) -> Duration {
        self.bandwidth.map_or(Duration::ZERO, |bandwidth| {
            let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(bandwidth.max(1));
            Duration::from_micros(LEAST_MICROS)
                + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        })
    }
}
