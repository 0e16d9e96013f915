//! Spilling by the book, naively: every buffer is looked at for each victim. Knows nothing of the crate.

use crate::trace::{Event, Id, Trace};
use std::collections::BTreeMap;

/// What a replay comes to. All but counts in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    pub spills: u64,
    pub spilled: u64,
    pub restores: u64,
    pub restored: u64,
    pub out: u64,
    pub back: u64,
    pub peak: u64,
}

/// Which copies are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Copies {
    All,
    Needed,
}

#[derive(Debug)]
struct Buffer {
    bytes: u64,
    age: usize,
    stamp: u64,
    resident: bool,
    /// Written on the device since its host copy was made; or it has none.
    dirty: bool,
}

/// A device with a budget.
#[derive(Debug)]
pub struct Lru {
    copies: Copies,
    budget: u64,
    buffers: BTreeMap<Id, Buffer>,
    used: u64,
    clock: u64,
    born: usize,
    pub figures: Figures,
}

impl Lru {
    pub fn new(budget: u64, copies: Copies) -> Lru {
        let (buffers, figures) = (BTreeMap::new(), Figures::default());
        Lru { copies, budget, buffers, used: 0, clock: 0, born: 0, figures }
    }

    pub fn is_spilled(&self, id: Id) -> bool {
        !self.buffers[&id].resident
    }

    pub fn apply(&mut self, event: &Event) {
        self.clock += 1;
        match event {
            Event::Alloc { buf, bytes, .. } => {
                self.take(*bytes, &[]);
                let (age, stamp) = (self.born, self.clock);
                self.born += 1;
                self.buffers.insert(*buf, Buffer { bytes: *bytes, age, stamp, resident: true, dirty: true });
            }
            Event::Launch { reads, writes, .. } => {
                let mut all: Vec<Id> = reads.iter().chain(writes).copied().collect();
                all.sort_unstable();
                all.dedup();
                let missing = all.iter().filter(|id| self.is_spilled(**id));
                let need = missing.map(|id| self.buffers[id].bytes).sum();
                self.take(need, &all);
                for id in &all {
                    let buffer = self.buffers.get_mut(id).expect("a live buffer");
                    if !buffer.resident {
                        self.figures.restores += 1;
                        self.figures.restored += buffer.bytes;
                        if self.copies == Copies::All || reads.contains(id) {
                            self.figures.back += buffer.bytes;
                        }
                        buffer.resident = true;
                        buffer.dirty = self.copies == Copies::All;
                    }
                    buffer.stamp = self.clock;
                    buffer.dirty |= writes.contains(id);
                }
            }
            Event::HostRead { buf } => {
                self.buffers.get_mut(buf).expect("a live buffer").stamp = self.clock;
            }
            Event::Free { buf } => {
                let buffer = self.buffers.remove(buf).expect("a live buffer");
                self.used -= if buffer.resident { buffer.bytes } else { 0 };
            }
        }
    }

    /// Spills until `need` fits, and takes it.
    fn take(&mut self, need: u64, kept: &[Id]) {
        while self.used + need > self.budget {
            let candidates = self
                .buffers
                .iter_mut()
                .filter(|(id, buffer)| buffer.resident && buffer.bytes > 0 && !kept.contains(id));
            let victim = candidates.map(|(_, buffer)| buffer).min_by_key(|buffer| (buffer.stamp, buffer.age));
            let victim = victim.expect("the budget holds every launch");
            victim.resident = false;
            self.used -= victim.bytes;
            self.figures.spills += 1;
            self.figures.spilled += victim.bytes;
            self.figures.out += if victim.dirty { victim.bytes } else { 0 };
        }
        self.used += need;
        self.figures.peak = self.figures.peak.max(self.used);
    }
}

/// What a whole trace comes to.
pub fn figures(trace: &Trace, budget: u64, copies: Copies) -> Figures {
    let mut lru = Lru::new(budget, copies);
    trace.events.iter().for_each(|event| lru.apply(event));
    lru.figures
}

/// Half of the most bytes that are alive at one time, or the largest launch or buffer where that is more.
pub fn half(trace: &Trace) -> u64 {
    let mut live: BTreeMap<Id, u64> = BTreeMap::new();
    let (mut held, mut peak, mut largest) = (0, 0, 0);
    for event in &trace.events {
        match event {
            Event::Alloc { buf, bytes, .. } => {
                live.insert(*buf, *bytes);
                held += bytes;
                peak = peak.max(held);
                largest = largest.max(*bytes);
            }
            Event::Launch { reads, writes, .. } => {
                let mut all: Vec<Id> = reads.iter().chain(writes).copied().collect();
                all.sort_unstable();
                all.dedup();
                largest = largest.max(all.iter().map(|id| live[id]).sum());
            }
            Event::HostRead { .. } => {}
            Event::Free { buf } => held -= live.remove(buf).expect("a live buffer"),
        }
    }
    (peak / 2).max(largest)
}
