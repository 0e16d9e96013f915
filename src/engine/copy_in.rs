//! Copies of host copies to their buffers: in one go, or chunk by chunk of a ring where a host copy is ordinary memory.

use super::{Cell, Engine, HostRuns, RESTORE, due::Due, jobs::Job, queue::Queue, state::State, sync::lock};
use crate::{
    driver::{DriverError, HostRange},
    residency::{Core, Failure, Slot},
};
use std::sync::Arc;

/// A copy in through the ring, as far as it is queued.
#[derive(Debug)]
pub struct CopyIn {
    slot: Slot,
    cell: Arc<Cell>,
    copy: HostRuns,
    /// How many bytes of it are queued.
    queued: u64,
}

impl CopyIn {
    /// The device is lost: it will not end.
    pub fn lost(self, core: &mut Core<Arc<Cell>>) {
        core.copy_in_refused(self.slot, Failure::Lost);
    }
}

impl Engine {
    /// Queues a copy, or the beginning of it. One for a buffer that is lent is queued whole: the launch that may write
    /// the buffer waits for this thread, and must not wait for the device.
    pub(super) fn copy_in(&self, slot: Slot, cell: Arc<Cell>, lent: bool) {
        let queue = self.queue(RESTORE);
        let copy = cell.host().unwrap_or_else(|| HostRuns::new([]));
        if let Err(error) = self.order(queue, &cell, false) {
            let failure = self.failure(error);
            lock(&self.state).core.copy_in_refused(slot, failure);
        } else if !lent && self.host.is_ringed(&copy) && self.has_ring(|state| &mut state.ring_in) {
            lock(&self.state).copies_in.push_back(CopyIn { slot, cell, copy, queued: 0 });
            self.copy_in_on();
        } else {
            self.copy_in_whole(queue, slot, &cell, copy);
        }
    }

    fn copy_in_whole(&self, queue: &Queue, slot: Slot, cell: &Cell, copy: HostRuns) {
        let (queued, done) =
            copy.copy(0, |before, run| self.driver.copy_in(queue.id, run, cell.ptr().offset(before)));
        match done {
            Ok(()) => {
                let number = self.queued(queue, cell, true);
                self.copy_in_queued(&mut lock(&self.state), slot, number, copy);
            }
            Err(error) => {
                let failure = self.failure(error);
                if queued > 0 {
                    let number = self.queued(queue, cell, true);
                    self.let_go(queue, number, &copy);
                }
                lock(&self.state).core.copy_in_refused(slot, failure);
            }
        }
    }

    fn copy_in_queued(&self, state: &mut State, slot: Slot, number: u64, copy: HostRuns) {
        state.core.copy_in_queued(slot);
        self.when_done(state, RESTORE, number, Due::Arrived(slot, copy));
    }

    /// Goes on with the copies that wait for a chunk, in their order, for as long as there are chunks.
    pub(super) fn copy_in_on(&self) {
        loop {
            let mut state = lock(&self.state);
            if state.lost.is_some() {
                let left = std::mem::take(&mut state.copies_in);
                return left.into_iter().for_each(|copy| copy.lost(&mut state.core));
            }
            let Some(rest) = state.copies_in.front().map(|copy| copy.cell.bytes - copy.queued) else {
                return;
            };
            let Some(part) = state.ring_in.take(rest) else { return };
            let Some(copy) = state.copies_in.pop_front() else { return };
            drop(state);
            self.copy_chunk_in(copy, part);
        }
    }

    /// Copies bytes into a chunk, and queues the copy of that.
    fn copy_chunk_in(&self, mut copy: CopyIn, part: HostRange) {
        let (queue, bytes) = (self.queue(RESTORE), part.bytes as u64);
        copy.copy.copy_to(copy.queued, &part);
        self.driver.charge_copy(bytes);
        let to = copy.cell.ptr().offset(copy.queued);
        if let Err(error) = self.driver.copy_in(queue.id, &part, to) {
            return self.chunk_refused(copy, part, error);
        }
        let number = self.queued(queue, &copy.cell, true);
        copy.queued += bytes;
        let mut state = lock(&self.state);
        state.ring_bytes += bytes;
        self.when_done(&mut state, RESTORE, number, Due::Left(part));
        if copy.queued == copy.cell.bytes {
            self.copy_in_queued(&mut state, copy.slot, number, copy.copy);
        } else {
            state.copies_in.push_front(copy);
        }
    }

    fn chunk_refused(&self, copy: CopyIn, part: HostRange, error: DriverError) {
        let failure = self.failure(error);
        let mut state = lock(&self.state);
        state.core.copy_in_refused(copy.slot, failure);
        state.ring_in.give_back(part);
    }

    /// A piece has left its chunk: there is room for another. Called under the state lock.
    pub(super) fn give_chunk_in(&self, state: &mut State, part: HostRange) {
        state.ring_in.give_back(part);
        if !state.copies_in.is_empty() {
            self.push(RESTORE, Job::CopyInOn);
        }
    }
}
