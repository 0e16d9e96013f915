//! Where host copies and staging live: in runs of slabs that are pinned once and reused, or in ordinary memory.
//!
//! Unpins nothing while its device lives. The books' lock is the last one taken: drivers let go of runs under locks of
//! their own.

use super::{
    HostRuns,
    sync::{Mutex, MutexGuard, lock},
};
use crate::{
    driver::{Driver, DriverError, DriverErrorKind, HostKind, HostMemory, HostRange, HostSlab},
    pool::{Run, Slabs},
};
use std::{
    cell::Cell,
    sync::{Arc, Weak},
};

/// The host memory of one device's host copies and staging.
#[derive(Debug)]
pub struct HostTier {
    kind: HostKind,
    books: Arc<Mutex<Books>>,
    growing: Mutex<()>,
}

#[derive(Debug)]
struct Books {
    limit: u64,
    refusals: Refusals,
    slabs: Slabs,
    memory: Vec<Arc<HostSlab>>,
    held: HostUse,
}

/// What a host tier holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostUse {
    /// Pinned bytes of host copies and staging.
    pub pinned: u64,
    /// Ordinary bytes of host copies and staging.
    pub ordinary: u64,
    /// Pinned bytes beside those.
    pub spare: u64,
    /// The runs that they are in.
    pub runs: u64,
    /// The most runs of one of them so far.
    pub most_runs: u64,
}

/// Why a tier has no memory for a copy.
#[derive(Debug)]
pub enum NoRuns {
    /// There is no room within the limit, or the host has none.
    Full,
    /// The driver refused to pin, and not since memory is short.
    Refused(DriverError),
}

impl HostTier {
    /// A tier of memory of one kind, no more than `limit` bytes of it.
    pub fn new(kind: HostKind, limit: u64) -> HostTier {
        let (refusals, slabs, memory, held) = Default::default();
        let books = Books { limit, refusals, slabs, memory, held };
        HostTier { kind, books: Arc::new(Mutex::new(books)), growing: Mutex::new(()) }
    }

    /// Memory for a copy of `bytes` bytes.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn take(&self, driver: &dyn Driver, bytes: u64) -> Result<HostRuns, NoRuns> {
        match self.kind {
            _ if bytes == 0 => Ok(HostRuns::new([])),
            HostKind::Ordinary => self.take_ordinary(bytes).ok_or(NoRuns::Full),
            HostKind::Pinned => self.take_pinned(driver, bytes),
        }
    }

    /// How many bytes must be given back at least before there is room for a copy of `bytes` bytes.
    pub fn short(&self, bytes: u64) -> u64 {
        let books = lock(&self.books);
        let room = match self.kind {
            HostKind::Ordinary => books.limit.saturating_sub(books.held.ordinary),
            HostKind::Pinned => books.slabs.free().saturating_add(books.room_to_pin()),
        };
        bytes.saturating_sub(room)
    }

    fn take_ordinary(&self, bytes: u64) -> Option<HostRuns> {
        let taken = {
            let mut books = lock(&self.books);
            if books.held.ordinary.saturating_add(bytes) > books.limit {
                return None;
            }
            self.note(&mut books, HostKind::Ordinary, bytes, None)
        };
        let memory = HostMemory::ordinary(usize::try_from(bytes).ok()?)?;
        Some(HostRuns::new([taken.holding(memory)]))
    }

    fn take_pinned(&self, driver: &dyn Driver, bytes: u64) -> Result<HostRuns, NoRuns> {
        if let Some(runs) = self.cut(bytes) {
            return Ok(runs);
        }
        let _turn = self.turn_to_grow();
        loop {
            // Another thread may have pinned a slab meanwhile.
            if let Some(runs) = self.cut(bytes) {
                return Ok(runs);
            }
            self.grow(driver, bytes)?;
        }
    }

    /// Cuts a copy's memory from the slabs there are.
    fn cut(&self, bytes: u64) -> Option<HostRuns> {
        let mut books = lock(&self.books);
        let runs = books.slabs.take(bytes)?;
        books.held.most_runs = books.held.most_runs.max(runs.len() as u64);
        let mut left = bytes;
        let cut = runs.into_iter().map(|run| {
            let used = run.bytes.min(left);
            left = left.saturating_sub(used);
            let slab = &books.memory[run.slab.0];
            let part = slab.part(run.start as usize, used as usize);
            let part = part.expect("what is free in the books is no part that lives");
            self.note(&mut books, HostKind::Pinned, used, Some(run)).holding(part)
        });
        Some(HostRuns::new(cut))
    }

    /// Pins one slab more: as large as it should be, or if the driver has no room for that, as large as it must be.
    fn grow(&self, driver: &dyn Driver, bytes: u64) -> Result<(), NoRuns> {
        let (wanted, needed) = {
            let mut books = lock(&self.books);
            if !books.refusals.is_to_ask() {
                return Err(NoRuns::Full);
            }
            let size = |room| books.slabs.next_slab(bytes, room);
            (size(books.room_to_pin()).ok_or(NoRuns::Full)?, Slabs::needed(bytes).ok_or(NoRuns::Full)?)
        };
        for size in [wanted, needed] {
            match driver.allocate_host(usize::try_from(size).map_err(|_| NoRuns::Full)?) {
                Ok(memory) => {
                    let mut books = lock(&self.books);
                    books.refusals = Refusals::default();
                    books.slabs.add(size);
                    books.memory.push(HostSlab::new(memory));
                    return Ok(());
                }
                Err(error) if error.kind != DriverErrorKind::OutOfMemory => {
                    return Err(NoRuns::Refused(error));
                }
                Err(error) => {
                    tracing::warn!(target: "tack_residency", %error, bytes = size, "host memory is not pinned");
                }
            }
        }
        lock(&self.books).refusals.note();
        Err(NoRuns::Full)
    }

    /// Slabs are pinned one at a time. But a simulated device may do its work within the call that pins, and the buffers
    /// dropped there may have others spilled: that thread has its turn already.
    fn turn_to_grow(&self) -> Growing<'_> {
        let is_first = !GROWING.replace(true);
        Growing { is_first, _turn: is_first.then(|| lock(&self.growing)) }
    }

    /// Counts a run, until what this gives is dropped.
    fn note(&self, books: &mut Books, kind: HostKind, bytes: u64, run: Option<Run>) -> Taken {
        *books.held.bytes(kind) += bytes;
        books.held.runs += 1;
        Taken { books: Arc::downgrade(&self.books), kind, bytes, run }
    }

    /// What is held.
    pub fn held(&self) -> HostUse {
        let books = lock(&self.books);
        let spare = books.slabs.bytes().saturating_sub(books.held.pinned);
        HostUse { spare, ..books.held }
    }
}

impl HostUse {
    fn bytes(&mut self, kind: HostKind) -> &mut u64 {
        match kind {
            HostKind::Pinned => &mut self.pinned,
            HostKind::Ordinary => &mut self.ordinary,
        }
    }
}

impl Books {
    /// How many bytes more may be pinned.
    fn room_to_pin(&self) -> u64 {
        self.limit.saturating_sub(self.slabs.bytes())
    }
}

/// How often the driver had no memory to pin, time after time. It is asked less and less often then: its answer may take
/// long, and will most likely be the same.
#[derive(Debug, Default)]
struct Refusals {
    count: u32,
    /// How often it is not asked, before it is again.
    pass_by: u32,
}

impl Refusals {
    fn is_to_ask(&mut self) -> bool {
        let is_due = self.pass_by == 0;
        self.pass_by = self.pass_by.saturating_sub(1);
        is_due
    }

    fn note(&mut self) {
        self.pass_by = (1 << self.count.min(6)) - 1;
        self.count = self.count.saturating_add(1);
    }
}

/// A run that is counted: dropped, it is given back.
#[derive(Debug)]
struct Taken {
    books: Weak<Mutex<Books>>,
    kind: HostKind,
    bytes: u64,
    run: Option<Run>,
}

impl Taken {
    /// The run's memory, whose last holder gives it back.
    fn holding(self, memory: HostMemory) -> HostRange {
        HostRange::whole(Arc::new(memory.on_release(move || drop(self))))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let Some(books) = self.books.upgrade() else { return };
        let mut books = lock(&books);
        *books.held.bytes(self.kind) -= self.bytes;
        books.held.runs -= 1;
        if let Some(run) = self.run {
            books.slabs.give_back(run);
        }
    }
}

thread_local! {
    static GROWING: Cell<bool> = const { Cell::new(false) };
}

/// A thread's turn to pin a slab.
struct Growing<'a> {
    is_first: bool,
    _turn: Option<MutexGuard<'a, ()>>,
}

impl Drop for Growing<'_> {
    fn drop(&mut self) {
        if self.is_first {
            GROWING.set(false);
        }
    }
}
