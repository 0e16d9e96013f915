//! A device's context: what belongs to it, and that it is lost for good once a call says so.
#![allow(unsafe_code)]

use super::{
    super::{DevicePtr, DriverError, DriverErrorKind, HostKind, HostMemory, Result, symbols::Handle},
    code,
    ffi::*,
    library::{Calls, Library, opening},
};
use std::{
    ffi::{c_int, c_void},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

/// The events that a pool has: a page of them, each of at most 64 bytes.
const EVENTS: u32 = 64;

/// What device memory is aligned to, in bytes: as much as every driver takes.
const ALIGNMENT: usize = 4096;

/// A context, kept as long as anything that belongs to it.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) library: &'static Library,
    pub(super) device: Handle,
    pub(super) handle: Handle,
    /// What one allocation may be in bytes, where its limit is not relaxed.
    max_allocation: u64,
    lost: OnceLock<DriverError>,
    events: Mutex<Made>,
}

/// Every event, and every pool of them. They live as long as the context: a fence's event is used again.
#[derive(Debug, Default)]
struct Made {
    pools: Vec<Handle>,
    made: Vec<Handle>,
    /// How many of the last pool's are made.
    used: u32,
}

impl Context {
    pub(super) fn new(
        library: &'static Library,
        driver: Handle,
        device: Handle,
        max_allocation: u64,
    ) -> Result<Context> {
        let (create, mut handle) = (library.calls.context_create, Handle::NULL);
        // SAFETY: the driver is one; the description is of the structure's layout; `handle` is where the handle goes.
        let code = unsafe { (create.call)(driver, &ContextDesc::new(), &mut handle) };
        opening(create.name, code)?;
        Ok(Context {
            library,
            device,
            handle,
            max_allocation,
            lost: OnceLock::new(),
            events: Mutex::default(),
        })
    }

    pub(super) fn calls(&self) -> &Calls {
        &self.library.calls
    }

    /// Why the device is lost, if it is.
    pub(super) fn alive(&self) -> Result<()> {
        self.lost.get().map_or(Ok(()), |lost| Err(lost.clone()))
    }

    /// A call's result. One that allocates no memory is never out of it.
    pub(super) fn check(&self, call: &'static str, code: c_int) -> Result<()> {
        self.check_allocation(call, code).map_err(DriverError::of_no_allocation)
    }

    /// The result of a call that allocates memory.
    fn check_allocation(&self, call: &'static str, code: c_int) -> Result<()> {
        if code == SUCCESS {
            return Ok(());
        }
        let error = DriverError::new(code::kind(code), call, code.into(), code::words(code));
        Err(if error.kind == DriverErrorKind::Lost { self.lose(error) } else { error })
    }

    /// The device is lost, for this reason, unless it was before. Every later call says the same.
    pub(super) fn lose(&self, error: DriverError) -> DriverError {
        self.lost.get_or_init(|| DriverError { kind: DriverErrorKind::Lost, ..error }).clone()
    }

    fn events(&self) -> MutexGuard<'_, Made> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A further event, which is not signalled.
    pub(super) fn new_event(&self) -> Result<Handle> {
        let mut events = self.events();
        let pool = match events.pools.last() {
            Some(&pool) if events.used < EVENTS => pool,
            _ => {
                let pool = self.new_pool()?;
                events.pools.push(pool);
                events.used = 0;
                pool
            }
        };
        let desc = EventDesc { index: events.used, signal: SCOPE_HOST, wait: SCOPE_HOST, ..EventDesc::new() };
        let (create, mut event) = (self.calls().event_create, Handle::NULL);
        // SAFETY: the pool is this context's, and has no event at this place; `event` is where the handle goes.
        let code = unsafe { (create.call)(pool, &desc, &mut event) };
        self.check(create.name, code)?;
        events.used += 1;
        events.made.push(event);
        Ok(event)
    }

    fn new_pool(&self) -> Result<Handle> {
        let desc = PoolDesc { flags: POOL_HOST_VISIBLE, count: EVENTS, ..PoolDesc::new() };
        let (create, mut device, mut pool) = (self.calls().pool_create, self.device, Handle::NULL);
        // SAFETY: the context lives; `device` is the one device named; `pool` is where the handle goes.
        let code = unsafe { (create.call)(self.handle, &desc, 1, &mut device, &mut pool) };
        self.check(create.name, code).map(|()| pool)
    }

    /// Makes an event that nobody waits for any more not signalled.
    pub(super) fn reset(&self, event: Handle) -> Result<()> {
        let reset = self.calls().event_reset;
        // SAFETY: the event is this context's.
        let code = unsafe { (reset.call)(event) };
        self.check(reset.name, code)
    }

    /// Whether an event is signalled. A failure found by one is the device's.
    pub(super) fn query(&self, event: Handle) -> Result<bool> {
        let query = self.calls().event_query;
        // SAFETY: the event is this context's.
        self.signalled(query.name, unsafe { (query.call)(event) })
    }

    /// Waits until an event is signalled, but not for ever if the driver finds the device hung.
    pub(super) fn synchronize(&self, event: Handle) -> Result<()> {
        let synchronize = self.calls().event_synchronize;
        loop {
            // SAFETY: the event is this context's. A second is above what drivers wait before they look for a hang.
            let code = unsafe { (synchronize.call)(event, 1_000_000_000) };
            if self.signalled(synchronize.name, code)? {
                return Ok(());
            }
            self.status()?;
        }
    }

    fn signalled(&self, call: &'static str, code: c_int) -> Result<bool> {
        match code {
            SUCCESS => Ok(true),
            NOT_READY => Ok(false),
            code => {
                Err(self.lose(DriverError::new(DriverErrorKind::Lost, call, code.into(), code::words(code))))
            }
        }
    }

    /// Asks whether the device is well: the state of an event does not tell.
    pub(super) fn status(&self) -> Result<()> {
        self.alive()?;
        let status = self.calls().device_status;
        // SAFETY: the device is one.
        let code = unsafe { (status.call)(self.device) };
        self.check(status.name, code)
    }

    /// Signals an event from the host.
    pub(super) fn signal(&self, event: Handle) -> Result<()> {
        let signal = self.calls().event_signal;
        // SAFETY: the event is this context's.
        let code = unsafe { (signal.call)(event) };
        self.check(signal.name, code)
    }

    /// Device memory, resident only while work that uses it runs.
    pub(super) fn allocate(&self, bytes: u64) -> Result<DevicePtr> {
        let relaxed = RelaxedLimits { flags: RELAXED_MAX_SIZE, ..RelaxedLimits::new() };
        let mut desc = DeviceAllocation::new();
        if bytes > self.max_allocation {
            desc.next = (&raw const relaxed).cast();
        }
        let (allocate, mut ptr) = (self.calls().allocate, std::ptr::null_mut());
        let size = usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: context and device live; the descriptions are of their structures' layouts and outlive the call; `ptr` is
        // where the address goes.
        let code = unsafe { (allocate.call)(self.handle, &desc, size, ALIGNMENT, self.device, &mut ptr) };
        self.check_allocation(allocate.name, code).map(|()| DevicePtr::from_raw(ptr.addr() as u64))
    }

    /// Pinned host memory.
    pub(super) fn allocate_host(self: &Arc<Context>, bytes: usize) -> Result<HostMemory> {
        let (allocate, mut start) = (self.calls().allocate_host, std::ptr::null_mut());
        let size = bytes.max(1);
        // SAFETY: the context lives; the description is of the structure's layout; `start` is where the address goes.
        let code =
            unsafe { (allocate.call)(self.handle, &HostAllocation::new(), size, ALIGNMENT, &mut start) };
        self.check_allocation(allocate.name, code)?;
        let (context, block) = (Arc::clone(self), Handle(start));
        // What is refused now is refused for good.
        let release = move || _ = context.free(block);
        // SAFETY: the block is `bytes` bytes of the process's own memory, given to nobody else, and freed by `release`
        // alone, which keeps the context it belongs to.
        unsafe { HostMemory::from_driver(allocate.name, start.cast(), bytes, HostKind::Pinned, release) }
    }

    /// Frees what this context allocated, from any thread.
    pub(super) fn free(&self, block: Handle) -> Result<()> {
        let free = self.calls().free;
        // SAFETY: the block was given by this context, and this is the only free of it; nothing queued uses it.
        let code = unsafe { (free.call)(self.handle, block.0) };
        self.check(free.name, code)
    }

    /// Whether this is host memory that this context allocated.
    pub(super) fn is_own(&self, start: *const c_void) -> Result<bool> {
        let (ask, mut properties) = (self.calls().allocation_properties, AllocationProperties::new());
        // SAFETY: the call takes any address; `properties` is of the structure's layout; no device is asked for.
        let code = unsafe { (ask.call)(self.handle, start, &mut properties, std::ptr::null_mut()) };
        self.check(ask.name, code).map(|()| properties.kind == MEMORY_IS_HOST)
    }
}

impl Drop for Context {
    /// Whoever drops it last has seen all that was queued end.
    fn drop(&mut self) {
        let Made { pools, made, .. } = std::mem::take(&mut *self.events());
        for event in made {
            // SAFETY: the event is this context's, and nobody uses it any more.
            let _ = unsafe { (self.calls().event_destroy.call)(event) };
        }
        for pool in pools {
            // SAFETY: its events are destroyed.
            let _ = unsafe { (self.calls().pool_destroy.call)(pool) };
        }
        // SAFETY: all that belongs to it is given up.
        let _ = unsafe { (self.calls().context_destroy.call)(self.handle) };
    }
}
