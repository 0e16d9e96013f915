//! Handles of one kind: numbers that are never given twice, nor to two kinds, so that a stale one always shows.

use super::code::{self, Answer};
use std::collections::BTreeMap;

/// What is open of one kind, by handle.
#[derive(Debug)]
pub struct Handles<T> {
    live: BTreeMap<usize, T>,
    next: usize,
}

impl<T> Handles<T> {
    /// The `kind`-th kind of them.
    pub const fn new(kind: usize) -> Handles<T> {
        Handles { live: BTreeMap::new(), next: kind << 40 }
    }

    pub fn add(&mut self, value: T) -> usize {
        self.next += 64;
        self.live.insert(self.next, value);
        self.next
    }

    pub fn get(&self, handle: usize) -> Answer<&T> {
        self.live.get(&handle).ok_or(code::INVALID_HANDLE)
    }

    pub fn get_mut(&mut self, handle: usize) -> Answer<&mut T> {
        self.live.get_mut(&handle).ok_or(code::INVALID_HANDLE)
    }

    pub fn remove(&mut self, handle: usize) -> Answer<T> {
        self.live.remove(&handle).ok_or(code::INVALID_HANDLE)
    }

    pub fn len(&self) -> usize {
        self.live.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.live.iter().map(|(&handle, value)| (handle, value))
    }

    /// Takes out what `which` chooses.
    pub fn take(&mut self, which: impl Fn(&T) -> bool) -> Vec<T> {
        let taken: Vec<usize> =
            self.iter().filter(|(_, value)| which(value)).map(|(handle, _)| handle).collect();
        taken.iter().filter_map(|handle| self.live.remove(handle)).collect()
    }
}
