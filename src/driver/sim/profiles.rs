//! Simulated devices by name: two plain ones for arithmetic by hand, and real cards with their makers' figures.
//!
//! Of a real card, capacity and memory bandwidth are the published ones (sizes read as binary, which is what the
//! drivers report) and the link is that of its PCIe generation. Kernels cost what their callers say.

use super::{Clock, Config, Link, Pool};
use std::time::Duration;

/// What a pinned copy reaches over 16 lanes, in bytes a second: 3.0 gives 15.75 GB/s before packet headers, 4.0
/// gives 31.5 and 5.0 gives 63 (PCI-SIG); about four fifths of it arrive.
const PCIE3: u64 = 12_000_000_000;
const PCIE4: u64 = 24_000_000_000;
const PCIE5: u64 = 50_000_000_000;

/// A copy from or to ordinary memory goes through a staging buffer of the driver's, at the speed of one core.
const PAGEABLE: u64 = 6_000_000_000;

struct Profile {
    name: &'static str,
    memory_gib: u64,
    memory_bandwidth: Option<u64>,
    link: u64,
    granularity: u64,
    pool: Pool,
}

const fn plain(name: &'static str, link: u64) -> Profile {
    Profile { name, memory_gib: 16, memory_bandwidth: None, link, granularity: 1, pool: Pool::StreamOrdered }
}

/// CUDA's stream-ordered pool hands out multiples of 512 bytes.
const fn cuda(name: &'static str, memory_gib: u64, gigabytes_a_second: u64, link: u64) -> Profile {
    let memory_bandwidth = Some(gigabytes_a_second * 1_000_000_000);
    Profile { name, memory_gib, memory_bandwidth, link, granularity: 512, pool: Pool::StreamOrdered }
}

/// HIP and Level Zero allocate by plain calls, in pages.
const fn paged(
    name: &'static str,
    memory_gib: u64,
    gigabytes_a_second: u64,
    link: u64,
    page: u64,
) -> Profile {
    let memory_bandwidth = Some(gigabytes_a_second * 1_000_000_000);
    Profile { name, memory_gib, memory_bandwidth, link, granularity: page, pool: Pool::None }
}

const PROFILES: &[Profile] = &[
    plain("pcie4", PCIE4),
    plain("pcie5", PCIE5),
    // NVIDIA, "Tesla V100" datasheet, 2020: 32 GB HBM2, 900 GB/s, PCIe 3.0.
    cuda("v100-32", 32, 900, PCIE3),
    // NVIDIA, "GeForce RTX 4090" specifications, 2022: 24 GB GDDR6X, 1,008 GB/s, PCIe 4.0.
    cuda("rtx4090", 24, 1_008, PCIE4),
    // NVIDIA, "RTX 6000 Ada Generation" datasheet, 2023: 48 GB GDDR6, 960 GB/s, PCIe 4.0.
    cuda("rtx6000ada", 48, 960, PCIE4),
    // NVIDIA, "L40S" datasheet, 2023: 48 GB GDDR6, 864 GB/s, PCIe 4.0.
    cuda("l40s", 48, 864, PCIE4),
    // NVIDIA, "A100" datasheet, 2021: 40 GB HBM2, 1,555 GB/s; 80 GB HBM2e (SXM), 2,039 GB/s; PCIe 4.0.
    cuda("a100-40", 40, 1_555, PCIE4),
    cuda("a100-80", 80, 2_039, PCIE4),
    // NVIDIA, "H100" datasheet, 2023: 80 GB HBM3 (SXM), 3.35 TB/s, PCIe 5.0.
    cuda("h100-80", 80, 3_350, PCIE5),
    // NVIDIA, "H200" datasheet, 2024: 141 GB HBM3e, 4.8 TB/s, PCIe 5.0.
    cuda("h200", 141, 4_800, PCIE5),
    // AMD, "Instinct MI300X" data sheet, 2023: 192 GB HBM3, 5.3 TB/s, PCIe 5.0.
    paged("mi300x", 192, 5_300, PCIE5, 4 << 10),
    // Intel, "Data Center GPU Max 1100" specifications, 2023: 48 GB HBM2e, 1,228.8 GB/s, PCIe 5.0.
    paged("max1100", 48, 1_228, PCIE5, 64 << 10),
];

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    ["sim"].into_iter().chain(PROFILES.iter().map(|profile| profile.name))
}

pub(super) fn find(name: &str) -> Option<Config> {
    if matches!(name, "sim" | "default") {
        return Some(Config::default());
    }
    PROFILES.iter().find(|profile| profile.name == name).map(Profile::config)
}

impl Profile {
    /// The costs of calls are what the CUDA driver was seen to take on hosts of these years, and the same for all.
    fn config(&self) -> Config {
        let link = Link {
            pinned_bandwidth: Some(self.link),
            pageable_bandwidth: Some(PAGEABLE),
            call: Duration::from_micros(10),
            latency: Duration::ZERO,
        };
        Config {
            name: self.name.to_owned(),
            capacity: self.memory_gib << 30,
            granularity: self.granularity,
            outward: link,
            inward: link,
            memory_bandwidth: self.memory_bandwidth,
            submit: Duration::from_micros(5),
            reaction: Duration::from_micros(15),
            pool: self.pool,
            clock: Clock::Computed,
            ..Config::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_profile_opens_and_an_unknown_one_is_told_the_names() {
        for name in names() {
            let config: Config = name.parse().expect(name);
            assert_eq!(config.name, name);
            config.check().expect(name);
        }
        let error = Config::profile("pcie6").expect_err("no such profile");
        assert!(error.message.contains("pcie4") && error.message.contains("max1100"), "{error}");
    }
}
