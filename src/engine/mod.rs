//! Joins decisions, driver and waiting. The only layer that waits, and the only one with locks.
//!
//! Rules, in the order that makes them safe:
//! 1. The state lock guards decisions. No driver call, waker, hook or user's `Drop` runs under it.
//! 2. Decisions become jobs in the lanes' outboxes while the state lock is held, so jobs stand in decision order.
//! 3. Whoever holds a lane's turn runs its jobs, in order; whoever does not leaves them to the holder. Where a job may
//!    wait for the whole device, its lane has a thread of its own.
//! 4. A job's outcome is fed to the core under the state lock, and what that decides is routed before it is given up.

pub mod access;
mod alarm;
mod block;
mod cell;
mod copy_in;
mod copy_out;
mod crossing;
mod due;
#[cfg(not(model))]
mod event;
mod flags;
mod free;
mod hand_out;
mod hint;
mod hook;
mod host_op;
mod host_runs;
mod host_tier;
mod jobs;
mod lane;
mod launcher;
#[cfg(model)]
mod model_event;
#[cfg(all(test, model))]
mod models;
mod nested;
mod order;
mod pump;
mod queue;
mod ring;
mod runtime;
mod state;
mod submit;
mod sync;
mod thread;
mod wait;
mod waiter;

pub use self::{
    block::block_on,
    cell::Cell,
    crossing::{Arrival, ArrivalWait, CrossWait, Spot},
    flags::Flags,
    hint::Hints,
    hook::Hook,
    host_op::HostOp,
    host_runs::HostRuns,
    host_tier::{HostTier, NoRuns},
    launcher::{LaunchWait, Launcher},
    queue::{COMPUTE, FURTHER, QUEUES},
    runtime::assert_may_block,
    state::{Holder, Spec},
    sync::{Event, Mutex, lock},
    thread::Owner,
    wait::{IdleWait, OpWait, Wait},
};

use crate::{
    driver::{Driver, DriverError, QueueId, QueueRole},
    residency::{Bytes, Failure, STAMP_MAX},
};
use crossing::Crossing;
use hook::HookTurn;
use lane::Lane;
use queue::{OWN, Queue, READ, RELEASE, RESTORE, SPILL};
use state::State;
use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use sync::{AtomicBool, AtomicU64, Ordering};

/// What an engine's own queues are for, by their places.
const ROLES: [QueueRole; OWN] =
    [QueueRole::Compute, QueueRole::Spill, QueueRole::Restore, QueueRole::Release, QueueRole::Spill];

/// How an engine is set up.
#[derive(Clone)]
pub struct Settings {
    /// The device's name, for reports.
    pub name: String,
    /// Called when memory is short, with the bytes asked for.
    pub hook: Option<Hook>,
    /// How long a request waits for pins alone before it fails.
    pub stall_after: Duration,
    /// Which copies are made.
    pub policy: crate::residency::Policy,
    /// Whether anything is spilled.
    pub spills: bool,
    /// Whom a spill takes.
    pub victims: crate::residency::Victims,
    /// When buffers are cleaned ahead of need: the marks, in percent of the budget.
    pub write_back: Option<(u8, u8)>,
    /// The device's memory in bytes, where buffers are kept to it and the driver can say.
    pub total: Option<u64>,
    /// The tag of buffers that name none.
    pub tag: Option<Arc<str>>,
}

/// One device's engine.
pub struct Engine {
    /// The driver.
    pub driver: Arc<dyn Driver>,
    /// How it is set up.
    pub settings: Settings,
    /// What every launch reads.
    pub flags: Flags,
    stamp: AtomicU64,
    state: Mutex<State>,
    queues: [OnceLock<Queue>; QUEUES],
    lanes: [Lane; waiter::LANES],
    turning: Mutex<()>,
    ordering: Mutex<()>,
    host: HostTier,
    bell: Arc<Event>,
    activity: AtomicU64,
    jobs: AtomicU64,
    /// How long requests have waited for room, in nanoseconds.
    waited: AtomicU64,
    hook: HookTurn,
    launchers: Mutex<Vec<std::sync::Weak<dyn Launcher>>>,
    has_launchers: AtomicBool,
    /// Queues of launches were not run, since one was being queued.
    launchers_left: AtomicBool,
    closing: AtomicBool,
    is_being_closed: Mutex<()>,
    waiters: [waiter::Waiter; waiter::WAITERS.len()],
    /// Jobs were left to the device's own thread, by one that may not call the driver or does nothing but wait.
    jobs_left: AtomicBool,
    /// The driver refused a look at the device.
    look_again: AtomicBool,
    /// Copies from other devices under way, and how many there are with those that begin or end.
    crossings: Mutex<Vec<Crossing>>,
    crossing: AtomicU64,
}

impl Engine {
    /// An engine on a driver's device, with its own queues.
    pub fn new(
        driver: Arc<dyn Driver>,
        budget: Bytes,
        host: HostTier,
        settings: Settings,
    ) -> Result<Engine, DriverError> {
        let queues: [OnceLock<Queue>; QUEUES] = std::array::from_fn(|_| OnceLock::new());
        for (index, (place, role)) in queues.iter().zip(ROLES).enumerate() {
            let _ = place.set(Queue::new(driver.create_queue(role)?, index));
        }
        let state = State::new(budget, &settings);
        Ok(Engine {
            driver,
            settings,
            flags: Flags::default(),
            stamp: AtomicU64::new(0),
            state: Mutex::new(state),
            queues,
            lanes: std::array::from_fn(|_| Lane::default()),
            turning: Mutex::new(()),
            ordering: Mutex::new(()),
            host,
            bell: Arc::new(Event::new()),
            activity: AtomicU64::new(0),
            jobs: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            hook: HookTurn::default(),
            launchers: Mutex::new(Vec::new()),
            has_launchers: AtomicBool::new(false),
            launchers_left: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            is_being_closed: Mutex::new(()),
            waiters: Default::default(),
            jobs_left: AtomicBool::new(false),
            look_again: AtomicBool::new(false),
            crossings: Mutex::new(Vec::new()),
            crossing: AtomicU64::new(0),
        })
    }

    /// Draws the next recency stamp.
    #[inline]
    pub fn stamp(&self) -> u64 {
        (self.stamp.fetch_add(1, Ordering::Relaxed) + 1).min(STAMP_MAX)
    }

    /// The queue at a place.
    pub(crate) fn queue(&self, index: usize) -> &Queue {
        self.queues[index].get().expect("the engine's own queues are made with it, others before their use")
    }

    pub(crate) fn queues(&self) -> impl Iterator<Item = &Queue> {
        self.queues.iter().filter_map(OnceLock::get)
    }

    fn compute_queues(&self) -> impl Iterator<Item = &Queue> {
        self.queues().filter(|queue| queue.index == COMPUTE || queue.index >= FURTHER)
    }

    /// Makes a further compute queue; its place.
    pub fn add_compute_queue(&self) -> Result<Option<usize>, DriverError> {
        if self.queues.iter().all(|place| place.get().is_some()) {
            return Ok(None);
        }
        let id: QueueId = self.driver.create_queue(QueueRole::Compute)?;
        for index in FURTHER..QUEUES {
            if self.queues[index].set(Queue::new(id, index)).is_ok() {
                self.flags.set(Flags::MULTI);
                let state = lock(&self.state);
                self.track();
                drop(state);
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    /// The driver's name for the queue at a place.
    pub fn queue_id(&self, index: usize) -> QueueId {
        self.queue(index).id
    }

    /// From now on every use is noted with its queue and number; those before are covered by each queue's base. Called
    /// under the state lock: who finds the flag set finds the base too.
    fn track(&self) {
        if !self.flags.has(Flags::TRACK) {
            self.flags.set(Flags::TRACK);
            self.compute_queues().for_each(Queue::rebase);
        }
    }

    /// The device is lost: everything under way has failed.
    pub(crate) fn lose(&self, cause: DriverError) {
        {
            let mut state = lock(&self.state);
            if state.lost.is_some() {
                return;
            }
            state.lost = Some(cause.clone());
            self.flags.set(Flags::LOST);
            state.core.lose();
            state.fail_operations();
        }
        tracing::error!(target: "tack_residency", device = %self.settings.name, %cause, "device lost");
        self.pump();
        self.ring();
    }

    /// The call that lost the device, if it is lost.
    pub fn lost(&self) -> Option<DriverError> {
        lock(&self.state).lost.clone()
    }

    /// Turns a driver's refusal into a request's failure, and notices a lost device.
    fn failure(&self, error: DriverError) -> Failure {
        use crate::driver::DriverErrorKind::{Lost, OutOfMemory};
        match error.kind {
            Lost => {
                self.lose(error);
                Failure::Lost
            }
            OutOfMemory => Failure::OutOfMemory { bytes: Bytes::ZERO },
            _ => Failure::Call(Arc::new(error)),
        }
    }

    fn ring(&self) {
        self.activity.fetch_add(1, Ordering::Relaxed);
        self.bell.notify(usize::MAX);
    }

    /// Host memory.
    pub fn host(&self) -> &HostTier {
        &self.host
    }

    /// Looks at the state under its lock. For reports.
    pub fn with_state<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut lock(&self.state))
    }

    /// Changes what the core decides by, and does what follows.
    pub fn change(&self, change: impl FnOnce(&mut crate::residency::Core<Arc<Cell>>)) {
        change(&mut lock(&self.state).core);
        self.pump();
    }

    /// Recounts every byte; panics with the figure that is wrong. For tests.
    pub fn check(&self) -> Result<(), crate::residency::Imbalance> {
        lock(&self.state).core.check()
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("name", &self.settings.name).finish_non_exhaustive()
    }
}
