//! Where host copies live: blocks of one kind, kept for reuse by exact size, up to a limit.

use super::sync::{Mutex, lock};
use crate::driver::{Driver, DriverError, HostKind, HostMemory, HostRange};
use std::{collections::BTreeMap, sync::Arc};

/// The host memory of one device's host copies and staging.
#[derive(Debug)]
pub struct HostTier {
    kind: HostKind,
    limit: u64,
    blocks: Mutex<Blocks>,
}

#[derive(Debug, Default)]
struct Blocks {
    used: u64,
    spare: BTreeMap<usize, Vec<HostMemory>>,
    spare_bytes: u64,
}

/// What the host tier holds, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostUse {
    /// In host copies and staging.
    pub used: u64,
    /// Kept for reuse.
    pub spare: u64,
}

impl HostTier {
    /// A tier of memory of one kind, no more than `limit` bytes of it.
    pub fn new(kind: HostKind, limit: u64) -> HostTier {
        HostTier { kind, limit, blocks: Mutex::new(Blocks::default()) }
    }

    /// What kind of memory it is.
    pub fn kind(&self) -> HostKind {
        self.kind
    }

    /// A block of `bytes`.
    ///
    /// # Errors
    ///
    /// The driver's; none of its own if the limit or the host refuses it.
    pub fn take(&self, driver: &dyn Driver, bytes: usize) -> Result<HostRange, Option<DriverError>> {
        let size = bytes as u64;
        {
            let mut blocks = lock(&self.blocks);
            if let Some(block) = blocks.spare.get_mut(&bytes).and_then(Vec::pop) {
                blocks.spare_bytes -= size;
                blocks.used += size;
                return Ok(HostRange::whole(Arc::new(block)));
            }
            if blocks.used.saturating_add(size) > self.limit {
                return Err(None);
            }
            blocks.used += size;
        }
        self.make_way();
        let made = match self.kind {
            HostKind::Ordinary => HostMemory::ordinary(bytes).ok_or(None),
            HostKind::Pinned => driver.allocate_host(bytes).map_err(Some),
        };
        if made.is_err() {
            lock(&self.blocks).used -= size;
        }
        made.map(|block| HostRange::whole(Arc::new(block)))
    }

    /// By how much a further block of `bytes` would pass the limit.
    pub fn short(&self, bytes: u64) -> u64 {
        lock(&self.blocks).used.saturating_add(bytes).saturating_sub(self.limit)
    }

    /// Frees spare blocks until all is within the limit.
    fn make_way(&self) {
        let mut freed = Vec::new();
        let mut blocks = lock(&self.blocks);
        while blocks.spare_bytes > 0 && blocks.used.saturating_add(blocks.spare_bytes) > self.limit {
            let Some((bytes, mut list)) = blocks.spare.pop_last() else { break };
            if let Some(block) = list.pop() {
                blocks.spare_bytes -= bytes as u64;
                freed.push(block);
            }
            if !list.is_empty() {
                blocks.spare.insert(bytes, list);
            }
        }
        drop(blocks);
        drop(freed);
    }

    /// Gives a block back. One that a copy still uses is freed when that has run.
    pub fn give_back(&self, range: HostRange) {
        let size = range.memory.len() as u64;
        let block = Arc::into_inner(range.memory);
        let mut blocks = lock(&self.blocks);
        blocks.used = blocks.used.saturating_sub(size);
        let keep = self.kind == HostKind::Pinned
            && blocks.used.saturating_add(blocks.spare_bytes).saturating_add(size) <= self.limit
            && blocks.spare_bytes.saturating_add(size) <= SPARE;
        if let Some(block) = block
            && keep
        {
            blocks.spare_bytes += size;
            blocks.spare.entry(block.len()).or_default().push(block);
        }
    }

    /// What is held.
    pub fn held(&self) -> HostUse {
        let blocks = lock(&self.blocks);
        HostUse { used: blocks.used, spare: blocks.spare_bytes }
    }
}

/// Pinned memory kept for reuse: enough for the sizes of a working loop, little against a GPU's host.
const SPARE: u64 = 1 << 30;
