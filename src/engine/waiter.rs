//! What may wait for the whole device: frees where that is so, trims, and ends of exports. Threads of their own do it, and
//! nothing else, so that whoever drops, spills or makes room does not wait, and the device's own thread goes on learning of
//! fences. Ends of exports have one to themselves: others' work may take any time, and no free stands behind it.

use super::{
    Cell, Engine, Flags, RELEASE,
    jobs::Job,
    queue::OWN,
    state::State,
    sync::{Condvar, Mutex, lock},
};
use crate::{driver::DriverErrorKind, residency::Slot};
use std::sync::{Arc, PoisonError};

/// The lane of what waits for all that anyone has queued on the device.
pub(super) const DRAIN: usize = OWN;
/// How many lanes there are.
pub(super) const LANES: usize = OWN + 1;

/// The lanes that have such a thread, where the device has need of it.
pub(super) const WAITERS: [usize; 2] = [RELEASE, DRAIN];

/// What such a thread rests on.
#[derive(Debug, Default)]
pub struct Waiter {
    news: Mutex<News>,
    bell: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum News {
    #[default]
    None,
    /// There is something to do.
    Work,
    /// There will be no more.
    End,
}

impl Waiter {
    /// Tells that there is something to do.
    fn ring(&self) {
        let mut news = lock(&self.news);
        if *news == News::None {
            *news = News::Work;
            self.bell.notify_one();
        }
    }

    /// Tells that there will be no more.
    pub(super) fn end(&self) {
        *lock(&self.news) = News::End;
        self.bell.notify_one();
    }

    /// Rests until there is something to do; false at the end.
    fn wait(&self) -> bool {
        let mut news = lock(&self.news);
        while *news == News::None {
            news = self.bell.wait(news).unwrap_or_else(PoisonError::into_inner);
        }
        if *news == News::Work {
            *news = News::None;
            return true;
        }
        false
    }
}

impl Engine {
    /// What the thread of a lane rests on, if it has one: that of frees where memory is the device's own, since fixed memory
    /// is no pool's. On a computed clock there are none.
    pub(super) fn waiter(&self, lane: usize) -> Option<&Waiter> {
        let caps = self.driver.caps();
        let has_one = match lane {
            RELEASE => caps.spills || !caps.stream_ordered,
            _ => caps.drains,
        };
        let at = WAITERS.iter().position(|&its| its == lane).filter(|_| has_one && !caps.computed_clock)?;
        self.waiters.get(at)
    }

    /// What the thread of a lane rests on, if what is in the lane now is left to it.
    fn waiter_now(&self, lane: usize) -> Option<&Waiter> {
        let may_wait = lane == DRAIN || !self.driver.caps().stream_ordered || self.flags.has(Flags::FIXED);
        self.waiter(lane).filter(|_| may_wait)
    }

    /// The thread of a lane: does what is there to be done, has the device's own thread do what follows, rests.
    pub(super) fn tend_waits(&self, lane: usize) {
        while self.waiter(lane).is_some_and(Waiter::wait) {
            if self.waiter_now(lane).is_some() && self.run_lane(lane) {
                self.leave_jobs();
            }
        }
    }

    /// Whether the jobs of a lane were left to its thread. On a device that is lost nothing waits, so that anyone may do
    /// them.
    pub(super) fn leaves_to_waiter(&self, lane: usize) -> bool {
        let waiter = self.waiter_now(lane).filter(|_| !self.flags.has(Flags::LOST));
        if let Some(waiter) = waiter.filter(|_| !self.lanes[lane].is_empty()) {
            waiter.ring();
        }
        waiter.is_some()
    }

    /// Keeps everyone from a buffer until all that is queued on the device is done, on whatever stream. Its pointer was
    /// handed out, and nobody has said where its last use is.
    pub(super) fn start_drain(&self, cell: &Arc<Cell>) {
        let slot = cell.slot();
        let mut state = lock(&self.state);
        if state.lost.is_none() {
            state.core.begin_op(slot);
            state.enter_lane(slot);
            state.draining.push(slot);
            self.flags.set(Flags::DRAIN);
            if !std::mem::replace(&mut state.drain_asked, true) {
                self.push(DRAIN, Job::Drain);
            }
        }
    }

    /// Waits for the device, once for all buffers that are kept for that by now. Refused, it is tried again.
    pub(super) fn drain(&self) {
        let kept = {
            let mut state = lock(&self.state);
            state.drain_asked = false;
            state.draining.clone()
        };
        match self.driver.drain() {
            Err(error) if error.kind != DriverErrorKind::Lost => {
                tracing::warn!(target: "tack_residency", %error, "waiting for the device refused, tried again later");
                let mut state = lock(&self.state);
                if state.lost.is_none() && !std::mem::replace(&mut state.drain_asked, true) {
                    state.refused.push((DRAIN, Job::Drain));
                }
                return;
            }
            // Whoever loses the device lets go of them.
            Err(error) => _ = self.failure(error),
            Ok(()) => {
                let mut state = lock(&self.state);
                kept.into_iter().for_each(|slot| self.end_drain(&mut state, slot));
            }
        }
        // What comes next in the lane may take any time.
        self.leave_jobs();
    }

    /// Lets others at a buffer again, unless that has been done. Called under the state lock.
    fn end_drain(&self, state: &mut State, slot: Slot) {
        let Some(at) = state.draining.iter().position(|&other| other == slot) else { return };
        state.draining.swap_remove(at);
        self.flags.put(Flags::DRAIN, !state.draining.is_empty());
        state.leave_lane(slot);
        state.core.end_op(slot, true);
    }
}
