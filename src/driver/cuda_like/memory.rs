//! Device memory: from a stream-ordered pool of the device's own, or by plain calls behind a cache where there are no
//! pools.

use super::{
    super::{DevicePtr, Result, cache::Cache, symbols::Handle},
    context::{Context, Vendor},
    symbols::{ON_DEVICE, PINNED, PoolProps, PoolSymbols, attribute},
};
use std::{
    collections::HashSet,
    ffi::{c_int, c_void},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Where a device's memory comes from.
#[derive(Debug)]
pub(super) struct Memory {
    /// A pool of the device's own, where there are pools.
    pool: Option<Pool>,
    /// What is of no pool: from plain calls, of which a free waits for the whole device; so what is freed is kept to be
    /// allocated again.
    plain: Cache,
}

#[derive(Debug)]
struct Pool {
    handle: Handle,
    symbols: PoolSymbols,
    live: Mutex<HashSet<DevicePtr>>,
}

impl Memory {
    /// The memory of a device. The context is current.
    pub(super) fn new<V: Vendor>(
        context: &Context<V>,
        pools: Option<(c_int, PoolSymbols)>,
        total_bytes: u64,
    ) -> Result<Memory> {
        let pool = pools.map(|(ordinal, symbols)| Pool::new(context, ordinal, symbols)).transpose()?;
        Ok(Memory { pool, plain: Cache::new(total_bytes) })
    }

    pub(super) fn is_pool(&self) -> bool {
        self.pool.is_some()
    }

    /// Allocates, of no pool where it is to be `fixed`. The context is current.
    pub(super) fn allocate<V: Vendor>(
        &self,
        context: &Context<V>,
        stream: Handle,
        bytes: u64,
        fixed: bool,
    ) -> Result<DevicePtr> {
        let size = usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut ptr = 0;
        if let Some(pool) = self.pool.as_ref().filter(|_| !fixed) {
            let allocate = pool.symbols.allocate;
            // SAFETY: `ptr` is where the address goes; pool and stream are this context's.
            let code = unsafe { (allocate.call)(&mut ptr, size, pool.handle, stream) };
            context.check_allocation(allocate.name, code)?;
            pool.live().insert(DevicePtr::from_raw(ptr));
            return Ok(DevicePtr::from_raw(ptr));
        }
        self.plain.allocate(bytes, || {
            let allocate = context.symbols().allocate;
            // SAFETY: `ptr` is where the address goes.
            let code = unsafe { (allocate.call)(&mut ptr, size) };
            context.check_allocation(allocate.name, code).map(|()| DevicePtr::from_raw(ptr))
        })
    }

    /// Frees. The context is current.
    pub(super) fn free<V: Vendor>(&self, context: &Context<V>, stream: Handle, ptr: DevicePtr) -> Result<()> {
        match &self.pool {
            Some(pool) if !self.plain.owns(ptr) => {
                pool.live().remove(&ptr);
                let free = pool.symbols.free;
                // SAFETY: the address is the device's, which checks it; the caller orders the free behind every use.
                let code = unsafe { (free.call)(ptr.as_raw(), stream) };
                context.check(free.name, code).inspect_err(|_| _ = pool.live().insert(ptr))
            }
            _ => self.plain.free(ptr, |ptr| release(context, ptr)),
        }
    }

    /// What the pool and the cache hold beyond use, in bytes; less where the pool does not say. The context is current.
    pub(super) fn cached<V: Vendor>(&self, context: &Context<V>) -> u64 {
        let pooled = self.pool.as_ref().map(|pool| {
            let reserved = pool.figure(context, attribute::RESERVED_BYTES).unwrap_or(0);
            reserved.saturating_sub(pool.figure(context, attribute::USED_BYTES).unwrap_or(reserved))
        });
        self.plain.kept_bytes() + pooled.unwrap_or(0)
    }

    /// Gives the device back what the pool and the cache hold beyond use; how many bytes. The context is current.
    pub(super) fn trim<V: Vendor>(&self, context: &Context<V>) -> Result<u64> {
        let released = self.plain.trim(|ptr| release(context, ptr))?;
        Ok(released + self.pool.as_ref().map_or(Ok(0), |pool| pool.trim(context))?)
    }

    /// Gives everything up: nobody uses the device any more. The context is current.
    pub(super) fn destroy<V: Vendor>(&self, context: &Context<V>) {
        // A device that is lost may refuse to take it back.
        for ptr in self.plain.drain() {
            let _ = release(context, ptr);
        }
        if let Some(pool) = &self.pool {
            for ptr in std::mem::take(&mut *pool.live()) {
                let _ = release(context, ptr);
            }
            pool.destroy(context);
        }
    }
}

impl Pool {
    fn new<V: Vendor>(context: &Context<V>, ordinal: c_int, symbols: PoolSymbols) -> Result<Pool> {
        let props = PoolProps {
            alloc_type: PINNED,
            handle_types: 0,
            location_type: ON_DEVICE,
            location_id: ordinal,
            security: Handle::NULL,
            max_size: 0,
            reserved: [0; 56],
        };
        let mut handle = Handle::NULL;
        // SAFETY: `handle` is where the new pool's goes; `props` has the vendor's layout and is only read.
        let code = unsafe { (symbols.create.call)(&mut handle, &props) };
        context.check(symbols.create.name, code)?;
        let pool = Pool { handle, symbols, live: Mutex::default() };
        let made = pool.configure(context);
        if made.is_err() {
            pool.destroy(context);
        }
        made.map(|()| pool)
    }

    fn live(&self) -> MutexGuard<'_, HashSet<DevicePtr>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Never lets the pool order one queue behind another by itself: a restore would wait for kernels it has nothing to
    /// do with. What a fence orders, and what has happened, it may use. It keeps what it has until it is trimmed.
    fn configure<V: Vendor>(&self, context: &Context<V>) -> Result<()> {
        let symbols = &self.symbols;
        let set = |attribute, value: *mut c_void| {
            // SAFETY: `value` points to what this attribute takes, an int or a 64-bit number, which is only read.
            let code = unsafe { (symbols.set.call)(self.handle, attribute, value) };
            context.check(symbols.set.name, code)
        };
        for (attribute, mut value) in REUSE {
            set(attribute, (&raw mut value).cast())?;
        }
        let mut threshold = u64::MAX;
        set(attribute::RELEASE_THRESHOLD, (&raw mut threshold).cast())
    }

    /// A figure of the pool's, in bytes.
    fn figure<V: Vendor>(&self, context: &Context<V>, attribute: c_int) -> Result<u64> {
        let (symbols, mut bytes) = (&self.symbols, 0u64);
        // SAFETY: both figures asked for are 64-bit numbers, which is what `bytes` is.
        let code = unsafe { (symbols.get.call)(self.handle, attribute, (&raw mut bytes).cast()) };
        context.check(symbols.get.name, code).map(|()| bytes)
    }

    /// Gives the device back what the pool holds beyond use; how many bytes.
    fn trim<V: Vendor>(&self, context: &Context<V>) -> Result<u64> {
        let before = self.figure(context, attribute::RESERVED_BYTES)?;
        let trim = self.symbols.trim;
        // SAFETY: the pool is this context's.
        let code = unsafe { (trim.call)(self.handle, 0) };
        context.check(trim.name, code)?;
        Ok(before.saturating_sub(self.figure(context, attribute::RESERVED_BYTES)?))
    }

    fn destroy<V: Vendor>(&self, context: &Context<V>) {
        let destroy = self.symbols.destroy;
        // SAFETY: the pool is this context's, and nobody allocates from it any more.
        let code = unsafe { (destroy.call)(self.handle) };
        let _ = context.check(destroy.name, code);
    }
}

/// Gives a block back to the device, for which the call waits. The context is current.
fn release<V: Vendor>(context: &Context<V>, ptr: DevicePtr) -> Result<()> {
    let free = context.symbols().free;
    // SAFETY: the block was given by `allocate`, and nobody uses it: the cache takes it from whoever gave it up, and at the
    // device's end nobody is left.
    let code = unsafe { (free.call)(ptr.as_raw()) };
    context.check(free.name, code)
}

/// How a pool may use again what another queue freed.
const REUSE: [(c_int, c_int); 3] = [
    (attribute::ALLOW_INTERNAL_DEPENDENCIES, 0),
    (attribute::FOLLOW_EVENT_DEPENDENCIES, 1),
    (attribute::ALLOW_OPPORTUNISTIC, 1),
];
