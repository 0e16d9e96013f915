//! The host memory of one copy, or of staging: one run of bytes, or a few that follow one another.

use crate::driver::{HostKind, HostMemory, HostRange, Result};
use std::{ops::Range, sync::Arc};

/// Host memory in runs. Each is copied by one call. The last clone gives them back to where they come from, once no
/// copy under way uses them either.
#[derive(Clone, Debug)]
pub struct HostRuns(Arc<[HostRange]>);

impl HostRuns {
    /// These runs, one after the other.
    pub fn new(runs: impl IntoIterator<Item = HostRange>) -> HostRuns {
        HostRuns(runs.into_iter().collect())
    }

    /// Calls `copy` for each run from the `first` on, with the bytes before it, until one call fails; how many there
    /// are behind now, counted from the first of all, and why it is not all.
    pub fn copy(
        &self,
        first: usize,
        mut copy: impl FnMut(u64, &HostRange) -> Result<()>,
    ) -> (usize, Result<()>) {
        let mut before = self.0.iter().take(first).map(|run| run.bytes as u64).sum();
        for (index, run) in self.0.iter().enumerate().skip(first) {
            if let Err(error) = copy(before, run) {
                return (index, Err(error));
            }
            before += run.bytes as u64;
        }
        (self.0.len(), Ok(()))
    }

    /// The `bytes` bytes at `offset` of them, in as many runs as they are in.
    pub fn part(&self, offset: u64, bytes: u64) -> HostRuns {
        let mut parts = Vec::new();
        self.each(offset as usize, bytes as usize, |memory, offset, part| {
            parts.push(HostRange { memory: memory.clone(), offset, bytes: part.len() });
        });
        HostRuns::new(parts)
    }

    /// Whether it is ordinary memory.
    pub fn is_ordinary(&self) -> bool {
        self.0.first().is_some_and(|run| run.memory.kind() == HostKind::Ordinary)
    }

    /// Copies from the bytes at `offset` into the whole of `to`.
    pub fn copy_to(&self, offset: u64, to: &HostRange) {
        self.each(offset as usize, to.bytes, |memory, at, part| {
            to.memory.copy_from(to.offset + part.start, memory, at, part.len());
        });
    }

    /// Copies the whole of `from` to the bytes at `offset`.
    pub fn copy_from(&self, offset: u64, from: &HostRange) {
        self.each(offset as usize, from.bytes, |memory, at, part| {
            memory.copy_from(at, &from.memory, from.offset + part.start, part.len());
        });
    }

    /// Copies from the bytes at `offset` into `to`.
    pub fn read(&self, offset: usize, to: &mut [u8]) {
        self.each(offset, to.len(), |memory, at, part| memory.read(at, &mut to[part]));
    }

    /// A copy of `bytes` bytes at `offset`; none if the host has no memory for it.
    pub fn to_vec(&self, offset: usize, bytes: usize) -> Option<Vec<u8>> {
        let mut copy = Vec::new();
        copy.try_reserve_exact(bytes).ok()?;
        self.each(offset, bytes, |memory, at, part| {
            memory.with_bytes(at, part.len(), |from| copy.extend_from_slice(from));
        });
        Some(copy)
    }

    /// Copies `from` to the bytes at `offset`.
    pub fn write(&self, offset: usize, from: &[u8]) {
        self.each(offset, from.len(), |memory, at, part| memory.write(at, &from[part]));
    }

    /// Sets `bytes` bytes at `offset` to `value`.
    pub fn fill(&self, offset: usize, bytes: usize, value: u8) {
        self.each(offset, bytes, |memory, at, part| memory.fill(at, part.len(), value));
    }

    /// Goes through `bytes` bytes at `offset`, run by run: where they are in each, and which of them.
    fn each(
        &self,
        offset: usize,
        bytes: usize,
        mut visit: impl FnMut(&Arc<HostMemory>, usize, Range<usize>),
    ) {
        let (mut before, mut done) = (0, 0);
        for run in self.0.iter() {
            let skipped = offset.saturating_sub(before).min(run.bytes);
            let part = (run.bytes - skipped).min(bytes - done);
            if part > 0 {
                visit(&run.memory, run.offset + skipped, done..done + part);
            }
            done += part;
            before += run.bytes;
        }
        assert!(done == bytes, "range outside host memory of {before} bytes");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::{DriverError, DriverErrorKind};

    /// Runs of these lengths, each in the midst of a block.
    fn runs(lengths: &[usize]) -> HostRuns {
        HostRuns::new(lengths.iter().map(|&bytes| {
            let memory = Arc::new(HostMemory::ordinary(bytes + 5).expect("host memory"));
            HostRange { memory, offset: 3, bytes }
        }))
    }

    #[test]
    fn any_part_of_a_few_runs_is_read_and_written_as_one() {
        let runs = runs(&[10, 1, 20]);
        let mut expected: Vec<u8> = (0..31).collect();
        runs.write(0, &expected);
        for (offset, bytes) in [(0, 31), (9, 3), (10, 1), (11, 20), (5, 0), (30, 1), (31, 0), (2, 9)] {
            let mut read = vec![0; bytes];
            runs.read(offset, &mut read);
            assert_eq!(read, expected[offset..offset + bytes], "{bytes} bytes at {offset}");
            assert_eq!(runs.to_vec(offset, bytes), Some(read.clone()));
            let mut part = vec![0; bytes];
            runs.part(offset as u64, bytes as u64).read(0, &mut part);
            assert_eq!(part, read, "{bytes} bytes at {offset}");
            let (memory, at) = (Arc::new(HostMemory::ordinary(40).expect("host memory")), offset as u64);
            let through = HostRange { memory, offset: 4, bytes };
            runs.copy_to(at, &through);
            runs.fill(offset, bytes, 0);
            runs.copy_from(at, &through);
            runs.read(offset, &mut part);
            assert_eq!(part, read, "{bytes} bytes at {offset}, through others");
            let value = 100 + offset as u8;
            runs.fill(offset, bytes, value);
            expected[offset..offset + bytes].fill(value);
        }
        let mut all = vec![0; 31];
        runs.read(0, &mut all);
        assert_eq!(all, expected);
        let mut around = [1; 3];
        runs.0[2].memory.read(0, &mut around);
        assert_eq!(around, [0; 3]);
    }

    #[test]
    #[should_panic(expected = "outside host memory of 11 bytes")]
    fn what_is_outside_is_not_read() {
        runs(&[10, 1]).read(9, &mut [0; 3]);
    }

    #[test]
    fn a_copy_that_fails_in_the_midst_goes_on_where_it_was() {
        let runs = runs(&[10, 1, 20]);
        let mut calls = Vec::new();
        let mut copy = |first, refused| {
            runs.copy(first, |before, run| {
                calls.push((before, run.bytes));
                let error = DriverError::new(DriverErrorKind::Refused, "copy_out", 0, "on purpose");
                if before == refused { Err(error) } else { Ok(()) }
            })
        };
        assert!(matches!(copy(0, 10), (1, Err(_))));
        assert!(matches!(copy(1, 0), (3, Ok(()))));
        assert_eq!(calls, [(0, 10), (10, 1), (10, 1), (11, 20)]);
    }
}
