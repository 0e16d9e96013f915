//! How often the device's thread looks at its fences: the longer none has passed, the more seldom.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// How long after the last fence passed the next one is looked for without a rest, since copies come in rows: a rest on
/// Linux takes fifty microseconds more than asked for.
const AT_ONCE: Duration = Duration::from_micros(40);

/// The shortest rest.
const OFTEN: Duration = Duration::from_micros(20);

/// The longest rest while a fence is outstanding.
pub(super) const SELDOM: Duration = Duration::from_micros(500);

/// The device's clock, and when something last happened on it.
#[derive(Debug)]
pub(super) struct Pace {
    opened: Instant,
    /// Nanoseconds since it was opened.
    noted: AtomicU64,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { opened: Instant::now(), noted: AtomicU64::new(0) }
    }
}

impl Pace {
    /// Time since the device was opened.
    pub(super) fn now(&self) -> Duration {
        self.opened.elapsed()
    }

    /// A fence has passed, or one was recorded with no other outstanding.
    pub(super) fn note(&self) {
        self.noted.store(u64::try_from(self.now().as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// How long ago something last happened.
    pub(super) fn quiet(&self) -> Duration {
        self.now().saturating_sub(Duration::from_nanos(self.noted.load(Ordering::Relaxed)))
    }

    /// How long to rest before looking again.
    pub(super) fn pause(&self) -> Duration {
        after(self.quiet())
    }
}

/// The rest when nothing has passed for so long: an eighth of it, so that a completion is found at most so much late.
fn after(quiet: Duration) -> Duration {
    if quiet < AT_ONCE { Duration::ZERO } else { (quiet / 8).clamp(OFTEN, SELDOM) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_grow_with_the_wait_and_have_an_end() {
        let rests = [0, 39, 40, 400, 2_000, 1_000_000].map(|quiet| after(Duration::from_micros(quiet)));
        assert_eq!(rests, [0, 0, 20, 50, 250, 500].map(Duration::from_micros));
    }
}
