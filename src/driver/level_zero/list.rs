//! An immediate command list: what is appended is submitted at once, and runs in order.
#![allow(unsafe_code)]

use super::{
    super::{DevicePtr, Result, symbols::Handle},
    context::Context,
    engines::Engine,
    ffi::*,
};
use std::{
    ffi::{c_int, c_void},
    ptr::null_mut,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// Every byte, for fills: a driver may read the pattern when the fill runs.
static PATTERNS: [u8; 256] = {
    let mut patterns = [0; 256];
    let mut value = 0;
    while value < 256 {
        patterns[value] = value as u8;
        value += 1;
    }
    patterns
};

/// A list, to which one thread at a time appends.
#[derive(Debug)]
pub(super) struct List {
    pub(super) handle: Handle,
    /// The driver keeps the order; else barriers do.
    in_order: bool,
    /// Something may have been appended.
    used: AtomicBool,
    turn: Mutex<()>,
}

impl List {
    pub(super) fn new(context: &Context, engine: Engine, in_order: bool) -> Result<List> {
        let mut flags = if in_order { QUEUE_IN_ORDER } else { 0 };
        // An engine other than the first may be named only so.
        if engine.index > 0 {
            flags |= QUEUE_EXPLICIT;
        }
        let (group, engine, mode) = (engine.group, engine.index, QUEUE_ASYNCHRONOUS);
        let desc = QueueDesc { group, engine, flags, mode, ..QueueDesc::new() };
        let (create, mut handle) = (context.calls().list_create, Handle::NULL);
        // SAFETY: context and device live; the description is of the structure's layout; `handle` is where the handle goes.
        let code = unsafe { (create.call)(context.handle, context.device, &desc, &mut handle) };
        context.check(create.name, code)?;
        Ok(List { handle, in_order, used: AtomicBool::new(false), turn: Mutex::default() })
    }

    /// Appends behind all that was appended before.
    fn append(&self, context: &Context, name: &'static str, call: impl FnOnce() -> c_int) -> Result<()> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        context.alive()?;
        self.used.store(true, Ordering::Relaxed);
        if !self.in_order {
            let barrier = context.calls().barrier;
            // SAFETY: the list is this context's, and no other thread appends to it; no event is named.
            let code = unsafe { (barrier.call)(self.handle, Handle::NULL, 0, null_mut()) };
            context.check(barrier.name, code)?;
        }
        context.check(name, call())
    }

    /// A copy between device memory and device memory, or pinned memory of the context.
    pub(super) fn copy(
        &self,
        context: &Context,
        to: *mut c_void,
        from: *const c_void,
        bytes: usize,
    ) -> Result<()> {
        let copy = context.calls().copy;
        self.append(context, copy.name, || {
            // SAFETY: the list is this context's, and no other thread appends to it. The caller keeps both ranges until the
            // copy has run; of device memory the driver checks the addresses.
            unsafe { (copy.call)(self.handle, to, from, bytes, Handle::NULL, 0, null_mut()) }
        })
    }

    /// Sets every byte of device memory.
    pub(super) fn fill(&self, context: &Context, to: DevicePtr, bytes: usize, value: u8) -> Result<()> {
        let (fill, pattern) = (context.calls().fill, &raw const PATTERNS[usize::from(value)]);
        self.append(context, fill.name, || {
            // SAFETY: as for a copy; the pattern is one byte that lives for ever.
            unsafe {
                (fill.call)(self.handle, address(to), pattern.cast(), 1, bytes, Handle::NULL, 0, null_mut())
            }
        })
    }

    /// Signals an event once all has run that was appended before.
    pub(super) fn signal(&self, context: &Context, event: Handle) -> Result<()> {
        let signal = context.calls().signal;
        // SAFETY: list and event are this context's, and no other thread appends to the list.
        self.append(context, signal.name, || unsafe { (signal.call)(self.handle, event) })
    }

    /// Makes what is appended from now on wait, on the device, for an event.
    pub(super) fn wait(&self, context: &Context, event: Handle) -> Result<()> {
        let (wait, mut event) = (context.calls().wait, event);
        // SAFETY: as for a signal; the one event is named by its place, which outlives the call.
        self.append(context, wait.name, || unsafe { (wait.call)(self.handle, 1, &mut event) })
    }

    /// Makes what others append from now on run behind what was appended before.
    pub(super) fn hand_out(&self, context: &Context) -> Result<Handle> {
        // The barrier of an append is all it takes.
        self.append(context, context.calls().barrier.name, || SUCCESS).map(|()| self.handle)
    }

    /// Whether something may have been appended.
    pub(super) fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    /// Signals an event behind all that was appended, on a lost device too; whether the driver took it.
    pub(super) fn signal_end(&self, context: &Context, event: Handle) -> bool {
        let barrier = context.calls().barrier;
        // SAFETY: list and event are this context's, and no other thread has the list any more.
        let code = unsafe { (barrier.call)(self.handle, event, 0, null_mut()) };
        code == SUCCESS
    }

    /// Gives the list up, which the device no longer uses.
    pub(super) fn destroy(&self, context: &Context) {
        // SAFETY: the list is this context's, and nobody uses it any more.
        let _ = unsafe { (context.calls().list_destroy.call)(self.handle) };
    }
}

/// A device address as the vendor's calls take it.
pub(super) fn address(ptr: DevicePtr) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(ptr.as_raw() as usize)
}
