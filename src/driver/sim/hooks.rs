//! What tests and reports may ask of a simulated device, and what tests may do to it.

use super::{Sim, Span, submit::invalid};
use crate::driver::{DevicePtr, DriverError, DriverErrorKind, QueueId, Result};
use std::sync::atomic::Ordering;

/// What memory that was freed not long ago reads as.
const FREED: u8 = 0xDD;

/// Reports.
impl Sim {
    /// What ran when, in the order in which it ended. Empty unless the configuration asks for it.
    ///
    /// ```
    /// # use tack_residency::{Device, driver::sim::{Config, Sim, Trace}};
    /// let driver = Sim::open(Config::profile("pcie4")?.with_trace(Trace::Recorded))?;
    /// let device = Device::options().open_driver("sim:pcie4", driver.clone())?;
    /// device.alloc(4096).wait()?.spill().wait()?;
    /// assert!(driver.spans().iter().any(|span| span.label == "copy_out" && span.bytes == 4096));
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn spans(&self) -> Vec<Span> {
        self.shared.turn().spans.clone()
    }

    /// The most device memory that was allocated at one time, on the device's own timeline, in bytes.
    ///
    /// ```
    /// # use tack_residency::{Device, driver::sim::{Config, Sim}};
    /// let driver = Sim::open(Config::new())?;
    /// let device = Device::options().open_driver("sim", driver.clone())?;
    /// let buffer = device.alloc(100).wait()?;
    /// assert_eq!(driver.peak_bytes(), 512); // sizes are rounded up to the granularity
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
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
    ///
    /// ```
    /// # use tack_residency::{Device, driver::sim::{Config, Sim}};
    /// let driver = Sim::open(Config::profile("pcie4")?)?;
    /// let device = Device::options().open_driver("sim:pcie4", driver.clone())?;
    /// let buffer = device.alloc(4096).wait()?;
    /// assert_eq!((driver.live_allocations(), driver.live_bytes()), (1, 4096));
    /// drop((buffer, device));
    /// assert_eq!((driver.live_allocations(), driver.live_bytes()), (0, 0));
    /// assert_eq!((driver.live_host_bytes(), driver.live_fences()), (0, 0));
    /// assert!(driver.faults().is_empty());
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
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
    ///
    /// ```
    /// # use tack_residency::{Device, driver::sim::{Config, Sim}};
    /// let driver = Sim::open(Config::profile("pcie4")?)?;
    /// let device = Device::options().open_driver("sim:pcie4", driver.clone())?;
    /// device.alloc(4096).wait()?.fill(7).wait()?;
    /// assert_eq!(driver.threads(), 0);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
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
    /// ```
    /// use tack_residency::driver::{Driver, QueueRole, sim::{Config, Sim}};
    ///
    /// let device = Sim::open(Config::profile("pcie4")?)?;
    /// let queue = device.create_queue(QueueRole::Compute)?;
    /// let ptr = device.allocate(queue, 1024)?;
    /// device.hold(queue)?;
    /// device.fill(queue, ptr, 1024, 7)?;
    /// let filled = device.record(queue)?;
    /// assert!(!device.advance() && !device.is_passed(filled)?);
    /// assert!(device.pending(queue)? > 0);
    /// device.release(queue)?;
    /// while device.advance() {}
    /// assert!(device.is_passed(filled)?);
    /// # Ok::<(), tack_residency::driver::DriverError>(())
    /// ```
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
    ///
    /// ```
    /// use tack_residency::{Device, ErrorKind};
    /// use tack_residency::driver::{DriverError, DriverErrorKind, sim::{Config, Sim}};
    ///
    /// let driver = Sim::open(Config::new())?;
    /// let device = Device::options().open_driver("sim", driver.clone())?;
    /// driver.lose(DriverError::new(DriverErrorKind::Lost, "cuCtxSynchronize", 719, "a kernel went astray"));
    /// assert_eq!(device.alloc(4096).wait().unwrap_err().kind(), ErrorKind::DeviceLost);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn lose(&self, error: DriverError) {
        self.shared.turn().lose(DriverError { kind: DriverErrorKind::Lost, ..error });
    }

    /// Sets how many bytes of the device other programs hold: they are neither free nor this program's.
    ///
    /// ```
    /// # use tack_residency::{Device, driver::sim::{Config, Sim}};
    /// let driver = Sim::open(Config::new().with_capacity(8192))?;
    /// let device = Device::options().open_driver("sim", driver.clone())?;
    /// driver.set_foreign_bytes(4096);
    /// let (a, b) = (device.alloc(4096).wait()?, device.alloc(4096).wait()?);
    /// assert!(a.is_spilled());
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn set_foreign_bytes(&self, bytes: u64) {
        self.shared.turn().reserve.set_foreign(bytes);
    }

    /// Flips one bit of what the next copy out gives, so that a program can show that it would notice.
    ///
    /// ```
    /// # use tack_residency::{Device, driver::sim::{Config, Sim}};
    /// let driver = Sim::open(Config::new())?;
    /// let device = Device::options().open_driver("sim", driver.clone())?;
    /// let buffer = device.alloc(4096).wait()?;
    /// driver.corrupt_next_copy_out();
    /// buffer.spill().wait()?;
    /// assert_ne!(buffer.read().wait()?, vec![0; 4096]);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn corrupt_next_copy_out(&self) {
        self.shared.turn().corrupt_next_copy_out = true;
    }

    /// Reads device memory as it is now, past all queues. Freed memory reads as 0xDD for a while.
    ///
    /// ```
    /// # use tack_residency::{Device, driver::sim::{Config, Sim}};
    /// let driver = Sim::open(Config::new())?;
    /// let device = Device::options().open_driver("sim", driver.clone())?;
    /// let buffer = device.alloc(4).wait()?;
    /// buffer.fill(7).wait()?;
    /// device.idle().wait()?;
    /// let mut bytes = [0; 4];
    /// driver.peek(buffer.ensure_resident().wait()?.ptr(), &mut bytes)?;
    /// assert_eq!(bytes, [7; 4]);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
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
