//! One queue of a simulated device, what is in it, and what it is doing.

use super::{busy::Lane, job::Job, table::Place};
use crate::driver::{DriverError, Fence};
use std::{collections::VecDeque, thread::Thread};

/// A queue: its operations run one after the other.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) ops: VecDeque<Queued>,
    pub(super) running: Option<Running>,
    /// The last operation submitted, and the last that has ended.
    pub(super) submitted: u64,
    pub(super) ended: u64,
    /// When that one ended.
    pub(super) free_at: u64,
    /// For each queue, the last operation that the next one submitted here runs behind.
    pub(super) known: Vec<u64>,
    /// Kernels submitted and not yet ended.
    pub(super) launches: usize,
    /// A test stops it before its next operation.
    pub(super) held: bool,
    /// It is in line for an engine, or rests for a fence.
    pub(super) blocked: bool,
    /// Its head has been given the engine it was in line for.
    pub(super) granted: bool,
    /// The thread that works for it, on a real clock.
    pub(super) worker: Option<Thread>,
}

impl Queue {
    pub(super) fn new() -> Queue {
        Queue {
            ops: VecDeque::new(),
            running: None,
            submitted: 0,
            ended: 0,
            free_at: 0,
            known: Vec::new(),
            launches: 0,
            held: false,
            blocked: false,
            granted: false,
            worker: None,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.running.is_none() && self.ops.is_empty()
    }
}

/// An operation in its queue.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) seq: u64,
    /// When the host submitted it.
    pub(super) ready: u64,
    pub(super) op: Op,
}

/// What an operation does.
#[derive(Debug)]
pub(super) enum Op {
    Allocate {
        base: u64,
    },
    Free {
        base: u64,
    },
    Record(Fence),
    Wait(Fence),
    Timed(Box<Task>),
    /// Loses the device when its turn comes: the host should not have submitted it.
    Illegal(DriverError),
}

/// Work that keeps an engine for a time.
pub(super) struct Task {
    pub(super) call: &'static str,
    pub(super) label: &'static str,
    pub(super) lane: Lane,
    /// Before the first byte moves, in nanoseconds.
    pub(super) setup: u64,
    /// While bytes move, or the kernel runs.
    pub(super) work: u64,
    /// Between the engine's end and the queue's.
    pub(super) latency: u64,
    /// In how many pieces the work is done.
    pub(super) cuts: u32,
    pub(super) is_launch: bool,
    /// It does something to bytes; not where they are not held.
    pub(super) moves: bool,
    pub(super) places: Vec<Place>,
    /// What is done to the bytes; its operands are bound when it starts.
    pub(super) job: Job,
}

impl Task {
    pub(super) fn bytes(&self) -> u64 {
        let counted = if self.is_launch { self.places.len() } else { 1 };
        self.places.iter().take(counted).map(|place| place.bytes).sum()
    }

    /// When piece `index` ends, of a task that starts at `start`: at the end of time, if its work takes longer.
    pub(super) fn piece_end(&self, start: u64, index: u32) -> u64 {
        let part = u128::from(self.work) * (u128::from(index) + 1) / u128::from(self.cuts.max(1));
        start.saturating_add(self.setup).saturating_add(part as u64)
    }
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task")
            .field("label", &self.label)
            .field("places", &self.places)
            .finish_non_exhaustive()
    }
}

/// Work that has begun.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) seq: u64,
    pub(super) start: u64,
    /// Pieces done.
    pub(super) done: u32,
    /// The engine has been given on; when it was done.
    pub(super) engine_end: Option<u64>,
    /// Whoever works for the queue has it; none while that is so.
    pub(super) task: Option<Box<Task>>,
}
