//! Where host copies and staging live: in runs of slabs that are pinned once and reused, or in ordinary memory, which is
//! the only kind asked for, or what is beyond the limit of the other.
//!
//! Unpins nothing while its device lives. The books' lock is the last one taken: drivers let go of runs under locks of
//! their own. No lock is held while memory is pinned: a driver may do the device's work meanwhile, and that may have
//! buffers spilled.

use super::{
    HostRuns,
    sync::{Event, Mutex, lock},
};
use crate::{
    driver::{Driver, DriverError, DriverErrorKind, HostKind, HostMemory, HostRange, HostSlab},
    pool::{BLOCK, Run, Slabs},
};
use std::{
    sync::{Arc, Weak},
    time::Duration,
};

/// How long a copy waits for what others are pinning at the limit. Whoever pins may be waiting for this very thread.
const PATIENCE: Duration = Duration::from_millis(500);

/// A ring has this many chunks: one is copied by the device, one is queued behind it, and one is copied by the host.
const CHUNKS: u64 = 3;

/// The bytes of a chunk, unless the limit of pinned memory is less than [`SHARE`] of them: then it is that share of the
/// limit.
const CHUNK: u64 = 1 << 20;
const SHARE: u64 = 16;

/// The host memory of one device's host copies and staging.
#[derive(Debug)]
pub struct HostTier {
    kind: HostKind,
    books: Arc<Mutex<Books>>,
    /// Rung when memory has been pinned, or has not.
    grown: Event,
}

#[derive(Debug)]
struct Books {
    /// The most bytes of all memory, and of what is pinned.
    limit: u64,
    pinned_limit: u64,
    refusals: Refusals,
    ring_refusals: Refusals,
    /// Bytes that rings have of the limits, and how many of them are pinned.
    rings: u64,
    pinned_rings: u64,
    slabs: Slabs,
    /// Bytes that are being pinned.
    coming: u64,
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
    /// A tier of memory of one kind, no more than `limit` bytes of it. Of pinned memory no more than `pinned_limit`
    /// bytes, and ordinary memory beyond that.
    pub fn new(kind: HostKind, limit: u64, pinned_limit: u64) -> HostTier {
        let (refusals, ring_refusals, slabs, coming, memory, held) = Default::default();
        let mut books = Books {
            limit,
            pinned_limit,
            refusals,
            ring_refusals,
            rings: 0,
            pinned_rings: 0,
            slabs,
            coming,
            memory,
            held,
        };
        if books.is_tiered() && kind == HostKind::Pinned {
            // They will be needed, and there would be no room for them then.
            books.rings = 2 * CHUNKS * books.chunk();
        }
        HostTier { kind, books: Arc::new(Mutex::new(books)), grown: Event::new() }
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
            HostKind::Pinned => match self.take_pinned(driver, bytes) {
                Err(NoRuns::Refused(error)) if error.kind == DriverErrorKind::Lost => {
                    Err(NoRuns::Refused(error))
                }
                taken => taken.or_else(|none| self.take_ordinary(bytes).ok_or(none)),
            },
        }
    }

    /// Whether a copy goes through a ring, if there is one.
    pub fn is_ringed(&self, copy: &HostRuns) -> bool {
        self.kind == HostKind::Pinned && copy.is_ordinary()
    }

    /// Pins the chunks of a ring; none if there is no room for them, or the driver refuses.
    pub fn pin_ring(&self, driver: &dyn Driver) -> Option<Vec<HostRange>> {
        let (chunk, bytes, added) = {
            let mut books = lock(&self.books);
            let chunk = books.chunk();
            let bytes = CHUNKS * chunk;
            let added = if books.is_tiered() { 0 } else { bytes };
            if bytes == 0 || added > books.room_to_pin() || !books.ring_refusals.is_to_ask() {
                return None;
            }
            books.rings += added;
            (usize::try_from(chunk).ok()?, bytes, added)
        };
        match driver.allocate_host(chunk * CHUNKS as usize) {
            Ok(memory) => {
                lock(&self.books).pinned_rings += bytes;
                let slab = HostSlab::new(memory);
                let part =
                    |number| slab.part(number * chunk, chunk).map(|part| HostRange::whole(Arc::new(part)));
                (0..CHUNKS as usize).map(part).collect()
            }
            Err(error) => {
                tracing::warn!(target: "tack_residency", %error, bytes, "a ring is not pinned");
                let mut books = lock(&self.books);
                books.rings -= added;
                books.ring_refusals.note();
                None
            }
        }
    }

    /// How many bytes must be given back at least before there is room for a copy of `bytes` bytes.
    pub fn short(&self, bytes: u64) -> u64 {
        let books = lock(&self.books);
        let pinned = books.slabs.free().saturating_add(books.room_to_pin());
        bytes.saturating_sub(pinned.max(books.room()))
    }

    fn take_ordinary(&self, bytes: u64) -> Option<HostRuns> {
        let taken = {
            let mut books = lock(&self.books);
            if bytes > books.room() {
                return None;
            }
            self.note(&mut books, HostKind::Ordinary, bytes, None)
        };
        let memory = HostMemory::ordinary(usize::try_from(bytes).ok()?)?;
        Some(HostRuns::new([taken.holding(memory)]))
    }

    fn take_pinned(&self, driver: &dyn Driver, bytes: u64) -> Result<HostRuns, NoRuns> {
        let mut is_patient = true;
        loop {
            let grown = self.grown.listen();
            let pinning = {
                let mut books = lock(&self.books);
                if let Some(runs) = self.cut(&mut books, bytes) {
                    return Ok(runs);
                }
                match self.pinning(&mut books, bytes) {
                    None if books.coming == 0 || !is_patient => return Err(NoRuns::Full),
                    pinning => pinning,
                }
            };
            match pinning {
                Some(pinning) => pinning.pin(driver, bytes)?,
                None => is_patient = grown.wait_timeout(PATIENCE).is_some(),
            }
        }
    }

    /// Cuts a copy's memory from the slabs there are.
    fn cut(&self, books: &mut Books, bytes: u64) -> Option<HostRuns> {
        let runs = books.slabs.take(bytes)?;
        books.held.most_runs = books.held.most_runs.max(runs.len() as u64);
        let mut left = bytes;
        let cut = runs.into_iter().map(|run| {
            let used = run.bytes.min(left);
            left = left.saturating_sub(used);
            let slab = &books.memory[run.slab.0];
            let part = slab.part(run.start as usize, used as usize);
            let part = part.expect("what is free in the books is no part that lives");
            self.note(books, HostKind::Pinned, used, Some(run)).holding(part)
        });
        Some(HostRuns::new(cut))
    }

    /// One slab more to be pinned, as large as it should be; none where there is no room, or the driver is not asked.
    fn pinning(&self, books: &mut Books, bytes: u64) -> Option<Pinning<'_>> {
        let bytes = books.slabs.next_slab(bytes, books.room_to_pin())?;
        books.refusals.is_to_ask().then(|| {
            books.coming += bytes;
            Pinning { tier: self, bytes }
        })
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
        let pinned = books.slabs.bytes() + books.pinned_rings;
        let spare = pinned.saturating_sub(books.held.pinned);
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
    /// Whether pinned memory has a limit of its own.
    fn is_tiered(&self) -> bool {
        self.pinned_limit < self.limit
    }

    /// The bytes of a chunk: whole blocks, as long as they are that large.
    fn chunk(&self) -> u64 {
        let share = CHUNK.min(self.limit.min(self.pinned_limit) / SHARE);
        if share < BLOCK { share } else { share - share % BLOCK }
    }

    /// What is pinned, or is to be.
    fn pinned(&self) -> u64 {
        self.slabs.bytes() + self.coming + self.rings
    }

    /// How many bytes more there may be.
    fn room(&self) -> u64 {
        self.limit.saturating_sub(self.pinned()).saturating_sub(self.held.ordinary)
    }

    /// How many bytes more may be pinned.
    fn room_to_pin(&self) -> u64 {
        self.pinned_limit.saturating_sub(self.pinned()).min(self.room())
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

/// A slab that is being pinned, counted against the limit until it is in the books or is not.
struct Pinning<'a> {
    tier: &'a HostTier,
    bytes: u64,
}

impl Pinning<'_> {
    /// Pins it; or if the driver has no room for that, one as large as a copy of `bytes` bytes needs.
    fn pin(mut self, driver: &dyn Driver, bytes: u64) -> Result<(), NoRuns> {
        loop {
            let size = usize::try_from(self.bytes).map_err(|_| NoRuns::Full)?;
            let pinned = driver.allocate_host(size);
            let mut books = lock(&self.tier.books);
            match pinned {
                Ok(memory) => {
                    books.refusals = Refusals::default();
                    books.slabs.add(self.bytes);
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
            let needed = Slabs::needed(bytes).unwrap_or_default();
            if self.bytes == needed {
                books.refusals.note();
                return Err(NoRuns::Full);
            }
            books.coming = books.coming - self.bytes + needed;
            self.bytes = needed;
        }
    }
}

impl Drop for Pinning<'_> {
    fn drop(&mut self) {
        lock(&self.tier.books).coming -= self.bytes;
        self.tier.grown.notify(usize::MAX);
    }
}
