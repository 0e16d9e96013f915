//! Driver calls that decisions ask for. Run by whoever has the lane's turn, with no lock but that.

use super::{
    COMPUTE, Cell, Engine, HostRuns, NoRuns, RELEASE, RESTORE, SPILL,
    copy_out::{CopyOut, Landing},
    due::Due,
    free::FreeJob,
    host_op::HostOp,
    queue::Queue,
    state::{Spec, State},
    sync::{Event, lock},
};
use crate::{
    driver::{DevicePtr, DriverError},
    residency::{Bytes, Core, Decision, Failure, Grant, GrantFor, Pace, RequestId, Slot},
};
use std::sync::Arc;

/// One piece of work for a lane.
#[derive(Debug)]
pub enum Job {
    /// Copy a buffer out.
    CopyOut { slot: Slot, token: u64, pace: Pace, cell: Arc<Cell> },
    /// Go on with a copy out that was ahead of need and is needed now.
    Hurry(CopyOut),
    /// Go on with copies out ahead of need.
    CopyOn,
    /// Copy a piece of a copy out on from its chunk of the ring.
    Land(Landing),
    /// Go on with copies in that waited for a chunk of the ring.
    CopyInOn,
    /// Copy a buffer in. `lent`: where a launch already prepared may write, and no launch is queued meanwhile.
    CopyIn { slot: Slot, cell: Arc<Cell>, lent: bool },
    /// Allocate.
    Allocate(Grant),
    /// Have the driver give up what it keeps.
    Trim,
    /// Wait for all that anyone has queued, since the last uses of buffers may be among it.
    Drain,
    /// Free what no one uses any more.
    Free { ptr: DevicePtr, bytes: Bytes },
    /// Free in the compute queue's order.
    FreeInOrder { ptr: DevicePtr, bytes: Bytes },
    /// A host operation on device memory, on its lane's queue.
    Host { slot: Slot, cell: Arc<Cell>, op: Arc<HostOp>, lane: usize, pinned: bool },
    /// A host operation in the host copy, which is held for it.
    HostCopy { slot: Slot, cell: Arc<Cell>, op: Arc<HostOp> },
}

impl Job {
    /// The device is lost: it will not be done.
    pub fn lost(self, core: &mut Core<Arc<Cell>>, ringing: &mut Vec<Arc<Event>>) {
        match self {
            Job::CopyOut { slot, token, .. } => core.copy_out_refused(slot, token, Failure::Lost),
            Job::Hurry(copy) => copy.lost(core),
            Job::Land(landing) => landing.lost(core),
            Job::CopyOn | Job::CopyInOn | Job::Drain => {}
            Job::CopyIn { slot, lent, .. } => {
                core.copy_in_refused(slot, Failure::Lost);
                if lent {
                    core.end_op(slot, false);
                }
            }
            Job::Allocate(grant) => core.refused(grant, Failure::Lost),
            Job::Trim => core.trimmed(),
            Job::Free { bytes, .. } | Job::FreeInOrder { bytes, .. } => core.left(bytes),
            Job::Host { slot, op, .. } => {
                op.fail(Failure::Lost, ringing);
                core.end_op(slot, false);
            }
            Job::HostCopy { slot, op, .. } => {
                op.fail(Failure::Lost, ringing);
                core.end_hold_without_copy(slot);
                core.end_op(slot, false);
            }
        }
    }
}

impl Engine {
    /// Makes a job of a decision, or does it. Called under the state lock.
    pub(super) fn route(&self, state: &mut State, decision: Decision<Arc<Cell>>) {
        match decision {
            Decision::CopyOut { slot, token, pace } => {
                if let Some(cell) = state.core.record(slot).map(|record| record.cell.clone()) {
                    self.push(SPILL, Job::CopyOut { slot, token, pace, cell });
                }
            }
            Decision::Hurry { token } => {
                if let Some(copy) = state.copies_out.remove(&token) {
                    self.push(SPILL, Job::Hurry(copy));
                }
            }
            Decision::CopyIn(slot) => {
                if let Some(cell) = state.core.record(slot).map(|record| record.cell.clone()) {
                    let lent = state.core.is_lent(slot);
                    let job = Job::CopyIn { slot, cell: cell.clone(), lent };
                    if lent {
                        state.core.begin_op(slot);
                        self.push_settled(state, &cell, RESTORE, job);
                    } else {
                        self.push(RESTORE, job);
                    }
                }
            }
            Decision::Allocate(grant) => {
                let lane = match grant.want {
                    GrantFor::Fresh(_) | GrantFor::Overwrite(_) => COMPUTE,
                    GrantFor::Restore(_) => RESTORE,
                    GrantFor::Room(_) => RELEASE,
                };
                self.push(lane, Job::Allocate(grant));
            }
            Decision::Trim => self.push(RELEASE, Job::Trim),
            Decision::Free { cell, bytes } => {
                let job = self.free_job(&cell, bytes);
                self.start_free(state, job);
            }
            Decision::FreeDropped { cell, bytes, memory } => {
                cell.replace_host(None);
                let ordered = self.driver.caps().stream_ordered && cell.is_compute_only() && !cell.fixed;
                if memory && ordered && bytes > Bytes::ZERO && state.lost.is_none() {
                    self.push(COMPUTE, Job::FreeInOrder { ptr: cell.ptr(), bytes });
                } else if memory {
                    let job = self.free_job(&cell, bytes);
                    self.start_free(state, job);
                }
                state.retired.push(cell);
            }
            Decision::DropHost(slot) => {
                state.core.record(slot).map(|record| record.cell.replace_host(None));
            }
            Decision::Wake(id) if state.core.is_kept_that_asks(id) => state.ring_all(),
            Decision::Wake(id) => state.ring(id),
        }
    }

    /// Takes host memory for a copy.
    pub(super) fn take_host(&self, bytes: u64) -> Result<HostRuns, Failure> {
        loop {
            match self.host.take(&*self.driver, bytes) {
                Ok(runs) => return Ok(runs),
                Err(NoRuns::Refused(error)) => return Err(self.failure(error)),
                Err(NoRuns::Full) if self.give_up_clean(bytes) => {}
                Err(NoRuns::Full) => return Err(Failure::HostOutOfMemory { bytes: Bytes(bytes) }),
            }
        }
    }

    /// Gives up host copies that only save a later copy, if that makes room for `bytes` more.
    fn give_up_clean(&self, bytes: u64) -> bool {
        let short = self.host.short(bytes).max(1);
        let mut state = lock(&self.state);
        let enough = state.core.give_up_clean(Bytes(short));
        self.route_all(&mut state);
        enough
    }

    /// Runs a job.
    pub(super) fn run(&self, job: Job) {
        if self.flags.has(super::Flags::LOST) {
            let state = &mut *lock(&self.state);
            job.lost(&mut state.core, &mut state.ringing);
            return;
        }
        match job {
            Job::CopyOut { slot, token, pace, cell } => self.begin_copy_out(slot, token, pace, cell),
            Job::Hurry(copy) => self.copy_out(copy),
            Job::CopyOn => self.copy_on(),
            Job::Land(landing) => self.land(landing),
            Job::CopyInOn => self.copy_in_on(),
            Job::CopyIn { slot, cell, lent } => {
                if !lent || lock(&self.state).core.is_copy_in_wanted(slot) {
                    self.copy_in(slot, cell.clone(), lent);
                }
                if lent {
                    lock(&self.state).core.end_op(slot, false);
                }
            }
            Job::Allocate(grant) => match grant.want {
                GrantFor::Fresh(id) => self.allocate_fresh(&grant, id),
                GrantFor::Restore(slot) => self.allocate_for(&grant, slot, RESTORE),
                GrantFor::Overwrite(slot) => self.allocate_for(&grant, slot, COMPUTE),
                GrantFor::Room(_) => self.allocate_room(&grant),
            },
            Job::Trim => {
                if let Err(error) = self.driver.trim() {
                    self.failure(error);
                }
                lock(&self.state).core.trimmed();
            }
            Job::Free { ptr, bytes } => match self.driver.free(self.queue(RELEASE).id, ptr) {
                Ok(()) => lock(&self.state).core.left(bytes),
                Err(error) => self.free_refused(error, bytes, job),
            },
            Job::FreeInOrder { ptr, bytes } => {
                let queue = self.queue(COMPUTE);
                match self.driver.free(queue.id, ptr) {
                    Ok(()) => {
                        let number = queue.number();
                        let mut state = lock(&self.state);
                        state.core.freed_in_order(bytes);
                        self.when_done(&mut state, COMPUTE, number, Due::Ordered(bytes));
                    }
                    Err(error) => self.free_refused(error, bytes, job),
                }
            }
            Job::Drain => self.drain(),
            Job::HostCopy { slot, cell, op } => self.run_in_host_copy(slot, &cell, &op),
            Job::Host { slot, cell, op, lane, pinned } => self.run_host(slot, &cell, &op, lane, pinned),
        }
    }

    /// A free that was refused is tried again, on the same queue, with the next look at the device.
    fn free_refused(&self, error: DriverError, bytes: Bytes, job: Job) {
        tracing::warn!(target: "tack_residency", %error, "free refused, tried again later");
        self.failure(error);
        let mut state = lock(&self.state);
        if state.lost.is_some() {
            state.core.left(bytes);
        } else {
            state.refused.push((RELEASE, job));
        }
    }

    /// Work on a buffer is queued: notes the use, and marks it with a fence of its own.
    pub(super) fn queued(&self, queue: &Queue, cell: &Cell, wrote: bool) -> u64 {
        let number = queue.number();
        cell.note_use(queue.index, number, wrote);
        self.mark(queue, number);
        number
    }

    /// Has a fence recorded behind a number. One refused now is recorded when it is looked for.
    pub(super) fn mark(&self, queue: &Queue, number: u64) {
        queue.need(number);
        if let Err(error) = queue.with_fence(&*self.driver, number, |_, _| Ok(())) {
            self.failure(error);
        }
    }

    fn allocate_fresh(&self, grant: &Grant, id: RequestId) {
        let (spec, stamp) = {
            let mut state = lock(&self.state);
            (state.specs.remove(&id), state.core.request(id).map(|request| request.stamp))
        };
        let Some((spec, stamp)) = spec.zip(stamp) else {
            lock(&self.state).core.refused(grant.clone(), Failure::Misuse("the request was dropped"));
            return;
        };
        let queue = self.queue(COMPUTE);
        match self.allocate_cleared(queue, grant.bytes, &spec) {
            Ok(ptr) => {
                let number = queue.number();
                let mut cell = Cell::new(spec.owner, ptr, spec.bytes, stamp);
                cell.fixed = spec.fixed;
                cell.tag = spec.tag;
                cell.note_use(COMPUTE, number, true);
                let cell = Arc::new(cell);
                let mut state = lock(&self.state);
                match state.core.allocated_fresh(grant, cell.clone(), spec.fixed) {
                    Some(slot) => {
                        cell.set_slot(slot);
                        state.fresh.insert(id, cell);
                    }
                    None => {
                        let job = FreeJob { ptr, bytes: grant.bytes, uses: vec![(COMPUTE, number)] };
                        self.start_free(&mut state, job);
                        state.retired.push(cell);
                    }
                }
            }
            Err(error) => {
                let failure = self.failure(error);
                let mut state = lock(&self.state);
                // Whoever asked may have gone meanwhile. What the spec holds is dropped once the lock is given up.
                let unused =
                    if state.core.request(id).is_some() { state.specs.insert(id, spec) } else { Some(spec) };
                state.core.refused(grant.clone(), failure);
                drop(state);
                drop(unused);
            }
        }
    }

    fn allocate_cleared(&self, queue: &Queue, bytes: Bytes, spec: &Spec) -> Result<DevicePtr, DriverError> {
        let ptr = if spec.fixed {
            self.flags.set(super::Flags::FIXED);
            self.driver.allocate_fixed(queue.id, bytes.0)
        } else {
            self.driver.allocate(queue.id, bytes.0)
        }?;
        if spec.cleared
            && let Err(error) = self.driver.fill(queue.id, ptr, spec.bytes, 0)
        {
            lock(&self.state).core.leave(bytes);
            self.give_back(ptr, bytes);
            return Err(error.of_no_allocation());
        }
        Ok(ptr)
    }

    /// Frees memory that nothing queued uses.
    fn give_back(&self, ptr: DevicePtr, bytes: Bytes) {
        if self.driver.caps().stream_ordered {
            self.run(Job::FreeInOrder { ptr, bytes });
        } else {
            self.start_free(&mut lock(&self.state), FreeJob { ptr, bytes, uses: Vec::new() });
        }
    }

    fn allocate_for(&self, grant: &Grant, slot: Slot, index: usize) {
        let queue = self.queue(index);
        let cell = lock(&self.state).core.blank(slot).cloned().filter(|cell| cell.is_zeroed());
        match self.driver.allocate(queue.id, grant.bytes.0) {
            Ok(ptr) => {
                let cleared = cell.map_or(Ok(()), |cell| self.driver.fill(queue.id, ptr, cell.bytes, 0));
                let failure = cleared.err().map(|error| self.failure(error.of_no_allocation()));
                let number = queue.number();
                let mut state = lock(&self.state);
                if let Some(failure) = failure {
                    state.core.leave(grant.bytes);
                    self.start_free(
                        &mut state,
                        FreeJob { ptr, bytes: grant.bytes, uses: vec![(index, number)] },
                    );
                    return state.core.refused(grant.clone(), failure);
                }
                if let Some(record) = state.core.record(slot) {
                    record.cell.set_ptr(ptr);
                    record.cell.note_use(index, number, true);
                }
                if !state.core.allocated(grant) {
                    let job = FreeJob { ptr, bytes: grant.bytes, uses: vec![(index, number)] };
                    self.start_free(&mut state, job);
                }
            }
            Err(error) => {
                let failure = self.failure(error);
                lock(&self.state).core.refused(grant.clone(), failure);
            }
        }
    }

    /// Shows that others can have the memory: takes it, frees it, and has the driver keep none of it.
    fn allocate_room(&self, grant: &Grant) {
        let (queue, bytes) = (self.queue(RELEASE), grant.bytes);
        let shown = self.driver.allocate(queue.id, bytes.0).and_then(|ptr| {
            lock(&self.state).core.leave(bytes);
            self.run(Job::Free { ptr, bytes });
            self.driver.trim()
        });
        match shown {
            Ok(_) => lock(&self.state).core.allocated_room(grant),
            Err(error) => {
                let failure = self.failure(error);
                lock(&self.state).core.refused(grant.clone(), failure);
            }
        }
    }
}
