//! Copies of buffers to their host copies: in one go where someone waits for the room, and piece by piece ahead of need,
//! so that what is asked for meanwhile goes before the rest.

use super::{Cell, Engine, HostRuns, SPILL, due::Due, jobs::Job, queue::Queue, state::State, sync::lock};
use crate::{
    driver::DriverError,
    residency::{Bytes, Core, Failure, Need, Pace, Slot},
};
use std::sync::Arc;

/// The bytes of a piece, unless the budget is less than [`SHARE`] of them: then it is that share of the budget.
///
/// Measured on the recorded programs (`replay --survey`, November 2026): 4 MiB and 8 MiB give the same times to 0.5 %,
/// 2 MiB up to 2.5 % longer ones.
const PIECE: u64 = 4 << 20;
const SHARE: u64 = 16;

/// How many pieces of all copies are in the queue at a time: one runs, and the next is there when it ends.
const QUEUED: usize = 2;

/// A copy out that has begun.
#[derive(Debug)]
pub struct CopyOut {
    slot: Slot,
    token: u64,
    pace: Pace,
    cell: Arc<Cell>,
    /// Where it goes.
    copy: HostRuns,
    /// How many bytes of it are queued, and the number of the last of them.
    queued: u64,
    number: u64,
}

impl CopyOut {
    /// The device is lost: it will not end.
    pub fn lost(self, core: &mut Core<Arc<Cell>>) {
        core.copy_out_refused(self.slot, self.token, Failure::Lost);
    }
}

impl Engine {
    /// Begins a copy, behind the last writes of the buffer.
    pub(super) fn begin_copy_out(&self, slot: Slot, token: u64, pace: Pace, cell: Arc<Cell>) {
        let copy = self.take_host(cell.bytes).and_then(|copy| {
            self.order(self.queue(SPILL), &cell, true).map_err(|error| self.failure(error))?;
            Ok(copy)
        });
        match copy {
            Ok(copy) => self.copy_out(CopyOut { slot, token, pace, cell, copy, queued: 0, number: 0 }),
            Err(failure) => lock(&self.state).core.copy_out_refused(slot, token, failure),
        }
    }

    /// Queues of a copy what may be queued now.
    pub(super) fn copy_out(&self, copy: CopyOut) {
        let queue = self.queue(SPILL);
        let mut next = self.next_part(&mut lock(&self.state), copy);
        while let Some((mut copy, bytes, pace)) = next {
            let part = copy.copy.part(copy.queued, bytes);
            if let Err(error) = self.copy_runs_out(queue, &copy.cell, copy.queued, &part) {
                return self.part_refused(copy, pace, error);
            }
            copy.queued += bytes;
            copy.number = queue.number();
            copy.cell.note_copy(copy.number);
            self.mark(queue, copy.number);
            let mut state = lock(&self.state);
            if pace == Pace::InPieces {
                self.when_done(&mut state, SPILL, copy.number, Due::Piece);
            }
            next = self.next_part(&mut state, copy);
        }
    }

    /// How many bytes of a copy are to be queued next, and as what. None if it has ended or waits for its turn.
    fn next_part(&self, state: &mut State, copy: CopyOut) -> Option<(CopyOut, u64, Pace)> {
        if state.lost.is_some() {
            copy.lost(&mut state.core);
            return None;
        }
        let rest = copy.cell.bytes - copy.queued;
        if rest == 0 {
            let CopyOut { slot, token, cell, copy, number, .. } = copy;
            self.when_done(state, SPILL, number, Due::CopiedOut { slot, cell, token, copy });
            return None;
        }
        let need = match copy.pace {
            Pace::AtOnce => Need::Now,
            Pace::InPieces => state.core.need_of_copy(copy.slot, copy.token),
        };
        match need {
            Need::Now => Some((copy, rest, Pace::AtOnce)),
            Need::Later if state.pieces < QUEUED => {
                state.pieces += 1;
                let piece = PIECE.min(state.core.budget().0 / SHARE).max(1);
                Some((copy, rest.min(piece), Pace::InPieces))
            }
            Need::Later => {
                state.copies_out.insert(copy.token, copy);
                None
            }
            Need::Nothing => {
                state.core.cut_short(copy.slot, copy.token, Bytes(copy.queued));
                self.keep_for_queued(state, copy);
                None
            }
        }
    }

    /// The driver has refused a part of a copy: the buffer stays, and the memory is kept for what is queued.
    fn part_refused(&self, copy: CopyOut, pace: Pace, error: DriverError) {
        let failure = self.failure(error);
        let mut state = lock(&self.state);
        state.core.copy_out_refused(copy.slot, copy.token, failure);
        self.keep_for_queued(&mut state, copy);
        if pace == Pace::InPieces {
            self.piece_done(&mut state);
        }
    }

    /// Keeps the memory of a copy that is given up for what is queued of it.
    fn keep_for_queued(&self, state: &mut State, copy: CopyOut) {
        if copy.queued > 0 {
            self.when_done(state, SPILL, copy.number, Due::LetGo(copy.copy));
        }
    }

    /// A piece has ended, or was not queued: there is room for another. Called under the state lock.
    pub(super) fn piece_done(&self, state: &mut State) {
        state.pieces -= 1;
        if !state.copies_out.is_empty() {
            self.push(SPILL, Job::CopyOn);
        }
    }

    /// Goes on with the copies that wait for their turn, in the order of their decisions.
    pub(super) fn copy_on(&self) {
        loop {
            let mut state = lock(&self.state);
            let next = if state.pieces < QUEUED { state.copies_out.pop_first() } else { None };
            drop(state);
            let Some((_, copy)) = next else { return };
            self.copy_out(copy);
        }
    }

    /// Queues copies of a buffer's bytes from `offset` on to the runs of host memory: all of them, or those that were
    /// queued are noted, and the memory on both sides is kept for them.
    pub(super) fn copy_runs_out(
        &self,
        queue: &Queue,
        cell: &Cell,
        offset: u64,
        to: &HostRuns,
    ) -> Result<(), DriverError> {
        let from = cell.ptr().offset(offset);
        let (queued, done) =
            to.copy(0, |before, run| self.driver.copy_out(queue.id, from.offset(before), run));
        if done.is_err() && queued > 0 {
            let number = queue.number();
            cell.note_copy(number);
            self.let_go(queue, number, to);
        }
        done
    }

    /// Keeps host memory for the copies queued so far.
    pub(super) fn let_go(&self, queue: &Queue, number: u64, runs: &HostRuns) {
        self.mark(queue, number);
        let mut state = lock(&self.state);
        self.when_done(&mut state, queue.index, number, Due::LetGo(runs.clone()));
    }
}
