//! A driver dropped while it has work: what it has begun for the host's memory ends.

use crate::backend::{BUSY, Bench, Check, Rig, bytes_of, until};
use std::{sync::Arc, time::Instant};
use tack_residency::driver::HostKind;

/// Of vendors' drivers: the simulated device does not begin what is queued when it goes.
pub const CHECKS: &[Check] = &[("a dropped device lets its copies end", dropped_early)];

fn dropped_early(rig: &Rig) -> String {
    let start;
    let host;
    {
        let bench = Bench::open(rig);
        let driver = &bench.driver;
        let ptr = driver.allocate(bench.compute, 8 << 20).expect("memory");
        host = bench.host(HostKind::Pinned, 8 << 20);
        driver.fill(bench.compute, ptr, 8 << 20, 5).expect("a fill");
        bench.spin(bench.compute, BUSY);
        driver.copy_out(bench.compute, ptr, &host).expect("a copy out");
        driver.free(bench.compute, ptr).expect("it is freed in order");
        start = Instant::now();
    }
    let took = start.elapsed();
    // Whoever drops the driver may wait for that, or somebody else.
    until("the copy's memory is let go", || Arc::strong_count(&host.memory) == 1);
    assert!(bytes_of(&host).iter().all(|&byte| byte == 5), "the device went before its copy had run");
    // The last pinned block keeps the context; it goes after the device.
    drop(host);
    format!("it waited {took:?}")
}
