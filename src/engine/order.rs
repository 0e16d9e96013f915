//! Order across queues: makes one queue wait, on the device, for the uses of a buffer on the others.

use super::{Cell, Engine, queue::Queue};
use crate::driver::Result;

impl Engine {
    /// Makes `queue` wait for the last uses of `cell` on every other queue, or for its last writes only.
    pub(super) fn order(&self, queue: &Queue, cell: &Cell, writes_only: bool) -> Result<()> {
        for other in self.queues().filter(|other| other.index != queue.index) {
            let sequence = self.last_use(cell, other, writes_only);
            self.wait_for(queue, other, sequence)?;
        }
        Ok(())
    }

    /// Makes `queue` wait for number `sequence` of `other`, unless that is done or waited for already.
    pub(super) fn wait_for(&self, queue: &Queue, other: &Queue, sequence: u64) -> Result<()> {
        if sequence == 0 || queue.waited(other.index) >= sequence {
            return Ok(());
        }
        let driver = &*self.driver;
        other.with_fence(driver, sequence, |covers, fence| {
            driver.wait(queue.id, fence)?;
            other.told(fence, queue.index, queue.begun() + 1);
            queue.note_wait(other.index, covers);
            Ok(())
        })?;
        Ok(())
    }
}
