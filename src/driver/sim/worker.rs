//! The real clock: one thread for each queue that has work taking time, which does it at the modelled speed.
//!
//! Work ends when the model says or when it has been done, whichever is later. A sleep that lasted too long is not
//! added up: what follows begins, in the model, when it should have.

use super::{job::Work, queue::Task, shared::Shared};
use crate::driver::{DriverError, DriverErrorKind};
use std::{cell::Cell, sync::atomic::Ordering, thread, time::Duration};

/// Sleeps end this much late on Linux (timer slack, 50 µs by default), so the rest of a wait is spun.
const SLACK: Duration = Duration::from_micros(60);

thread_local! {
    /// The address of the device that this thread works for.
    static DEVICE: Cell<usize> = const { Cell::new(0) };
}

/// Whether the calling thread works for this device.
pub(super) fn is_one_of(shared: &Shared) -> bool {
    DEVICE.get() == std::ptr::from_ref(shared).addr()
}

/// Works for `queue` until the device is closed.
pub(super) fn work(shared: &Shared, queue: usize) {
    DEVICE.set(std::ptr::from_ref(shared).addr());
    while !shared.stop.load(Ordering::Acquire) {
        let mut turn = shared.turn();
        let running = turn.queues[queue].running.as_mut();
        let started = running.and_then(|running| Some((running.start, running.task.take()?)));
        drop(turn);
        match started {
            Some((start, task)) => perform(shared, queue, start, task),
            None => thread::park(),
        }
    }
    shared.threads.fetch_sub(1, Ordering::AcqRel);
}

fn perform(shared: &Shared, queue: usize, start: u64, mut task: Box<Task>) {
    let mut at = start;
    for piece in 0..task.cuts {
        at = task.piece_end(start, piece);
        if task.moves {
            if let Err(panic) = task.job.step(piece, task.cuts) {
                let message = format!("the work panicked: {panic}");
                let error = DriverError::new(DriverErrorKind::Lost, task.call, 719, message);
                return shared.turn().lose(error);
            }
            at = at.max(shared.elapsed());
        }
        pace(shared, at);
    }
    shared.turn().end_engine(queue, task.lane, at);
    if task.latency > 0 {
        at = at.saturating_add(task.latency);
        pace(shared, at);
    }
    if !task.is_launch {
        // Whoever learns of a copy's end may count on its host memory's being free.
        task.job.work = Work::Done;
    }
    shared.turn().end(queue, &task, at);
}

/// Rests until `until`, or until the device is closed.
fn pace(shared: &Shared, until: u64) {
    while !shared.stop.load(Ordering::Acquire) {
        let rest = Duration::from_nanos(until.saturating_sub(shared.elapsed()));
        if rest.is_zero() {
            return;
        } else if rest > 2 * SLACK {
            thread::park_timeout(rest - SLACK);
        } else {
            thread::yield_now();
        }
    }
}
