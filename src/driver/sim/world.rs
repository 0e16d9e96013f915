//! The simulated device's state, and what moves it: work starts when its queue, fence and engine let it.
//!
//! One state for both clocks. It is told the time and never asks for it, moves no bytes and rests no thread: on a
//! computed clock `timeline` does the work that started here, on a real one `worker` does.

use super::{
    Clock, Config, Contents,
    bell::Bell,
    block::Spares,
    busy::{Lane, Meter, Span},
    fences::Fences,
    job::Operand,
    pool::Reserve,
    queue::{Op, Queue, Queued, Running, Task},
    table::Table,
};
use crate::driver::{DevicePtr, DriverError, DriverErrorKind, Fence, QueueId, Result};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    sync::Arc,
    thread::ThreadId,
    time::Duration,
};

/// An engine: how many may use it, and who is in line.
#[derive(Debug)]
struct Engine {
    slots: usize,
    line: VecDeque<usize>,
}

/// Everything a device's lock guards.
#[derive(Debug)]
pub(super) struct World {
    pub(super) config: Arc<Config>,
    /// Computed clock: what time it is for the host, and when which queue's work goes on.
    pub(super) now: u64,
    pub(super) events: BinaryHeap<Reverse<(u64, u64, usize)>>,
    scheduled: u64,
    /// The thread that does a piece of work with the lock let go.
    pub(super) outside: Option<ThreadId>,
    pub(super) queues: Vec<Queue>,
    engines: [Engine; 3],
    /// Queues to look at, and from when on.
    kicks: VecDeque<(usize, u64)>,
    pub(super) table: Table,
    pub(super) reserve: Reserve,
    pub(super) fences: Fences,
    pub(super) spares: Arc<Spares>,
    /// For each queue, the last operation that the host knows has ended.
    pub(super) host_known: Vec<u64>,
    pub(super) meter: Meter,
    pub(super) spans: Vec<Span>,
    pub(super) bell: Arc<Bell>,
    pub(super) lost: Option<DriverError>,
    pub(super) faults: Vec<DriverError>,
    /// Work that will not run, to be dropped without the lock: its closures are the user's.
    pub(super) trash: Vec<Queued>,
    pub(super) corrupt_next_copy_out: bool,
    /// Threads that rest until something has ended.
    pub(super) resting: usize,
}

impl World {
    pub(super) fn new(config: Arc<Config>, bell: Arc<Bell>) -> World {
        let slots = [1, 1, config.concurrent_kernels.unwrap_or(usize::MAX)];
        World {
            reserve: Reserve::new((!config.overcommits).then_some(config.capacity)),
            table: Table::new(config.first_address),
            config,
            now: 0,
            events: BinaryHeap::new(),
            scheduled: 0,
            outside: None,
            queues: Vec::new(),
            engines: slots.map(|slots| Engine { slots, line: VecDeque::new() }),
            kicks: VecDeque::new(),
            fences: Fences::default(),
            spares: Arc::default(),
            host_known: Vec::new(),
            meter: Meter::default(),
            spans: Vec::new(),
            bell,
            lost: None,
            faults: Vec::new(),
            trash: Vec::new(),
            corrupt_next_copy_out: false,
            resting: 0,
        }
    }

    pub(super) fn holds_bytes(&self) -> bool {
        self.config.contents == Contents::Held
    }

    /// Puts an operation at the end of a queue at time `at`; its number.
    pub(super) fn submit(&mut self, queue: usize, op: Op, at: u64) -> u64 {
        let target = &mut self.queues[queue];
        target.submitted += 1;
        let seq = target.submitted;
        target.ops.push_back(Queued { seq, ready: at, op });
        self.kick(queue, at);
        seq
    }

    /// Looks whether a queue's next operations can begin, and then at every queue that this lets go on.
    pub(super) fn kick(&mut self, queue: usize, at: u64) {
        self.kicks.push_back((queue, at));
        self.drain_kicks();
    }

    fn drain_kicks(&mut self) {
        while let Some((queue, at)) = self.kicks.pop_front() {
            while self.begin_next(queue, at) {}
        }
    }

    /// Begins a queue's next operation; whether it is over already and another may follow.
    fn begin_next(&mut self, index: usize, at: u64) -> bool {
        let queue = &mut self.queues[index];
        if queue.running.is_some() || queue.held || queue.blocked || self.lost.is_some() {
            return false;
        }
        let Some(head) = queue.ops.front() else { return false };
        let mut at = at.max(head.ready).max(queue.free_at);
        match &head.op {
            Op::Wait(fence) => match self.fences.passed_at(*fence) {
                Some(passed) => at = at.max(passed),
                None => {
                    queue.blocked = true;
                    self.fences.rest(*fence, index);
                    return false;
                }
            },
            Op::Timed(task) => {
                let engine = &mut self.engines[task.lane.index()];
                if !std::mem::take(&mut queue.granted) {
                    if engine.slots == 0 {
                        queue.blocked = true;
                        engine.line.push_back(index);
                        return false;
                    }
                    engine.slots -= 1;
                }
            }
            Op::Allocate { .. } | Op::Free { .. } | Op::Record(_) | Op::Illegal(_) => {}
        }
        let Some(Queued { seq, op, .. }) = queue.ops.pop_front() else { return false };
        queue.free_at = at;
        match op {
            Op::Timed(task) => {
                self.start(index, seq, task, at);
                return false;
            }
            Op::Illegal(error) => self.lose(error),
            Op::Allocate { base } => self.table.make_live(base),
            Op::Free { base } => self.free_now(index, seq, base),
            Op::Record(fence) => self.pass(fence, at),
            Op::Wait(fence) => self.fences.end_wait(fence),
        }
        self.queues[index].ended = seq;
        true
    }

    fn pass(&mut self, fence: Fence, at: u64) {
        for resting in self.fences.pass(fence, at) {
            self.queues[resting].blocked = false;
            self.kicks.push_back((resting, at));
        }
        if self.config.clock == Clock::Real {
            self.bell.ring();
        }
    }

    fn free_now(&mut self, queue: usize, seq: u64, base: u64) {
        self.table.remove(base);
        self.reserve.settle(queue, seq);
    }

    fn start(&mut self, index: usize, seq: u64, mut task: Box<Task>, at: u64) {
        if let Some(error) = self.not_live(&task) {
            return self.lose(error);
        }
        let holds = self.holds_bytes();
        let block = |base| self.table.get(base).and_then(|held| held.block.clone()).filter(|_| holds);
        task.job.operands =
            task.places.iter().map(|&place| Operand { place, block: block(place.base) }).collect();
        self.meter.begin(task.lane, at);
        let first = task.piece_end(at, 0);
        let queue = &mut self.queues[index];
        queue.running = Some(Running { seq, start: at, done: 0, engine_end: None, task: Some(task) });
        match (&queue.worker, self.config.clock) {
            (Some(worker), Clock::Real) => worker.unpark(),
            _ => self.schedule(first, index),
        }
    }

    /// Puts a queue's next event on the computed timeline.
    pub(super) fn schedule(&mut self, at: u64, queue: usize) {
        self.scheduled += 1;
        self.events.push(Reverse((at, self.scheduled, queue)));
    }

    /// Ends the engine's part of what runs in a queue, and gives the engine to the next in line.
    pub(super) fn end_engine(&mut self, index: usize, lane: Lane, at: u64) {
        if let Some(running) = self.queues[index].running.as_mut() {
            running.engine_end = Some(at);
        }
        self.meter.end(lane, at);
        let engine = &mut self.engines[lane.index()];
        match engine.line.pop_front() {
            Some(next) => {
                self.queues[next].blocked = false;
                self.queues[next].granted = true;
                self.kicks.push_back((next, at));
            }
            None => engine.slots = engine.slots.saturating_add(1),
        }
        self.drain_kicks();
    }

    /// Takes a queue out of line for an engine, so that a test may hold it.
    pub(super) fn leave_line(&mut self, index: usize) {
        for engine in &mut self.engines {
            let before = engine.line.len();
            engine.line.retain(|&queue| queue != index);
            if engine.line.len() < before {
                self.queues[index].blocked = false;
            }
        }
    }

    /// Ends what runs in a queue, and lets it go on.
    pub(super) fn end(&mut self, index: usize, task: &Task, at: u64) {
        let error = self.not_live(task);
        let queue = &mut self.queues[index];
        let Some(running) = queue.running.take() else { return };
        queue.ended = running.seq;
        queue.free_at = at;
        queue.launches -= usize::from(task.is_launch);
        if let Some(error) = error {
            return self.lose(error);
        }
        if self.config.trace == super::Trace::Recorded {
            self.spans.push(Span {
                queue: QueueId(index as u32),
                lane: task.lane,
                label: task.label,
                ptr: task
                    .places
                    .first()
                    .map_or(DevicePtr::NULL, |place| DevicePtr(place.base + place.offset)),
                bytes: task.bytes(),
                start: Duration::from_nanos(running.start),
                end: Duration::from_nanos(running.engine_end.unwrap_or(at)),
            });
        }
        self.kick(index, at);
    }

    /// Why a task may not touch what it touches, if it may not: not allocated, or freed meanwhile.
    fn not_live(&self, task: &Task) -> Option<DriverError> {
        let live = |base| self.table.get(base).is_some_and(|held| held.live);
        let place = task.places.iter().find(|place| place.bytes > 0 && !live(place.base))?;
        let at = place.base + place.offset;
        Some(illegal(
            task.call,
            at,
            place.bytes,
            "that memory was freed, or not yet allocated, while it was used",
        ))
    }

    /// Loses the device: nothing queued will run.
    pub(super) fn lose(&mut self, error: DriverError) {
        self.faults.push(error.clone());
        if self.lost.is_some() {
            return;
        }
        self.lost = Some(error);
        self.events.clear();
        self.kicks.clear();
        for queue in &mut self.queues {
            self.trash.extend(queue.ops.drain(..));
            queue.launches = 0;
            if let Some(Running { seq, task: Some(task), .. }) = queue.running.take() {
                self.trash.push(Queued { seq, ready: 0, op: Op::Timed(task) });
            }
            if let Some(worker) = &queue.worker {
                worker.unpark();
            }
        }
        self.bell.ring();
    }

    /// The error of every call on a lost device.
    pub(super) fn check_lost(&self) -> Result<()> {
        self.lost.clone().map_or(Ok(()), Err)
    }

    /// Everything submitted has ended, but for what tests hold.
    pub(super) fn is_idle(&self) -> bool {
        self.queues.iter().all(Queue::is_idle)
    }
}

/// What an access outside what is allocated and ordered becomes.
pub(super) fn illegal(call: &'static str, at: u64, bytes: u64, why: &str) -> DriverError {
    let message = format!("illegal address {at:#x} ({bytes} bytes): {why}");
    DriverError::new(DriverErrorKind::Lost, call, 700, message)
}
