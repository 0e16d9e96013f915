//! Frees that wait for the uses of the memory to be over.

use super::{Cell, Engine, RELEASE, due::Due, jobs::Job, queue::Queue, state::State};
use crate::{driver::DevicePtr, residency::Bytes};

/// Device memory to be freed once its uses are over.
#[derive(Debug)]
pub struct FreeJob {
    /// Where it is.
    pub ptr: DevicePtr,
    /// How much.
    pub bytes: Bytes,
    /// Its last use on each queue.
    pub uses: Vec<(usize, u64)>,
}

impl Engine {
    /// The last use of a buffer on a queue: the noted one, or all that was queued before uses were noted.
    pub(super) fn last_use(&self, cell: &Cell, queue: &Queue, writes_only: bool) -> u64 {
        let noted = cell.last(queue.index, writes_only);
        let is_compute = queue.index == super::COMPUTE || queue.index >= super::FURTHER;
        if is_compute { noted.max(queue.base()) } else { noted }
    }

    /// The memory of a buffer that no one can use any more, with its last uses.
    pub(super) fn free_job(&self, cell: &Cell, bytes: Bytes) -> FreeJob {
        self.track();
        let mut uses: Vec<_> =
            self.queues().map(|queue| (queue.index, self.last_use(cell, queue, false))).collect();
        uses.push((super::SPILL, cell.last_copy()));
        FreeJob { ptr: cell.ptr(), bytes, uses }
    }

    /// Frees memory once its uses are over. Called under the state lock.
    pub(super) fn start_free(&self, state: &mut State, mut job: FreeJob) {
        if state.lost.is_some() || job.bytes == Bytes::ZERO {
            state.core.left(job.bytes);
            return;
        }
        match self.next_of(&mut job.uses) {
            Some((index, sequence)) => self.when_done(state, index, sequence, Due::Free(job)),
            None => self.push(RELEASE, Job::Free { ptr: job.ptr, bytes: job.bytes }),
        }
    }

    /// One of these uses that is not done yet; those that are go.
    pub(super) fn next_of(&self, uses: &mut Vec<(usize, u64)>) -> Option<(usize, u64)> {
        while let Some(&(index, sequence)) = uses.last() {
            if self.queue(index).done() < sequence {
                return Some((index, sequence));
            }
            uses.pop();
        }
        None
    }

    /// Notes what follows when a queue has done a number: never, if the device was lost while that was queued. Called
    /// under the state lock.
    pub(super) fn when_done(&self, state: &mut State, index: usize, sequence: u64, due: Due) {
        if state.lost.is_some() {
            due.lost(&mut state.core, &mut state.ringing);
            return;
        }
        self.queue(index).need(sequence);
        let number = state.number();
        state.due.insert((index, sequence, number), due);
    }
}
