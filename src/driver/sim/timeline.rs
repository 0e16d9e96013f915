//! The computed clock: what is under way goes on, event by event, whenever the host's time moves.
//!
//! Nobody sleeps and there is no thread: whoever moves time does the device's work, in the order of its times. A
//! copy's pieces move evenly over its time; a kernel's body runs at its end, all at once.

use super::{
    queue::Running,
    shared::{Turn, nanos},
};
use crate::driver::{DriverError, DriverErrorKind};
use std::{cmp::Reverse, time::Duration};

impl Turn<'_> {
    /// Moves the host's time on by `pause`, and the device's with it.
    pub(super) fn charge(&mut self, pause: Duration) {
        let until = self.now.saturating_add(nanos(pause));
        self.move_to(until);
    }

    /// Moves time on to when the host learns of the next completion; false if nothing is under way.
    ///
    /// That is the next fence to pass, or the end of the next operation where no fence is outstanding.
    pub(super) fn advance(&mut self) -> bool {
        if self.is_within_work() || self.lost.is_some() {
            return false;
        }
        if self.events.is_empty() {
            self.learn_ended();
            return false;
        }
        let (passes, fenced) = (self.fences.passes(), self.fences.unpassed() > 0);
        while self.lost.is_none() {
            let Some(&Reverse((_, _, queue))) = self.events.peek() else { break };
            let ended = self.queues[queue].ended;
            self.step();
            let over = if fenced { self.fences.passes() > passes } else { self.queues[queue].ended > ended };
            if over {
                break;
            }
        }
        let reaction = self.shared.config.reaction;
        self.charge(reaction);
        true
    }

    /// Moves time on to the next event and does what happens then; false if there is none.
    pub(super) fn step(&mut self) -> bool {
        let Some(&Reverse((at, _, _))) = self.events.peek() else { return false };
        self.now = self.now.max(at);
        self.do_next();
        true
    }

    fn move_to(&mut self, until: u64) {
        // Work that calls its own device is charged, and the work goes on when it is over.
        while !self.is_within_work() && self.events.peek().is_some_and(|Reverse((at, _, _))| *at <= until) {
            self.do_next();
        }
        self.now = self.now.max(until);
    }

    /// Does one event: a piece of a copy, a kernel's body, an end.
    fn do_next(&mut self) {
        let Some(Reverse((at, _, queue))) = self.events.pop() else { return };
        self.now = self.now.max(at);
        let Some(Running { start, done, task, .. }) = self.queues[queue].running.as_mut() else { return };
        let (start, piece) = (*start, *done);
        *done += 1;
        let Some(mut task) = task.take() else { return };
        if piece < task.cuts {
            let outcome = match task.moves {
                true => self.outside(|| task.job.step(piece, task.cuts)),
                false => Ok(()),
            };
            if let Err(panic) = outcome {
                let message = format!("the work panicked: {panic}");
                self.lose(DriverError::new(DriverErrorKind::Lost, task.call, 719, message));
            } else if piece + 1 < task.cuts {
                let next = task.piece_end(start, piece + 1);
                self.schedule(next, queue);
            } else {
                self.end_engine(queue, task.lane, at);
                if task.latency > 0 {
                    self.schedule(at.saturating_add(task.latency), queue);
                } else {
                    self.end(queue, &task, at);
                }
            }
        } else {
            self.end(queue, &task, at);
        }
        match self.queues[queue]
            .running
            .as_mut()
            .filter(|running| running.start == start && running.task.is_none())
        {
            Some(running) => running.task = Some(task),
            // Its closure is the user's, and what that owns may call the device when it is dropped.
            None if task.is_launch => self.outside(|| drop(task)),
            None => drop(task),
        }
    }
}
