//! What is in a program's buffers: each kernel mixes every byte that it reads into every byte that it writes.
//!
//! A byte that is lost or stale changes what the next reader of it gives to the digest, and all that follows from it.

use std::sync::atomic::{AtomicU64, Ordering};
use tack_residency::{Use, driver::Arg};

/// How a launch uses a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    Read,
    ReadWrite,
    /// All of it is overwritten.
    Write,
}

impl How {
    /// That use of a buffer.
    pub fn of<'a>(self, buffer: impl Into<Use<'a>>) -> Use<'a> {
        match self {
            How::Read => Use::read(buffer),
            How::ReadWrite => Use::read_write(buffer),
            How::Write => Use::write(buffer),
        }
    }
}

/// The sum of all that was read: by kernels, by the host, and at the end. The order of the sum does not matter.
#[derive(Debug, Default)]
pub struct Digest(AtomicU64);

impl Digest {
    /// Adds what was read at a place of the program.
    pub fn read(&self, place: usize, bytes: &[u8]) {
        self.add(hash(seed(place as u64), bytes));
    }

    fn add(&self, hash: u64) {
        self.0.fetch_add(avalanche(hash), Ordering::Relaxed);
    }

    /// The sum so far.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// What the host puts into a new buffer.
pub fn fresh(buffer: usize, bytes: u64) -> Vec<u8> {
    let mut content = vec![0; bytes as usize];
    stir(!seed(buffer as u64), &mut content);
    content
}

/// The body of the kernel at a place of the program.
pub fn mix(place: usize, hows: &[How], args: &mut [Arg<'_>], digest: &Digest) {
    let mut state = seed(place as u64);
    for (how, arg) in hows.iter().zip(&*args) {
        if *how != How::Write {
            state = hash(state, arg.bytes());
        }
    }
    digest.add(state);
    for (index, (how, arg)) in hows.iter().zip(args).enumerate() {
        if *how == How::Write {
            arg.bytes_mut().fill(0);
        }
        if *how != How::Read {
            stir(state ^ seed(index as u64), arg.bytes_mut());
        }
    }
}

/// What all bytes come to, in their order.
fn hash(mut state: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        state = step(state, u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    step(step(state, u64::from_le_bytes(last)), bytes.len() as u64)
}

/// Different for each word, whatever the state; and for each state, whatever the word.
fn step(state: u64, word: u64) -> u64 {
    let mixed = (state ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

/// Changes every byte by a stream of numbers of its own (SplitMix64).
fn stir(mut state: u64, bytes: &mut [u8]) {
    let (words, rest) = bytes.as_chunks_mut::<8>();
    for word in words {
        state = seed(state);
        *word = (u64::from_le_bytes(*word) ^ avalanche(state)).to_le_bytes();
    }
    let last = avalanche(seed(state)).to_le_bytes();
    rest.iter_mut().zip(last).for_each(|(byte, key)| *byte ^= key);
}

fn seed(number: u64) -> u64 {
    number.wrapping_add(0x9e37_79b9_7f4a_7c15)
}

fn avalanche(number: u64) -> u64 {
    let mixed = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bit_of_any_byte_read_changes_every_word_written() {
        let (input, mut first) = (fresh(1, 21), vec![0; 19]);
        let run = |input: &[u8], output: &mut [u8]| {
            let digest = Digest::default();
            mix(3, &[How::Read, How::Write], &mut [Arg::Read(input), Arg::Write(output)], &digest);
            digest.value()
        };
        let right = run(&input, &mut first);
        for bit in 0..input.len() * 8 {
            let (mut wrong, mut output) = (input.clone(), vec![0; 19]);
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(run(&wrong, &mut output), right, "bit {bit}");
            let words = first.chunks(8).zip(output.chunks(8));
            assert!({ words }.all(|(right, wrong)| right != wrong), "bit {bit}");
        }
    }

    #[test]
    fn what_is_overwritten_does_not_count_and_what_is_updated_does() {
        for (how, counts) in [(How::Write, false), (How::ReadWrite, true)] {
            let results = [0, 1].map(|old| {
                let mut bytes = vec![old; 16];
                let digest = Digest::default();
                mix(0, &[how], &mut [Arg::Write(&mut bytes)], &digest);
                (bytes, digest.value())
            });
            assert_eq!(results[0] != results[1], counts, "{how:?}");
        }
    }
}
