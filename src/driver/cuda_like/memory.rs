//! Device memory: from a stream-ordered pool of the device's own, or by plain calls behind a cache where there are no
//! pools.

use super::{
    super::{DevicePtr, Result, cache::Cache},
    context::{Context, Vendor},
    symbols::{Handle, ON_DEVICE, PINNED, PoolProps, PoolSymbols, attribute},
};
use std::ffi::{c_int, c_void};

/// Where a device's memory comes from.
#[derive(Debug)]
pub(super) enum Memory {
    /// A pool of the device's own, and what is to be of no pool.
    Pool { pool: Handle, symbols: PoolSymbols, fixed: Cache },
    /// Plain calls, of which a free waits for the whole device; so what is freed is kept to be allocated again.
    Plain(Cache),
}

impl Memory {
    /// The memory of a device. The context is current.
    pub(super) fn new<V: Vendor>(
        context: &Context<V>,
        pools: Option<(c_int, PoolSymbols)>,
        total_bytes: u64,
    ) -> Result<Memory> {
        let Some((ordinal, symbols)) = pools else { return Ok(Memory::Plain(Cache::new(total_bytes))) };
        let props = PoolProps {
            alloc_type: PINNED,
            handle_types: 0,
            location_type: ON_DEVICE,
            location_id: ordinal,
            security: Handle::NULL,
            max_size: 0,
            reserved: [0; 56],
        };
        let mut pool = Handle::NULL;
        // SAFETY: `pool` is where the new pool's handle goes; `props` has the vendor's layout and is only read.
        let code = unsafe { (symbols.create.call)(&mut pool, &props) };
        context.check(symbols.create.name, code)?;
        let memory = Memory::Pool { pool, symbols, fixed: Cache::new(total_bytes) };
        let made = memory.configure(context, pool, &symbols);
        if made.is_err() {
            memory.destroy(context);
        }
        made.map(|()| memory)
    }

    /// Never lets the pool order one queue behind another by itself: a restore would wait for kernels it has nothing to
    /// do with. What a fence orders, and what has happened, it may use. It keeps what it has until it is trimmed.
    fn configure<V: Vendor>(&self, context: &Context<V>, pool: Handle, symbols: &PoolSymbols) -> Result<()> {
        let set = |attribute, value: *mut c_void| {
            // SAFETY: `value` points to what this attribute takes, an int or a 64-bit number, which is only read.
            let code = unsafe { (symbols.set.call)(pool, attribute, value) };
            context.check(symbols.set.name, code)
        };
        for (attribute, mut value) in REUSE {
            set(attribute, (&raw mut value).cast())?;
        }
        let mut threshold = u64::MAX;
        set(attribute::RELEASE_THRESHOLD, (&raw mut threshold).cast())
    }

    pub(super) fn is_pool(&self) -> bool {
        matches!(self, Memory::Pool { .. })
    }

    /// Memory of no pool, as far as there is one.
    fn plain(&self) -> &Cache {
        let (Memory::Pool { fixed: cache, .. } | Memory::Plain(cache)) = self;
        cache
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
        if let (Memory::Pool { pool, symbols, .. }, false) = (self, fixed) {
            let allocate = symbols.allocate;
            // SAFETY: `ptr` is where the address goes; pool and stream are this context's.
            let code = unsafe { (allocate.call)(&mut ptr, size, *pool, stream) };
            return context.check_allocation(allocate.name, code).map(|()| DevicePtr::from_raw(ptr));
        }
        self.plain().allocate(bytes, || {
            let allocate = context.symbols().allocate;
            // SAFETY: `ptr` is where the address goes.
            let code = unsafe { (allocate.call)(&mut ptr, size) };
            context.check_allocation(allocate.name, code).map(|()| DevicePtr::from_raw(ptr))
        })
    }

    /// Frees. The context is current.
    pub(super) fn free<V: Vendor>(&self, context: &Context<V>, stream: Handle, ptr: DevicePtr) -> Result<()> {
        match self {
            Memory::Pool { symbols, fixed, .. } if !fixed.owns(ptr) => {
                let free = symbols.free;
                // SAFETY: the address is the device's, which checks it; the caller orders the free behind every use.
                let code = unsafe { (free.call)(ptr.as_raw(), stream) };
                context.check(free.name, code)
            }
            _ => self.plain().free(ptr, |ptr| release(context, ptr)),
        }
    }

    /// A figure of the pool's, in bytes.
    fn figure<V: Vendor>(&self, context: &Context<V>, attribute: c_int) -> Result<u64> {
        let Memory::Pool { pool, symbols, .. } = self else { return Ok(0) };
        let mut bytes = 0u64;
        // SAFETY: both figures asked for are 64-bit numbers, which is what `bytes` is.
        let code = unsafe { (symbols.get.call)(*pool, attribute, (&raw mut bytes).cast()) };
        context.check(symbols.get.name, code).map(|()| bytes)
    }

    /// What the pool or the cache holds beyond use, in bytes; zero where it does not say. The context is current.
    pub(super) fn cached<V: Vendor>(&self, context: &Context<V>) -> u64 {
        let reserved = self.figure(context, attribute::RESERVED_BYTES).unwrap_or(0);
        let used = self.figure(context, attribute::USED_BYTES).unwrap_or(reserved);
        self.plain().kept_bytes() + reserved.saturating_sub(used)
    }

    /// Gives the device back what the pool or the cache holds beyond use; how many bytes. The context is current.
    pub(super) fn trim<V: Vendor>(&self, context: &Context<V>) -> Result<u64> {
        let released = self.plain().trim(|ptr| release(context, ptr))?;
        let Memory::Pool { pool, symbols, .. } = self else { return Ok(released) };
        let before = self.figure(context, attribute::RESERVED_BYTES)?;
        // SAFETY: the pool is this context's.
        let code = unsafe { (symbols.trim.call)(*pool, 0) };
        context.check(symbols.trim.name, code)?;
        Ok(released + before.saturating_sub(self.figure(context, attribute::RESERVED_BYTES)?))
    }

    /// Gives the pool up, once what was allocated from it is freed; or what the cache keeps. The context is current.
    pub(super) fn destroy<V: Vendor>(&self, context: &Context<V>) {
        // A device that is lost has nothing to give back.
        let _ = self.plain().trim(|ptr| release(context, ptr));
        if let Memory::Pool { pool, symbols, .. } = self {
            // SAFETY: the pool is this context's, and nobody allocates from it any more.
            let code = unsafe { (symbols.destroy.call)(*pool) };
            let _ = context.check(symbols.destroy.name, code);
        }
    }
}

/// Gives a block that the cache keeps back to the device, for which the call waits. The context is current.
fn release<V: Vendor>(context: &Context<V>, ptr: DevicePtr) -> Result<()> {
    let free = context.symbols().free;
    // SAFETY: the block was given by `allocate`, and nobody uses it: the cache takes it from whoever gave it up.
    let code = unsafe { (free.call)(ptr.as_raw()) };
    context.check(free.name, code)
}

/// How a pool may use again what another queue freed.
const REUSE: [(c_int, c_int); 3] = [
    (attribute::ALLOW_INTERNAL_DEPENDENCIES, 0),
    (attribute::FOLLOW_EVENT_DEPENDENCIES, 1),
    (attribute::ALLOW_OPPORTUNISTIC, 1),
];
