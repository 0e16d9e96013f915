//! What the driver's pool does when one queue allocates what another has freed: facts that the simulated device and its
//! rules rest on.

use crate::{
    Check,
    conformance::{BUSY, Bench},
    gpu::Gpu,
};
use std::time::{Duration, Instant};
use tack_residency::driver::{DevicePtr, Driver};

pub const CHECKS: &[Check] = &[
    ("pool: freed memory serves its own queue", own_queue),
    ("pool: never makes one queue wait for another", no_hidden_order),
    ("pool: what sizes are taken", sizes),
];

const BYTES: u64 = 64 << 20;

fn own_queue(gpu: &Gpu) -> String {
    let bench = Bench::open();
    let cuda = &bench.cuda;
    let first = cuda.allocate(bench.compute, BYTES).expect("memory");
    gpu.spin(&bench.stream(bench.compute), BUSY);
    let kept = cuda.memory();
    for _ in 0..50 {
        let ptr = cuda.allocate(bench.compute, BYTES).expect("memory");
        cuda.fill(bench.compute, ptr, BYTES, 1).expect("a fill");
        cuda.free(bench.compute, ptr).expect("it is freed in order");
    }
    let grown = kept.free.unwrap_or(0).saturating_sub(cuda.memory().free.unwrap_or(0));
    assert!(grown <= 2 * BYTES, "fifty temporaries took {grown} bytes");
    bench.finish(bench.compute);
    cuda.free(bench.release, first).expect("it is freed");
    format!("fifty temporaries of {BYTES} B behind a running kernel took {grown} B")
}

/// Frees on compute behind a kernel, allocates and fills on restore: the fill must not wait for the kernel.
fn no_hidden_order(gpu: &Gpu) -> String {
    let bench = Bench::open();
    let cuda = &bench.cuda;
    let mut seen = Vec::new();
    for (how, before) in [("pending", false), ("ordered by a fence", true)] {
        let ptr = cuda.allocate(bench.compute, BYTES).expect("memory");
        gpu.spin(&bench.stream(bench.compute), BUSY);
        cuda.free(bench.compute, ptr).expect("it is freed in order");
        if before {
            let fence = cuda.record(bench.compute).expect("a fence");
            cuda.wait(bench.restore, fence).expect("a wait");
        }
        let start = Instant::now();
        let next = cuda.allocate(bench.restore, BYTES).expect("memory");
        let called = start.elapsed();
        cuda.fill(bench.restore, next, BYTES, 1).expect("a fill");
        bench.finish(bench.restore);
        let took = start.elapsed();
        assert!(called < BUSY / 2, "an allocation kept the host for {called:?}");
        if !before {
            assert!(took < BUSY / 2, "restore waited {took:?} for a kernel it has nothing to do with");
        }
        seen.push(format!("{how}: {} after {took:.0?}", used_again(ptr, next)));
        bench.finish(bench.compute);
        cuda.free(bench.release, next).expect("it is freed");
        bench.finish(bench.release);
        cuda.trim().expect("it is trimmed");
    }
    // Freed on the queue of frees, not looked at by the host: may another queue have it at once?
    let ptr = cuda.allocate(bench.compute, BYTES).expect("memory");
    bench.finish(bench.compute);
    cuda.free(bench.release, ptr).expect("it is freed");
    std::thread::sleep(Duration::from_millis(1));
    let next = cuda.allocate(bench.restore, BYTES).expect("memory");
    seen.push(format!("happened, unseen: {}", used_again(ptr, next)));
    cuda.free(bench.restore, next).expect("it is freed");
    seen.join("; ")
}

fn used_again(ptr: DevicePtr, next: DevicePtr) -> &'static str {
    if ptr == next { "used again" } else { "not used again" }
}

fn sizes(_: &Gpu) -> String {
    let bench = Bench::open();
    let cuda = &bench.cuda;
    let mut seen = Vec::new();
    for bytes in [512u64, 1 << 20, (2 << 20) + 512, 8 << 20, (33 << 20) + 512] {
        cuda.trim().expect("it is trimmed");
        let before = cuda.memory();
        let ptr = cuda.allocate(bench.compute, bytes).expect("memory");
        let after = cuda.memory();
        let taken = before.free.unwrap_or(0).saturating_sub(after.free.unwrap_or(0));
        seen.push(format!("{bytes}: {taken} taken, {} beyond use", after.cached));
        // The books count what is asked for: what is used must not be more.
        assert!(taken.saturating_sub(after.cached) <= bytes.next_multiple_of(512), "{seen:?}");
        bench.finish(bench.compute);
        cuda.free(bench.release, ptr).expect("it is freed");
        bench.finish(bench.release);
    }
    seen.join("; ")
}
