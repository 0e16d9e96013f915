//! The body over a library that does everything at once, and fails where a test says. One library a thread.

use super::{
    super::{
        DevicePtr, Driver, DriverErrorKind, Fence, HostKind, HostMemory, HostRange, QueueId, QueueRole,
        Result,
    },
    CudaLike, Found, Vendor,
    queues::STREAMS,
    symbols::{Handle, NOT_READY, Names, PoolNames, PoolProps, PoolSymbols, Symbols},
};
use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    ffi::{c_int, c_uint, c_void},
    sync::Arc,
    time::Duration,
};

#[derive(Default)]
struct Library {
    /// Pinned memory, there until the thread ends.
    blocks: Vec<Vec<u64>>,
    current: usize,
    made: usize,
    live: BTreeSet<usize>,
    /// Figures set on the pool.
    attributes: BTreeMap<c_int, u64>,
    called: BTreeMap<&'static str, u32>,
    /// What the next call of a name returns.
    refuse: Option<(&'static str, c_int)>,
    pending: bool,
}

thread_local! {
    static LIBRARY: RefCell<Library> = RefCell::default();
    static GIVEN_UP: Cell<u32> = const { Cell::new(0) };
}

const OWN: usize = 77;

/// What every call does first: the context must be current.
fn call(name: &'static str, work: impl FnOnce(&mut Library) -> c_int) -> c_int {
    LIBRARY.with_borrow_mut(|library| {
        *library.called.entry(name).or_default() += 1;
        match library.refuse {
            _ if library.current != OWN => 201,
            Some((refused, code)) if refused == name => code,
            _ => work(library),
        }
    })
}

fn handle(number: usize) -> Handle {
    Handle(std::ptr::without_provenance_mut(number))
}

fn make(library: &mut Library) -> usize {
    library.made += 1;
    library.live.insert(library.made * 0x1000);
    library.made * 0x1000
}

fn end(library: &mut Library, made: usize) -> c_int {
    if library.live.remove(&made) { 0 } else { 400 }
}

/// Makes a handle where `to` points.
unsafe fn make_at(name: &'static str, to: *mut Handle) -> c_int {
    call(name, |library| {
        let made = handle(make(library));
        // SAFETY: the body hands a place for a handle.
        unsafe { to.write(made) };
        0
    })
}

unsafe extern "C" fn stream_create(to: *mut Handle, flags: c_uint) -> c_int {
    assert_eq!(flags, 1, "a stream that waits for the default stream");
    // SAFETY: as the body gave it.
    unsafe { make_at("stream_create", to) }
}

unsafe extern "C" fn event_create(to: *mut Handle, flags: c_uint) -> c_int {
    assert_eq!(flags, 2, "an event with timing");
    // SAFETY: as the body gave it.
    unsafe { make_at("event_create", to) }
}

unsafe extern "C" fn destroy(what: Handle) -> c_int {
    call("destroy", |library| end(library, what.0.addr()))
}

unsafe extern "C" fn synchronize(_: Handle) -> c_int {
    call("synchronize", |library| {
        library.pending = false;
        0
    })
}

unsafe extern "C" fn wait(_: Handle, _: Handle, _: c_uint) -> c_int {
    call("wait", |_| 0)
}

unsafe extern "C" fn record(_: Handle, _: Handle) -> c_int {
    call("record", |_| 0)
}

unsafe extern "C" fn query(_: Handle) -> c_int {
    call("query", |library| if library.pending { NOT_READY } else { 0 })
}

unsafe extern "C" fn allocate(to: *mut u64, bytes: usize) -> c_int {
    call("allocate", |library| {
        if bytes > 1 << 20 {
            return 2;
        }
        // SAFETY: the body hands a place for an address.
        unsafe { to.write(make(library) as u64) };
        0
    })
}

unsafe extern "C" fn free(ptr: u64) -> c_int {
    call("free", |library| end(library, ptr as usize))
}

unsafe extern "C" fn allocate_host(to: *mut *mut c_void, bytes: usize, flags: c_uint) -> c_int {
    assert_eq!(flags, 1, "pinned memory that is write-combined, or of one context");
    call("allocate_host", |library| {
        let mut block = vec![0u64; bytes.div_ceil(8)];
        library.live.insert(block.as_ptr().addr());
        // SAFETY: the body hands a place for an address.
        unsafe { to.write(block.as_mut_ptr().cast()) };
        library.blocks.push(block);
        0
    })
}

unsafe extern "C" fn free_host(block: *mut c_void) -> c_int {
    call("free_host", |library| end(library, block.addr()))
}

unsafe extern "C" fn copy_out(_: *mut c_void, _: u64, _: usize, _: Handle) -> c_int {
    call("copy_out", |_| 0)
}

unsafe extern "C" fn copy_in(_: u64, _: *const c_void, _: usize, _: Handle) -> c_int {
    call("copy_in", |_| 0)
}

unsafe extern "C" fn copy(_: u64, _: u64, _: usize, _: Handle) -> c_int {
    call("copy", |_| 0)
}

unsafe extern "C" fn fill(_: u64, _: u8, _: usize, _: Handle) -> c_int {
    call("fill", |_| 0)
}

unsafe extern "C" fn memory_info(free: *mut usize, total: *mut usize) -> c_int {
    call("memory_info", |_| {
        // SAFETY: the body hands places for two numbers.
        unsafe { free.write(3) };
        // SAFETY: as above.
        unsafe { total.write(4) };
        0
    })
}

unsafe extern "C" fn pool_create(to: *mut Handle, props: *const PoolProps) -> c_int {
    // SAFETY: the body hands properties of this layout.
    let props = unsafe { &*props };
    assert_eq!((props.alloc_type, props.location_type, props.location_id, props.max_size), (1, 1, 5, 0));
    // SAFETY: as the body gave it.
    unsafe { make_at("pool_create", to) }
}

unsafe extern "C" fn pool_set(_: Handle, attribute: c_int, value: *mut c_void) -> c_int {
    call("pool_set", |library| {
        let value = match attribute {
            // SAFETY: the body hands an int for the first three attributes.
            1..=3 => unsafe { value.cast::<c_int>().read() as u64 },
            // SAFETY: the others that are set are 64-bit numbers.
            _ => unsafe { value.cast::<u64>().read() },
        };
        library.attributes.insert(attribute, value);
        0
    })
}

unsafe extern "C" fn pool_get(_: Handle, attribute: c_int, value: *mut c_void) -> c_int {
    call("pool_get", |library| {
        let figure = library.attributes.get(&attribute).copied().unwrap_or(0);
        // SAFETY: the figures asked for are 64-bit numbers.
        unsafe { value.cast::<u64>().write(figure) };
        0
    })
}

unsafe extern "C" fn pool_trim(_: Handle, _: usize) -> c_int {
    call("pool_trim", |library| {
        let used = library.attributes.get(&7).copied().unwrap_or(0);
        library.attributes.insert(5, used);
        0
    })
}

unsafe extern "C" fn pool_allocate(to: *mut u64, bytes: usize, _: Handle, _: Handle) -> c_int {
    // SAFETY: as the body gave it.
    unsafe { allocate(to, bytes) }
}

unsafe extern "C" fn pool_free(ptr: u64, _: Handle) -> c_int {
    // SAFETY: as the body gave it.
    unsafe { free(ptr) }
}

/// A table whose symbols are these functions, under their own names.
fn lookup(name: &'static str) -> Option<Handle> {
    let address = match name {
        "stream_create" => stream_create as *const (),
        "stream_destroy" | "event_destroy" | "pool_destroy" => destroy as *const (),
        "stream_synchronize" => synchronize as *const (),
        "stream_wait" => wait as *const (),
        "event_create" => event_create as *const (),
        "event_record" => record as *const (),
        "event_query" => query as *const (),
        "allocate" => allocate as *const (),
        "free" => free as *const (),
        "allocate_host" => allocate_host as *const (),
        "free_host" => free_host as *const (),
        "copy_out" => copy_out as *const (),
        "copy_in" => copy_in as *const (),
        "copy" => copy as *const (),
        "fill" => fill as *const (),
        "memory_info" => memory_info as *const (),
        "pool_create" => pool_create as *const (),
        "pool_set" => pool_set as *const (),
        "pool_get" => pool_get as *const (),
        "pool_trim" => pool_trim as *const (),
        "pool_allocate" => pool_allocate as *const (),
        "pool_free" => pool_free as *const (),
        _ => return None,
    };
    Some(Handle(address.cast_mut().cast()))
}

const NAMES: Names = Names {
    stream_create: "stream_create",
    stream_destroy: "stream_destroy",
    stream_synchronize: "stream_synchronize",
    stream_wait: "stream_wait",
    event_create: "event_create",
    event_destroy: "event_destroy",
    event_record: "event_record",
    event_query: "event_query",
    allocate: "allocate",
    free: "free",
    allocate_host: "allocate_host",
    free_host: "free_host",
    copy_out: "copy_out",
    copy_in: "copy_in",
    copy: "copy",
    fill: "fill",
    memory_info: "memory_info",
};

const POOLS: PoolNames = PoolNames {
    create: "pool_create",
    destroy: "pool_destroy",
    set: "pool_set",
    get: "pool_get",
    trim: "pool_trim",
    allocate: "pool_allocate",
    free: "pool_free",
};

#[derive(Debug)]
struct Fake(Symbols);

impl Vendor for Fake {
    fn symbols(&self) -> &Symbols {
        &self.0
    }

    fn kind(&self, code: c_int) -> DriverErrorKind {
        match code {
            2 => DriverErrorKind::OutOfMemory,
            700 => DriverErrorKind::Lost,
            201 | 400 => DriverErrorKind::Invalid,
            _ => DriverErrorKind::Refused,
        }
    }

    fn words(&self, code: c_int) -> String {
        format!("number {code}")
    }

    fn own(&self) -> Handle {
        handle(OWN)
    }

    fn current(&self) -> Result<Handle> {
        Ok(handle(LIBRARY.with_borrow(|library| library.current)))
    }

    fn set_current(&self, what: Handle) -> Result<()> {
        LIBRARY.with_borrow_mut(|library| library.current = what.0.addr());
        Ok(())
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        GIVEN_UP.set(GIVEN_UP.get() + 1);
    }
}

fn open(pools: bool) -> Arc<CudaLike<Fake>> {
    // SAFETY: the names are these functions'.
    let symbols = unsafe { Symbols::resolve(&NAMES, &lookup) }.expect("all are there");
    // SAFETY: as above.
    let pool = unsafe { PoolSymbols::resolve(&POOLS, &lookup) }.expect("all are there");
    let found = Found { description: "fake".into(), total_bytes: 4, pools: pools.then_some((5, pool)) };
    CudaLike::new(Fake(symbols), found).expect("it opens")
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
    assert_eq!((pinned.kind(), device.fences.live(), live()), (HostKind::Pinned, 1, 5));
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
fn without_pools_memory_is_allocated_by_plain_calls() {
    let device = open(false);
    let queue = device.create_queue(QueueRole::Restore).expect("a queue");
    assert!(!device.caps().stream_ordered);
    let ptr = device.allocate(queue, 512).expect("memory");
    device.free(queue, ptr).expect("it is freed");
    assert_eq!(device.free(queue, ptr).expect_err("twice").code, 400);
    assert_eq!((device.trim(), called("pool_trim"), device.memory().cached), (Ok(0), 0, 0));
    assert_eq!(device.allocate(queue, 1 << 30).expect_err("too much").kind, DriverErrorKind::OutOfMemory);
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
    assert_eq!(LIBRARY.with_borrow(|library| library.current), 5);
    device.raw_queue(queue).expect("a stream");
    assert_eq!(LIBRARY.with_borrow(|library| library.current), OWN);
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
