//! The bytes behind one allocation: made when first touched, poisoned, locked for each access, recycled after.
//!
//! Never hands out bytes without the block's lock, so a kernel and a copy may tear each other but never race.

use crate::driver::aligned::Aligned;
use std::{
    collections::BTreeMap,
    fmt,
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

/// What an access has to touch: the whole of a block needs no poison first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::driver) enum Reach {
    Whole,
    Part,
}

/// The bytes of one allocation.
pub(in crate::driver) struct Block {
    len: usize,
    poison: Option<u8>,
    /// Where they come from and go to, of a device that keeps what is freed.
    spares: Option<Arc<Spares>>,
    bytes: RwLock<Lazy>,
}

impl Block {
    pub(in crate::driver) fn new(len: usize, poison: Option<u8>, spares: &Arc<Spares>) -> Block {
        Block { len, poison, spares: Some(Arc::clone(spares)), bytes: RwLock::new(Lazy(None)) }
    }

    /// A block of these bytes.
    pub(in crate::driver) fn holding(bytes: Aligned) -> Block {
        let (len, bytes) = (bytes.len(), RwLock::new(Lazy(Some(bytes))));
        Block { len, poison: None, spares: None, bytes }
    }

    /// # Panics
    ///
    /// If the bytes are not there and the host has no memory for them. Whoever runs work for a device turns that
    /// into a lost device.
    pub(in crate::driver) fn read(&self) -> RwLockReadGuard<'_, Lazy> {
        loop {
            let bytes = self.bytes.read().unwrap_or_else(PoisonError::into_inner);
            if bytes.0.is_some() {
                return bytes;
            }
            drop(bytes);
            drop(self.write(Reach::Part));
        }
    }

    /// # Panics
    ///
    /// As [`read`](Block::read).
    pub(in crate::driver) fn write(&self, reach: Reach) -> RwLockWriteGuard<'_, Lazy> {
        let mut bytes = self.bytes.write().unwrap_or_else(PoisonError::into_inner);
        assert!(self.make(&mut bytes, reach), "the host has no memory for {} bytes of this device", self.len);
        bytes
    }

    fn make(&self, bytes: &mut Lazy, reach: Reach) -> bool {
        if bytes.0.is_none() {
            bytes.0 = self.spares.as_ref().and_then(|spares| spares.take(self.len));
            if let (Some(poison), Reach::Part) = (self.poison, reach) {
                bytes.fill(poison);
            }
        }
        bytes.0.is_some()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let bytes = self.bytes.get_mut().unwrap_or_else(PoisonError::into_inner).0.take();
        if let (Some(spares), Some(bytes)) = (&self.spares, bytes) {
            spares.give(bytes);
        }
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("len", &self.len).finish_non_exhaustive()
    }
}

/// Bytes that exist once they have been touched; no bytes until then.
pub(in crate::driver) struct Lazy(Option<Aligned>);

impl Deref for Lazy {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl DerefMut for Lazy {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.0.as_deref_mut().unwrap_or_default()
    }
}

/// Host memory given back by freed blocks, kept for later blocks of the very same size: fresh pages would cost
/// more than the copy into them. Never keeps more than the most that blocks ever held at once.
#[derive(Default)]
pub(in crate::driver) struct Spares {
    shelf: Mutex<Shelf>,
}

#[derive(Default)]
struct Shelf {
    by_len: BTreeMap<usize, Vec<Aligned>>,
    spare_bytes: usize,
    used_bytes: usize,
    peak_bytes: usize,
}

impl Spares {
    fn take(&self, len: usize) -> Option<Aligned> {
        let mut dropped = Vec::new();
        let found = {
            let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
            shelf.used_bytes += len;
            shelf.peak_bytes = shelf.peak_bytes.max(shelf.used_bytes);
            let found = shelf.pop(len);
            while found.is_none() && shelf.used_bytes + shelf.spare_bytes > shelf.peak_bytes {
                let Some(longest) = shelf.by_len.keys().next_back().copied() else { break };
                dropped.extend(shelf.pop(longest));
            }
            found
        };
        drop(dropped);
        found.or_else(|| {
            let made = Aligned::zeroed(len);
            if made.is_none() {
                self.shelf.lock().unwrap_or_else(PoisonError::into_inner).used_bytes -= len;
            }
            made
        })
    }

    fn give(&self, bytes: Aligned) {
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        shelf.used_bytes -= bytes.len();
        shelf.spare_bytes += bytes.len();
        shelf.by_len.entry(bytes.len()).or_default().push(bytes);
    }
}

impl Shelf {
    fn pop(&mut self, len: usize) -> Option<Aligned> {
        let spares = self.by_len.get_mut(&len)?;
        let bytes = spares.pop();
        if spares.is_empty() {
            self.by_len.remove(&len);
        }
        self.spare_bytes -= bytes.as_ref().map_or(0, |bytes| bytes.len());
        bytes
    }
}

impl fmt::Debug for Spares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spares").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_touched_first_finds_poison_around_it_and_a_whole_needs_none() {
        let spares = Arc::new(Spares::default());
        let block = Block::new(100, Some(0xCD), &spares);
        block.write(Reach::Part)[0] = 1;
        assert_eq!(block.read()[..3], [1, 0xCD, 0xCD]);
        assert_eq!(block.read().as_ptr().addr() % 64, 0);
        let whole = Block::new(100, Some(0xCD), &spares);
        assert_eq!(whole.write(Reach::Whole)[0], 0);
    }

    #[test]
    fn spares_never_hold_more_than_the_peak() {
        let spares = Arc::new(Spares::default());
        for len in [100, 200, 300, 100, 300] {
            drop(Block::new(len, None, &spares).read());
            let shelf = spares.shelf.lock().unwrap();
            assert_eq!(shelf.used_bytes, 0);
            assert!(shelf.spare_bytes <= shelf.peak_bytes);
        }
    }
}
