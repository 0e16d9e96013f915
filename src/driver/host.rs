//! Host memory that a device may copy to and from, kept alive by whoever still needs it.
#![allow(unsafe_code)]

use super::aligned::Aligned;
#[cfg(any(feature = "cuda", feature = "hip", feature = "level-zero"))]
use super::{DriverError, DriverErrorKind, Result, error::invalid};
#[cfg(any(feature = "cuda", feature = "hip", feature = "level-zero"))]
use std::ffi::c_void;
use std::{
    collections::BTreeMap,
    fmt,
    ptr::NonNull,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

/// What kind of host memory a block is.
///
/// ```
/// use tack_residency::driver::{Driver, HostKind, HostMemory, sim::{Config, Sim}};
///
/// let pinned = Sim::open(Config::new())?.allocate_host(4096)?;
/// assert_eq!(pinned.kind(), HostKind::Pinned);
/// assert_eq!(HostMemory::ordinary(4096).unwrap().kind(), HostKind::Ordinary);
/// # Ok::<(), tack_residency::driver::DriverError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum HostKind {
    /// Locked in place, so that the device copies it at full speed while the host goes on.
    Pinned,
    /// What the language's allocator gives.
    Ordinary,
}

type Release = Box<dyn FnOnce() + Send + Sync>;

/// A block of host memory. Its bytes are reached through calls that copy, under a lock of its own, so that a
/// simulated copy engine's thread and the host never race.
///
/// ```
/// use tack_residency::driver::HostMemory;
///
/// let memory = HostMemory::ordinary(4).expect("four bytes of host memory");
/// assert_eq!((memory.len(), memory.is_empty()), (4, false));
/// memory.fill(0, 4, 7);
/// memory.write(2, &[1]);
/// let mut bytes = [0; 3];
/// memory.read(1, &mut bytes);
/// assert_eq!(bytes, [7, 1, 7]);
/// ```
pub struct HostMemory {
    start: NonNull<u8>,
    bytes: usize,
    kind: HostKind,
    turn: RwLock<()>,
    release: Option<Release>,
}

// SAFETY: the bytes are this value's alone, since of a slab's parts that live no two overlap; every access to them goes
// through `turn`, or through a device's copy that the driver orders and keeps this value alive for.
unsafe impl Send for HostMemory {}
// SAFETY: as above; shared access is what `turn` is for.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Ordinary memory of `bytes`; none when the host refuses it. Its contents are zero.
    pub fn ordinary(bytes: usize) -> Option<HostMemory> {
        HostMemory::from_allocator(bytes, HostKind::Ordinary)
    }

    /// Memory of the language's allocator that a driver calls pinned (the simulated one).
    pub(super) fn from_allocator(bytes: usize, kind: HostKind) -> Option<HostMemory> {
        let memory = Aligned::zeroed(bytes)?;
        let start = memory.start();
        let release: Release = Box::new(move || drop(memory));
        Some(HostMemory { start, bytes, kind, turn: RwLock::new(()), release: Some(release) })
    }

    /// Memory that a driver's `call` gave.
    ///
    /// # Errors
    ///
    /// `Refused` if `start` is null.
    ///
    /// # Safety
    ///
    /// `start` has `bytes` bytes that are nobody else's until `release` is called, which frees them.
    #[cfg(any(feature = "cuda", feature = "hip", feature = "level-zero"))]
    pub(super) unsafe fn from_driver(
        call: &'static str,
        start: *mut u8,
        bytes: usize,
        kind: HostKind,
        release: impl FnOnce() + Send + Sync + 'static,
    ) -> Result<HostMemory> {
        let Some(start) = NonNull::new(start) else {
            let message = format!("no address for {bytes} bytes of pinned memory");
            return Err(DriverError::new(DriverErrorKind::Refused, call, 0, message));
        };
        let release: Release = Box::new(release);
        Ok(HostMemory { start, bytes, kind, turn: RwLock::new(()), release: Some(release) })
    }

    /// Where `bytes` bytes at `offset` are, for a device to copy; none if they are not within the block.
    #[cfg(any(feature = "cuda", feature = "hip", feature = "level-zero"))]
    pub(super) fn part(&self, offset: usize, bytes: usize) -> Option<NonNull<u8>> {
        let end = offset.checked_add(bytes).filter(|&end| end <= self.bytes);
        // SAFETY: the range is within the block, as just checked.
        end.map(|_| unsafe { self.start.add(offset) })
    }

    /// The same block, which calls `gone` when it has been freed.
    #[must_use]
    pub(crate) fn on_release(mut self, gone: impl FnOnce() + Send + Sync + 'static) -> HostMemory {
        let before = self.release.take();
        self.release = Some(Box::new(move || {
            if let Some(release) = before {
                release();
            }
            gone();
        }));
        self
    }

    /// Bytes in the block.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether the block has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// What kind of memory this is.
    pub fn kind(&self) -> HostKind {
        self.kind
    }

    /// Copies from the block at `offset` into `to`.
    ///
    /// # Panics
    ///
    /// If the range is not within the block.
    pub fn read(&self, offset: usize, to: &mut [u8]) {
        self.assert_within(offset, to.len());
        let _turn = self.turn.read().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the range is within the block, as just checked.
        let from = unsafe { self.start.as_ptr().add(offset) };
        // SAFETY: `from` has `to.len()` bytes, initialised at allocation; no one writes them while `turn` is held
        // for reading; `to` is the caller's alone, so the two do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
    }

    /// Copies `from` into the block at `offset`.
    ///
    /// # Panics
    ///
    /// If the range is not within the block.
    pub fn write(&self, offset: usize, from: &[u8]) {
        self.assert_within(offset, from.len());
        let _turn = self.turn.write().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the range is within the block, as just checked.
        let to = unsafe { self.start.as_ptr().add(offset) };
        // SAFETY: `to` has `from.len()` bytes that no one else touches while `turn` is held for writing.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
    }

    /// Sets `bytes` bytes at `offset` to `value`.
    ///
    /// # Panics
    ///
    /// If the range is not within the block.
    pub fn fill(&self, offset: usize, bytes: usize, value: u8) {
        self.assert_within(offset, bytes);
        let _turn = self.turn.write().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the range is within the block, as just checked.
        let to = unsafe { self.start.as_ptr().add(offset) };
        // SAFETY: `to` has `bytes` bytes that no one else touches while `turn` is held for writing.
        unsafe { std::ptr::write_bytes(to, value, bytes) };
    }

    /// Copies `bytes` bytes of another block, at `from_offset` there, to `offset` here.
    ///
    /// # Panics
    ///
    /// If a range is not within its block.
    pub(crate) fn copy_from(&self, offset: usize, from: &HostMemory, from_offset: usize, bytes: usize) {
        from.with_bytes(from_offset, bytes, |bytes| self.write(offset, bytes));
    }

    /// Lends `bytes` bytes at `offset` to `read`, with no copy between.
    ///
    /// # Panics
    ///
    /// If the range is not within the block.
    pub(crate) fn with_bytes<R>(&self, offset: usize, bytes: usize, read: impl FnOnce(&[u8]) -> R) -> R {
        self.assert_within(offset, bytes);
        let _turn = self.turn.read().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the range is within the block, as just checked.
        let from = unsafe { self.start.as_ptr().add(offset) };
        // SAFETY: `from` has `bytes` initialised bytes that no one writes while `turn` is held for reading.
        read(unsafe { std::slice::from_raw_parts(from, bytes) })
    }

    /// Lends `bytes` bytes at `offset` to `write`, with no copy between.
    ///
    /// # Panics
    ///
    /// If the range is not within the block.
    pub(super) fn with_bytes_mut<R>(
        &self,
        offset: usize,
        bytes: usize,
        write: impl FnOnce(&mut [u8]) -> R,
    ) -> R {
        self.assert_within(offset, bytes);
        let _turn = self.turn.write().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the range is within the block, as just checked.
        let to = unsafe { self.start.as_ptr().add(offset) };
        // SAFETY: `to` has `bytes` initialised bytes that no one else touches while `turn` is held for writing.
        write(unsafe { std::slice::from_raw_parts_mut(to, bytes) })
    }

    fn assert_within(&self, offset: usize, bytes: usize) {
        let end = offset.checked_add(bytes);
        assert!(end.is_some_and(|end| end <= self.bytes), "range outside the block of {} bytes", self.bytes);
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
            release();
        }
    }
}

impl fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostMemory").field("bytes", &self.bytes).field("kind", &self.kind).finish()
    }
}

/// A block cut into parts that are blocks of their own: each has its own turn, and keeps the whole alive.
///
/// Its bytes are reached through parts alone, and no two of them that live overlap.
pub(crate) struct HostSlab {
    whole: HostMemory,
    /// Where each part that lives starts, and where it ends.
    parts: Mutex<BTreeMap<usize, usize>>,
}

impl HostSlab {
    /// A block to be cut.
    pub(crate) fn new(whole: HostMemory) -> Arc<HostSlab> {
        Arc::new(HostSlab { whole, parts: Mutex::default() })
    }

    /// The part of `bytes` bytes at `offset`; none if it has no bytes, is not within the block, or overlaps a part that
    /// lives. Its contents are what the last part there left.
    pub(crate) fn part(self: &Arc<Self>, offset: usize, bytes: usize) -> Option<HostMemory> {
        let end = offset.checked_add(bytes).filter(|end| *end <= self.whole.bytes && bytes > 0)?;
        {
            let mut parts = self.parts();
            if parts.range(..end).next_back().is_some_and(|(_, before)| *before > offset) {
                return None;
            }
            parts.insert(offset, end);
        }
        // SAFETY: the range is within the block, as just checked.
        let start = unsafe { self.whole.start.add(offset) };
        let slab = Arc::clone(self);
        let release: Release = Box::new(move || _ = slab.parts().remove(&offset));
        Some(HostMemory {
            start,
            bytes,
            kind: self.whole.kind,
            turn: RwLock::new(()),
            release: Some(release),
        })
    }

    fn parts(&self) -> MutexGuard<'_, BTreeMap<usize, usize>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for HostSlab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostSlab").field("whole", &self.whole).finish_non_exhaustive()
    }
}

/// A part of a host block that a copy reads or writes. Cloning it keeps the block alive.
///
/// ```
/// use std::sync::Arc;
/// use tack_residency::driver::{HostMemory, HostRange};
///
/// let memory = Arc::new(HostMemory::ordinary(4096).expect("a page of host memory"));
/// let whole = HostRange::whole(memory.clone());
/// let half = HostRange { memory, offset: 2048, bytes: 2048 };
/// assert_eq!((whole.bytes, half.bytes), (4096, 2048));
/// ```
#[derive(Clone, Debug)]
pub struct HostRange {
    /// The block.
    pub memory: Arc<HostMemory>,
    /// Where the part starts, in bytes.
    pub offset: usize,
    /// How long it is, in bytes.
    pub bytes: usize,
}

impl HostRange {
    /// The whole of a block.
    pub fn whole(memory: Arc<HostMemory>) -> HostRange {
        let bytes = memory.len();
        HostRange { memory, offset: 0, bytes }
    }

    /// Where it starts, for a device to copy.
    #[cfg(any(feature = "cuda", feature = "hip", feature = "level-zero"))]
    pub(super) fn start(&self, call: &'static str) -> Result<*mut c_void> {
        let start = self.memory.part(self.offset, self.bytes);
        let start = start.ok_or_else(|| invalid(call, "the range runs past the end of its host memory"))?;
        Ok(start.as_ptr().cast())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_slab_do_not_overlap_while_they_live_and_keep_it_alive() {
        let gone = Arc::new(Mutex::new(0));
        let (note, noted) = (Arc::clone(&gone), || *gone.lock().unwrap());
        let whole = HostMemory::ordinary(100).expect("host memory");
        let slab = HostSlab::new(whole.on_release(move || *note.lock().unwrap() += 1));
        let first = slab.part(0, 40).expect("free");
        let last = slab.part(60, 40).expect("free");
        for (offset, bytes) in [(0, 40), (39, 1), (0, 100), (30, 31), (99, 1), (50, 20), (50, 0), (90, 20)] {
            assert!(slab.part(offset, bytes).is_none(), "{bytes} bytes at {offset}");
        }
        first.fill(0, 40, 1);
        let middle = slab.part(40, 20).expect("free");
        drop(first);
        let first = slab.part(10, 30).expect("free again");
        let mut byte = [0];
        first.read(29, &mut byte);
        assert_eq!(byte, [1], "what was there");
        drop((slab, middle, first));
        assert_eq!(noted(), 0, "a part lives");
        drop(last);
        assert_eq!(noted(), 1);
    }
}
