//! The two books of a device, and its totals. Every change of a figure is a call here.

use super::Bytes;
use std::collections::BTreeMap;

/// Figures that only grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Buffers spilled.
    pub spills: u64,
    /// Buffers restored.
    pub restores: u64,
    /// Their bytes.
    pub spilled: Bytes,
    /// Their bytes.
    pub restored: Bytes,
    /// Bytes of buffers dropped while spilled.
    pub dropped_spilled: Bytes,
    /// Spills and restores that needed no copy.
    pub copies_avoided: u64,
    /// Bytes that spills and write-backs copied to the host.
    pub copied_out: Bytes,
    /// Bytes that restores copied to the device.
    pub copied_in: Bytes,
    /// Episodes of thrash.
    pub thrash_episodes: u64,
    /// Trips to the host and back that were thrash.
    pub thrash_trips: u64,
    /// Their bytes, each way.
    pub thrash: Bytes,
}

/// What is held, decided and now.
#[derive(Debug, Default)]
pub struct Books {
    /// What live buffers will hold when all that is claimed has ended.
    pub decided: Bytes,
    /// What live buffers hold on the device now.
    pub in_use: Bytes,
    /// Granted to requests and not yet allocated.
    pub reserved: Bytes,
    /// Given up by its buffer, and not yet free: the device may still use it.
    pub leaving: Bytes,
    /// Freed in the compute queue's order, ahead of the device: room for what is allocated there, and not elsewhere.
    pub ordered: Bytes,
    /// What is spilled.
    pub spilled: Bytes,
    /// The highest `in_use` since the last reset.
    pub peak: Bytes,
    /// Foreign memory.
    pub foreign: Bytes,
    /// Fixed memory, a part of `in_use`.
    pub fixed: Bytes,
    /// Figures that only grow.
    pub totals: Totals,
    scopes: BTreeMap<u64, Bytes>,
    next_scope: u64,
}

impl Books {
    /// A live buffer holds `bytes` more.
    pub fn take(&mut self, bytes: Bytes) {
        self.in_use = self.in_use.plus(bytes);
        self.peak = self.peak.max(self.in_use);
        for peak in self.scopes.values_mut() {
            *peak = (*peak).max(self.in_use);
        }
    }

    /// A live buffer gives up `bytes`, which the device may still use.
    pub fn give_up(&mut self, bytes: Bytes) {
        self.in_use = self.in_use.minus(bytes);
        self.leaving = self.leaving.plus(bytes);
    }

    /// Starts the peak anew from what is held now.
    pub fn reset_peak(&mut self) {
        self.peak = self.in_use;
    }

    /// Starts a peak of its own.
    pub fn open_scope(&mut self) -> u64 {
        let id = self.next_scope;
        self.next_scope = self.next_scope.wrapping_add(1);
        self.scopes.insert(id, self.in_use);
        id
    }

    /// The peak since [`open_scope`](Books::open_scope).
    pub fn scope(&self, id: u64) -> Bytes {
        self.scopes.get(&id).copied().unwrap_or_default()
    }

    /// Ends a scope.
    pub fn close_scope(&mut self, id: u64) -> Bytes {
        self.scopes.remove(&id).unwrap_or_default()
    }

    /// A resident buffer's bytes are now in host memory alone.
    pub fn spilled(&mut self, bytes: Bytes, copied: bool) {
        self.give_up(bytes);
        self.spilled = self.spilled.plus(bytes);
        self.count_spill(bytes, copied);
    }

    /// A buffer chosen to be spilled was dropped before it was: counted as if just after, so that the figures do not
    /// depend on how far ahead of the device the program is.
    pub fn dropped_victim(&mut self, bytes: Bytes, copied: bool) {
        self.count_spill(bytes, copied);
        self.totals.dropped_spilled = self.totals.dropped_spilled.plus(bytes);
    }

    fn count_spill(&mut self, bytes: Bytes, copied: bool) {
        self.totals.spills = self.totals.spills.saturating_add(1);
        self.totals.spilled = self.totals.spilled.plus(bytes);
        if !copied {
            self.totals.copies_avoided = self.totals.copies_avoided.saturating_add(1);
        }
    }

    /// A spilled buffer is back on the device, or on its way.
    pub fn restored(&mut self, bytes: Bytes, copied: bool) {
        self.spilled = self.spilled.minus(bytes);
        self.totals.restores = self.totals.restores.saturating_add(1);
        self.totals.restored = self.totals.restored.plus(bytes);
        if copied {
            self.totals.copied_in = self.totals.copied_in.plus(bytes);
        } else {
            self.totals.copies_avoided = self.totals.copies_avoided.saturating_add(1);
        }
    }

    /// Trips of a buffer to the host and back were thrash.
    pub fn thrashed(&mut self, bytes: Bytes, trips: u64, begins: bool) {
        self.totals.thrash_episodes = self.totals.thrash_episodes.saturating_add(u64::from(begins));
        self.totals.thrash_trips = self.totals.thrash_trips.saturating_add(trips);
        self.totals.thrash = self.totals.thrash.plus(Bytes(bytes.0.saturating_mul(trips)));
    }

    /// A buffer was dropped while spilled.
    pub fn dropped_spilled(&mut self, bytes: Bytes) {
        self.spilled = self.spilled.minus(bytes);
        self.totals.dropped_spilled = self.totals.dropped_spilled.plus(bytes);
    }
}
