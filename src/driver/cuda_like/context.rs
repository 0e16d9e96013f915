//! A vendor's context: current on the thread of each call, and lost for good once a call says so.

use super::{
    super::{
        DriverError, DriverErrorKind, Result,
        symbols::{Handle, Symbol},
    },
    library::{Dialect, Library},
    symbols::Symbols,
};
use std::{
    cell::Cell,
    ffi::c_int,
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

/// Copies on a stream: where to, of which device, where from, of which device, and how many bytes.
pub type PeerCopy<P> = Symbol<unsafe extern "C" fn(u64, P, u64, P, usize, Handle) -> c_int>;

/// What differs between the vendors. Dropped, it gives its context up.
pub trait Vendor: fmt::Debug + Send + Sync + 'static {
    /// How its library speaks.
    type Dialect: Dialect;

    /// What names a device where there are two: its context, or its number.
    type Place;

    /// Its library.
    fn library(&self) -> &Library<Self::Dialect>;

    /// What this device needs current on a thread: a context, or a device's number.
    fn own(&self) -> Handle;

    /// What is current on this thread; null if nothing is.
    fn current(&self) -> Result<Handle>;

    /// Makes something current on this thread.
    fn set_current(&self, what: Handle) -> Result<()>;

    /// What copies to another device's memory, if its library has that.
    fn peer_copy(&self) -> Option<PeerCopy<Self::Place>>;

    /// What names this device there.
    fn place(&self) -> Self::Place;

    /// The stream of the queue at `index` is about to be destroyed; false if others still have it.
    fn let_go(&self, index: usize) -> bool {
        let _ = index;
        true
    }
}

/// A context, kept as long as anything that belongs to it.
#[derive(Debug)]
pub(super) struct Context<V: Vendor> {
    pub(super) vendor: V,
    lost: OnceLock<DriverError>,
    /// Pinned memory to be freed by a thread that may.
    given_up: Mutex<Vec<Handle>>,
}

impl<V: Vendor> Context<V> {
    pub(super) fn new(vendor: V) -> Context<V> {
        Context { vendor, lost: OnceLock::new(), given_up: Mutex::default() }
    }

    /// The calls that both vendors have.
    pub(super) fn symbols(&self) -> &Symbols {
        &self.vendor.library().symbols
    }

    /// Whether a call has said that the device is lost.
    pub(super) fn is_lost(&self) -> bool {
        self.lost.get().is_some()
    }

    /// Makes the context current on this thread for as long as what this gives lives.
    pub(super) fn enter(&self) -> Result<Entered<'_, V>> {
        match self.lost.get() {
            Some(lost) => Err(lost.clone()),
            None => self.enter_anyway(),
        }
    }

    /// As [`enter`](Context::enter), on a lost device too.
    ///
    /// Whoever captures a graph meanwhile does not notice: a capture that is global forbids, and is spoilt by, calls of
    /// every thread, such as the look at an event that it has nothing to do with.
    pub(super) fn enter_anyway(&self) -> Result<Entered<'_, V>> {
        if is_within() {
            let message = "a host kernel's body must not call its device";
            return Err(DriverError::new(DriverErrorKind::Refused, "launch_host", 0, message));
        }
        let (own, current) = (self.vendor.own(), self.vendor.current()?);
        if own != current {
            self.vendor.set_current(own)?;
        }
        // A thread that had none may keep this one: its next call need not set it again.
        let before = (own != current && current != Handle::NULL).then_some(current);
        Ok(Entered { vendor: &self.vendor, before, mode: self.vendor.library().relax() })
    }

    /// A call's result. One that allocates no memory is never out of it: making room would not help it.
    pub(super) fn check(&self, call: &'static str, code: c_int) -> Result<()> {
        self.check_allocation(call, code).map_err(DriverError::of_no_allocation)
    }

    /// The result of a call that allocates memory.
    pub(super) fn check_allocation(&self, call: &'static str, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        match V::Dialect::kind(code) {
            DriverErrorKind::Lost => Err(self.lose(call, code)),
            _ => Err(self.vendor.library().error(call, code)),
        }
    }

    /// The device is lost, by what this call said. Every later one says the same.
    pub(super) fn lose(&self, call: &'static str, code: c_int) -> DriverError {
        let words = self.vendor.library().words(code);
        self.lose_by(DriverError::new(DriverErrorKind::Lost, call, code.into(), words))
    }

    /// The device is lost, for this reason, unless it was before.
    pub(super) fn lose_by(&self, error: DriverError) -> DriverError {
        self.lost.get_or_init(|| error).clone()
    }

    /// Waits until all that is queued on a stream has run. The context is current.
    pub(super) fn synchronize(&self, stream: Handle) -> Result<()> {
        let synchronize = self.symbols().stream_synchronize;
        // SAFETY: the stream is this context's and lives.
        let code = unsafe { (synchronize.call)(stream) };
        self.check(synchronize.name, code)
    }

    /// Gives a stream up, once what is queued on it has run. The context is current.
    pub(super) fn destroy_stream(&self, stream: Handle) {
        // SAFETY: the stream is this context's, and nobody uses it any more.
        let _ = unsafe { (self.symbols().stream_destroy.call)(stream) };
    }

    /// Gives an event up. The context is current.
    pub(super) fn destroy_event(&self, event: Handle) {
        // SAFETY: the event is this context's, and nobody uses it any more.
        let _ = unsafe { (self.symbols().event_destroy.call)(event) };
    }

    /// Frees pinned memory, from any thread.
    pub(super) fn free_host(self: Arc<Context<V>>, block: Handle) {
        self.given_up().push(block);
        if !is_within() {
            self.free_given_up();
        }
    }

    /// Frees the pinned memory that was given up, within a host kernel as well.
    pub(super) fn free_given_up(&self) {
        let blocks = std::mem::take(&mut *self.given_up());
        // Where the context is gone, so is the memory.
        let Ok(_entered) = self.enter_anyway() else { return };
        for block in blocks {
            // SAFETY: the block was given by this context's `allocate_host`, and this is the only free of it.
            let _ = unsafe { (self.symbols().free_host.call)(block.0) };
        }
    }

    fn given_up(&self) -> MutexGuard<'_, Vec<Handle>> {
        self.given_up.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

thread_local! {
    /// Whether this thread is the vendor's, within a host kernel.
    static IS_WITHIN: Cell<bool> = const { Cell::new(false) };
}

/// Runs a host kernel. It calls no vendor meanwhile, which would be refused, or wait for this very work.
pub(super) fn within<R>(work: impl FnOnce() -> R) -> R {
    IS_WITHIN.set(true);
    let result = work();
    IS_WITHIN.set(false);
    result
}

/// Whether this thread runs a host kernel.
pub(super) fn is_within() -> bool {
    IS_WITHIN.get()
}

/// The time in which a context is current. What was current before is so again afterwards.
#[derive(Debug)]
pub(super) struct Entered<'a, V: Vendor> {
    vendor: &'a V,
    before: Option<Handle>,
    /// Which calls a capture forbade this thread.
    mode: Option<c_int>,
}

impl<V: Vendor> Entered<'_, V> {
    /// Leaves the context current.
    pub(super) fn stay(mut self) {
        self.before = None;
    }
}

impl<V: Vendor> Drop for Entered<'_, V> {
    fn drop(&mut self) {
        if let Some(mode) = self.mode {
            let _ = self.vendor.library().exchange_mode(mode);
        }
        if let Some(before) = self.before {
            // It was current a moment ago. If its owner has destroyed it since, nothing is to be done here.
            let _ = self.vendor.set_current(before);
        }
    }
}
