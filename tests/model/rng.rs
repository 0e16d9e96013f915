//! A small generator of random numbers (splitmix64), so that a seed means the same steps for ever.

use std::{cell::Cell, ops::Range};

pub struct Rng(Cell<u64>);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(Cell::new(seed.wrapping_mul(0xA076_1D64_78BD_642F) ^ 0x2545_F491_4F6C_DD1D))
    }

    pub fn next(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.0.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number in `range`; its start if that is empty.
    pub fn within(&self, range: Range<u64>) -> u64 {
        range.start + self.next() % range.end.saturating_sub(range.start).max(1)
    }

    pub fn one_in(&self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }

    /// An index into `len` things; none if there are none.
    pub fn index(&self, len: usize) -> Option<usize> {
        (len > 0).then(|| self.within(0..len as u64) as usize)
    }

    pub fn pick<T: Copy>(&self, from: &[T]) -> T {
        from[self.within(0..from.len() as u64) as usize]
    }

    pub fn bytes(&self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}
