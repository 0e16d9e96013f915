//! A ring: a few pinned chunks that copies in one direction go through whose memory on the host is ordinary, since a
//! driver that was given that would wait.
//!
//! Nobody waits for a chunk: a copy that finds none is taken up when one is given back.

use crate::driver::HostRange;

/// The chunks of one direction that no copy has.
#[derive(Debug, Default)]
pub struct Ring {
    free: Vec<HostRange>,
    is_made: bool,
}

impl Ring {
    /// Its chunks are pinned.
    pub fn make(&mut self, chunks: Vec<HostRange>) {
        (self.free, self.is_made) = (chunks, true);
    }

    /// Whether it has chunks, free or not.
    pub fn is_made(&self) -> bool {
        self.is_made
    }

    /// Whether a chunk is free.
    pub fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// Takes `bytes` bytes of a free chunk, or all of it if that is less.
    pub fn take(&mut self, bytes: u64) -> Option<HostRange> {
        let chunk = self.free.pop()?;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).min(chunk.bytes);
        Some(HostRange { bytes, ..chunk })
    }

    /// Takes back the chunk that a part is of.
    pub fn give_back(&mut self, part: HostRange) {
        self.free.push(HostRange::whole(part.memory));
    }
}
