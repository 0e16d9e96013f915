//! The backend over a loader of its own, which runs backwards what nothing orders, and notes misuse.

mod fake;
mod host_kernels;

use super::{
    super::{
        DevicePtr, Driver, DriverErrorKind, Fence, HostMemory, HostRange, QueueId, QueueRole, queues::STREAMS,
    },
    LevelZero, code,
    library::Library,
};
use fake::{World, lookup, make, with};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// A device, and its world.
struct Bench {
    device: Arc<LevelZero>,
    world: usize,
}

impl Bench {
    fn open(change: impl FnOnce(&mut World)) -> Bench {
        let world = make(change);
        let library: &'static Library =
            Box::leak(Box::new(Library::resolve(&lookup).expect("all are there")));
        Bench { device: LevelZero::open_in(library, 0).expect("it opens"), world }
    }

    /// Whose lists keep no order.
    fn unordered() -> Bench {
        Bench::open(|world| world.version = 1 << 16 | 3)
    }

    fn set(&self, change: impl FnOnce(&mut World)) {
        with(self.world, change);
    }

    fn called(&self, name: &str) -> u32 {
        with(self.world, |world| world.called.get(name).copied().unwrap_or(0))
    }

    fn queue(&self, role: QueueRole) -> QueueId {
        self.device.create_queue(role).expect("a queue")
    }

    fn pinned(&self, bytes: usize) -> HostRange {
        HostRange::whole(Arc::new(self.device.allocate_host(bytes).expect("pinned memory")))
    }

    /// Closes the device, which leaves nothing, and did nothing wrong.
    fn close(self) {
        let Bench { device, world } = self;
        drop(device);
        let ended = Instant::now() + Duration::from_secs(20);
        while with(world, |world| world.live()) > 0 && Instant::now() < ended {
            std::thread::yield_now();
        }
        let (live, misuse) = with(world, |world| (world.live(), std::mem::take(&mut world.misuse)));
        assert_eq!((live, misuse), (0, Vec::new()));
    }
}

fn ordinary(bytes: usize) -> HostRange {
    HostRange::whole(Arc::new(HostMemory::ordinary(bytes).expect("host memory")))
}

fn bytes_of(range: &HostRange) -> Vec<u8> {
    let mut bytes = vec![0; range.bytes];
    range.memory.read(range.offset, &mut bytes);
    bytes
}

#[test]
fn it_says_what_it_is() {
    let bench = Bench::open(|_| {});
    let (device, memory) = (&bench.device, bench.device.memory());
    assert_eq!(device.description(), "fake behind Level Zero 1.7");
    assert_eq!(device.identity().as_deref(), Some("level_zero:0"));
    assert_eq!((memory.free, memory.total, memory.cached), (Some(5000), Some(1 << 24), 0));
    assert_eq!((device.caps().max_allocation, device.caps().spills), (Some(1 << 24), true));
    bench.close();
    let shares = Bench::open(|world| world.integrated = true);
    assert!(!shares.device.caps().spills, "its memory is the host's");
    shares.close();
}

#[test]
fn there_is_no_second_gpu_nor_a_device_that_is_refused() {
    make(|_| {});
    let library = Box::leak(Box::new(Library::resolve(&lookup).expect("all are there")));
    let error = LevelZero::open_in(library, 1).expect_err("the other device is no GPU");
    assert_eq!(error.kind, DriverErrorKind::Unavailable, "{error}");
    for name in ["drivers", "devices", "device_properties", "device_groups", "api_version", "context_create"]
    {
        make(|world| world.refuse = Some((name, 0x7fff_fffe)));
        let error = LevelZero::open_in(library, 0).expect_err("it is refused");
        assert_eq!((error.kind, error.code), (DriverErrorKind::Unavailable, 0x7fff_fffe), "{name}: {error}");
    }
}

#[test]
fn queues_have_engines_of_their_own_and_an_order() {
    let bench = Bench::open(|_| {});
    let roles = [QueueRole::Compute, QueueRole::Spill, QueueRole::Restore, QueueRole::Compute];
    let _ = roles.map(|role| bench.queue(role));
    // In order: 2; an engine that is named: 1.
    bench.set(|world| assert_eq!(world.opened, [(0, 0, 2), (2, 0, 2), (1, 0, 2), (0, 1, 3)]));
    for _ in roles.len()..STREAMS {
        bench.queue(QueueRole::Release);
    }
    let before = with(bench.world, |world| world.live());
    let error = bench.device.create_queue(QueueRole::Compute).expect_err("too many");
    assert_eq!(error.kind, DriverErrorKind::Unsupported);
    assert_eq!(with(bench.world, |world| world.live()), before);
    bench.close();
    let bench = Bench::unordered();
    bench.queue(QueueRole::Compute);
    bench.set(|world| assert_eq!(world.opened, [(0, 0, 0)]));
    bench.close();
}

#[test]
fn a_queue_runs_in_order_whether_its_list_does_or_not() {
    for bench in [Bench::open(|_| {}), Bench::unordered()] {
        let (device, queue) = (&bench.device, bench.queue(QueueRole::Compute));
        let [a, b] = [0; 2].map(|_| device.allocate(queue, 64 << 10).expect("memory"));
        let host = bench.pinned(64 << 10);
        bench.set(|world| world.stopped = true);
        device.fill(queue, a, 64 << 10, 1).expect("a fill");
        device.copy(queue, a, b, 64 << 10).expect("a copy");
        device.fill(queue, a, 64 << 10, 2).expect("a fill");
        device.copy(queue, a, b.offset(100), 100).expect("a copy");
        device.raw_queue(queue).expect("a list");
        device.copy_out(queue, b, &host).expect("a copy");
        device.fill(queue, b, 64 << 10, 3).expect("a fill");
        let fence = device.record(queue).expect("a fence");
        assert_eq!(device.is_passed(fence), Ok(false));
        bench.set(|world| world.stopped = false);
        assert_eq!(device.is_passed(fence), Ok(true));
        let bytes = bytes_of(&host);
        let expected = |at: usize| if (100..200).contains(&at) { 2 } else { 1 };
        assert!(bytes.iter().enumerate().all(|(at, &byte)| byte == expected(at)));
        drop(host);
        bench.close();
    }
}

#[test]
fn an_event_is_used_again_once_its_fence_is_given_back_and_not_before() {
    let bench = Bench::unordered();
    let device = &bench.device;
    let [compute, spill] = [QueueRole::Compute, QueueRole::Spill].map(|role| bench.queue(role));
    let ptr = device.allocate(compute, 64 << 10).expect("memory");
    let host = bench.pinned(8);
    for round in 0..100 {
        bench.set(|world| world.stopped = round % 2 == 0);
        device.fill(compute, ptr, 8, round).expect("a fill");
        let written = device.record(compute).expect("a fence");
        device.wait(spill, written).expect("it waits");
        device.copy_out(spill, ptr, &host).expect("a copy");
        let copied = device.record(spill).expect("a fence");
        bench.set(|world| world.stopped = false);
        assert_eq!([written, copied].map(|fence| device.is_passed(fence)), [Ok(true), Ok(true)]);
        assert_eq!(bytes_of(&host), [round; 8]);
        device.wait(spill, written).expect("it has passed");
        for fence in [written, copied] {
            device.retire(fence);
        }
    }
    assert_eq!((bench.called("event_create"), bench.called("event_reset")), (2, 198));
    drop(host);
    bench.close();
}

#[test]
fn pools_of_events_grow() {
    let bench = Bench::open(|_| {});
    let queue = bench.queue(QueueRole::Compute);
    for _ in 0..130 {
        bench.device.record(queue).expect("a fence");
    }
    assert_eq!((bench.called("event_create"), bench.called("pool_create")), (130, 3));
    bench.close();
}

#[test]
fn what_is_freed_is_kept_and_allocated_again() {
    let bench = Bench::open(|_| {});
    let (device, queue) = (&bench.device, bench.queue(QueueRole::Restore));
    let ptr = device.allocate(queue, 64 << 10).expect("memory");
    device.free(queue, ptr).expect("it is freed");
    assert_eq!(device.free(queue, ptr).expect_err("twice").kind, DriverErrorKind::Invalid);
    assert_eq!((device.memory().cached, bench.called("free")), (64 << 10, 0));
    assert_eq!((device.allocate(queue, 64 << 10), bench.called("allocate")), (Ok(ptr), 1));
    device.free(queue, ptr).expect("it is freed");
    assert_eq!((device.trim(), bench.called("free")), (Ok(64 << 10), 1));
    let large = device.allocate(queue, 2 << 20).expect("its limit is relaxed");
    bench.set(|world| assert_eq!(world.relaxed, [false, true]));
    let error = device.allocate(queue, 1 << 30).expect_err("more than there is");
    assert_eq!(error.kind, DriverErrorKind::OutOfMemory);
    device.free(queue, large).expect("it is freed");
    bench.close();
}

#[test]
fn pinned_memory_is_kept_until_its_copy_has_run() {
    let bench = Bench::open(|_| {});
    let (device, queue) = (&bench.device, bench.queue(QueueRole::Spill));
    let ptr = device.allocate(queue, 64 << 10).expect("memory");
    let range = bench.pinned(8);
    bench.set(|world| world.stopped = true);
    device.copy_out(queue, ptr, &range).expect("a copy");
    bench.set(|world| world.refuse = Some(("signal", 99_999)));
    let error = device.record(queue).expect_err("it is refused");
    assert_eq!((error.kind, error.code), (DriverErrorKind::Refused, 99_999), "{error}");
    bench.set(|world| world.refuse = None);
    let fence = device.record(queue).expect("a fence");
    assert_eq!((device.is_passed(fence), Arc::strong_count(&range.memory)), (Ok(false), 2));
    bench.set(|world| world.stopped = false);
    assert_eq!((device.is_passed(fence), Arc::strong_count(&range.memory)), (Ok(true), 1));
    bench.set(|world| world.refuse = Some(("copy", 0x7800_0004)));
    let error = device.copy_in(queue, &range, ptr).expect_err("it is refused");
    assert_eq!((error.kind, Arc::strong_count(&range.memory)), (DriverErrorKind::Invalid, 1));
    bench.set(|world| world.refuse = None);
    let beyond = HostRange { offset: 4, ..range };
    let error = device.copy_in(queue, &beyond, ptr).expect_err("it is too long");
    assert_eq!(error.kind, DriverErrorKind::Invalid);
    drop(beyond);
    bench.close();
}

#[test]
fn memory_that_is_not_the_contexts_is_copied_by_way_of_pinned_memory() {
    let (other, bench) = (Bench::open(|_| {}), Bench::unordered());
    let (device, queue) = (&bench.device, bench.queue(QueueRole::Spill));
    let bytes = (9 << 20) + 5;
    let ptr = device.allocate(queue, 10 << 20).expect("memory");
    for [from, to] in [[ordinary(bytes), other.pinned(bytes)], [other.pinned(bytes), ordinary(bytes)]] {
        let pattern: Vec<u8> = (0..bytes).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        from.memory.write(0, &pattern);
        device.copy_in(queue, &from, ptr).expect("a copy");
        from.memory.fill(0, bytes, 0);
        device.copy_out(queue, ptr, &to).expect("a copy");
        assert!(bytes_of(&to) == pattern, "it waits until all is there");
        assert_eq!([&from, &to].map(|range| Arc::strong_count(&range.memory)), [1, 1]);
    }
    assert_eq!(bench.called("allocate_host"), 2, "the same two blocks serve every copy");
    device.copy_in(queue, &ordinary(0), ptr).expect("nothing is copied");
    for call in ["allocate_host", "allocation_properties", "copy", "signal"] {
        bench.set(|world| world.refuse = Some((call, 99_999)));
        // Larger than what is kept.
        let error = device.copy_out(queue, ptr, &other.pinned(if call == "copy" { 1 } else { bytes }));
        let through = call == "allocate_host" && error.is_ok();
        assert!(through || error.is_err_and(|error| error.code == 99_999), "{call}");
    }
    bench.set(|world| world.refuse = None);
    bench.close();
    other.close();
}

#[test]
fn a_device_that_hangs_is_found_while_a_copy_is_waited_for() {
    let bench = Bench::open(|_| {});
    let (device, queue) = (&bench.device, bench.queue(QueueRole::Spill));
    let ptr = device.allocate(queue, 64 << 10).expect("memory");
    bench.set(|world| (world.stopped, world.refuse) = (true, Some(("device_status", 0x7000_0001))));
    let error = device.copy_out(queue, ptr, &ordinary(8)).expect_err("it never ends");
    assert_eq!((error.kind, error.call), (DriverErrorKind::Lost, "zeDeviceGetStatus"), "{error}");
    assert_eq!(device.fill(queue, ptr, 8, 0), Err(error.clone()));
    assert_eq!(device.allocate_host(8).expect_err("it is lost"), error);
    bench.set(|world| (world.stopped, world.refuse) = (false, None));
    bench.close();
}

#[test]
fn a_failure_found_by_a_fence_loses_the_device_whatever_its_number() {
    for code in [0x7000_0001, 0x7800_0004, 99_999] {
        let bench = Bench::open(|_| {});
        let (device, queue) = (&bench.device, bench.queue(QueueRole::Compute));
        let fence = device.record(queue).expect("a fence");
        bench.set(|world| world.refuse = Some(("event_query", code)));
        let error = device.is_passed(fence).expect_err("it fails");
        assert_eq!((error.kind, error.code), (DriverErrorKind::Lost, code.into()), "{error}");
        device.park(Duration::from_micros(1));
        bench.set(|world| world.refuse = None);
        assert_eq!(device.fill(queue, DevicePtr::from_raw(8), 8, 0), Err(error));
        bench.close();
    }
}

#[test]
fn queues_and_fences_that_are_not_there_are_refused() {
    let bench = Bench::open(|_| {});
    let (device, queue) = (&bench.device, bench.queue(QueueRole::Compute));
    let invalid = [
        device.fill(QueueId(7), DevicePtr::NULL, 1, 0).err(),
        device.raw_queue(QueueId(1)).err(),
        device.wait(queue, Fence(1 << 32)).err(),
        device.is_passed(Fence(0)).err(),
        device.allocate(queue, 0).err(),
        device.free(queue, DevicePtr::from_raw(8)).err(),
    ];
    for error in invalid {
        assert_eq!(error.expect("it is refused").kind, DriverErrorKind::Invalid);
    }
    bench.close();
}

#[test]
fn a_code_asks_for_what_its_name_says() {
    let codes: std::collections::BTreeSet<_> = code::CODES.iter().map(|code| code.0).collect();
    assert_eq!(codes.len(), code::CODES.len(), "a code is named twice");
    assert_eq!(code::kind(0x7000_0003), DriverErrorKind::OutOfMemory);
    assert_eq!(code::kind(0x7800_0009), DriverErrorKind::TooLarge);
    assert_eq!(
        (code::kind(-1), code::kind(0x7fff_fff0)),
        (DriverErrorKind::Refused, DriverErrorKind::Refused)
    );
    assert!(code::words(0x7000_0001).contains("ZE_RESULT_ERROR_DEVICE_LOST"));
    assert!(code::words(0x1234).contains("0x1234"));
}
