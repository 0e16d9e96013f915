//! The lane of frees where a free may wait for the whole device: a thread of its own runs it, and nothing else, so that
//! whoever drops, spills or makes room does not wait, and the device's own thread goes on learning of fences.

use super::{
    Engine, Flags, RELEASE,
    sync::{Condvar, Mutex, lock},
};
use std::sync::PoisonError;

/// What that thread rests on.
#[derive(Debug, Default)]
pub struct Frees {
    news: Mutex<News>,
    bell: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum News {
    #[default]
    None,
    /// There is something to free.
    Work,
    /// There will be no more.
    End,
}

impl Frees {
    /// Tells that there is something to free.
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

    /// Rests until there is something to free; false at the end.
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
    /// Whether frees have a thread of their own. On a computed clock there are no threads.
    pub(super) fn has_frees_thread(&self) -> bool {
        let caps = self.driver.caps();
        !caps.stream_ordered && !caps.computed_clock
    }

    /// That thread: frees what is there to be freed, has the device's own thread do what follows, rests.
    pub(super) fn tend_frees(&self) {
        while self.frees.wait() {
            if self.run_lane(RELEASE) {
                self.leave_jobs();
            }
        }
    }

    /// Whether the jobs of a lane were left to that thread. A device that is lost frees nothing, so that anyone may.
    pub(super) fn leaves_frees(&self, lane: usize) -> bool {
        let is_left = lane == RELEASE && self.has_frees_thread() && !self.flags.has(Flags::LOST);
        if is_left && !self.lanes[lane].is_empty() {
            self.frees.ring();
        }
        is_left
    }
}
