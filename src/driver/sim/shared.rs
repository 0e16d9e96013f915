//! The lock around a device's state, and the waits that let it go.
//!
//! A [`Turn`] is a hold of the lock. User code (a kernel's body, what its closure owns) never runs under it.

use super::{Clock, Config, bell::Bell, worker, world::World};
use crate::driver::{DriverError, DriverErrorKind, Result};
use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize},
    },
    thread,
    time::{Duration, Instant},
};

/// What a device, its threads and its host memory share.
pub(super) struct Shared {
    pub(super) config: Arc<Config>,
    world: Mutex<World>,
    /// Something has ended, or a piece of work done with the lock let go is over.
    progress: Condvar,
    pub(super) bell: Arc<Bell>,
    opened: Instant,
    /// The device is being closed.
    pub(super) stop: AtomicBool,
    pub(super) threads: AtomicUsize,
    pub(super) host_bytes: Arc<AtomicU64>,
}

impl Shared {
    pub(super) fn new(config: Config) -> Shared {
        let (config, bell) = (Arc::new(config), Arc::new(Bell::default()));
        Shared {
            world: Mutex::new(World::new(Arc::clone(&config), Arc::clone(&bell))),
            config,
            progress: Condvar::new(),
            bell,
            opened: Instant::now(),
            stop: AtomicBool::new(false),
            threads: AtomicUsize::new(0),
            host_bytes: Arc::default(),
        }
    }

    /// Takes the lock, charging the host nothing.
    pub(super) fn turn(&self) -> Turn<'_> {
        let world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        let mut turn = Turn { shared: self, world: Some(world) };
        while turn.outside.is_some_and(|thread| thread != thread::current().id()) {
            turn.rest();
        }
        turn
    }

    /// Takes the lock for a call that costs the host `cost` and works on a device that is not lost.
    pub(super) fn begin(&self, cost: Duration) -> Result<Turn<'_>> {
        if self.config.clock == Clock::Real && !cost.is_zero() {
            let until = Instant::now() + cost;
            if cost > Duration::from_millis(1) {
                thread::sleep(cost);
            }
            while Instant::now() < until {
                std::hint::spin_loop();
            }
        }
        let mut turn = self.turn();
        turn.check_lost()?;
        if self.config.clock == Clock::Computed {
            turn.charge(cost);
            turn.check_lost()?;
        }
        Ok(turn)
    }

    /// Nanoseconds since the device was opened, on the host's own clock.
    pub(super) fn elapsed(&self) -> u64 {
        nanos(self.opened.elapsed())
    }

    pub(super) fn notify_progress(&self) {
        self.progress.notify_all();
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("config", &self.config).finish_non_exhaustive()
    }
}

/// A hold of the device's lock.
pub(super) struct Turn<'a> {
    pub(super) shared: &'a Shared,
    /// Taken only while the hold is being let go, so it is there whenever anyone looks.
    world: Option<MutexGuard<'a, World>>,
}

impl<'a> Turn<'a> {
    /// What time it is for the host.
    pub(super) fn time(&self) -> u64 {
        match self.shared.config.clock {
            Clock::Real => self.shared.elapsed(),
            Clock::Computed => self.now,
        }
    }

    /// Lets the lock go until something has ended.
    pub(super) fn rest(&mut self) {
        self.resting += 1;
        if let Some(world) = self.world.take() {
            self.world = Some(self.shared.progress.wait(world).unwrap_or_else(PoisonError::into_inner));
        }
        self.resting -= 1;
    }

    /// Runs `work` with the lock let go, while other threads' calls wait for it: theirs come after it in time.
    pub(super) fn outside<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let before = self.outside.replace(thread::current().id());
        drop(self.world.take());
        let result = work();
        self.world = Some(self.shared.world.lock().unwrap_or_else(PoisonError::into_inner));
        self.outside = before;
        if self.resting > 0 {
            self.shared.notify_progress();
        }
        result
    }

    /// Whether this call comes from within a piece of the device's own work.
    pub(super) fn is_within_work(&self) -> bool {
        self.outside.is_some() || worker::is_one_of(self.shared)
    }

    /// Notes that the host knows of all that has ended.
    pub(super) fn learn_ended(&mut self) {
        let world = &mut **self;
        for (index, queue) in world.queues.iter().enumerate() {
            raise(&mut world.host_known, index, queue.ended);
        }
    }

    /// Waits until the device is idle.
    pub(super) fn wait_idle(&mut self) {
        match self.shared.config.clock {
            Clock::Real => self.wait_until(World::is_idle),
            Clock::Computed => while self.lost.is_none() && self.step() {},
        }
        self.learn_ended();
    }

    /// Waits until `queue` has ended operation `seq`: the host then knows that it has.
    pub(super) fn wait_for(&mut self, queue: usize, seq: u64) -> Result<()> {
        self.wait_until(|world| world.queues[queue].ended >= seq);
        self.check_lost()?;
        let known = self.queues[queue].known.clone();
        join(&mut self.host_known, &known);
        raise(&mut self.host_known, queue, seq);
        Ok(())
    }

    /// Waits until `done`, or until the device is lost.
    pub(super) fn wait_until(&mut self, done: impl Fn(&World) -> bool) {
        while !done(self) && self.lost.is_none() {
            if self.shared.config.clock == Clock::Real || !self.step() {
                self.rest();
            }
        }
    }

    /// Refuses a call that would have to wait for the very work it is made from.
    pub(super) fn check_may_wait(&self, call: &'static str) -> Result<()> {
        if self.is_within_work() {
            let message = "a kernel's body must not wait for its own device";
            return Err(DriverError::new(DriverErrorKind::Invalid, call, 0, message));
        }
        Ok(())
    }
}

impl Deref for Turn<'_> {
    type Target = World;

    fn deref(&self) -> &World {
        self.world.as_deref().expect("a turn holds the lock but while it waits")
    }
}

impl DerefMut for Turn<'_> {
    fn deref_mut(&mut self) -> &mut World {
        self.world.as_deref_mut().expect("a turn holds the lock but while it waits")
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let Some(mut world) = self.world.take() else { return };
        let trash = std::mem::take(&mut world.trash);
        if world.resting > 0 {
            self.shared.notify_progress();
        }
        drop(world);
        drop(trash);
    }
}

/// Raises each of `known` to what `more` knows.
pub(super) fn join(known: &mut Vec<u64>, more: &[u64]) {
    if known.len() < more.len() {
        known.resize(more.len(), 0);
    }
    for (known, more) in known.iter_mut().zip(more) {
        *known = (*known).max(*more);
    }
}

/// Raises what is known of `queue` to operation `seq`.
pub(super) fn raise(known: &mut Vec<u64>, queue: usize, seq: u64) {
    if known.len() <= queue {
        known.resize(queue + 1, 0);
    }
    known[queue] = known[queue].max(seq);
}

/// A time as the timeline counts it.
pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
