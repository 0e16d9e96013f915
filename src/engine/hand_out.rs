//! Buffers whose pointers others use, and memory of others used here.

use super::{Cell, Engine, Flags, Holder, sync::lock};
use crate::residency::{Bytes, Failure, Record, WordCell};
use std::sync::Arc;

impl Engine {
    /// Makes every compute queue wait, on the device, for what other queues still do with a pinned buffer.
    pub fn order_compute(&self, cell: &Arc<Cell>) -> Result<(), Failure> {
        while cell.load().is_closed() {
            // A host operation decided earlier comes first.
            self.stand_back(|| cell.load().is_closed());
        }
        if self.flags.has(Flags::TRACK) {
            for queue in self.compute_queues() {
                self.order(queue, cell, false).map_err(|error| self.failure(error))?;
            }
        }
        Ok(())
    }

    /// A pinned buffer is handed out.
    pub fn begin_export(&self, cell: &Cell) {
        cell.note_beyond_compute();
        self.change(|core| core.begin_export(cell.slot()));
    }

    /// A buffer handed out is back; its last use is on the compute queue at a place, or on any of them,
    /// and on whatever stream of others.
    pub fn end_export(&self, cell: &Arc<Cell>, used_on: Option<usize>) {
        for queue in self.compute_queues() {
            if used_on.is_none_or(|index| index == queue.index) {
                self.note_foreign_use(cell, queue.index);
            }
        }
        if used_on.is_none() && self.driver.caps().drains && cell.bytes > 0 {
            self.start_drain(cell);
        }
        self.change(|core| core.end_export(cell.slot()));
    }

    /// Notes a use by work the crate did not queue itself, at the end of a queue.
    pub fn note_foreign_use(&self, cell: &Cell, index: usize) {
        let queue = self.queue(index);
        let number = queue.number();
        cell.note_use(index, number, true);
        if self.flags.has(Flags::TRACK) {
            self.mark(queue, number);
        }
    }

    /// Adds a buffer that needs no memory of the device, unless a live one stands in its way.
    pub fn add_foreign(&self, cell: &Arc<Cell>, is_touched: impl Fn(&Cell) -> bool) -> bool {
        let mut state = lock(&self.state);
        let touches =
            |record: &Record<Arc<Cell>>| (record.memory || record.foreign) && is_touched(&record.cell);
        if state.core.records().any(|(_, record)| touches(record)) {
            return false;
        }
        let slot = state.core.add_ungranted(cell.clone(), Bytes(cell.bytes));
        cell.set_slot(slot);
        true
    }

    /// Makes a holder of pins known; it is removed by what this gives.
    pub fn add_holder(&self, holder: Holder) -> u64 {
        let mut state = lock(&self.state);
        let id = state.number();
        state.holders.insert(id, holder);
        id
    }

    /// A known holder has let go.
    pub fn remove_holder(&self, id: u64) {
        lock(&self.state).holders.remove(&id);
    }
}
