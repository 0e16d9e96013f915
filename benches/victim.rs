//! The search for a victim: what it costs beside how many buffers were used since the last one.
//!
//! `cargo bench --bench victim`. The core is compiled in here as it is, and driven alone: the figures are the admission
//! of a request that needs one buffer's room. A tenth of the buffers is pinned and a tenth exported. With all of them
//! used between searches, the whole order is repaired by one search, and that is the worst single one. `-- --short`
//! leaves the large devices out.

#[allow(dead_code, unused_imports, missing_docs)]
#[path = "../src/residency/mod.rs"]
mod residency;

use residency::{Ask, Bytes, Core, Decision, Policy, Slot, Word, WordCell};
use std::{
    cell::Cell,
    rc::Rc,
    time::{Duration, Instant},
};

/// A word in a cache line of its own, as a buffer has it.
#[derive(Debug)]
#[repr(align(64))]
struct Line(Cell<u64>);

#[derive(Clone, Debug)]
struct Buffer(Rc<Line>);

impl WordCell for Buffer {
    fn load(&self) -> Word {
        Word(self.0.0.get())
    }

    fn update(&self, change: impl Fn(Word) -> Option<Word>) -> Option<(Word, Word)> {
        let before = self.load();
        let after = change(before)?;
        self.0.0.set(after.0);
        Some((before, after))
    }
}

/// A full device of `count` buffers of a byte.
struct Device {
    core: Core<Buffer>,
    live: Vec<(Slot, Buffer)>,
    stamp: u64,
}

impl Device {
    fn new(count: usize) -> Device {
        let core = Core::new(Bytes(count as u64), Policy::Aware, false);
        let mut device = Device { core, live: Vec::with_capacity(count), stamp: 0 };
        for _ in 0..count {
            device.alloc();
        }
        for index in 0..count {
            let (slot, buffer) = device.live[index].clone();
            match index % 10 {
                3 => buffer.set(|word| word.with_pin().expect("a pin")),
                7 => device.core.begin_export(slot),
                _ => {}
            }
        }
        device
    }

    /// Uses `count` of the buffers, from the coldest on, as launches do.
    fn use_some(&mut self, count: usize) {
        self.stamp += 1;
        let start = self.stamp as usize * 7919;
        for step in 0..count {
            let index = if count == self.live.len() { step } else { (start + step * 101) % self.live.len() };
            self.live[index].1.set(|word| word.stamped(self.stamp));
        }
    }

    /// Allocates one more, and so spills one if the device is full; how long the decision took.
    fn alloc(&mut self) -> Duration {
        self.stamp += 1;
        self.core.ask(Ask::Fresh(Bytes(1)), self.stamp);
        let start = Instant::now();
        self.core.step();
        let took = start.elapsed();
        while let Some(decision) = self.core.next_decision() {
            match decision {
                Decision::CopyOut { slot, token, .. } => self.core.copied_out(slot, token),
                Decision::Free { bytes, .. } => self.core.left(bytes),
                Decision::Allocate(grant) => {
                    let buffer = Buffer(Rc::new(Line(Cell::new(Word::fresh(self.stamp).0))));
                    if let Some(slot) = self.core.allocated_fresh(&grant, buffer.clone(), false) {
                        self.live.push((slot, buffer));
                    }
                }
                _ => {}
            }
            self.core.step();
        }
        took
    }
}

fn main() {
    println!(
        "{:>9} {:>14} {:>16} {:>22} {:>16}",
        "buffers", "used between", "median search", "cost / (1 + used)", "worst search"
    );
    let short = std::env::args().any(|arg| arg == "--short");
    for count in [1_000, 10_000, 100_000, 1_000_000].into_iter().take(if short { 2 } else { 4 }) {
        for used in [0, 10, count] {
            let mut device = Device::new(count);
            device.use_some(used);
            device.alloc();
            let rounds = if used == count { (2_000_000 / count).clamp(3, 200) } else { 2_000.min(count / 4) };
            let mut took: Vec<Duration> = (0..rounds)
                .map(|_| {
                    device.use_some(used);
                    device.alloc()
                })
                .collect();
            took.sort();
            let median = took[took.len() / 2];
            let each =
                took.iter().sum::<Duration>().as_nanos() as f64 / took.len() as f64 / (1 + used) as f64;
            let worst = took[took.len() - 1];
            println!("{count:>9} {used:>14} {median:>16.1?} {each:>19.0} ns {worst:>16.1?}");
        }
    }
}
