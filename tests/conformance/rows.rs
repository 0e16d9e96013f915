//! What broke elsewhere and only real queues show: programs whose kernels are late, on every backend.

use crate::backend::{BUSY, Check, Rig, until};
use futures::future::FutureExt;
use std::{
    task::{Context, Waker},
    time::{Duration, Instant},
};
use tack_residency::{
    Buffer, Device, ErrorKind, Queue, Use,
    driver::{DriverMemory, HostKind},
};

pub const CHECKS: &[Check] = &[
    ("a spill beside a late reader on another queue", late_reader),
    ("a spill right behind a late writer", late_writer),
    ("a restore where an old kernel still reads", reused_target),
    ("a write behind the first of two late readers", both_readers),
    ("a lost device ends every wait as lost", lost),
    ("room whose frees are pending on another queue", pending_frees),
    ("a slow queue and the frees of others", slow_queue),
    ("fixed memory given back beside a kernel", fixed_given_back),
    ("memory as the driver tells it", told),
    ("a refused allocation takes nothing", refused),
    ("a kernel's body that lets go of what is in the way", body_lets_go),
    ("two arguments that overlap", overlapping),
    ("a device closed at work and opened again", reopened),
];

/// A device with room for so many arrays, and a second queue.
pub fn open(rig: &Rig, arrays: u64) -> (Device, Queue) {
    let device = rig.device(Device::options().budget(arrays * bytes(rig)));
    let second = device.add_queue().expect("a queue");
    (device, second)
}

pub fn bytes(rig: &Rig) -> u64 {
    rig.array_bytes()
}

/// An array of numbers that are all this.
pub fn array(rig: &Rig, device: &Device, number: u32) -> Buffer {
    let buffer = device.alloc(bytes(rig)).tag(format!("array {number}")).wait().expect("room");
    buffer.write(numbers(rig, number)).wait().expect("written");
    buffer
}

fn numbers(rig: &Rig, number: u32) -> Vec<u8> {
    number.to_le_bytes().repeat((bytes(rig) / 4) as usize)
}

/// A kernel that comes after the queue was busy for a while: one added to the use at `index`.
fn late(rig: &Rig, device: &Device, queue: &Queue, uses: [Use<'_>; 2], index: usize) {
    let launch = device.prepare(uses).wait().expect("resident").on(queue).expect("its queue");
    let work = launch.submit(|run| {
        rig.spin(run.driver(), run.queue(), BUSY);
        rig.add_one(run, index)
    });
    work.expect("queued");
}

pub fn is(rig: &Rig, what: &str, buffer: &Buffer, number: u32) {
    let found = buffer.read().wait().expect("read");
    assert!(found == numbers(rig, number), "{what}: {:?} instead of {number}", &found[..8]);
}

pub fn end(device: Device) {
    device.idle().wait().expect("not lost");
    device.check().expect("the books balance");
}

fn late_reader(rig: &Rig) -> String {
    let (device, second) = open(rig, 4);
    let [from, to] = [1, 2].map(|number| array(rig, &device, number));
    let begun = Instant::now();
    let launch = device.prepare([Use::read_write(&to), Use::read(&from)]).wait().expect("resident");
    let work = launch.on(&second).expect("its queue").submit(|run| {
        rig.spin(run.driver(), run.queue(), BUSY);
        rig.mix(run, 7)
    });
    work.expect("queued");
    from.spill().wait().expect("spilled");
    let spilled = begun.elapsed();
    // What is taken next may be where it was: the kernel must have read it by then.
    let others: Vec<Buffer> = (10..12).map(|number| array(rig, &device, number)).collect();
    let found = to.read().wait().expect("read");
    for (index, four) in found.chunks_exact(4).enumerate() {
        let expected = crate::backend::mixed(2, 1, index, 7);
        assert_eq!(four, expected.to_le_bytes(), "number {index}");
    }
    is(rig, "the spilled one", &from, 1);
    drop(others);
    end(device);
    format!("spilled after {spilled:.1?}, the reader took {BUSY:?}")
}

fn late_writer(rig: &Rig) -> String {
    let (device, second) = open(rig, 4);
    let [written, other] = [1, 5].map(|number| array(rig, &device, number));
    late(rig, &device, &second, [Use::read_write(&written), Use::read(&other)], 0);
    written.spill().wait().expect("spilled");
    assert!(written.is_spilled());
    is(rig, "the host copy", &written, 2);
    end(device);
    String::new()
}

fn reused_target(rig: &Rig) -> String {
    let (device, second) = open(rig, 2);
    let (away, reader) = (array(rig, &device, 3), array(rig, &device, 1));
    away.spill().wait().expect("spilled");
    for round in 0..4u32 {
        let doomed = array(rig, &device, 20 + round);
        let launch = device.prepare([Use::read_write(&reader), Use::read(&doomed)]).wait().expect("resident");
        let work = launch.on(&second).expect("its queue").submit(|run| {
            rig.spin(run.driver(), run.queue(), BUSY / 4);
            rig.mix(run, 0)
        });
        work.expect("queued");
        let before = reader_value(rig, &reader, round);
        drop(doomed);
        // Its memory is the only room there is.
        device
            .prepare([Use::read_write(&away)])
            .wait()
            .expect("room")
            .submit(|run| rig.add_one(run, 0))
            .expect("queued");
        let found = reader.read().wait().expect("read");
        assert!(found == before, "round {round}: the kernel read what came after it");
        away.spill().wait().expect("spilled");
        is(rig, "the restored one", &away, 4 + round);
    }
    end(device);
    String::new()
}

/// What the reader must be after so many rounds.
fn reader_value(rig: &Rig, _reader: &Buffer, round: u32) -> Vec<u8> {
    let numbers = (0..bytes(rig) as usize / 4)
        .map(|index| (0..=round).fold(1, |value, round| crate::backend::mixed(value, 20 + round, index, 0)));
    numbers.flat_map(u32::to_le_bytes).collect()
}

fn both_readers(rig: &Rig) -> String {
    let (device, second) = open(rig, 6);
    let [shared, first, other] = [1, 2, 3].map(|number| array(rig, &device, number));
    // The early reader is slow, the late one is not: the last of them to be queued is the first to end.
    for (queue, target, time) in [(&second, &first, BUSY), (&device.queue(), &other, Duration::ZERO)] {
        let launch = device.prepare([Use::read_write(target), Use::read(&shared)]).wait().expect("resident");
        let work = launch.on(queue).expect("its queue").submit(|run| {
            rig.spin(run.driver(), run.queue(), time);
            rig.mix(run, 0)
        });
        work.expect("queued");
    }
    shared.write(numbers(rig, 99)).wait().expect("written");
    for (target, before) in [(&first, 2), (&other, 3)] {
        let found = target.read().wait().expect("read");
        for (index, four) in found.chunks_exact(4).enumerate() {
            assert_eq!(four, crate::backend::mixed(before, 1, index, 0).to_le_bytes(), "number {index}");
        }
    }
    is(rig, "the one written", &shared, 99);
    end(device);
    String::new()
}

fn lost(rig: &Rig) -> String {
    let (device, _second) = open(rig, 1);
    let [kept, here] = [1, 2].map(|number| array(rig, &device, number));
    assert!(kept.is_spilled());
    let launch = device.prepare([Use::read_write(&here)]).wait().expect("resident");
    match launch.submit(|run| run.host_kernel(Duration::ZERO, |_| panic!("on purpose: it loses the device")))
    {
        Ok(()) => {}
        // It ran before the launch was over.
        Err(error) if error.kind() == ErrorKind::DeviceLost => {}
        Err(error) => panic!("{error}"),
    }
    let waits = [
        here.read().wait().map(drop),
        device.prepare([Use::read(&kept)]).wait().map(drop),
        device.idle().wait(),
        device.alloc(bytes(rig)).wait().map(drop),
    ];
    for (index, outcome) in waits.into_iter().enumerate() {
        assert_eq!(outcome.expect_err("it is lost").kind(), ErrorKind::DeviceLost, "wait {index}");
    }
    is(rig, "a host copy", &kept, 1);
    device.check().expect("the books balance");
    String::new()
}

fn pending_frees(rig: &Rig) -> String {
    let (device, second) = open(rig, 4);
    let kept = array(rig, &device, 9);
    let large = device.alloc(3 * bytes(rig)).wait().expect("room");
    let launch = device.prepare([Use::read_write(&large)]).wait().expect("resident");
    let work = launch.on(&second).expect("its queue").submit(|run| {
        rig.spin(run.driver(), run.queue(), BUSY);
        Ok::<(), tack_residency::Error>(())
    });
    work.expect("queued");
    drop(large);
    let again = device.alloc(3 * bytes(rig)).wait().expect("its own frees are waited for");
    assert!(!kept.is_spilled() && device.memory_info().spills == 0, "{}", device.memory_info());
    drop(again);
    is(rig, "the other one", &kept, 9);
    end(device);
    String::new()
}

fn slow_queue(rig: &Rig) -> String {
    let (device, second) = open(rig, 4);
    let [slow, quick, other] = [1, 2, 3].map(|number| array(rig, &device, number));
    device.idle().wait().expect("not lost");
    let begun = Instant::now();
    rig.spin(&**device.driver(), second.id(), 4 * BUSY);
    late(rig, &device, &second, [Use::read_write(&slow), Use::read(&other)], 0);
    let launch = device.prepare([Use::read_write(&quick)]).wait().expect("resident");
    launch.submit(|run| rig.add_one(run, 0)).expect("queued");
    drop(quick);
    until("the quick one is freed", || device.memory_info().in_use == 2 * bytes(rig));
    let freed = begun.elapsed();
    is(rig, "the slow one", &slow, 2);
    let ended = begun.elapsed();
    assert!(freed < ended, "the free waited for the other queue");
    end(device);
    format!("freed after {freed:.1?}, the other queue ran {ended:.1?}")
}

/// Fixed memory is no pool's: where there are pools too, its release waits for the whole device.
fn fixed_given_back(rig: &Rig) -> String {
    let (device, _) = open(rig, 4);
    let [used, other] = [9, 5].map(|number| array(rig, &device, number));
    drop(device.alloc(bytes(rig)).fixed().wait().expect("room"));
    device.idle().wait().expect("not lost");
    late(rig, &device, &device.queue(), [Use::read_write(&used), Use::read(&other)], 0);
    let driver = device.driver();
    let fence = driver.record(device.queue().id()).expect("a fence");
    let is_over = || driver.is_passed(fence).expect("not lost");
    let mut room = device.make_room(bytes(rig)).boxed();
    let _ = room.poll_unpin(&mut Context::from_waker(Waker::noop()));
    assert!(!is_over(), "who made room waited for the kernel");
    is(rig, "what the kernel does not write", &other, 5);
    assert!(!is_over(), "who read waited for the kernel");
    room.now_or_never();
    until("the kernel is over", is_over);
    driver.retire(fence);
    end(device);
    String::new()
}

fn told(rig: &Rig) -> String {
    let driver = rig.open();
    let queue = driver.create_queue(tack_residency::driver::QueueRole::Compute).expect("a queue");
    let at_first: DriverMemory = driver.memory();
    let total = at_first.total.expect("a device with memory of its own says how much");
    let held = 64 << 20;
    let ptr = driver.allocate(queue, held).expect("memory");
    let memory = driver.memory();
    if let (Some(before), Some(free)) = (at_first.free, memory.free) {
        assert!(free < total && before <= total, "{memory:?}");
        assert!(free + held <= before + (2 << 20), "{before} free before {held} were taken, {free} after");
    }
    driver.free(queue, ptr).expect("it is freed");
    until("it is kept, or given back", || {
        let fence = driver.record(queue).expect("a fence");
        let memory = driver.memory();
        while !driver.is_passed(fence).expect("not lost") {}
        driver.retire(fence);
        memory.cached >= held || memory.free == at_first.free
    });
    driver.trim().expect("trimmed");
    let memory = driver.memory();
    assert_eq!(memory.cached, 0, "{memory:?}");
    format!("{} MiB in all", total >> 20)
}

fn refused(rig: &Rig) -> String {
    let driver = rig.open();
    let queue = driver.create_queue(tack_residency::driver::QueueRole::Compute).expect("a queue");
    let before = driver.memory();
    let granularity = driver.caps().granularity;
    let all = before.total.expect("known") / granularity * granularity;
    for _ in 0..8 {
        driver.allocate(queue, all.saturating_mul(2)).expect_err("twice what there is");
    }
    assert_eq!(driver.memory().cached, before.cached);
    drop(driver.allocate_host(4096).expect("the driver is well"));
    let device = rig.device(Device::options());
    let error = device.alloc(all * 2).wait().expect_err("twice what there is");
    assert!(matches!(error.kind(), ErrorKind::TooLarge | ErrorKind::OutOfMemory), "{error}");
    // A block of one size, freed, is had again at once.
    let size = (all / 2).min(256 << 20);
    for _ in 0..8 {
        drop(device.alloc(size).uninitialised().wait().expect("it was given back"));
    }
    let info = device.memory_info();
    assert!(info.peak <= 2 * size, "{info}");
    assert_eq!(driver.allocate_host(64).expect("pinned").kind(), HostKind::Pinned);
    end(device);
    String::new()
}

/// Whoever waits for the room is not told that the driver refused what the body's own thread may not do.
fn body_lets_go(rig: &Rig) -> String {
    let (device, _second) = open(rig, 2);
    let own = array(rig, &device, 1);
    let in_way = array(rig, &device, 2);
    let guard = in_way.ensure_resident().wait().expect("resident");
    let launch = device.prepare([Use::read_write(&own)]).wait().expect("resident");
    let work = launch.submit(|run| {
        rig.spin(run.driver(), run.queue(), BUSY);
        run.host_kernel(Duration::ZERO, move |args| {
            args[0].bytes_mut().fill(9);
            drop((guard, in_way));
        })
    });
    work.expect("queued");
    std::thread::scope(|scope| {
        let room = scope.spawn(|| device.alloc(bytes(rig)).wait());
        drop(room.join().expect("no panic").expect("there is room once the body has run"));
    });
    is(rig, "what the body wrote", &own, 0x0909_0909);
    end(device);
    String::new()
}

fn overlapping(rig: &Rig) -> String {
    let (device, _second) = open(rig, 2);
    let buffer = array(rig, &device, 1);
    let [first, second] = [(0, 16), (8, 16)].map(|(at, len)| buffer.view(at, len).expect("within"));
    let launch = device.prepare([Use::read_write(&first), Use::read(&second)]).wait().expect("resident");
    let error = launch.submit(|run| run.host_kernel(Duration::ZERO, |_| {})).expect_err("they overlap");
    assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
    is(rig, "the buffer", &buffer, 1);
    end(device);
    String::new()
}

fn reopened(rig: &Rig) -> String {
    let (device, second) = open(rig, 4);
    let total = device.memory_info().device_free;
    let [here, other] = [1, 2].map(|number| array(rig, &device, number));
    late(rig, &device, &second, [Use::read_write(&here), Use::read(&other)], 0);
    drop((here, other, second, device));
    let begun = Instant::now();
    let (again, _second) = open(rig, 4);
    let waited = begun.elapsed();
    // A thread of the driver's may still be giving up what it waited for.
    until("what the closed one held is free", || {
        let info = again.memory_info();
        info.device_free.map(|free| free + info.cached) >= total
    });
    is(rig, "a new array", &array(rig, &again, 5), 5);
    end(again);
    format!("it took {waited:.1?}")
}
