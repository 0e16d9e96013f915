//! A vendor's library that does everything at once, and fails where a test says. One a thread.

use super::{
    super::{
        super::{
            Result,
            symbols::{Handle, Symbol},
        },
        PeerCopy, Vendor, library,
        symbols::{NOT_READY, PoolProps, RELAXED},
    },
    dialect::Numbers,
};
use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    ffi::{c_int, c_uint, c_void},
};

#[derive(Default)]
pub(super) struct Library {
    /// Pinned memory, there until the thread ends.
    pub(super) blocks: Vec<Vec<u64>>,
    pub(super) current: usize,
    /// Which calls of the thread a capture forbids.
    pub(super) mode: c_int,
    pub(super) made: usize,
    pub(super) live: BTreeSet<usize>,
    /// What the pool gave.
    pub(super) pooled: BTreeSet<usize>,
    /// Figures set on the pool.
    pub(super) attributes: BTreeMap<c_int, u64>,
    pub(super) called: BTreeMap<&'static str, u32>,
    /// What the next call of a name returns.
    pub(super) refuse: Option<(&'static str, c_int)>,
    pub(super) pending: bool,
    /// Nothing copies to another device's memory.
    pub(super) no_peers: bool,
}

thread_local! {
    pub(super) static LIBRARY: RefCell<Library> = RefCell::default();
    pub(super) static GIVEN_UP: Cell<u32> = const { Cell::new(0) };
}

pub(super) const OWN: usize = 77;
/// What names every device where there are two.
const PLACE: u64 = 78;

/// What every call does first: the context must be current, and no capture may forbid it.
fn call(name: &'static str, work: impl FnOnce(&mut Library) -> c_int) -> c_int {
    LIBRARY.with_borrow_mut(|library| {
        *library.called.entry(name).or_default() += 1;
        match library.refuse {
            _ if library.current != OWN => 201,
            _ if library.mode != RELAXED => 900,
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

unsafe extern "C" fn peer_copy(to: u64, peer: u64, from: u64, own: u64, bytes: usize, _: Handle) -> c_int {
    assert_eq!((to, peer, from, own, bytes), (16, PLACE, 8, PLACE, 8), "as a test copies");
    call("peer_copy", |_| 0)
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
    let code = unsafe { allocate(to, bytes) };
    if code == 0 {
        // SAFETY: as above, and it was just written.
        let given = unsafe { to.read() } as usize;
        LIBRARY.with_borrow_mut(|library| library.pooled.insert(given));
    }
    code
}

unsafe extern "C" fn pool_free(ptr: u64, _: Handle) -> c_int {
    // SAFETY: as the body gave it.
    unsafe { free(ptr) }
}

unsafe extern "C" fn memory_handle(to: *mut [u8; 64], ptr: u64) -> c_int {
    call("memory_handle", |library| {
        // SAFETY: the body hands a place for a handle.
        unsafe { to.write([ptr as u8; 64]) };
        if library.pooled.contains(&(ptr as usize)) { 1 } else { 0 }
    })
}

unsafe extern "C" fn drain() -> c_int {
    call("drain", |_| 0)
}

unsafe extern "C" fn exchange_mode(mode: *mut c_int) -> c_int {
    // SAFETY: the body hands a place with a number.
    let mode = unsafe { &mut *mode };
    LIBRARY.with_borrow_mut(|library| std::mem::swap(&mut library.mode, mode));
    0
}

unsafe extern "C" fn launch_host(
    _: Handle,
    work: unsafe extern "C" fn(*mut c_void),
    data: *mut c_void,
) -> c_int {
    let code = call("launch_host", |_| 0);
    if code == 0 {
        // SAFETY: the body hands a function and what it takes.
        unsafe { work(data) };
    }
    code
}

/// A table whose symbols are these functions, under their own names.
pub(super) fn lookup(name: &'static str) -> Option<Handle> {
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
        "launch_host" => launch_host as *const (),
        "memory_handle" => memory_handle as *const (),
        "exchange_mode" => exchange_mode as *const (),
        "drain" => drain as *const (),
        "pool_create" => pool_create as *const (),
        "pool_set" => pool_set as *const (),
        "pool_get" => pool_get as *const (),
        "pool_trim" => pool_trim as *const (),
        "pool_allocate" => pool_allocate as *const (),
        "pool_free" => pool_free as *const (),
        "opening" => opening as *const (),
        _ => return None,
    };
    Some(Handle(address.cast_mut().cast()))
}

/// What no device of these tests is asked: it is opened as it is.
extern "C" fn opening() -> c_int {
    unreachable!("it needs no opening")
}

#[derive(Debug)]
pub(super) struct Fake(pub(super) library::Library<Numbers>);

impl Vendor for Fake {
    type Dialect = Numbers;
    type Place = u64;

    fn library(&self) -> &library::Library<Numbers> {
        &self.0
    }

    fn own(&self) -> Handle {
        handle(OWN)
    }

    fn peer_copy(&self) -> Option<PeerCopy<u64>> {
        let has_none = LIBRARY.with_borrow(|library| library.no_peers);
        (!has_none).then_some(Symbol { name: "peer_copy", call: peer_copy })
    }

    fn place(&self) -> u64 {
        PLACE
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
