//! What the driver's pool does when one queue allocates what another has freed: facts that the simulated device and its
//! rules rest on.

use super::{Check, Gpu};
use crate::backend::{BUSY, Bench};
use std::time::{Duration, Instant};
use tack_residency::driver::DevicePtr;

pub const CHECKS: &[Check] = &[
    ("pool: freed memory serves its own queue", own_queue),
    ("pool: never makes one queue wait for another", no_hidden_order),
    ("pool: what sizes are taken", sizes),
];

const BYTES: u64 = 8 << 20;

fn own_queue(gpu: &Gpu) -> String {
    let bench = Bench::open(&gpu.rig());
    let driver = &bench.driver;
    let first = driver.allocate(bench.compute, BYTES).expect("memory");
    bench.spin(bench.compute, BUSY);
    let kept = driver.memory();
    for _ in 0..50 {
        let ptr = driver.allocate(bench.compute, BYTES).expect("memory");
        driver.fill(bench.compute, ptr, BYTES, 1).expect("a fill");
        driver.free(bench.compute, ptr).expect("it is freed in order");
    }
    let grown = kept.free.unwrap_or(0).saturating_sub(driver.memory().free.unwrap_or(0));
    assert!(grown <= 2 * BYTES, "fifty temporaries took {grown} bytes");
    bench.finish(bench.compute);
    driver.free(bench.release, first).expect("it is freed");
    format!("fifty temporaries of {BYTES} B behind a running kernel took {grown} B")
}

/// Frees on compute behind a kernel, allocates and fills on restore: the fill must not wait for the kernel.
fn no_hidden_order(gpu: &Gpu) -> String {
    let bench = Bench::open(&gpu.rig());
    let driver = &bench.driver;
    let mut seen = Vec::new();
    for (how, before) in [("pending", false), ("ordered by a fence", true)] {
        let ptr = driver.allocate(bench.compute, BYTES).expect("memory");
        bench.spin(bench.compute, BUSY);
        driver.free(bench.compute, ptr).expect("it is freed in order");
        if before {
            let fence = driver.record(bench.compute).expect("a fence");
            driver.wait(bench.restore, fence).expect("a wait");
        }
        let start = Instant::now();
        let next = driver.allocate(bench.restore, BYTES).expect("memory");
        let called = start.elapsed();
        driver.fill(bench.restore, next, BYTES, 1).expect("a fill");
        bench.finish(bench.restore);
        let took = start.elapsed();
        assert!(called < BUSY / 2, "an allocation kept the host for {called:?}");
        if !before {
            assert!(took < BUSY / 2, "restore waited {took:?} for a kernel it has nothing to do with");
        }
        seen.push(format!("{how}: {} after {took:.0?}", used_again(ptr, next)));
        bench.finish(bench.compute);
        driver.free(bench.release, next).expect("it is freed");
        bench.finish(bench.release);
        driver.trim().expect("it is trimmed");
    }
    // Freed on the queue of frees, not looked at by the host: may another queue have it at once?
    let ptr = driver.allocate(bench.compute, BYTES).expect("memory");
    bench.finish(bench.compute);
    driver.free(bench.release, ptr).expect("it is freed");
    std::thread::sleep(Duration::from_millis(1));
    let next = driver.allocate(bench.restore, BYTES).expect("memory");
    seen.push(format!("happened, unseen: {}", used_again(ptr, next)));
    driver.free(bench.restore, next).expect("it is freed");
    seen.join("; ")
}

fn used_again(ptr: DevicePtr, next: DevicePtr) -> &'static str {
    if ptr == next { "used again" } else { "not used again" }
}

fn sizes(gpu: &Gpu) -> String {
    let bench = Bench::open(&gpu.rig());
    let driver = &bench.driver;
    let mut seen = Vec::new();
    for bytes in [512u64, 1 << 20, (2 << 20) + 512, 8 << 20, (33 << 20) + 512] {
        driver.trim().expect("it is trimmed");
        let before = driver.memory();
        let ptr = driver.allocate(bench.compute, bytes).expect("memory");
        let after = driver.memory();
        let taken = before.free.unwrap_or(0).saturating_sub(after.free.unwrap_or(0));
        seen.push(format!("{bytes}: {taken} taken, {} beyond use", after.cached));
        // The books count what is asked for: what is used must not be more.
        assert!(taken.saturating_sub(after.cached) <= bytes.next_multiple_of(512), "{seen:?}");
        bench.finish(bench.compute);
        driver.free(bench.release, ptr).expect("it is freed");
        bench.finish(bench.release);
    }
    seen.join("; ")
}
