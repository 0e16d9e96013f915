//! Copies from and to host memory that the context did not allocate: through pinned memory, piece by piece, while the
//! caller waits. The device could not be trusted to reach it: what it may access are allocations of its context.

use super::{
    super::{DevicePtr, HostMemory, HostRange, Result, queues::Queue, symbols::Handle},
    LevelZero,
    list::{List, address},
};
use std::sync::Arc;

/// How much is copied at a time: two such pieces are on their way at once.
const PIECE: usize = 4 << 20;

/// Which way a copy goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Out,
    In,
}

/// A block of pinned memory, and the piece that is under way in it.
struct Slot {
    block: Arc<HostMemory>,
    piece: Option<(Handle, usize, usize)>,
}

/// Copies between device memory and a range that is within its block.
pub(super) fn copy(
    device: &LevelZero,
    queue: &Queue<List>,
    ptr: DevicePtr,
    range: &HostRange,
    way: Way,
) -> Result<()> {
    let mut slots = Vec::new();
    for _ in 0..range.bytes.div_ceil(PIECE).min(2) {
        let block = device.stages.take(device, range.bytes.min(PIECE))?;
        slots.push(Slot { block, piece: None });
    }
    let mut copied = Ok(());
    for (number, start) in (0..range.bytes).step_by(PIECE).enumerate() {
        let slot = number % slots.len();
        let piece = (start, PIECE.min(range.bytes - start));
        copied = copied.and_then(|()| slots[slot].begin(device, queue, ptr, range, way, piece));
    }
    for slot in &mut slots {
        copied = copied.and_then(|()| slot.finish(device, range, way));
    }
    if copied.is_err() {
        // What is under way may still use them.
        queue.copying().extend(slots.into_iter().map(|slot| slot.block as _));
    }
    copied
}

impl Slot {
    /// Queues the copy of `bytes` bytes at `start` of the range, when the piece before is done.
    fn begin(
        &mut self,
        device: &LevelZero,
        queue: &Queue<List>,
        ptr: DevicePtr,
        range: &HostRange,
        way: Way,
        (start, bytes): (usize, usize),
    ) -> Result<()> {
        self.finish(device, range, way)?;
        let (context, list) = (&device.context, &queue.stream);
        let there = address(ptr.offset(start as u64));
        let Some(here) = self.block.part(0, bytes) else { return Ok(()) };
        let here = here.as_ptr().cast();
        let event = device.event()?;
        match way {
            Way::Out => list.copy(context, here, there, bytes)?,
            Way::In => {
                self.block.copy_from(0, &range.memory, range.offset + start, bytes);
                let _turn = queue.turn();
                list.copy(context, there, here, bytes)?;
            }
        }
        list.signal(context, event)?;
        self.piece = Some((event, start, bytes));
        Ok(())
    }

    /// Waits for the piece under way; of a copy out, takes it to where it belongs.
    fn finish(&mut self, device: &LevelZero, range: &HostRange, way: Way) -> Result<()> {
        let Some((event, start, bytes)) = self.piece.take() else { return Ok(()) };
        device.context.synchronize(event)?;
        device.watch.fences.keep(event);
        if way == Way::Out {
            range.memory.copy_from(range.offset + start, &self.block, 0, bytes);
        }
        Ok(())
    }
}
