//! Which addresses of a simulated device are allocated, since when, and who used them.
//!
//! Never gives an address twice, so that a stale pointer always shows.

use super::block::Block;
use crate::driver::DevicePtr;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// What addresses are multiples of.
pub(super) const ALIGN: u64 = 256;
/// Unmapped bytes after each allocation, so that a run past its end shows.
const GUARD: u64 = 4096;
/// Freed ranges remembered, for messages and for [`Table::was_freed`].
const REMEMBERED: usize = 1024;

/// One allocation.
#[derive(Debug)]
pub(super) struct Allocation {
    /// Asked for, in bytes.
    pub(super) bytes: u64,
    /// Taken from the device, in bytes.
    pub(super) taken: u64,
    /// The operation that allocates it, by queue and number; number 0 is known to all.
    pub(super) made: (usize, u64),
    /// That operation has happened.
    pub(super) live: bool,
    /// A free has been called for.
    pub(super) freed: bool,
    /// The last operation of each queue that uses it.
    pub(super) uses: Vec<(usize, u64)>,
    /// Its bytes, where they are held.
    pub(super) block: Option<Arc<Block>>,
}

/// A range within one allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::driver) struct Place {
    /// The allocation's own address.
    pub(in crate::driver) base: u64,
    /// Where in it the range starts, in bytes.
    pub(in crate::driver) offset: u64,
    /// How long the range is, in bytes.
    pub(in crate::driver) bytes: u64,
}

/// All allocations of a device, by address.
#[derive(Debug)]
pub(super) struct Table {
    by_base: BTreeMap<u64, Allocation>,
    next: u64,
    freed: VecDeque<(u64, u64)>,
    mapped: u64,
    peak: u64,
}

impl Table {
    pub(super) fn new(first: u64) -> Table {
        Table { by_base: BTreeMap::new(), next: first, freed: VecDeque::new(), mapped: 0, peak: 0 }
    }

    /// Addresses for a new allocation.
    pub(super) fn add(&mut self, allocation: Allocation) -> DevicePtr {
        let base = self.next;
        self.next = base.saturating_add(allocation.bytes).saturating_add(GUARD).next_multiple_of(ALIGN);
        let live = allocation.live;
        self.by_base.insert(base, Allocation { live: false, ..allocation });
        if live {
            self.make_live(base);
        }
        DevicePtr(base)
    }

    /// Whether `bytes` more have addresses left.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.next.checked_add(bytes).and_then(|end| end.checked_add(GUARD + ALIGN)).is_some()
    }

    /// Notes that an allocation has happened.
    pub(super) fn make_live(&mut self, base: u64) {
        if let Some(allocation) = self.by_base.get_mut(&base) {
            allocation.live = true;
            self.mapped += allocation.taken;
            self.peak = self.peak.max(self.mapped);
        }
    }

    /// Forgets an allocation whose free has happened.
    pub(super) fn remove(&mut self, base: u64) -> Option<Allocation> {
        let allocation = self.by_base.remove(&base)?;
        if allocation.live {
            self.mapped -= allocation.taken;
        }
        if self.freed.len() == REMEMBERED {
            self.freed.pop_front();
        }
        self.freed.push_back((base, allocation.bytes));
        Some(allocation)
    }

    pub(super) fn get(&self, base: u64) -> Option<&Allocation> {
        self.by_base.get(&base)
    }

    pub(super) fn get_mut(&mut self, base: u64) -> Option<&mut Allocation> {
        self.by_base.get_mut(&base)
    }

    /// The place that `bytes` bytes at `ptr` are, or why there is none.
    pub(super) fn find(
        &mut self,
        ptr: DevicePtr,
        bytes: u64,
    ) -> Result<(Place, &mut Allocation), &'static str> {
        let at = ptr.0;
        let freed = &self.freed;
        let below = self.by_base.range_mut(..=at).next_back();
        let Some((&base, allocation)) = below.filter(|(base, held)| at - **base < held.bytes) else {
            let was_freed = within(freed, at);
            return Err(if was_freed { "that memory has been freed" } else { "nothing is allocated there" });
        };
        let offset = at - base;
        if bytes > allocation.bytes - offset {
            return Err("the range runs past the end of its allocation");
        }
        Ok((Place { base, offset, bytes }, allocation))
    }

    /// Whether `at` lies in memory freed not long ago.
    pub(super) fn was_freed(&self, at: u64) -> bool {
        within(&self.freed, at)
    }

    /// Bytes that allocations hold at this point of the device's timeline, and the most they ever did.
    pub(super) fn mapped(&self) -> (u64, u64) {
        (self.mapped, self.peak)
    }

    /// Allocations for which no free has been called.
    pub(super) fn live(&self) -> impl Iterator<Item = (DevicePtr, u64)> {
        self.by_base.iter().filter(|(_, held)| !held.freed).map(|(&base, held)| (DevicePtr(base), held.bytes))
    }
}

fn within(ranges: &VecDeque<(u64, u64)>, at: u64) -> bool {
    ranges.iter().any(|&(base, bytes)| at >= base && at - base < bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocation(bytes: u64) -> Allocation {
        Allocation {
            bytes,
            taken: bytes,
            made: (0, 0),
            live: true,
            freed: false,
            uses: Vec::new(),
            block: None,
        }
    }

    #[test]
    fn addresses_are_aligned_apart_and_never_given_again() {
        let mut table = Table::new(1 << 20);
        let first = table.add(allocation(1));
        let second = table.add(allocation(100));
        assert_eq!((first.0 % ALIGN, second.0 % ALIGN), (0, 0));
        assert!(second.0 - first.0 > GUARD);
        table.remove(second.0);
        assert_ne!(table.add(allocation(100)), second);
        assert_eq!(table.find(second.offset(9), 1).map(|_| ()), Err("that memory has been freed"));
    }

    #[test]
    fn a_range_must_lie_within_one_allocation() {
        let mut table = Table::new(1 << 20);
        let ptr = table.add(allocation(100));
        let place = table.find(ptr.offset(10), 90).map(|(place, _)| place);
        assert_eq!(place, Ok(Place { base: ptr.0, offset: 10, bytes: 90 }));
        assert!(table.find(ptr.offset(10), 91).is_err());
        assert!(table.find(ptr.offset(100), 0).is_err());
        assert!(table.find(DevicePtr::NULL, 1).is_err());
        assert_eq!(table.mapped(), (100, 100));
    }
}
