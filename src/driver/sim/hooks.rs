//! What tests and reports may ask of a simulated device, and what tests may do to it.

use super::{Busy, Sim, Span, submit::invalid};
use crate::driver::{DevicePtr, DriverError, DriverErrorKind, QueueId, Result};
use std::sync::atomic::Ordering;

/// What memory that was freed not long ago reads as.
const FREED: u8 = 0xDD;

/// Reports.
impl Sim {
    /// How long each engine was busy so far, alone and at the same time as others.
    pub fn busy(&self) -> Busy {
        let mut turn = self.shared.turn();
        let at = turn.time();
        turn.meter.busy(at)
    }

    /// What ran when, in the order in which it ended. Empty unless the configuration asks for it.
    pub fn spans(&self) -> Vec<Span> {
        self.shared.turn().spans.clone()
    }

    /// The most device memory that was allocated at one time, on the device's own timeline, in bytes.
    pub fn peak_bytes(&self) -> u64 {
        self.shared.turn().table.mapped().1
    }

    /// What programs did wrong so far: why the device is lost, and fences retired too early.
    pub fn faults(&self) -> Vec<DriverError> {
        self.shared.turn().faults.clone()
    }
}

/// Proofs that nothing leaks.
impl Sim {
    /// Allocations for which no free has been called.
    pub fn live_allocations(&self) -> usize {
        self.shared.turn().table.live().count()
    }

    /// Bytes in allocations for which no free has been called, as the device counts them.
    pub fn live_bytes(&self) -> u64 {
        self.shared.turn().reserve.in_use()
    }

    /// Bytes of pinned host memory that this device gave and that still lives.
    pub fn live_host_bytes(&self) -> u64 {
        self.shared.host_bytes.load(Ordering::Acquire)
    }

    /// Fences recorded and not yet given back.
    pub fn live_fences(&self) -> usize {
        self.shared.turn().fences.live()
    }

    /// Threads that work for the device now. None on a computed clock.
    pub fn threads(&self) -> usize {
        self.shared.threads.load(Ordering::Acquire)
    }
}

/// Control.
impl Sim {
    /// Stops a queue before its next operation. What runs there goes on.
    ///
    /// A call that has to wait for a held queue rests until another thread releases it, on both clocks.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is no such queue.
    pub fn hold(&self, queue: QueueId) -> Result<()> {
        let mut turn = self.shared.turn();
        let index = turn.queue(queue, "hold")?;
        turn.queues[index].held = true;
        turn.leave_line(index);
        Ok(())
    }

    /// Lets a held queue go on.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is no such queue.
    pub fn release(&self, queue: QueueId) -> Result<()> {
        let mut turn = self.shared.turn();
        let index = turn.queue(queue, "release")?;
        turn.queues[index].held = false;
        let at = turn.time();
        turn.kick(index, at);
        Ok(())
    }

    /// Operations in a queue that have not begun.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is no such queue.
    pub fn pending(&self, queue: QueueId) -> Result<usize> {
        let turn = self.shared.turn();
        let index = turn.queue(queue, "pending")?;
        Ok(turn.queues[index].ops.len())
    }

    /// Loses the device, as a fault found by a fence does. `error` is what every later call returns, as `Lost`.
    pub fn lose(&self, error: DriverError) {
        self.shared.turn().lose(DriverError { kind: DriverErrorKind::Lost, ..error });
    }

    /// Sets how many bytes of the device other programs hold: they are neither free nor this program's.
    pub fn set_foreign_bytes(&self, bytes: u64) {
        self.shared.turn().reserve.set_foreign(bytes);
    }

    /// Flips one bit of what the next copy out gives, so that a program can show that it would notice.
    pub fn corrupt_next_copy_out(&self) {
        self.shared.turn().corrupt_next_copy_out = true;
    }

    /// Reads device memory as it is now, past all queues. Freed memory reads as 0xDD for a while.
    ///
    /// # Errors
    ///
    /// `Invalid` if the range is not within one allocation, or its bytes are not held.
    pub fn peek(&self, ptr: DevicePtr, to: &mut [u8]) -> Result<()> {
        let mut turn = self.shared.turn();
        if turn.table.was_freed(ptr.as_raw()) {
            to.fill(FREED);
            return Ok(());
        }
        let found = turn.table.find(ptr, to.len() as u64);
        let (place, block) =
            found.map(|(place, held)| (place, held.block.clone())).map_err(|why| invalid("peek", why))?;
        drop(turn);
        let Some(block) = block else { return Err(invalid("peek", "this device holds no bytes")) };
        let start = place.offset as usize;
        to.copy_from_slice(&block.read()[start..start + to.len()]);
        Ok(())
    }
}
