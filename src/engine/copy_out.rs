//! Copies of buffers to their host copies: in one go where someone waits for the room, and piece by piece ahead of need,
//! so that what is asked for meanwhile goes before the rest. Where a host copy is ordinary memory, each piece goes through
//! a chunk of the ring.

use super::{
    Cell, Engine, HostRuns, SPILL,
    due::Due,
    jobs::Job,
    queue::Queue,
    ring::Ring,
    state::State,
    sync::{AtomicU64, Ordering, lock},
};
use crate::{
    driver::{DriverError, HostRange},
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
    /// How many bytes are not in that memory yet, of a copy that goes through the ring.
    afloat: Option<Arc<AtomicU64>>,
}

/// A part of a copy that is queued next.
struct Part {
    bytes: u64,
    pace: Pace,
    /// What it goes through.
    chunk: Option<HostRange>,
}

/// A piece of a copy in its chunk of the ring, to be copied on.
#[derive(Debug)]
pub struct Landing {
    slot: Slot,
    token: u64,
    cell: Arc<Cell>,
    chunk: HostRange,
    /// Where it goes.
    copy: HostRuns,
    offset: u64,
    afloat: Arc<AtomicU64>,
}

impl Landing {
    /// The device is lost: the copy will not end.
    pub fn lost(self, core: &mut Core<Arc<Cell>>) {
        core.copy_out_refused(self.slot, self.token, Failure::Lost);
    }
}

impl CopyOut {
    /// The device is lost: it will not end.
    pub fn lost(self, core: &mut Core<Arc<Cell>>) {
        core.copy_out_refused(self.slot, self.token, Failure::Lost);
    }

    /// What the rest of it is for. One that is queued at once may have come to nothing, and is made all the same.
    fn need(&self, core: &Core<Arc<Cell>>) -> Need {
        match self.pace {
            Pace::AtOnce if self.afloat.is_none() => Need::Now,
            _ => core.need_of_copy(self.slot, self.token),
        }
    }

    /// Whether more of it may be queued now.
    fn may_go(&self, need: Need, state: &State) -> bool {
        let is_turn = need != Need::Later || state.pieces < QUEUED;
        need == Need::Nothing || is_turn && (self.afloat.is_none() || state.ring_out.has_free())
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
            Ok(copy) => {
                let is_ringed = self.host.is_ringed(&copy) && self.has_ring(|state| &mut state.ring_out);
                let afloat = is_ringed.then(|| Arc::new(AtomicU64::new(cell.bytes)));
                self.copy_out(CopyOut { slot, token, pace, cell, copy, queued: 0, number: 0, afloat });
            }
            Err(failure) => lock(&self.state).core.copy_out_refused(slot, token, failure),
        }
    }

    /// Whether there is a ring, pinned now if there was none. Asked by who has the turn of its lane.
    pub(super) fn has_ring(&self, ring: impl Fn(&mut State) -> &mut Ring) -> bool {
        if ring(&mut lock(&self.state)).is_made() {
            return true;
        }
        let chunks = self.host.pin_ring(&*self.driver);
        let is_pinned = chunks.is_some();
        if let Some(chunks) = chunks {
            ring(&mut lock(&self.state)).make(chunks);
        }
        is_pinned
    }

    /// Queues of a copy what may be queued now.
    pub(super) fn copy_out(&self, copy: CopyOut) {
        let queue = self.queue(SPILL);
        let mut next = self.next_part(&mut lock(&self.state), copy);
        while let Some((mut copy, part)) = next {
            let to = match &part.chunk {
                Some(chunk) => HostRuns::new([chunk.clone()]),
                None => copy.copy.part(copy.queued, part.bytes),
            };
            if let Err(error) = self.copy_runs_out(queue, &copy.cell, copy.queued, &to) {
                return self.part_refused(copy, part, error);
            }
            copy.number = queue.number();
            copy.cell.note_copy(copy.number);
            self.mark(queue, copy.number);
            let mut state = lock(&self.state);
            if part.pace == Pace::InPieces {
                self.when_done(&mut state, SPILL, copy.number, Due::Piece);
            }
            if let Some((chunk, afloat)) = part.chunk.zip(copy.afloat.clone()) {
                let (slot, token, offset) = (copy.slot, copy.token, copy.queued);
                let (cell, copied) = (copy.cell.clone(), copy.copy.clone());
                let landing = Landing { slot, token, cell, chunk, copy: copied, offset, afloat };
                self.when_done(&mut state, SPILL, copy.number, Due::Landed(landing));
            }
            copy.queued += part.bytes;
            next = self.next_part(&mut state, copy);
        }
    }

    /// What is to be queued next of a copy. None if all of it is, or it has ended, or waits for its turn or a chunk.
    fn next_part(&self, state: &mut State, copy: CopyOut) -> Option<(CopyOut, Part)> {
        if state.lost.is_some() {
            copy.lost(&mut state.core);
            return None;
        }
        let rest = copy.cell.bytes - copy.queued;
        if rest == 0 {
            let CopyOut { slot, token, cell, copy, number, afloat, .. } = copy;
            if afloat.is_none() {
                self.when_done(state, SPILL, number, Due::CopiedOut { slot, cell, token, copy });
            }
            return None;
        }
        let need = copy.need(&state.core);
        if need == Need::Nothing {
            state.core.cut_short(copy.slot, copy.token, Bytes(copy.queued));
            self.keep_for_queued(state, copy);
            return None;
        }
        if !copy.may_go(need, state) {
            state.copies_out.insert(copy.token, copy);
            return None;
        }
        let (mut bytes, pace) = match need {
            Need::Later => (PIECE.min(state.core.budget().0 / SHARE).clamp(1, rest), Pace::InPieces),
            _ => (rest, Pace::AtOnce),
        };
        state.pieces += usize::from(pace == Pace::InPieces);
        let chunk = copy.afloat.as_ref().and_then(|_| state.ring_out.take(bytes));
        if let Some(chunk) = &chunk {
            bytes = chunk.bytes as u64;
        }
        Some((copy, Part { bytes, pace, chunk }))
    }

    /// The driver has refused a part of a copy: the buffer stays, and the memory is kept for what is queued.
    fn part_refused(&self, copy: CopyOut, part: Part, error: DriverError) {
        let failure = self.failure(error);
        let mut state = lock(&self.state);
        state.core.copy_out_refused(copy.slot, copy.token, failure);
        self.keep_for_queued(&mut state, copy);
        if let Some(chunk) = part.chunk {
            state.ring_out.give_back(chunk);
        }
        state.pieces -= usize::from(part.pace == Pace::InPieces);
        self.push_copy_on(&state);
    }

    /// Keeps the memory of a copy that is given up for what is queued of it.
    fn keep_for_queued(&self, state: &mut State, copy: CopyOut) {
        if copy.queued > 0 {
            self.when_done(state, SPILL, copy.number, Due::LetGo(copy.copy));
        }
    }

    /// A piece has ended: there is room for another. Called under the state lock.
    pub(super) fn piece_done(&self, state: &mut State) {
        state.pieces -= 1;
        self.push_copy_on(state);
    }

    fn push_copy_on(&self, state: &State) {
        if !state.copies_out.is_empty() {
            self.push(SPILL, Job::CopyOn);
        }
    }

    /// Goes on with the copies that wait for their turn or a chunk: those that are needed first, and in the order of their
    /// decisions.
    pub(super) fn copy_on(&self) {
        loop {
            let mut state = lock(&self.state);
            let find = |is_later: bool| {
                let mut waiting =
                    state.copies_out.iter().map(|(token, copy)| (token, copy.need(&state.core), copy));
                let found = |&(_, need, copy): &(_, Need, &CopyOut)| {
                    (need == Need::Later) == is_later && copy.may_go(need, &state)
                };
                waiting.find(found).map(|(token, ..)| *token)
            };
            let next = find(false).or_else(|| find(true));
            let copy = next.and_then(|token| state.copies_out.remove(&token));
            drop(state);
            let Some(copy) = copy else { return };
            self.copy_out(copy);
        }
    }

    /// The host copies a piece on from its chunk of the ring, unless no one needs it any more.
    pub(super) fn land(&self, landing: Landing) {
        let Landing { slot, token, cell, chunk, copy, offset, afloat } = landing;
        let bytes = chunk.bytes as u64;
        if lock(&self.state).core.is_copying(slot, token) {
            copy.copy_from(offset, &chunk);
            self.driver.charge_copy(bytes);
        }
        let left = afloat.fetch_sub(bytes, Ordering::AcqRel) - bytes;
        let mut state = lock(&self.state);
        state.ring_bytes += bytes;
        state.ring_out.give_back(chunk);
        if state.lost.is_some() {
            state.core.copy_out_refused(slot, token, Failure::Lost);
        } else if left == 0 {
            state.copied_out(slot, token, cell, copy);
        }
        self.push_copy_on(&state);
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
            cell.note_use(queue.index, number, false);
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
