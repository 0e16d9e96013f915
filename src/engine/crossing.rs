//! Copies that come from another device's memory: queued on that device, and seen to their end by the one they come to.
//!
//! No queue of this device waits for them. So nothing is queued here that touches the buffer from before one is queued there
//! until it has ended: it is an operation on its buffer for as long.

use super::{
    COMPUTE, Cell, Engine, FURTHER, Flags, Owner,
    alarm::Alarm,
    nested::NESTED_WAIT,
    sync::{Event, Ordering, lock},
    wait::Watch,
};
use crate::{
    driver::{DevicePtr, Driver, DriverErrorKind, Fence, QueueId},
    residency::{Failure, Slot, WordCell},
};
use std::{
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::Duration,
};

/// How often launches that use the target anew are waited for.
const ROUNDS: u32 = 4;

/// How soon is looked again at what tells nobody that it has changed.
pub(super) const SOON: Duration = Duration::from_micros(200);

/// A place in a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Spot<'a> {
    /// The buffer, which is pinned.
    pub cell: &'a Arc<Cell>,
    /// Where in it, in bytes.
    pub offset: u64,
}

impl Spot<'_> {
    fn ptr(&self) -> DevicePtr {
        self.cell.ptr().offset(self.offset)
    }
}

/// A copy under way.
#[derive(Debug)]
pub(super) struct Crossing {
    slot: Slot,
    /// Where it is queued.
    driver: Arc<dyn Driver>,
    queue: QueueId,
    /// What it has passed when it has ended; none while that could not be recorded.
    fence: Option<Fence>,
    arrival: Arc<Arrival>,
}

impl Crossing {
    /// Whether it has ended, and how; an error of the driver says that this is to be asked again.
    fn look(&mut self) -> Result<Option<Result<(), Failure>>, ()> {
        let fence = self.fence.map_or_else(|| self.driver.record(self.queue), Ok);
        let passed = fence.and_then(|fence| self.driver.is_passed(*self.fence.insert(fence)));
        match passed {
            Ok(passed) => Ok(passed.then_some(Ok(()))),
            Err(error) if error.kind == DriverErrorKind::Lost => {
                Ok(Some(Err(Failure::Call(Arc::new(error)))))
            }
            Err(_) => Err(()),
        }
    }
}

impl Drop for Crossing {
    fn drop(&mut self) {
        if let Some(fence) = self.fence {
            self.driver.retire(fence);
        }
    }
}

/// How the wait for a copy to be queued ends; of a failure, whether it is of the device that is copied to.
type Queued = Result<Option<Arc<Arrival>>, (Failure, bool)>;

/// The end of a copy, for whoever waits for it.
#[derive(Debug)]
pub struct Arrival {
    event: Arc<Event>,
    outcome: OnceLock<Result<(), Failure>>,
}

impl Arrival {
    /// It has ended so, unless it had before; what is to be rung then.
    fn end(&self, outcome: Result<(), Failure>) -> Option<Arc<Event>> {
        self.outcome.set(outcome).is_ok().then(|| self.event.clone())
    }
}

/// Has a device's launches noted with what they use, for as long as it lives.
#[derive(Debug)]
struct Noting(Arc<Owner>);

impl Noting {
    fn new(owner: &Arc<Owner>) -> Noting {
        let mut state = lock(&owner.engine.state);
        state.noting += 1;
        owner.engine.track();
        drop(state);
        Noting(owner.clone())
    }
}

impl Drop for Noting {
    fn drop(&mut self) {
        lock(&self.0.engine.state).noting -= 1;
    }
}

/// A wait until a copy from another device is queued.
#[derive(Debug, Default)]
pub struct CrossWait {
    watch: Watch,
    alarm: Alarm,
    /// When to look again, where nobody tells.
    nap: Alarm,
    noting: Option<Noting>,
    /// What used the target when launches last did so anew, and how often they did.
    behind: Vec<(usize, u64)>,
    rounds: u32,
}

impl CrossWait {
    /// Waits until the device, `owner`'s, has done the launches that use a buffer, or for the end of `patience` from the
    /// first poll on. Nothing need be pinned. False if they use it anew again and again: there may be no end to it, and only
    /// an operation of the device's own has a place in between.
    pub fn poll_unused(
        &mut self,
        owner: &Arc<Owner>,
        cell: &Cell,
        cx: &mut Context<'_>,
        patience: Option<Duration>,
    ) -> Poll<Result<bool, Failure>> {
        let engine = &*owner.engine;
        self.begin(owner, patience);
        let CrossWait { watch, alarm, behind, rounds, .. } = self;
        watch.poll(engine, &engine.bell, cx, || {
            if let Some(failure) = engine.refuses_crossing() {
                return Some(Err(failure));
            }
            let uses = engine.uses(cell);
            if !uses.iter().any(is_launch) {
                return Some(Ok(true));
            }
            if engine.next_of(behind).is_none() {
                if *rounds == ROUNDS {
                    return Some(Ok(false));
                }
                (*behind, *rounds) = (uses, *rounds + 1);
            }
            alarm.is_over().then_some(Err(Failure::TimedOut))
        })
    }

    /// Waits until so many bytes from `from` are on their way to `to`, behind all that this was used for on its device,
    /// `owner`'s; or for the end of `patience` from the first poll on. Both buffers are pinned. None if launches use that
    /// anew, which is not to be waited for with pins.
    ///
    /// # Errors
    ///
    /// The failure, and whether it is of the device that is copied to.
    pub fn poll(
        &mut self,
        owner: &Arc<Owner>,
        (from, to, bytes): (Spot<'_>, Spot<'_>, u64),
        cx: &mut Context<'_>,
        patience: Option<Duration>,
    ) -> Poll<Queued> {
        let engine = &*owner.engine;
        self.begin(owner, patience);
        let CrossWait { watch, alarm, nap, .. } = self;
        watch.poll(engine, &engine.bell, cx, || {
            if let Some(failure) = engine.refuses_crossing() {
                return Some(Err((failure, true)));
            }
            if from.cell.engine.copy_waits_for_caller(from.cell) {
                return Some(Err((NESTED_WAIT, false)));
            }
            let uses = engine.uses(to.cell);
            if uses.iter().any(is_launch) {
                return Some(Ok(None));
            }
            if uses.is_empty() {
                match engine.start_crossing(from, to, bytes) {
                    Ok(None) => *nap = Alarm::default(),
                    started => return Some(started.map_err(|failure| (failure, false))),
                }
                nap.set(owner, &engine.bell, Some(SOON));
            }
            alarm.is_over().then_some(Err((Failure::TimedOut, true)))
        })
    }

    fn begin(&mut self, owner: &Arc<Owner>, patience: Option<Duration>) {
        self.alarm.set(owner, &owner.engine.bell, patience);
        self.noting.get_or_insert_with(|| Noting::new(owner));
    }
}

/// Whether a use is a launch's, which may take any time.
fn is_launch(&(index, _): &(usize, u64)) -> bool {
    index == COMPUTE || index >= FURTHER
}

/// A wait for the end of a copy that is queued.
#[derive(Debug, Default)]
pub struct ArrivalWait {
    watch: Watch,
    alarm: Alarm,
}

impl ArrivalWait {
    /// Waits for the end of a copy to `owner`'s device, or for that of `patience` from the first poll on.
    pub fn poll(
        &mut self,
        owner: &Arc<Owner>,
        arrival: &Arrival,
        cx: &mut Context<'_>,
        patience: Option<Duration>,
    ) -> Poll<Result<(), Failure>> {
        self.alarm.set(owner, &arrival.event, patience);
        let alarm = &self.alarm;
        let late = || alarm.is_over().then_some(Err(Failure::TimedOut));
        self.watch.poll(&owner.engine, &arrival.event, cx, || arrival.outcome.get().cloned().or_else(late))
    }
}

impl Engine {
    /// Why nothing is to be copied to this device, if so.
    fn refuses_crossing(&self) -> Option<Failure> {
        if self.flags.has(Flags::LOST) {
            return Some(Failure::Lost);
        }
        self.crossing_waits_for_caller().then_some(NESTED_WAIT)
    }

    /// Queues a copy to this device's buffer on the other's device, unless it would have to wait.
    ///
    /// # Errors
    ///
    /// The other device's.
    fn start_crossing(
        &self,
        from: Spot<'_>,
        to: Spot<'_>,
        bytes: u64,
    ) -> Result<Option<Arc<Arrival>>, Failure> {
        let other = &from.cell.engine;
        if from.cell.load().is_closed() {
            return Ok(None);
        }
        // The other device's side comes first, since only it may wait: with nothing of this one held.
        let submitting = other.begin_submit(COMPUTE, std::iter::once((from.cell, false)))?;
        if !self.enter_crossing(to.cell) {
            return Ok(None);
        }
        let (driver, queue, slot) = (&other.driver, other.queue_id(COMPUTE), to.cell.slot());
        if let Err(error) = driver.copy_to_peer(queue, from.ptr(), &*self.driver, to.ptr(), bytes) {
            drop(submitting);
            self.end_crossing(slot, false);
            self.pump();
            return Err(other.failure(error.of_no_allocation()));
        }
        to.cell.set(|word| word.with_dirty(true));
        let fence = driver.record(queue).ok();
        drop(submitting);
        let arrival = Arc::new(Arrival { event: Arc::new(Event::new()), outcome: OnceLock::new() });
        let crossing = Crossing { slot, driver: driver.clone(), queue, fence, arrival: arrival.clone() };
        lock(&self.crossings).push(crossing);
        self.driver.unpark();
        Ok(Some(arrival))
    }

    /// What uses a buffer and the device may not have done yet. Who waits for that is told when it has.
    fn uses(&self, cell: &Cell) -> Vec<(usize, u64)> {
        let uses = self.under_way(cell, false);
        uses.iter().for_each(|&(index, sequence)| self.queue(index).need(sequence));
        if !uses.is_empty() {
            self.driver.unpark();
        }
        uses
    }

    /// Keeps all others from a pinned buffer, if nobody is at it.
    fn enter_crossing(&self, cell: &Cell) -> bool {
        let slot = cell.slot();
        {
            let mut state = lock(&self.state);
            if state.lost.is_some() || state.core.record(slot).is_none_or(|record| record.ops > 0) {
                return false;
            }
            state.core.begin_op(slot);
            state.enter_lane(slot);
            self.crossing.fetch_add(1, Ordering::SeqCst);
        }
        // From here on a launch that begins to be queued finds the buffer closed.
        let mut begun = self.compute_queues().map(|queue| (queue, queue.begun()));
        if begun.all(|(queue, begun)| queue.is_settled(begun)) && self.uses(cell).is_empty() {
            return true;
        }
        self.end_crossing(slot, false);
        self.pump();
        false
    }

    /// Lets others at a buffer again.
    fn end_crossing(&self, slot: Slot, wrote: bool) {
        let mut state = lock(&self.state);
        state.leave_lane(slot);
        state.core.end_op(slot, wrote);
        self.crossing.fetch_sub(1, Ordering::SeqCst);
    }

    /// Ends the copies that have ended, unless someone else is at that; true if there were any. One to a device that is lost
    /// has failed, and keeps that device until it has run all the same.
    pub(super) fn follow_crossings(&self) -> bool {
        if !self.has_crossings() {
            return false;
        }
        let Ok(mut crossings) = self.crossings.try_lock() else { return false };
        let (mut told, mut ended) = (Vec::new(), Vec::new());
        for mut crossing in std::mem::take(&mut *crossings) {
            if self.flags.has(Flags::LOST) {
                told.extend(crossing.arrival.end(Err(Failure::Lost)));
            }
            match crossing.look() {
                Ok(Some(outcome)) => ended.push((crossing, outcome)),
                Ok(None) => crossings.push(crossing),
                Err(()) => {
                    self.look_again.store(true, Ordering::SeqCst);
                    crossings.push(crossing);
                }
            }
        }
        drop(crossings);
        let any = !told.is_empty() || !ended.is_empty();
        for (crossing, outcome) in ended {
            self.end_crossing(crossing.slot, true);
            told.extend(crossing.arrival.end(outcome));
        }
        lock(&self.state).ringing.extend(told);
        any
    }

    /// Whether one of these buffers is being copied to from another device, or kept until what others queued is done: that
    /// may take any time.
    pub fn awaits_others<'c>(&self, mut cells: impl Iterator<Item = &'c Arc<Cell>>) -> bool {
        if self.flags.has(Flags::LOST) || !(self.has_crossings() || self.flags.has(Flags::DRAIN)) {
            return false;
        }
        let mut slots = lock(&self.state).draining.clone();
        slots.extend(lock(&self.crossings).iter().map(|crossing| crossing.slot));
        cells.any(|cell| slots.contains(&cell.slot()))
    }

    /// Whether copies from other devices are under way.
    pub(super) fn has_crossings(&self) -> bool {
        self.crossing.load(Ordering::SeqCst) > 0
    }
}
