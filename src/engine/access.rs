//! Host reads, writes and fills: where the bytes are, and in order with the device's uses.

use super::{
    Cell, Engine, HostRuns, READ, RESTORE, SPILL,
    due::Due,
    host_op::{Access, HostOp},
    jobs::Job,
    state::State,
    sync::{Ordering, lock},
};
use crate::residency::{Bytes, Failure, HostCopy, Phase, Slot, WordCell};
use std::sync::Arc;

/// So many; none if the host has no memory for them.
fn zeros(bytes: usize) -> Option<Vec<u8>> {
    let mut zeros = Vec::new();
    zeros.try_reserve_exact(bytes).ok()?;
    zeros.resize(bytes, 0);
    Some(zeros)
}

/// How a host operation starts.
#[derive(Debug)]
pub enum Started<T> {
    /// It is over.
    Done(T),
    /// It ends with the device.
    Pending(Arc<HostOp>),
}

/// A read that is queued once its buffer is written: queued at once, it would wait for one that waits for more.
#[derive(Debug)]
pub struct HeldRead {
    pub(super) job: Job,
    /// By queue, the numbers of the writes.
    writes: Vec<(usize, u64)>,
}

impl Engine {
    /// Starts to read `bytes` bytes at `offset`.
    pub fn start_read(&self, cell: &Arc<Cell>, offset: u64, bytes: u64) -> Result<Started<Vec<u8>>, Failure> {
        let slot = cell.slot();
        let current = {
            let mut state = lock(&self.state);
            let stamp = self.stamp();
            state.core.touch(slot, stamp);
            match self.host_source(&state, slot, cell) {
                None if state.lost.is_some() => return Err(Failure::Lost),
                source => source,
            }
        };
        if let Some(copy) = current {
            let out = match copy {
                Some(copy) => copy.to_vec(offset as usize, bytes as usize),
                None => zeros(bytes as usize),
            };
            return out.map(Started::Done).ok_or(Failure::HostOutOfMemory { bytes: Bytes(bytes) });
        }
        let staging = self.take_host(bytes)?;
        let op = HostOp::new(Access::Read, offset, bytes, Some(staging));
        self.start_on_device(slot, cell, &op)?;
        Ok(Started::Pending(op))
    }

    /// The host copy a reader must see, if there is one; none inside if the contents are nobody's.
    fn host_source(&self, state: &State, slot: Slot, cell: &Cell) -> Option<Option<HostRuns>> {
        let record = state.core.record(slot)?;
        if cell.bytes == 0 {
            return Some(None);
        }
        if record.ops > 0 {
            return None;
        }
        let spilled = record.cell.load().phase() == Phase::Spilled;
        if spilled && record.host == HostCopy::None {
            return Some(None);
        }
        if spilled || state.core.host_is_current(slot) {
            return cell.host().map(Some);
        }
        None
    }

    /// Starts to write `from` at `offset`, or to fill.
    fn start_change(
        &self,
        cell: &Arc<Cell>,
        offset: u64,
        bytes: u64,
        access: Access,
        from: &[u8],
    ) -> Result<Started<()>, Failure> {
        let slot = cell.slot();
        if bytes == 0 {
            return Ok(Started::Done(()));
        }
        if self.hold_host_copy(slot, cell)? {
            if let Some(copy) = cell.host() {
                match access {
                    Access::Fill(value) => copy.fill(offset as usize, bytes as usize, value),
                    Access::Write | Access::Read => copy.write(offset as usize, from),
                }
            }
            self.change(|core| core.end_hold(slot));
            return Ok(Started::Done(()));
        }
        if self.flags.has(super::Flags::LOST) {
            return Err(Failure::Lost);
        }
        let staging = match access {
            Access::Write => {
                let staging = self.take_host(bytes)?;
                staging.write(0, from);
                Some(staging)
            }
            _ => None,
        };
        let op = HostOp::new(access, offset, bytes, staging);
        self.start_on_device(slot, cell, &op)?;
        Ok(Started::Pending(op))
    }

    /// Starts to write `from` at `offset`.
    pub fn start_write(&self, cell: &Arc<Cell>, offset: u64, from: &[u8]) -> Result<Started<()>, Failure> {
        self.start_change(cell, offset, from.len() as u64, Access::Write, from)
    }

    /// Starts to set `bytes` bytes at `offset` to `value`.
    pub fn start_fill(
        &self,
        cell: &Arc<Cell>,
        offset: u64,
        bytes: u64,
        value: u8,
    ) -> Result<Started<()>, Failure> {
        self.start_change(cell, offset, bytes, Access::Fill(value), &[])
    }

    /// If a spilled buffer's host copy is the place to write, holds it there; makes one where there is none.
    fn hold_host_copy(&self, slot: Slot, cell: &Cell) -> Result<bool, Failure> {
        {
            let mut state = lock(&self.state);
            let stamp = self.stamp();
            state.core.touch(slot, stamp);
            let Some(record) = state.core.record(slot) else { return Ok(false) };
            let here = record.cell.load().phase() == Phase::Spilled
                && record.ops == 0
                && !state.core.is_coming_for_sure(slot);
            if !here {
                return Ok(false);
            }
            state.core.begin_hold(slot);
        }
        if let Err(failure) = self.make_host_copy(cell) {
            self.change(|core| core.end_hold_without_copy(slot));
            return Err(failure);
        }
        Ok(true)
    }

    /// Makes a host copy, of contents that are nobody's, where there is none.
    fn make_host_copy(&self, cell: &Cell) -> Result<(), Failure> {
        if cell.host().is_none() {
            let copy = self.take_host(cell.bytes)?;
            copy.fill(0, cell.bytes as usize, 0);
            cell.offer_host(copy);
        }
        Ok(())
    }

    /// Queues an operation behind the uses it must follow, and in front of those that come after it.
    fn start_on_device(&self, slot: Slot, cell: &Arc<Cell>, op: &Arc<HostOp>) -> Result<(), Failure> {
        {
            let mut state = lock(&self.state);
            if state.lost.is_some() {
                return Err(Failure::Lost);
            }
            state.core.begin_op(slot);
            let is_behind =
                state.in_lane.contains_key(&slot) || state.deferred.iter().any(|(other, _)| *other == slot);
            if is_behind || cell.load().phase() == Phase::Spilled {
                state.deferred.push_back((slot, op.clone()));
            } else {
                self.enter(&mut state, slot, cell, op);
            }
        }
        self.pump();
        Ok(())
    }

    /// Called under the state lock.
    fn enter(&self, state: &mut State, slot: Slot, cell: &Arc<Cell>, op: &Arc<HostOp>) {
        self.track();
        state.enter_lane(slot);
        let pinned = cell.load().pins() > 0;
        let reads = matches!(op.access, Access::Read);
        let writes = if reads && !pinned { self.under_way(cell, true) } else { Vec::new() };
        let is_held = !writes.is_empty() && self.is_read_behind_later(&writes);
        let lane = match reads {
            true if pinned || !writes.is_empty() && !is_held => READ,
            true => SPILL,
            false => RESTORE,
        };
        let job = Job::Host { slot, cell: cell.clone(), op: op.clone(), lane, pinned };
        if is_held {
            self.hold_read(state, HeldRead { job, writes });
        } else {
            self.push_settled(state, cell, lane, job);
        }
    }

    /// The last uses of a buffer that the device is not known to have done, or its last writes only.
    pub(super) fn under_way(&self, cell: &Cell, writes_only: bool) -> Vec<(usize, u64)> {
        let lasts = self.queues().map(|queue| (queue.index, self.last_use(cell, queue, writes_only)));
        lasts.filter(|&(index, last)| self.queue(index).done() < last).collect()
    }

    /// Whether a read queued now would stand behind one that waits for more than these writes.
    fn is_read_behind_later(&self, writes: &[(usize, u64)]) -> bool {
        let last = |index| writes.iter().find(|write| write.0 == index).map_or(0, |write| write.1);
        let read = self.queue(READ);
        let mut others = self.queues().filter(|other| other.index != READ);
        others.any(|other| read.waited(other.index) > last(other.index).max(other.done()))
    }

    /// Queues a read once the writes it waits for are done. Called under the state lock.
    pub(super) fn hold_read(&self, state: &mut State, mut read: HeldRead) {
        match self.next_of(&mut read.writes) {
            Some((index, sequence)) => self.when_done(state, index, sequence, Due::Read(read)),
            None => self.push(SPILL, read.job),
        }
    }

    /// Takes up operations whose buffer has come back, or has been spilled after all; true if there were any.
    pub(super) fn take_up_deferred(&self, state: &mut State) -> bool {
        let mut any = false;
        for (slot, op) in std::mem::take(&mut state.deferred) {
            let Some(record) = state.core.record(slot) else { continue };
            let cell = record.cell.clone();
            if state.in_lane.contains_key(&slot) {
                state.deferred.push_back((slot, op));
            } else if cell.load().phase() != Phase::Spilled {
                self.enter(state, slot, &cell, &op);
                // Who waits for it may be queueing a launch that it waits for from now on.
                state.ringing.push(op.event.clone());
                any = true;
            } else if state.core.is_coming_for_sure(slot) {
                state.deferred.push_back((slot, op));
            } else {
                state.core.begin_hold(slot);
                state.enter_lane(slot);
                self.push(RESTORE, Job::HostCopy { slot, cell, op });
                any = true;
            }
        }
        any
    }

    /// Does a host operation in the host copy, of a buffer that is spilled after all.
    pub(super) fn run_in_host_copy(&self, slot: Slot, cell: &Cell, op: &HostOp) {
        let wanted = op.begin();
        let done = match op.access {
            Access::Write | Access::Fill(_) if wanted => self.make_host_copy(cell),
            _ => Ok(()),
        };
        let copy = cell.host();
        if let (Ok(()), Some(copy), true) = (&done, &copy, wanted) {
            op.apply(copy);
        }
        {
            let mut state = lock(&self.state);
            state.leave_lane(slot);
            match copy {
                Some(_) => state.core.end_hold(slot),
                None => state.core.end_hold_without_copy(slot),
            }
            state.core.end_op(slot, false);
        }
        match done {
            Ok(()) => {
                if !matches!(op.access, Access::Read) {
                    op.take_staging();
                }
                op.finish(&mut lock(&self.state).ringing);
            }
            Err(failure) => op.fail(failure, &mut lock(&self.state).ringing),
        }
    }

    /// Queues a host operation's copy. `pinned` says that launches may be using the buffer whose uses are not all
    /// noted yet: then it comes behind all that is queued.
    pub(super) fn run_host(&self, slot: Slot, cell: &Arc<Cell>, op: &Arc<HostOp>, lane: usize, pinned: bool) {
        let reads = matches!(op.access, Access::Read);
        if !op.begin() {
            let mut state = lock(&self.state);
            state.leave_lane(slot);
            state.core.end_op(slot, false);
            drop(state);
            op.take_staging();
            return;
        }
        let queue = self.queue(lane);
        let at = cell.ptr().offset(op.offset);
        let staging = op.staging();
        let queued = self.order(queue, cell, reads).and_then(|()| {
            if pinned {
                for other in self.compute_queues() {
                    self.wait_for(queue, other, other.queued())?;
                }
            }
            match (&op.access, &staging) {
                (Access::Read, Some(staging)) => self.copy_runs_out(queue, cell, op.offset, staging),
                (Access::Write, Some(staging)) => {
                    let first = op.queued.load(Ordering::Acquire);
                    let copy = |before, run: &_| self.driver.copy_in(queue.id, run, at.offset(before));
                    let (queued, done) = staging.copy(first, copy);
                    op.queued.store(queued, Ordering::Release);
                    done
                }
                (Access::Fill(value), _) => self.driver.fill(queue.id, at, op.bytes, *value),
                (_, None) => Ok(()),
            }
        });
        match queued {
            Ok(()) => {
                let number = self.queued(queue, cell, !reads);
                let mut state = lock(&self.state);
                state.leave_lane(slot);
                state.core.end_op(slot, !reads);
                if let Some(staging) = staging {
                    let due = if reads { Due::Operation(op.clone(), staging) } else { Due::LetGo(staging) };
                    self.when_done(&mut state, queue.index, number, due);
                }
                if !reads {
                    // The host has handed its bytes over; the device takes them in order.
                    op.take_staging();
                    op.finish(&mut state.ringing);
                }
            }
            Err(error) => {
                let failure = self.failure(error);
                let is_torn = op.queued.load(Ordering::Acquire) > 0;
                if is_torn {
                    self.queued(queue, cell, true);
                }
                let mut state = lock(&self.state);
                if is_torn && state.lost.is_none() {
                    // It cannot be undone: the rest is tried again.
                    let job = Job::Host { slot, cell: cell.clone(), op: op.clone(), lane, pinned };
                    return state.refused.push((lane, job));
                }
                state.leave_lane(slot);
                state.core.end_op(slot, false);
                op.fail(failure, &mut state.ringing);
            }
        }
    }
}
