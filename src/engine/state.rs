//! What the state lock guards: the core, and what stands between its decisions and the driver's completions.

use super::sync::Event;
use super::{
    Cell, HostRuns, Owner, Settings, copy_in::CopyIn, copy_out::CopyOut, due::Due, host_op::HostOp,
    jobs::Job, ring::Ring,
};
use crate::{
    driver::DriverError,
    residency::{Bytes, Core, RequestId, Slot},
};
use std::{
    collections::{BTreeMap, VecDeque},
    panic::Location,
    sync::Arc,
    thread::ThreadId,
    time::Duration,
};

#[cfg(debug_assertions)]
const RECOUNTED: usize = 64;

/// What a new buffer is to be.
#[derive(Debug)]
pub struct Spec {
    /// Its device.
    pub owner: Arc<Owner>,
    /// The bytes that were asked for.
    pub bytes: u64,
    /// Cleared to zero.
    pub cleared: bool,
    /// Never to move.
    pub fixed: bool,
    /// Where it comes from.
    pub tag: Option<Arc<str>>,
}

/// Who holds pins, for the report of a stall.
#[derive(Clone, Debug)]
pub struct Holder {
    /// What is held: a residency guard, or a launch.
    pub what: &'static str,
    /// Where it was taken.
    pub place: &'static Location<'static>,
    /// By which thread.
    pub thread: ThreadId,
    /// The bytes held.
    pub bytes: u64,
    /// The first buffer's tag.
    pub tag: Option<Arc<str>>,
}

/// What is rung for a request.
#[derive(Debug)]
pub(super) struct Bell {
    pub(super) event: Arc<Event>,
    /// Since when it waits for room, if it does.
    pub(super) waits_since: Option<Duration>,
}

/// A job that waits for launches being queued.
#[derive(Debug)]
pub(super) struct Settling {
    /// How much work had begun to be queued on each queue.
    pub(super) begun: Vec<(usize, u64)>,
    /// Where the job goes then.
    pub(super) lane: usize,
    /// The job.
    pub(super) job: Job,
}

/// The engine's state.
#[derive(Debug)]
pub struct State {
    /// The decisions.
    pub core: Core<Arc<Cell>>,
    /// What lost the device.
    pub lost: Option<DriverError>,
    /// What the new buffers of requests are to be.
    pub(super) specs: BTreeMap<RequestId, Spec>,
    /// New buffers not yet taken by who asked.
    pub(super) fresh: BTreeMap<RequestId, Arc<Cell>>,
    pub(super) bells: BTreeMap<RequestId, Bell>,
    /// Waits for room that have ended, by when they began, and are not added up yet.
    pub(super) waits: Vec<Duration>,
    /// What follows when a queue has done a number.
    pub(super) due: BTreeMap<(usize, u64, u64), Due>,
    /// Copies out that wait for their next piece's turn, by their tokens.
    pub(super) copies_out: BTreeMap<u64, CopyOut>,
    /// How many pieces of copies out ahead of need are in the queue.
    pub(super) pieces: usize,
    /// Copies in through a ring that wait for a chunk, in the order of their decisions.
    pub(super) copies_in: VecDeque<CopyIn>,
    /// The chunks that copies out go through, and copies in.
    pub(super) ring_out: Ring,
    pub(super) ring_in: Ring,
    /// Bytes that went through them.
    pub ring_bytes: u64,
    /// How many need launches noted with what they use.
    pub(super) noting: usize,
    /// Jobs that wait for launches being queued.
    pub(super) settling: VecDeque<Settling>,
    /// Host operations that wait for a restore to be queued, or for another of the same buffer.
    pub(super) deferred: VecDeque<(Slot, Arc<HostOp>)>,
    /// Buffers with operations in lanes, and how many: the next one of each waits for them, since lanes know no order.
    pub(super) in_lane: BTreeMap<Slot, u32>,
    /// Buffers that are kept until the device has been drained, once for each time.
    pub(super) draining: Vec<Slot>,
    /// A wait for the device is a job that has not begun: it is for all of these.
    pub(super) drain_asked: bool,
    pub(super) deadlines: BTreeMap<RequestId, Duration>,
    /// What is rung when.
    pub(super) alarms: BTreeMap<(Duration, u64), Arc<Event>>,
    pub(super) stalled: Option<(RequestId, Duration)>,
    /// Who holds pins, where that is known.
    pub holders: BTreeMap<u64, Holder>,
    /// Jobs that the driver refused and that must be done all the same, for another try, with their lanes.
    pub(super) refused: Vec<(usize, Job)>,
    /// Not before then.
    pub(super) retry_at: Duration,
    /// Cells to be dropped once the lock is given up.
    pub(super) retired: Vec<Arc<Cell>>,
    /// Bells to be rung once the lock is given up.
    pub(super) ringing: Vec<Arc<Event>>,
    next: u64,
    /// Rounds of decisions since the books were recounted.
    #[cfg(debug_assertions)]
    unchecked: usize,
}

impl State {
    pub(super) fn new(budget: Bytes, settings: &Settings) -> State {
        State {
            core: State::core(budget, settings),
            lost: None,
            specs: BTreeMap::new(),
            fresh: BTreeMap::new(),
            bells: BTreeMap::new(),
            waits: Vec::new(),
            due: BTreeMap::new(),
            copies_out: BTreeMap::new(),
            pieces: 0,
            copies_in: VecDeque::new(),
            ring_out: Ring::default(),
            ring_in: Ring::default(),
            ring_bytes: 0,
            noting: 0,
            settling: VecDeque::new(),
            deferred: VecDeque::new(),
            in_lane: BTreeMap::new(),
            draining: Vec::new(),
            drain_asked: false,
            deadlines: BTreeMap::new(),
            alarms: BTreeMap::new(),
            stalled: None,
            holders: BTreeMap::new(),
            refused: Vec::new(),
            retry_at: Duration::ZERO,
            retired: Vec::new(),
            ringing: Vec::new(),
            next: 0,
            #[cfg(debug_assertions)]
            unchecked: 0,
        }
    }

    /// Rings for a request from now on.
    pub(super) fn add_bell(&mut self, id: RequestId, event: &Arc<Event>) {
        self.bells.insert(id, Bell { event: event.clone(), waits_since: None });
    }

    /// Rings for a request no more.
    pub(super) fn remove_bell(&mut self, id: RequestId) {
        let bell = self.bells.remove(&id);
        self.waits.extend(bell.and_then(|bell| bell.waits_since));
    }

    /// Rings for a request; its wait is over if it has ended.
    pub(super) fn ring(&mut self, id: RequestId) {
        let Some(bell) = self.bells.get_mut(&id) else { return };
        self.ringing.push(bell.event.clone());
        if self.core.request(id).is_none_or(|request| !request.is_waiting()) {
            self.waits.extend(bell.waits_since.take());
        }
    }

    /// Rings for everyone: whoever waits can run the caller's hook.
    pub(super) fn ring_all(&mut self) {
        self.ringing.extend(self.bells.values().map(|bell| bell.event.clone()));
    }

    fn core(budget: Bytes, settings: &Settings) -> Core<Arc<Cell>> {
        let mut core = Core::new(budget, settings.policy, settings.hook.is_some());
        core.set_spills(settings.spills);
        core.set_victims(settings.victims);
        core.set_write_back(settings.write_back);
        core.set_total(settings.total.map_or(Bytes::MAX, Bytes));
        core
    }

    /// Draws a number that no other entry has.
    pub fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Recounts the books: after each round of decisions where buffers are few, and where they are many as seldom as
    /// keeps its cost to some [`RECOUNTED`] buffers a round.
    #[cfg(debug_assertions)]
    pub(super) fn recount(&mut self) {
        self.unchecked += 1;
        if self.unchecked.saturating_mul(RECOUNTED) >= self.core.buffers() {
            self.unchecked = 0;
            if let Err(imbalance) = self.core.check() {
                panic!("the books do not balance: {imbalance}");
            }
        }
    }

    /// When the next wait with a deadline has to look again.
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        let alarm = self.alarms.keys().next().map(|&(at, _)| at);
        self.deadlines.values().min().copied().into_iter().chain(alarm).min()
    }

    /// A copy out has ended, and `copy` is the host copy now.
    pub(super) fn copied_out(&mut self, slot: Slot, token: u64, cell: Arc<Cell>, copy: HostRuns) {
        cell.replace_host(Some(copy));
        if self.core.record(slot).is_none() {
            cell.replace_host(None);
        }
        self.core.copied_out(slot, token);
        self.retired.push(cell);
    }

    /// An operation on a buffer is in a lane.
    pub(super) fn enter_lane(&mut self, slot: Slot) {
        *self.in_lane.entry(slot).or_default() += 1;
    }

    /// It has been run.
    pub(super) fn leave_lane(&mut self, slot: Slot) {
        let count = self.in_lane.entry(slot).or_default();
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.in_lane.remove(&slot);
        }
    }

    /// Nothing is under way.
    pub(super) fn is_quiet(&self) -> bool {
        let copies = self.copies_out.len() + self.copies_in.len();
        let waiting = self.due.len() + self.settling.len() + self.deferred.len() + copies;
        waiting == 0 && !self.core.has_decisions()
    }

    /// The device is lost: what the host waits for of it fails.
    pub(super) fn fail_operations(&mut self) {
        for (_, due) in std::mem::take(&mut self.due) {
            due.lost(&mut self.core, &mut self.ringing);
        }
        for waiting in std::mem::take(&mut self.settling) {
            waiting.job.lost(&mut self.core, &mut self.ringing);
        }
        for (_, copy) in std::mem::take(&mut self.copies_out) {
            copy.lost(&mut self.core);
        }
        for copy in std::mem::take(&mut self.copies_in) {
            copy.lost(&mut self.core);
        }
        for (slot, op) in std::mem::take(&mut self.deferred) {
            op.fail(crate::residency::Failure::Lost, &mut self.ringing);
            self.core.end_op(slot, false);
        }
        for slot in std::mem::take(&mut self.draining) {
            self.leave_lane(slot);
            self.core.end_op(slot, false);
        }
        for (_, job) in std::mem::take(&mut self.refused) {
            job.lost(&mut self.core, &mut self.ringing);
        }
    }
}
