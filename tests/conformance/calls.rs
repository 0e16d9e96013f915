//! Each call of the driver's trait, on the device itself.

use crate::backend::{Bench, Check, Rig, bytes_of, pattern};
use std::{thread, time::Duration};
use tack_residency::driver::{DevicePtr, DriverErrorKind, Fence, HostKind, HostRange, QueueId};

pub const CHECKS: &[Check] = &[
    ("allocate and free", allocate_and_free),
    ("fill, and copies of every kind", copies),
    ("parts of host memory", parts),
    ("threads that never touched the driver", threads),
    ("what is wrong is refused", refusals),
];

fn allocate_and_free(rig: &Rig) -> String {
    let bench = Bench::open(rig);
    let driver = &bench.driver;
    let before = driver.memory();
    assert!(before.free <= before.total && before.total > Some(1 << 30), "{before:?}");
    let sizes = [512, 1024, 4096, 1 << 20, (1 << 21) + 512, 64 << 20, 256 << 20];
    let mut live: Vec<(u64, u64)> = Vec::new();
    for queue in [bench.compute, bench.restore] {
        for bytes in sizes {
            let ptr = driver.allocate(queue, bytes).expect("memory").as_raw();
            assert!(ptr % 256 == 0, "{ptr:#x} is not aligned");
            live.push((ptr, bytes));
        }
    }
    live.sort_unstable();
    assert!(live.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0), "two allocations overlap");
    let during = driver.memory();
    let held: u64 = live.iter().map(|(_, bytes)| bytes).sum();
    assert!(
        during.free.zip(before.free).is_some_and(|(now, then)| now + held <= then + (1 << 20)),
        "{during:?}"
    );
    bench.finish(bench.compute);
    bench.finish(bench.restore);
    for (ptr, _) in live {
        driver.free(bench.release, DevicePtr::from_raw(ptr)).expect("it is freed");
    }
    bench.finish(bench.release);
    let kept = driver.memory().cached;
    assert!(kept >= held || !driver.caps().stream_ordered, "the pool kept {kept} of {held} bytes");
    let given = driver.trim().expect("it is trimmed");
    let after = driver.memory();
    assert_eq!(after.cached, 0, "{given} given back");
    let gone = before.free.unwrap_or(0).saturating_sub(after.free.unwrap_or(0));
    assert!(gone < 64 << 20, "{gone} bytes are missing after the trim");
    format!("{held} B held, {kept} B kept by the pool, {given} B trimmed, {gone} B not back")
}

fn copies(rig: &Rig) -> String {
    let bench = Bench::open(rig);
    let driver = &bench.driver;
    let mut count = 0;
    for bytes in [1usize, 511, 4096, 100_000, 3 << 20, 4 * rig.array_bytes() as usize + 3] {
        let size = (bytes as u64).next_multiple_of(512);
        let [first, second] = [0; 2].map(|_| driver.allocate(bench.restore, size).expect("memory"));
        for into in [HostKind::Pinned, HostKind::Ordinary] {
            for out_of in [HostKind::Pinned, HostKind::Ordinary] {
                let (from, to) = (bench.host(into, bytes), bench.host(out_of, bytes));
                let expected = pattern(bytes, count);
                from.memory.write(0, &expected);
                driver.fill(bench.restore, second, bytes as u64, 0xAA).expect("a fill");
                driver.copy_in(bench.restore, &from, first).expect("a copy in");
                driver.copy(bench.restore, first, second, bytes as u64).expect("a copy");
                driver.copy_out(bench.restore, second, &to).expect("a copy out");
                bench.finish(bench.restore);
                assert!(bytes_of(&to) == expected, "{bytes} bytes from {into:?} to {out_of:?}");
                count += 1;
            }
        }
        for value in [0, 0x7F, 0xFF] {
            driver.fill(bench.restore, first, bytes as u64, value).expect("a fill");
            bench.finish(bench.restore);
            assert!(bench.read(first, bytes).iter().all(|&byte| byte == value), "{bytes} bytes of {value}");
        }
        for ptr in [first, second] {
            driver.free(bench.release, ptr).expect("it is freed");
        }
    }
    format!("{count} rounds")
}

fn parts(rig: &Rig) -> String {
    let bench = Bench::open(rig);
    let driver = &bench.driver;
    let ptr = driver.allocate(bench.restore, 8192).expect("memory");
    let host = bench.host(HostKind::Pinned, 8192);
    host.memory.write(0, &pattern(8192, 1));
    driver.fill(bench.restore, ptr, 8192, 0).expect("a fill");
    let part = HostRange { memory: host.memory.clone(), offset: 4001, bytes: 999 };
    driver.copy_in(bench.restore, &part, ptr.offset(17)).expect("a copy of a part");
    driver.fill(bench.restore, ptr.offset(17 + 999), 3, 9).expect("a fill of a part");
    bench.finish(bench.restore);
    let mut expected = vec![0; 8192];
    expected[17..17 + 999].copy_from_slice(&pattern(8192, 1)[4001..5000]);
    expected[1016..1019].fill(9);
    assert!(bench.read(ptr, 8192) == expected, "the parts are not where they should be");
    let out = bench.host(HostKind::Ordinary, 100);
    let part = HostRange { memory: out.memory.clone(), offset: 60, bytes: 40 };
    driver.copy_out(bench.spill, ptr.offset(1000), &part).expect("a copy of a part");
    bench.finish(bench.spill);
    assert_eq!(bytes_of(&out)[..60], [0; 60]);
    assert_eq!(bytes_of(&out)[60..], expected[1000..1040]);
    let beyond = HostRange { memory: out.memory, offset: 61, bytes: 40 };
    assert_eq!(
        driver.copy_out(bench.spill, ptr, &beyond).expect_err("it is too long").kind,
        DriverErrorKind::Invalid
    );
    let none = HostRange { memory: host.memory, offset: 8192, bytes: 0 };
    driver.copy_in(bench.restore, &none, ptr).expect("nothing to copy");
    driver.fill(bench.restore, ptr, 0, 1).expect("nothing to fill");
    driver.free(bench.release, ptr).expect("it is freed");
    String::new()
}

fn threads(rig: &Rig) -> String {
    let bench = Bench::open(rig);
    let ptr = thread::scope(|scope| {
        let made = scope.spawn(|| {
            let ptr = bench.allocate(bench.compute, 4096);
            bench.driver.fill(bench.compute, ptr, 4096, 3).expect("a fill");
            bench.finish(bench.compute);
            ptr
        });
        made.join().expect("no panic")
    });
    let host = thread::scope(|scope| {
        let made = scope.spawn(|| {
            assert!(bench.read(ptr, 4096).iter().all(|&byte| byte == 3));
            bench.spin(bench.compute, Duration::from_micros(1));
            bench.host(HostKind::Pinned, 4096)
        });
        made.join().expect("no panic")
    });
    thread::scope(|scope| {
        scope.spawn(|| bench.free(ptr));
        scope.spawn(|| drop(host));
    });
    // The last of the device goes on a thread of its own.
    thread::spawn(|| drop(bench)).join().expect("no panic");
    String::new()
}

fn refusals(rig: &Rig) -> String {
    let bench = Bench::open(rig);
    let driver = &bench.driver;
    let total = driver.memory().total.expect("a total");
    assert!(driver.caps().max_allocation.is_none_or(|most| most == total));
    let large = driver.allocate(bench.compute, total + (1 << 30)).expect_err("there is not so much");
    assert!(large.kind == DriverErrorKind::OutOfMemory && large.code != 0, "{large}");
    let unknown = QueueId(31);
    let kinds = [
        ("a null address", driver.free(bench.release, DevicePtr::from_raw(0xDEAD_0000)).err()),
        ("an unknown queue", driver.fill(unknown, DevicePtr::NULL, 1, 0).err()),
        ("an empty allocation", driver.allocate(bench.compute, 0).err()),
        ("an unknown fence", driver.is_passed(Fence(1 << 40)).err()),
    ];
    for (what, error) in kinds {
        assert_eq!(error.expect(what).kind, DriverErrorKind::Invalid, "{what}");
    }
    let pinned = driver.allocate_host(1 << 50).expect_err("no host has so much");
    // None of it has harmed the device.
    let ptr = driver.allocate(bench.compute, 512).expect("memory");
    bench.finish(bench.compute);
    driver.free(bench.release, ptr).expect("it is freed");
    format!("too large: {large}; pinned too large: {pinned} ({:?})", pinned.kind)
}
