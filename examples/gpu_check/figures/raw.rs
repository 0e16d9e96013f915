//! What pinned copies reach by the vendor's own calls.

use super::{Bed, rate, timed};
use crate::{
    backend::Bench,
    subject::{Block, Way},
};
use std::time::Duration;
use tack_residency::driver::{DevicePtr, QueueId};

/// Blocks of pinned memory, and as much of the device's.
pub struct Raw {
    pub bench: Bench,
    blocks: Vec<Box<dyn Block>>,
    memory: Vec<DevicePtr>,
    bytes: u64,
}

impl Raw {
    pub fn new(bed: &Bed, bytes: u64, count: usize) -> Raw {
        let bench = Bench::open(&bed.rig());
        let blocks = (0..count).map(|_| bed.subject.block(&bench.driver, bytes as usize)).collect();
        let memory = (0..count).map(|_| bench.allocate(bench.compute, bytes)).collect();
        bench.finish(bench.compute);
        Raw { bench, blocks, memory, bytes }
    }

    /// Queues a copy of part of the blocks: those of the first half, or of the second, or all.
    fn queue(&self, queue: QueueId, way: Way, which: std::ops::Range<usize>) {
        for (block, ptr) in self.blocks[which.clone()].iter().zip(&self.memory[which]) {
            block.copy(queue, way, *ptr);
        }
    }

    /// Waits without a rest, which would be part of what is measured.
    fn finish(&self, queue: QueueId) {
        let driver = &self.bench.driver;
        let fence = driver.record(queue).expect("a fence");
        while !driver.is_passed(fence).expect("not lost") {
            std::hint::spin_loop();
        }
        driver.retire(fence);
    }

    /// How long copies of all blocks take.
    pub fn copy(&self, bed: &Bed, way: Way) -> Duration {
        bed.best(4, || {
            timed(|| {
                self.queue(self.bench.spill, way, 0..self.blocks.len());
                self.finish(self.bench.spill);
            })
        })
    }

    /// How fast all blocks are copied, in GB/s.
    pub fn rate(&self, bed: &Bed, way: Way) -> f64 {
        rate(self.bytes * self.blocks.len() as u64, self.copy(bed, way))
    }

    /// How fast half of the blocks go out while the others come in, in GB/s of both.
    pub fn both(&self, bed: &Bed) -> f64 {
        let (all, half) = (self.blocks.len(), self.blocks.len() / 2);
        let took = bed.best(4, || {
            timed(|| {
                self.queue(self.bench.spill, Way::Out, 0..half);
                self.queue(self.bench.restore, Way::In, half..all);
                self.finish(self.bench.spill);
                self.finish(self.bench.restore);
            })
        });
        rate(self.bytes * all as u64, took)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        for &ptr in &self.memory {
            self.bench.free(ptr);
        }
    }
}
