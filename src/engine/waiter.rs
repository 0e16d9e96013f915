//! What may wait for the whole device: frees where that is so, trims, and ends of exports. A thread of its own does it, and
//! nothing else, so that whoever drops, spills or makes room does not wait, and the device's own thread goes on learning of
//! fences.

use super::{
    Cell, Engine, Flags, RELEASE,
    jobs::Job,
    queue::OWN,
    sync::{Condvar, Mutex, Ordering, lock},
};
use crate::{driver::DriverErrorKind, residency::Slot};
use std::sync::{Arc, PoisonError};

/// The lane of what waits for all that anyone has queued on the device.
pub(super) const DRAIN: usize = OWN;
/// How many lanes there are.
pub(super) const LANES: usize = OWN + 1;

/// What that thread rests on.
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
    /// Whether there is such a thread: where memory is the device's own, since fixed memory is no pool's. On a computed clock
    /// there are none.
    pub(super) fn has_waiter(&self) -> bool {
        let caps = self.driver.caps();
        (caps.spills || caps.drains || !caps.stream_ordered) && !caps.computed_clock
    }

    /// Whether a lane is that thread's.
    fn is_waiters(&self, lane: usize) -> bool {
        let may_free_wait = || !self.driver.caps().stream_ordered || self.flags.has(Flags::FIXED);
        self.has_waiter() && (lane == DRAIN || lane == RELEASE && may_free_wait())
    }

    /// That thread: does what is there to be done, has the device's own thread do what follows, rests.
    pub(super) fn tend_waits(&self) {
        while self.waiter.wait() {
            let mut any = false;
            for lane in [RELEASE, DRAIN] {
                any |= self.is_waiters(lane) && self.run_lane(lane);
            }
            if any {
                self.leave_jobs();
            }
        }
    }

    /// Whether the jobs of a lane were left to that thread. On a device that is lost nothing waits, so that anyone may do
    /// them.
    pub(super) fn leaves_to_waiter(&self, lane: usize) -> bool {
        let is_left = self.is_waiters(lane) && !self.flags.has(Flags::LOST);
        if is_left && !self.lanes[lane].is_empty() {
            self.waiter.ring();
        }
        is_left
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
            self.drains.fetch_add(1, Ordering::SeqCst);
            self.push(DRAIN, Job::Drain { slot });
        }
    }

    /// Waits for the device. Refused, it is tried again.
    pub(super) fn drain(&self, slot: Slot) {
        let drained = self.driver.drain();
        match drained {
            Err(error) if error.kind != DriverErrorKind::Lost => {
                tracing::warn!(target: "tack_residency", %error, "waiting for the device refused, tried again later");
                let mut state = lock(&self.state);
                if state.lost.is_none() {
                    return state.refused.push((DRAIN, Job::Drain { slot }));
                }
            }
            Err(error) => _ = self.failure(error),
            Ok(()) => {}
        }
        let mut state = lock(&self.state);
        state.leave_lane(slot);
        state.core.end_op(slot, true);
        if let Some(at) = state.draining.iter().position(|&other| other == slot) {
            state.draining.swap_remove(at);
            self.drains.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Whether buffers are kept until the device has been drained.
    pub(super) fn has_drains(&self) -> bool {
        self.drains.load(Ordering::SeqCst) > 0
    }
}
