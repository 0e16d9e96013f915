//! What comes behind what: queues, fences, host memory under way, rests.

use crate::backend::{BUSY, Bench, Check, Rig, bytes_of, pattern, until};
use std::{
    collections::BTreeSet,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use tack_residency::driver::{DriverErrorKind, Fence, HostKind, QueueRole};

pub const CHECKS: &[Check] = &[
    ("a queue waits for another's fence", waits),
    ("a fence passes when its work has ended", fences),
    ("a pinned copy is queued, and kept alive", asynchronous),
    ("host memory let go with copies under way", let_go),
    ("work of a queue runs in its order", in_order),
    ("fences, a thousand at once", many_fences),
    ("queues, as many as there may be", many_queues),
    ("park ends with a fence, or when told to", park),
];

fn waits(rig: &Rig) -> String {
    let bench = Bench::open(rig);
    let driver = &bench.driver;
    let ptr = driver.allocate(bench.compute, 1 << 20).expect("memory");
    for round in 0..4u8 {
        // Before the kernel: pinning may wait for the device.
        let host = bench.host(HostKind::Pinned, 1 << 20);
        bench.spin(bench.compute, BUSY / 2);
        driver.fill(bench.compute, ptr, 1 << 20, round).expect("a fill");
        let fence = driver.record(bench.compute).expect("a fence");
        driver.wait(bench.spill, fence).expect("a wait");
        driver.copy_out(bench.spill, ptr, &host).expect("a copy out");
        assert!(!driver.is_passed(fence).expect("not lost"), "the kernel had ended too early to tell");
        let copied = driver.record(bench.spill).expect("a fence");
        bench.pass(copied);
        assert!(driver.is_passed(fence).expect("not lost"), "the copy did not wait");
        assert!(bytes_of(&host).iter().all(|&byte| byte == round), "round {round}");
        // One that has passed is waited for at once.
        driver.wait(bench.spill, fence).expect("a wait");
        driver.wait(bench.compute, copied).expect("a wait");
        driver.retire(fence);
        driver.retire(copied);
    }
    driver.free(bench.release, ptr).expect("it is freed");
    String::new()
}

fn fences(rig: &Rig) -> String {
    let bench = Bench::open(rig);
    let driver = &bench.driver;
    let start = Instant::now();
    bench.spin(bench.compute, BUSY);
    let fence = driver.record(bench.compute).expect("a fence");
    let queued = start.elapsed();
    assert!(!driver.is_passed(fence).expect("not lost"), "it passed before its work ended");
    let other = driver.record(bench.spill).expect("a fence");
    bench.pass(other);
    assert!(!driver.is_passed(fence).expect("not lost"), "one queue's fence waited for another queue");
    bench.pass(fence);
    let passed = start.elapsed();
    // Kernels that keep time by a clock of the device's are not exact.
    assert!(passed >= BUSY / 2, "it passed after {passed:?}");
    driver.retire(fence);
    let again = driver.record(bench.compute).expect("a fence");
    assert_ne!(fence, again);
    assert_eq!(driver.is_passed(fence).expect_err("it was given back").kind, DriverErrorKind::Invalid);
    assert_eq!(
        driver.wait(bench.spill, fence).expect_err("it was given back").kind,
        DriverErrorKind::Invalid
    );
    bench.pass(again);
    // Fences of one event, many times.
    let many = Instant::now();
    for _ in 0..2000 {
        let fence = driver.record(bench.compute).expect("a fence");
        while !driver.is_passed(fence).expect("not lost") {}
        driver.retire(fence);
    }
    let each = many.elapsed() / 2000;
    format!(
        "queued in {queued:?}, a {BUSY:?} kernel's fence passed after {passed:?}; a fence to and fro {each:?}"
    )
}

fn asynchronous(rig: &Rig) -> String {
    let bench = Bench::open(rig);
    let driver = &bench.driver;
    let ptr = driver.allocate(bench.compute, 8 << 20).expect("memory");
    let mut took = Vec::new();
    for kind in [HostKind::Pinned, HostKind::Ordinary] {
        driver.fill(bench.compute, ptr, 8 << 20, 5).expect("a fill");
        bench.finish(bench.compute);
        let host = bench.host(kind, 8 << 20);
        bench.spin(bench.compute, BUSY);
        let start = Instant::now();
        driver.copy_out(bench.compute, ptr, &host).expect("a copy out");
        took.push(start.elapsed());
        let fence = driver.record(bench.compute).expect("a fence");
        if kind == HostKind::Pinned {
            assert!(took[0] < BUSY / 2, "a pinned copy kept the host for {:?}", took[0]);
            assert!(!driver.is_passed(fence).expect("not lost"), "the copy had ended too early to tell");
            assert!(Arc::strong_count(&host.memory) > 1, "nobody keeps the memory of a copy under way");
        }
        bench.pass(fence);
        until("the memory of a copy that has ended is let go", || Arc::strong_count(&host.memory) == 1);
        assert!(bytes_of(&host).iter().all(|&byte| byte == 5));
        driver.retire(fence);
    }
    driver.free(bench.release, ptr).expect("it is freed");
    format!(
        "behind a {BUSY:?} kernel, a pinned copy took the host {:?}, an ordinary one {:?}",
        took[0], took[1]
    )
}

fn park(rig: &Rig) -> String {
    let bench = Bench::open(rig);
    let driver = &bench.driver;
    let long = Duration::from_secs(5);
    bench.spin(bench.compute, BUSY);
    let fence = driver.record(bench.compute).expect("a fence");
    let start = Instant::now();
    let mut parks = 0;
    while !driver.is_passed(fence).expect("not lost") {
        driver.park(long);
        parks += 1;
    }
    let woke = start.elapsed();
    assert!(woke < BUSY * 2, "it rested for {woke:?}");
    driver.retire(fence);
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(BUSY);
            driver.unpark();
        });
        let start = Instant::now();
        driver.park(long);
        assert!(start.elapsed() < long / 2, "unpark did not end it");
    });
    // What has rung before rings no more.
    driver.park(Duration::ZERO);
    let start = Instant::now();
    driver.park(BUSY);
    assert!((BUSY..long).contains(&start.elapsed()), "{:?}", start.elapsed());
    format!("woke {:?} late, in {parks} parks", woke.saturating_sub(BUSY))
}

fn let_go(rig: &Rig) -> String {
    const BYTES: usize = 100_003;
    let bench = Bench::open(rig);
    let driver = &bench.driver;
    let [from, to] = [0; 2].map(|_| bench.allocate(bench.restore, BYTES as u64 + 5));
    let expected = pattern(BYTES, 9);
    for round in 0..3 {
        driver.fill(bench.restore, to, BYTES as u64, round).expect("a fill");
        let host = bench.host(HostKind::Pinned, BYTES);
        host.memory.write(0, &expected);
        bench.spin(bench.restore, BUSY / 3);
        driver.copy_in(bench.restore, &host, from).expect("a copy in");
        // Freeing may wait for the device; nothing here holds the memory but the copy.
        drop(host);
        driver.copy(bench.restore, from, to.offset(5), BYTES as u64).expect("a copy");
        let nobodys = bench.host(HostKind::Pinned, BYTES);
        driver.copy_out(bench.restore, to, &nobodys).expect("a copy out");
        drop(nobodys);
        bench.finish(bench.restore);
        assert!(bench.read(to.offset(5), BYTES) == expected, "round {round}: a copy had other bytes");
    }
    bench.free(from);
    bench.free(to);
    String::new()
}

fn in_order(rig: &Rig) -> String {
    const BYTES: u64 = 4099;
    let bench = Bench::open(rig);
    let driver = &bench.driver;
    let [first, second] = [0; 2].map(|_| bench.allocate(bench.compute, BYTES));
    let outs: Vec<_> = (0..64).map(|_| bench.host(HostKind::Pinned, BYTES as usize)).collect();
    bench.spin(bench.compute, BUSY / 3);
    for (round, out) in outs.iter().enumerate() {
        driver.fill(bench.compute, first, BYTES, round as u8).expect("a fill");
        driver.copy(bench.compute, first, second, BYTES).expect("a copy");
        driver.fill(bench.compute, first, BYTES, 0xEE).expect("a fill");
        driver.copy_out(bench.compute, second, out).expect("a copy out");
    }
    bench.finish(bench.compute);
    for (round, out) in outs.iter().enumerate() {
        assert!(bytes_of(out).iter().all(|&byte| byte == round as u8), "round {round}");
    }
    bench.free(first);
    bench.free(second);
    String::new()
}

fn many_fences(rig: &Rig) -> String {
    const FENCES: usize = 1000;
    let bench = Bench::open(rig);
    let driver = &bench.driver;
    for round in 0..2 {
        bench.spin(bench.compute, 5 * BUSY);
        let fences: Vec<Fence> =
            (0..FENCES).map(|_| driver.record(bench.compute).expect("a fence")).collect();
        let different: BTreeSet<Fence> = fences.iter().copied().collect();
        assert_eq!(different.len(), FENCES, "two fences are the same");
        // Another queue waits for all of them, and passes after them.
        for &fence in &fences {
            driver.wait(bench.spill, fence).expect("a wait");
        }
        let behind = driver.record(bench.spill).expect("a fence");
        assert!(!driver.is_passed(fences[0]).expect("not lost"), "round {round}: too early to tell");
        bench.pass(behind);
        for &fence in &fences {
            assert!(driver.is_passed(fence).expect("not lost"), "a queue did not wait for a fence");
            driver.retire(fence);
        }
        driver.retire(behind);
        let error = driver.is_passed(fences[FENCES / 2]).expect_err("it was given back");
        assert_eq!(error.kind, DriverErrorKind::Invalid);
    }
    String::new()
}

/// A value handed from queue to queue, each behind the one before by a fence alone.
fn many_queues(rig: &Rig) -> String {
    let bench = Bench::open(rig);
    let driver = &bench.driver;
    let mut queues = vec![bench.compute];
    let full = loop {
        match driver.create_queue(QueueRole::Compute) {
            Ok(queue) => queues.push(queue),
            Err(error) => break Some(error),
        }
        if queues.len() == 40 {
            break None;
        }
    };
    let at_most = full.map(|error| {
        assert_eq!(error.kind, DriverErrorKind::Unsupported, "{error}");
        error.to_string()
    });
    let places: Vec<_> = queues.iter().map(|_| bench.allocate(bench.compute, 512)).collect();
    driver.fill(bench.compute, places[0], 512, 77).expect("a fill");
    bench.spin(bench.compute, BUSY);
    let mut fence = driver.record(bench.compute).expect("a fence");
    let mut fences = vec![fence];
    for (&queue, places) in queues[1..].iter().zip(places.windows(2)) {
        driver.wait(queue, fence).expect("a wait");
        driver.copy(queue, places[0], places[1], 512).expect("a copy");
        fence = driver.record(queue).expect("a fence");
        fences.push(fence);
    }
    bench.pass(fence);
    assert!(bench.read(places[places.len() - 1], 512).iter().all(|&byte| byte == 77), "the value was lost");
    for fence in fences {
        driver.retire(fence);
    }
    places.into_iter().for_each(|ptr| bench.free(ptr));
    format!("{} queues; then {at_most:?}", queues.len() + 3)
}
