//! The body over a library that does everything at once, and fails where a test says. One library a thread.

mod dialect;
mod fake;

use super::{
    super::{
        ArgAccess, DevicePtr, Driver, DriverErrorKind, Fence, HostKernel, HostKind, HostMemory, HostRange,
        QueueId, QueueRole, queues::STREAMS,
    },
    CudaLike, Found, library,
    symbols::{PoolSymbols, Symbols},
};
use dialect::{NAMES, Numbers, POOLS};
use fake::{Fake, GIVEN_UP, LIBRARY, Library, OWN, lookup};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

fn open(pools: bool) -> Arc<CudaLike<Fake>> {
    // SAFETY: the names are these functions'.
    let found = unsafe { library::Library::find(Numbers, &lookup) }.expect("all are there");
    // SAFETY: as above.
    let pool = unsafe { PoolSymbols::resolve(&POOLS, &lookup) }.expect("all are there");
    let pools = pools.then_some((5, pool));
    let facts = Found {
        description: "fake".into(),
        identity: "fake:0".into(),
        total_bytes: 1 << 16,
        granularity: 512,
        pools,
    };
    CudaLike::new(Fake(found), facts).expect("it opens")
}

fn set(change: impl FnOnce(&mut Library)) {
    LIBRARY.with_borrow_mut(change);
}

fn called(name: &str) -> u32 {
    LIBRARY.with_borrow(|library| library.called.get(name).copied().unwrap_or(0))
}

fn live() -> usize {
    LIBRARY.with_borrow(|library| library.live.len())
}

fn ordinary() -> HostRange {
    HostRange::whole(Arc::new(HostMemory::ordinary(8).expect("host memory")))
}

#[test]
fn a_missing_symbol_is_named() {
    for gone in ["event_query", "memory_info"] {
        let without = |name: &'static str| lookup(name).filter(|_| name != gone);
        // SAFETY: the names are these functions'.
        let error = unsafe { Symbols::resolve(&NAMES, &without) }.expect_err("one is not there");
        assert_eq!((error.kind, error.call), (DriverErrorKind::Unavailable, gone), "{error}");
    }
}

#[test]
fn everything_is_given_up_at_the_end_the_context_last() {
    let device = open(true);
    let queue = device.create_queue(QueueRole::Compute).expect("a queue");
    let pinned = device.allocate_host(100).expect("pinned memory");
    let [first, _] = [0; 2].map(|_| device.record(queue).expect("a fence"));
    assert!(device.is_passed(first).expect("not lost"));
    device.retire(first);
    assert_eq!((pinned.kind(), device.watch.fences.live(), live()), (HostKind::Pinned, 1, 5));
    drop(device);
    assert_eq!((live(), GIVEN_UP.get()), (1, 0), "the pinned block needs its context");
    drop(pinned);
    assert_eq!((live(), GIVEN_UP.get()), (0, 1));
}

#[test]
fn the_pool_orders_nothing_by_itself_and_keeps_what_it_has() {
    let device = open(true);
    let attributes = LIBRARY.with_borrow(|library| library.attributes.clone());
    assert_eq!(attributes, BTreeMap::from([(1, 1), (2, 1), (3, 0), (4, u64::MAX)]));
    assert!(device.caps().stream_ordered);
    set(|library| library.attributes.extend([(5, 100), (7, 30)]));
    assert_eq!(device.memory().cached, 70);
    let release = device.create_queue(QueueRole::Release).expect("a queue");
    device.create_queue(QueueRole::Compute).expect("a queue");
    assert_eq!((device.trim(), called("synchronize")), (Ok(70), 1), "{release:?}");
}

#[test]
fn without_pools_what_is_freed_is_kept_and_allocated_again() {
    let device = open(false);
    let queue = device.create_queue(QueueRole::Restore).expect("a queue");
    assert!(!device.caps().stream_ordered);
    let ptr = device.allocate(queue, 512).expect("memory");
    device.free(queue, ptr).expect("it is freed");
    assert_eq!(device.free(queue, ptr).expect_err("twice").kind, DriverErrorKind::Invalid);
    assert_eq!((device.memory().cached, called("free")), (512, 0));
    assert_eq!((device.allocate(queue, 512), called("allocate")), (Ok(ptr), 1));
    assert_ne!(device.allocate(queue, 512), Ok(ptr));
    device.free(queue, ptr).expect("it is freed");
    assert_eq!((device.trim(), called("free"), called("pool_trim")), (Ok(512), 1, 0));
    assert_eq!((device.memory().cached, device.trim()), (0, Ok(0)));
}

#[test]
fn without_pools_a_refusal_leaves_what_is_kept_and_the_end_gives_it_back() {
    let device = open(false);
    let queue = device.create_queue(QueueRole::Restore).expect("a queue");
    let ptr = device.allocate(queue, 512).expect("memory");
    device.free(queue, ptr).expect("it is freed");
    assert_eq!(device.allocate(queue, 1 << 30).expect_err("too much").kind, DriverErrorKind::OutOfMemory);
    assert_eq!((device.memory().cached, called("free")), (512, 0));
    set(|library| library.refuse = Some(("free", 999)));
    assert_eq!(device.trim().expect_err("refused").code, 999);
    assert_eq!(device.memory().cached, 512);
    set(|library| library.refuse = None);
    drop(device);
    assert_eq!(live(), 0);
}

#[test]
fn what_was_current_is_so_again() {
    let device = open(true);
    assert_eq!(
        LIBRARY.with_borrow(|library| library.current),
        OWN,
        "a thread without a context keeps this one"
    );
    set(|library| library.current = 5);
    let queue = device.create_queue(QueueRole::Compute).expect("a queue");
    device.fill(queue, DevicePtr::from_raw(8), 8, 0).expect("a fill");
    drop(device.allocate_host(8).expect("pinned memory"));
    assert_eq!(LIBRARY.with_borrow(|library| (library.current, library.mode)), (5, 0));
    set(|library| library.mode = 1);
    device.raw_queue(queue).expect("a stream");
    assert_eq!(LIBRARY.with_borrow(|library| (library.current, library.mode)), (OWN, 1));
}

#[test]
fn host_memory_is_kept_until_its_copy_has_run() {
    let device = open(true);
    let queue = device.create_queue(QueueRole::Spill).expect("a queue");
    let range = ordinary();
    set(|library| library.pending = true);
    device.copy_out(queue, DevicePtr::from_raw(8), &range).expect("a copy");
    set(|library| library.refuse = Some(("record", 99999)));
    let error = device.record(queue).expect_err("it is refused");
    assert_eq!((error.kind, error.code), (DriverErrorKind::Refused, 99999), "{error}");
    set(|library| library.refuse = None);
    let fence = device.record(queue).expect("a fence");
    assert_eq!((device.is_passed(fence), Arc::strong_count(&range.memory)), (Ok(false), 2));
    set(|library| library.pending = false);
    assert_eq!((device.is_passed(fence), Arc::strong_count(&range.memory)), (Ok(true), 1));
    // One that no fence is behind is waited for at the end.
    device.copy_in(queue, &range, DevicePtr::from_raw(8)).expect("a copy");
    assert_eq!(called("synchronize"), 0);
    drop(device);
    assert_eq!((called("synchronize"), Arc::strong_count(&range.memory)), (1, 1));
}

#[test]
fn a_refused_copy_holds_nothing() {
    let device = open(true);
    let queue = device.create_queue(QueueRole::Spill).expect("a queue");
    let range = ordinary();
    set(|library| library.refuse = Some(("copy_out", 1)));
    device.copy_out(queue, DevicePtr::from_raw(8), &range).expect_err("it is refused");
    assert_eq!(Arc::strong_count(&range.memory), 1);
    let beyond = HostRange { offset: 4, ..range };
    assert_eq!(
        device.copy_in(queue, &beyond, DevicePtr::from_raw(8)).expect_err("it is too long").kind,
        DriverErrorKind::Invalid
    );
}

#[test]
fn a_failure_found_by_a_fence_loses_the_device_whatever_its_number() {
    for (code, kind) in
        [(700, DriverErrorKind::Lost), (99999, DriverErrorKind::Lost), (900, DriverErrorKind::Refused)]
    {
        let device = open(true);
        let queue = device.create_queue(QueueRole::Compute).expect("a queue");
        let fence = device.record(queue).expect("a fence");
        set(|library| library.refuse = Some(("query", code)));
        let error = device.is_passed(fence).expect_err("it fails");
        assert_eq!((error.kind, error.code), (kind, code.into()), "{error}");
        device.park(Duration::from_secs(60));
        set(|library| library.refuse = None);
        let later = device.fill(queue, DevicePtr::from_raw(8), 8, 0);
        match kind {
            DriverErrorKind::Lost => {
                assert_eq!(later, Err(error), "the first failure is what every later call says");
                device.park(Duration::from_micros(1));
            }
            _ => assert_eq!((later, device.is_passed(fence)), (Ok(()), Ok(true))),
        }
        drop(device);
        assert_eq!(live(), 0);
    }
}

#[test]
fn queues_and_fences_that_are_not_there_are_refused() {
    let device = open(true);
    for _ in 0..STREAMS {
        device.create_queue(QueueRole::Compute).expect("a queue");
    }
    let before = live();
    let error = device.create_queue(QueueRole::Compute).expect_err("too many");
    assert_eq!((error.kind, live()), (DriverErrorKind::Unsupported, before));
    let invalid = [
        device.fill(QueueId(STREAMS as u32), DevicePtr::NULL, 1, 0).err(),
        device.wait(QueueId(0), Fence(1 << 32)).err(),
        device.is_passed(Fence(0)).err(),
        device.allocate(QueueId(0), 0).err(),
    ];
    assert!(
        invalid
            .iter()
            .all(|error| error.as_ref().is_some_and(|error| error.kind == DriverErrorKind::Invalid))
    );
}

#[test]
fn a_host_kernel_has_its_arguments_between_copies() {
    let device = open(true);
    let queue = device.create_queue(QueueRole::Compute).expect("a queue");
    let token = Arc::new(());
    let kernel = |bytes: u64, refused: bool| {
        let token = token.clone();
        let kernel = HostKernel::new(Duration::ZERO, move |args| {
            let [from, to, empty] = args else { panic!("three arguments") };
            to.bytes_mut()[99] = from.bytes()[1] + 1;
            assert!(!refused && empty.bytes().is_empty(), "it is not asked for: {token:?}");
        });
        let (from, to) = (DevicePtr::from_raw(8), DevicePtr::from_raw(16));
        let kernel = kernel.arg(from, bytes, ArgAccess::Read).arg(to, 100, ArgAccess::Write);
        kernel.arg(from, 0, ArgAccess::Write)
    };
    for times in 1..=3 {
        device.launch_host(queue, kernel(3, false)).expect("it is queued");
        let fence = device.record(queue).expect("a fence");
        assert_eq!(device.is_passed(fence), Ok(true));
        assert_eq!((called("copy_out"), called("copy_in")), (2 * times, times));
        assert_eq!(called("allocate_host"), 1, "the same memory serves every kernel in turn");
    }
    for call in ["copy_out", "launch_host"] {
        set(|library| library.refuse = Some((call, 99999)));
        let error = device.launch_host(queue, kernel(3, call == "launch_host")).expect_err("it is refused");
        assert_eq!((error.kind, error.code), (DriverErrorKind::Refused, 99999), "{error}");
    }
    set(|library| library.refuse = None);
    let fence = device.record(queue).expect("a fence");
    assert_eq!((device.is_passed(fence), Arc::strong_count(&token)), (Ok(true), 1));
    drop(device);
    assert_eq!(live(), 0);
}

#[test]
fn a_host_kernel_that_panics_loses_the_device() {
    let device = open(false);
    let queue = device.create_queue(QueueRole::Compute).expect("a queue");
    let kernel = HostKernel::new(Duration::ZERO, |_| panic!("it went astray"));
    device.launch_host(queue, kernel).expect("it is queued");
    let error = device.record(queue).expect_err("the device is lost");
    assert_eq!((error.kind, error.call), (DriverErrorKind::Lost, "launch_host"), "{error}");
    assert!(error.message.contains("it went astray"), "{error}");
    drop(device);
    assert_eq!(live(), 0);
}

#[test]
fn fixed_memory_is_of_no_pool_and_can_be_shared() {
    for pools in [true, false] {
        let (device, before) = (open(pools), called("free"));
        let queue = device.create_queue(QueueRole::Compute).expect("a queue");
        let [fixed, other] = [
            device.allocate_fixed(queue, 512).expect("memory"),
            device.allocate(queue, 512).expect("memory"),
        ];
        assert_eq!(device.share(fixed), Ok([fixed.as_raw() as u8; 64]));
        assert_eq!(device.share(other).err().map(|error| error.code), pools.then_some(1));
        device.free(queue, fixed).expect("it is freed");
        assert_eq!(
            (called("free"), device.memory().cached),
            (before, 512),
            "a free of it waits for the device"
        );
        assert_eq!(device.allocate_fixed(queue, 512), Ok(fixed));
        device.free(queue, fixed).expect("it is freed");
        assert_eq!((device.trim(), called("free")), (Ok(512), before + 1));
        device.free(queue, other).expect("it is freed");
        drop(device);
        assert_eq!(live(), 0);
    }
}

/// The body runs all the same, so what it wrote is there or the device is lost.
#[test]
fn what_a_host_kernel_wrote_is_taken_back_or_the_device_is_lost() {
    let device = open(true);
    let queue = device.create_queue(QueueRole::Compute).expect("a queue");
    let kernel = || HostKernel::new(Duration::ZERO, |_| {}).arg(DevicePtr::from_raw(8), 8, ArgAccess::Write);
    set(|library| library.refuse = Some(("copy_in", 99999)));
    let error = device.launch_host(queue, kernel()).expect_err("it is refused");
    assert_eq!((error.kind, error.code, error.call), (DriverErrorKind::Lost, 99999, "copy_in"), "{error}");
    assert!(called("copy_in") > 1, "it is tried again");
    set(|library| library.refuse = None);
    assert_eq!(device.record(queue), Err(error));
}

#[test]
fn what_a_refused_host_kernel_has_captured_may_call_its_device_when_it_goes() {
    struct Calls(Arc<CudaLike<Fake>>, QueueId);
    impl Drop for Calls {
        fn drop(&mut self) {
            set(|library| library.refuse = None);
            self.0.record(self.1).expect("a fence");
            self.0.fill(self.1, DevicePtr::from_raw(8), 8, 0).expect("a fill");
        }
    }
    let device = open(true);
    let queue = device.create_queue(QueueRole::Compute).expect("a queue");
    for call in ["allocate_host", "copy_out", "launch_host"] {
        let calls = Calls(device.clone(), queue);
        let kernel = HostKernel::new(Duration::ZERO, move |_| drop(calls));
        let kernel = kernel.arg(DevicePtr::from_raw(8), 8, ArgAccess::Write);
        set(|library| library.refuse = Some((call, 99999)));
        assert_eq!(device.launch_host(queue, kernel).expect_err("it is refused").code, 99999, "{call}");
    }
    let overlapping = HostKernel::new(Duration::ZERO, |_| {})
        .arg(DevicePtr::from_raw(8), 8, ArgAccess::Write)
        .arg(DevicePtr::from_raw(15), 8, ArgAccess::Read);
    let error = device.launch_host(queue, overlapping).expect_err("they overlap");
    assert_eq!(error.kind, DriverErrorKind::Invalid);
}

#[test]
fn pinned_memory_dropped_within_a_host_kernel_is_freed_later() {
    let device = open(true);
    let queue = device.create_queue(QueueRole::Compute).expect("a queue");
    let memory = device.allocate_host(8).expect("pinned memory");
    let kernel = HostKernel::new(Duration::ZERO, move |_| drop(memory));
    device.launch_host(queue, kernel).expect("it is queued");
    assert_eq!(called("free_host"), 0, "the vendor was called within");
    drop(device);
    assert_eq!(live(), 0);
}

#[test]
fn a_copy_to_a_peer_names_both_and_a_refused_one_loses_nothing() {
    let [device, peer] = [open(true), open(false)];
    let queue = device.create_queue(QueueRole::Compute).expect("a queue");
    let copy = |bytes| {
        let [from, to] = [8, 16].map(DevicePtr::from_raw);
        device.copy_to_peer(queue, from, &*peer, to, bytes)
    };
    assert!(device.is_peer(&*peer));
    assert_eq!((copy(8), copy(0), called("peer_copy")), (Ok(()), Ok(()), 1));
    for code in [2, 99999] {
        set(|library| library.refuse = Some(("peer_copy", code)));
        let error = copy(8).expect_err("it is refused");
        assert_eq!((error.kind, error.call), (DriverErrorKind::Refused, "peer_copy"), "{error}");
    }
    set(|library| library.refuse = None);
    peer.context.lose("fill", 700);
    assert_eq!(copy(8).expect_err("the peer is lost").kind, DriverErrorKind::Refused);
    assert!(device.record(queue).is_ok(), "the other device was lost");
    set(|library| library.no_peers = true);
    assert_eq!(copy(8).expect_err("nothing copies so").kind, DriverErrorKind::Unsupported);
    assert!(!device.is_peer(&*peer));
}
