//! Which parts of a few slabs are free, and which of them a copy takes: one run where one is long enough, else a few.
//!
//! The same calls give the same runs.

use std::collections::{BTreeMap, BTreeSet};

/// What runs are rounded up to, in bytes: small copies lie side by side in a slab.
pub const BLOCK: u64 = 256;

/// The most runs of one copy, and the bytes that a run of several has on average at least: below that, calls would take
/// longer than bytes (10 µs a call against 20 µs for half a MiB at 24 GB/s).
///
/// Measured on random sizes and lifetimes, 2 GiB alive at most (November 2026): with 8 runs, slabs grow to 1.01–1.05 of
/// the most that was alive, and a copy is 1.002–1.11 runs; with one run, to 1.1–1.7. Blocks of 4 or 64 KiB, sizes
/// rounded up to a sixteenth of themselves, and first fit do no better.
const MOST_RUNS: u64 = 8;
const RUN: u64 = 512 << 10;

/// A slab has an eighth of the bytes of all before it, so that no more than that is spare for long; but this many at
/// least, and this many at most, unless a copy needs more.
const GROWTH: u64 = 8;
const LEAST_SLAB: u64 = 64 << 10;
const MOST_SLAB: u64 = 64 << 20;

/// One of the slabs, in the order in which they were added.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SlabId(pub usize);

/// A part of a slab that is taken as one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Run {
    /// The slab.
    pub slab: SlabId,
    /// Where it starts there, in bytes.
    pub start: u64,
    /// How long it is, in bytes: rounded up, so the last one of a copy may be longer than what was asked.
    pub bytes: u64,
}

/// Where a free part starts.
type Place = (SlabId, u64);

/// The free parts of slabs. Two that touch are one.
#[derive(Debug, Default)]
pub struct Slabs {
    sizes: Vec<u64>,
    by_place: BTreeMap<Place, u64>,
    by_length: BTreeSet<(u64, Place)>,
    free: u64,
}

impl Slabs {
    /// Bytes in all slabs.
    pub fn bytes(&self) -> u64 {
        self.sizes.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// Bytes in free parts.
    pub fn free(&self) -> u64 {
        self.free
    }

    /// What a copy of `bytes` bytes takes: whole blocks. None for no bytes, or for more than can be.
    pub fn needed(bytes: u64) -> Option<u64> {
        bytes.checked_next_multiple_of(BLOCK).filter(|needed| *needed > 0)
    }

    /// The bytes of the next slab, if one is wanted for a copy of `bytes` bytes that [`take`](Slabs::take) finds no runs
    /// for, and `room` bytes more may be had: a share of what there is already, so that few calls make many, in whole
    /// copies of this size, since others like it will come. None if one is more than `room`.
    pub fn next_slab(&self, bytes: u64, room: u64) -> Option<u64> {
        let needed = Slabs::needed(bytes)?;
        let grown = self.bytes().checked_div(GROWTH).unwrap_or_default();
        let most = grown.clamp(LEAST_SLAB, MOST_SLAB).min(room);
        let wanted = most.saturating_sub(most.checked_rem(needed)?).max(needed);
        (needed <= room).then_some(wanted)
    }

    /// Adds a slab of `bytes` bytes, all of it free.
    pub fn add(&mut self, bytes: u64) -> SlabId {
        let slab = SlabId(self.sizes.len());
        self.sizes.push(bytes);
        self.free = self.free.saturating_add(bytes);
        self.insert((slab, 0), bytes);
        slab
    }

    /// Takes `bytes` bytes in one run, or in a few if no free part is long enough; none if a few are not.
    pub fn take(&mut self, bytes: u64) -> Option<Vec<Run>> {
        let mut left = Slabs::needed(bytes)?;
        if let Some(run) = self.take_best(left) {
            return Some(vec![run]);
        }
        let most = usize::try_from((left / RUN).clamp(1, MOST_RUNS)).ok()?;
        let longest = || self.by_length.iter().rev().take(most);
        if longest().fold(0u64, |sum, (length, _)| sum.saturating_add(*length)) < left {
            return None;
        }
        let longest: Vec<_> = longest().copied().collect();
        let mut runs = Vec::with_capacity(most);
        for (length, place) in longest {
            if length >= left {
                runs.extend(self.take_best(left));
                break;
            }
            runs.push(self.carve(place, length, length));
            left = left.saturating_sub(length);
        }
        Some(runs)
    }

    /// Takes one run from the shortest free part that holds it.
    fn take_best(&mut self, bytes: u64) -> Option<Run> {
        let (length, place) = self.by_length.range((bytes, (SlabId(0), 0))..).next().copied()?;
        Some(self.carve(place, length, bytes))
    }

    /// Takes the first `bytes` bytes of a free part.
    fn carve(&mut self, place: Place, length: u64, bytes: u64) -> Run {
        self.remove(place, length);
        self.free = self.free.saturating_sub(bytes);
        let (slab, start) = place;
        if length > bytes {
            self.insert((slab, start.saturating_add(bytes)), length.saturating_sub(bytes));
        }
        Run { slab, start, bytes }
    }

    /// Gives a run back that [`take`](Slabs::take) gave.
    pub fn give_back(&mut self, run: Run) {
        let Run { slab, mut start, mut bytes } = run;
        self.free = self.free.saturating_add(bytes);
        let behind = (slab, start.saturating_add(bytes));
        if let Some(&length) = self.by_place.get(&behind) {
            self.remove(behind, length);
            bytes = bytes.saturating_add(length);
        }
        let before =
            self.by_place.range(..(slab, start)).next_back().map(|(place, length)| (*place, *length));
        if let Some((place, length)) = before
            && (place.0, place.1.saturating_add(length)) == (slab, start)
        {
            self.remove(place, length);
            start = place.1;
            bytes = bytes.saturating_add(length);
        }
        self.insert((slab, start), bytes);
    }

    fn insert(&mut self, place: Place, length: u64) {
        self.by_place.insert(place, length);
        self.by_length.insert((length, place));
    }

    fn remove(&mut self, place: Place, length: u64) {
        self.by_place.remove(&place);
        self.by_length.remove(&(length, place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    /// A generator of numbers that look random (xorshift).
    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % bound
        }

        /// From 1 byte to `2 << scales`, as many of each scale.
        fn size(&mut self, scales: u64) -> u64 {
            let scale = 1 << self.below(scales + 1);
            1 + scale + self.below(scale)
        }
    }

    /// Takes, growing as needed and allowed.
    fn take(slabs: &mut Slabs, bytes: u64, limit: u64) -> Option<Vec<Run>> {
        slabs.take(bytes).or_else(|| {
            let slab = slabs.next_slab(bytes, limit - slabs.bytes())?;
            slabs.add(slab);
            Some(slabs.take(bytes).expect("the slab was made for it"))
        })
    }

    fn sum(runs: &[Run]) -> u64 {
        runs.iter().map(|run| run.bytes).sum()
    }

    /// Every block of every slab, and whether it is taken.
    #[derive(Default)]
    struct Naive(Vec<Vec<bool>>);

    impl Naive {
        fn mark(&mut self, run: Run, taken: bool) {
            let blocks = &mut self.0[run.slab.0];
            assert!(run.bytes > 0 && (run.start | run.bytes).is_multiple_of(BLOCK));
            for block in &mut blocks[(run.start / BLOCK) as usize..((run.start + run.bytes) / BLOCK) as usize]
            {
                assert_ne!(std::mem::replace(block, taken), taken, "{run:?} is taken or free twice");
            }
        }

        /// The lengths of its free parts, longest first.
        fn free_parts(&self) -> Vec<u64> {
            let parts = self.0.iter().flat_map(|blocks| blocks.split(|taken| *taken));
            let mut lengths: Vec<_> =
                parts.map(|part| part.len() as u64 * BLOCK).filter(|len| *len > 0).collect();
            lengths.sort_by_key(|length| std::cmp::Reverse(*length));
            lengths
        }
    }

    #[test]
    fn random_steps_do_what_a_naive_model_does() {
        for seed in 1..=12 {
            println!("seed {seed}");
            let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ seed << 32);
            let limit = (1 + random.below(5)) * MIB;
            let (mut slabs, mut naive) = (Slabs::default(), Naive::default());
            let mut live: Vec<(u64, Vec<Run>)> = Vec::new();
            for _ in 0..300 {
                if random.below(5) < 3 {
                    let bytes = random.size(20);
                    let needed = Slabs::needed(bytes).unwrap();
                    let parts = naive.free_parts();
                    let most = (needed / RUN).clamp(1, MOST_RUNS) as usize;
                    let fits = parts.iter().take(most).sum::<u64>() >= needed;
                    let taken = slabs.take(bytes);
                    assert_eq!(taken.is_some(), fits, "{bytes} of {parts:?}");
                    let taken = taken.or_else(|| take(&mut slabs, bytes, limit));
                    naive.0.resize_with(slabs.sizes.len(), Vec::new);
                    for (blocks, size) in naive.0.iter_mut().zip(&slabs.sizes) {
                        blocks.resize((size / BLOCK) as usize, false);
                    }
                    let Some(runs) = taken else { continue };
                    assert_eq!(sum(&runs), needed);
                    assert!(runs.len() <= most, "{} runs for {bytes}", runs.len());
                    assert!(runs.len() == 1 || parts[0] < needed, "one part was long enough");
                    runs.iter().for_each(|run| naive.mark(*run, true));
                    live.push((bytes, runs));
                } else if !live.is_empty() {
                    let (_, runs) = live.swap_remove(random.below(live.len() as u64) as usize);
                    for run in runs {
                        naive.mark(run, false);
                        slabs.give_back(run);
                    }
                }
                let parts = naive.free_parts();
                assert_eq!(slabs.free(), parts.iter().sum());
                assert_eq!(slabs.by_place.len(), parts.len(), "free parts that touch are one");
                assert!(slabs.bytes() <= limit);
            }
            live.into_iter().flat_map(|(_, runs)| runs).for_each(|run| slabs.give_back(run));
            assert_eq!(slabs.free(), slabs.bytes());
            assert_eq!(slabs.by_length.len(), slabs.sizes.len(), "each slab is whole again");
        }
    }

    #[test]
    fn a_copy_takes_an_eighth_more_than_its_bytes_at_most_and_a_small_one_a_block() {
        let mut random = Random(7);
        for scale in 12..=26 {
            for bytes in [1u64 << scale, (1 << scale) + 1, (1 << scale) + random.below(1 << scale)] {
                let mut slabs = Slabs::default();
                let taken = sum(&take(&mut slabs, bytes, u64::MAX).unwrap());
                println!(
                    "{bytes:>9} bytes take {taken:>9}: {:.4} %",
                    (taken - bytes) as f64 * 100.0 / bytes as f64
                );
                assert!(bytes < MIB || taken - bytes <= bytes / 8);
                assert!(taken - bytes < BLOCK);
            }
        }
        let mut slabs = Slabs::default();
        for _ in 0..LEAST_SLAB / BLOCK {
            take(&mut slabs, 100, u64::MAX).unwrap();
        }
        assert_eq!((slabs.bytes(), slabs.free()), (LEAST_SLAB, 0));
    }

    #[test]
    fn slabs_stop_growing_and_hold_little_more_than_the_most_that_was_alive() {
        for (seed, most_alive) in [(1, 64 * MIB), (2, 256 * MIB), (3, 1024 * MIB)] {
            let mut random = Random(seed);
            let mut slabs = Slabs::default();
            let mut live: Vec<(u64, Vec<Run>)> = Vec::new();
            let (mut alive, mut peak, mut runs, mut copies) = (0, 0, 0, 0);
            let mut settled = 0;
            for step in 0..40_000 {
                let bytes = random.size(22);
                while alive + bytes > most_alive {
                    let (bytes, runs) = live.swap_remove(random.below(live.len() as u64) as usize);
                    alive -= bytes;
                    runs.into_iter().for_each(|run| slabs.give_back(run));
                }
                let taken = take(&mut slabs, bytes, u64::MAX).expect("no limit");
                (alive, runs, copies) = (alive + bytes, runs + taken.len(), copies + 1);
                peak = peak.max(alive);
                live.push((bytes, taken));
                if step == 20_000 {
                    settled = slabs.bytes();
                }
            }
            let (held, per_copy) = (slabs.bytes() as f64 / peak as f64, runs as f64 / copies as f64);
            println!("at most {most_alive}: slabs hold {held:.3} of the peak, a copy is {per_copy:.3} runs");
            assert_eq!(slabs.bytes(), settled, "nothing is pinned once the program has settled");
            assert!(slabs.bytes() <= peak + peak / 4, "too much is spare");
            assert!(per_copy < 1.1);
        }
    }

    #[test]
    fn a_limit_is_kept_to_the_block_and_slabs_grow_with_what_there_is() {
        let mut slabs = Slabs::default();
        assert_eq!(slabs.next_slab(100, 255), None);
        assert_eq!(slabs.next_slab(100, 1000), Some(768));
        assert_eq!(slabs.next_slab(100, u64::MAX), Some(LEAST_SLAB));
        assert_eq!(slabs.next_slab(20_000, u64::MAX), Some(3 * 20_224));
        assert_eq!(slabs.next_slab(3 * MIB + 1, u64::MAX), Some(3 * MIB + BLOCK));
        slabs.add(24 * MIB);
        assert_eq!(slabs.next_slab(100, u64::MAX), Some(3 * MIB));
        assert_eq!(slabs.next_slab(2 * MIB, u64::MAX), Some(2 * MIB));
        assert_eq!(slabs.next_slab(100, 2 * MIB), Some(2 * MIB));
        slabs.add(3000 * MIB);
        assert_eq!(slabs.next_slab(100, u64::MAX), Some(MOST_SLAB));
        assert_eq!(
            (slabs.take(0), slabs.take(u64::MAX), slabs.next_slab(u64::MAX, u64::MAX)),
            (None, None, None)
        );
    }

    #[test]
    fn a_copy_that_no_part_holds_lies_in_the_longest_ones_and_ends_in_the_best() {
        let mut slabs = Slabs::default();
        for bytes in [MIB, 2 * MIB, 600 * KIB] {
            slabs.add(bytes);
        }
        let runs = slabs.take(3 * MIB + 100 * KIB).expect("in three");
        let lengths: Vec<_> = runs.iter().map(|run| (run.slab.0, run.bytes)).collect();
        assert_eq!(lengths, [(1, 2 * MIB), (0, MIB), (2, 100 * KIB)]);
        runs.into_iter().for_each(|run| slabs.give_back(run));
        let small = slabs.take(400 * KIB).expect("in one");
        assert_eq!((small.len(), small[0].slab), (1, SlabId(2)));
        // What is left, of 1 MiB, 2 MiB and 200 KiB, would do, but not in as few runs as so few bytes may have.
        slabs.take(2 * MIB).expect("in one");
        assert_eq!(slabs.take(MIB + 100 * KIB).map(|runs| runs.len()), Some(2));
        assert_eq!(slabs.take(101 * KIB), None);
    }
}
