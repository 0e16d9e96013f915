//! What a buffer's handles share and launches touch: the word, the pointer, and the last uses per queue.

use super::{
    Engine, HostRuns, Owner,
    queue::QUEUES,
    sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, lock},
};
use crate::{
    driver::DevicePtr,
    residency::{NoPin, Slot, Word, WordCell},
};
use std::{
    fmt,
    sync::{Arc, OnceLock},
};

/// One buffer, as its handles share it.
#[repr(C)]
pub struct Cell {
    // What the warm path touches comes first, in one cache line.
    word: AtomicU64,
    ptr: AtomicU64,
    /// Its device's.
    pub engine: Arc<Engine>,
    /// The bytes that were asked for.
    pub bytes: u64,
    handles: AtomicUsize,
    slot: OnceLock<Slot>,
    uses: [AtomicU64; QUEUES],
    writes: [AtomicU64; QUEUES],
    /// The last copy to the host queued: the memory is kept for it, but no writer waits for it, since what it copies
    /// is thrown away if the buffer was written meanwhile.
    copied: AtomicU64,
    beyond_compute: AtomicBool,
    /// Contents that no one has written are zero: device memory that comes without a copy is cleared.
    zeroed: AtomicBool,
    host: Mutex<Option<HostRuns>>,
    /// What keeps its device going, for as long as it has handles: what is done after that keeps no device.
    owner: Mutex<Option<Arc<Owner>>>,
    /// Where it comes from, for reports.
    pub tag: Option<Arc<str>>,
    /// Allocated never to move.
    pub fixed: bool,
    /// Not this crate's memory.
    pub foreign: bool,
}

impl Cell {
    /// What reports call a buffer without a tag.
    pub const UNTAGGED: &str = "untagged";

    /// A resident buffer with one handle.
    pub fn new(owner: Arc<Owner>, ptr: DevicePtr, bytes: u64, stamp: u64) -> Cell {
        Cell {
            word: AtomicU64::new(Word::fresh(stamp).0),
            ptr: AtomicU64::new(ptr.as_raw()),
            uses: std::array::from_fn(|_| AtomicU64::new(0)),
            writes: std::array::from_fn(|_| AtomicU64::new(0)),
            handles: AtomicUsize::new(1),
            slot: OnceLock::new(),
            copied: AtomicU64::new(0),
            beyond_compute: AtomicBool::new(false),
            zeroed: AtomicBool::new(false),
            host: Mutex::new(None),
            bytes,
            tag: None,
            fixed: false,
            foreign: false,
            engine: owner.engine.clone(),
            owner: Mutex::new(Some(owner)),
        }
    }

    /// Its place in the core's table.
    pub fn slot(&self) -> Slot {
        *self.slot.get().expect("a buffer is in the table before anyone has its handle")
    }

    pub(super) fn set_slot(&self, slot: Slot) {
        let _ = self.slot.set(slot);
    }

    /// Takes a pin without a lock: one compare-exchange, that keeps the later stamp and marks dirty too.
    #[inline(always)]
    pub fn try_pin(&self, stamp: u64, writes: bool) -> Result<(), NoPin> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let next = Word(word).pinned(stamp, writes)?;
            match self.word.compare_exchange_weak(word, next.0, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => word = now,
            }
        }
    }

    /// Drops a pin: one decrement. True if it was the last one of a watched buffer, and the engine must be told.
    #[inline]
    pub fn unpin(&self) -> bool {
        let before = Word(self.word.fetch_sub(Word::PIN, Ordering::Release));
        before.is_watched() && before.pins() == 1
    }

    /// Where it is on the device, while a pin holds it there.
    #[inline]
    pub fn ptr(&self) -> DevicePtr {
        DevicePtr::from_raw(self.ptr.load(Ordering::Relaxed))
    }

    pub(super) fn set_ptr(&self, ptr: DevicePtr) {
        self.ptr.store(ptr.as_raw(), Ordering::Release);
    }

    /// Notes a use: its number joins those known by maximum.
    #[inline]
    pub(super) fn note_use(&self, queue: usize, sequence: u64, wrote: bool) {
        if let Some(last) = self.uses.get(queue) {
            last.fetch_max(sequence, Ordering::AcqRel);
        }
        if wrote && let Some(last) = self.writes.get(queue) {
            last.fetch_max(sequence, Ordering::AcqRel);
        }
        if queue != 0 {
            self.note_beyond_compute();
        }
    }

    /// Notes a copy to the host by its number on the spill queue.
    pub(super) fn note_copy(&self, sequence: u64) {
        self.copied.fetch_max(sequence, Ordering::AcqRel);
        self.note_beyond_compute();
    }

    /// The last copy to the host noted.
    pub(super) fn last_copy(&self) -> u64 {
        self.copied.load(Ordering::Acquire)
    }

    /// The last use noted on a queue; the last write, if only those matter.
    pub(super) fn last(&self, queue: usize, writes_only: bool) -> u64 {
        let lasts = if writes_only { &self.writes } else { &self.uses };
        lasts.get(queue).map_or(0, |last| last.load(Ordering::Acquire))
    }

    /// It was used other than by the first compute queue: it is not freed in that queue's order.
    pub(super) fn note_beyond_compute(&self) {
        self.beyond_compute.store(true, Ordering::Release);
    }

    pub(super) fn is_compute_only(&self) -> bool {
        !self.beyond_compute.load(Ordering::Acquire)
    }

    /// Sets whether contents that no one has written are zero.
    pub fn set_zeroed(&self, zeroed: bool) {
        self.zeroed.store(zeroed, Ordering::Release);
    }

    pub(super) fn is_zeroed(&self) -> bool {
        self.zeroed.load(Ordering::Acquire)
    }

    /// One handle more.
    pub fn add_handle(&self) {
        self.handles.fetch_add(1, Ordering::Relaxed);
    }

    /// One handle less; true if that was the last.
    pub fn drop_handle(&self) -> bool {
        self.handles.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// What keeps its device going, while it has a handle.
    pub fn owner(&self) -> Option<Arc<Owner>> {
        lock(&self.owner).clone()
    }

    /// The last handle is gone: it keeps its device no more.
    pub(super) fn disown(&self) -> Option<Arc<Owner>> {
        lock(&self.owner).take()
    }

    /// The host copy, if one is held.
    pub(super) fn host(&self) -> Option<HostRuns> {
        lock(&self.host).clone()
    }

    /// Takes a host copy where there is none.
    pub(super) fn offer_host(&self, copy: HostRuns) {
        lock(&self.host).get_or_insert(copy);
    }

    pub(super) fn replace_host(&self, copy: Option<HostRuns>) -> Option<HostRuns> {
        std::mem::replace(&mut *lock(&self.host), copy)
    }
}

impl WordCell for Arc<Cell> {
    fn load(&self) -> Word {
        Word(self.word.load(Ordering::Acquire))
    }

    fn update(&self, change: impl Fn(Word) -> Option<Word>) -> Option<(Word, Word)> {
        let mut word = self.word.load(Ordering::Acquire);
        loop {
            let next = change(Word(word))?;
            match self.word.compare_exchange_weak(word, next.0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some((Word(word), next)),
                Err(now) => word = now,
            }
        }
    }
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Word(self.word.load(Ordering::Relaxed));
        f.debug_struct("Cell").field("bytes", &self.bytes).field("word", &word).finish_non_exhaustive()
    }
}
