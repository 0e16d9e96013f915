//! Turns what was decided into jobs and runs them, and what the device has done into decisions.

use super::{
    Cell, Engine, Flags, READ, RESTORE, SPILL,
    crossing::SOON,
    due::Due,
    jobs::Job,
    state::{Settling, State},
    sync::{Ordering, lock},
};
use crate::residency::{Failure, WordCell};
use std::{sync::Arc, time::Duration};

/// How long a driver that refused what must be done, or a look at the device, is left alone.
const RETRY: Duration = Duration::from_millis(1);

impl Engine {
    /// Hands a job to a lane. Called under the state lock.
    pub(super) fn push(&self, lane: usize, job: Job) {
        self.track();
        self.jobs.fetch_add(1, Ordering::SeqCst);
        self.lanes[lane].push(job);
    }

    /// Hands on a job for a buffer whose word is closed, once launches that began to be queued before that are.
    /// Called under the state lock.
    pub(super) fn push_settled(&self, state: &mut State, cell: &Arc<Cell>, lane: usize, job: Job) {
        self.track();
        if cell.load().pins() > 0 {
            let begun: Vec<_> = self.compute_queues().map(|queue| (queue.index, queue.begun())).collect();
            if !self.is_settled(&begun) {
                // Whoever queues one of them may be waiting for this, and finds that now.
                state.ring_all();
            }
            state.settling.push_back(Settling { begun, lane, job });
            self.flags.set(Flags::SETTLE);
        } else {
            self.push(lane, job);
        }
    }

    /// Decides and acts until there is nothing left to do that another thread is not doing.
    pub(crate) fn pump(&self) {
        loop {
            self.decide();
            if self.leaves_jobs() || !(self.run_lanes() | self.run_launchers()) {
                break;
            }
        }
        if self.has_due() {
            self.driver.unpark();
        }
        self.close();
    }

    /// Whether what is to be done is left to the device's own thread, since this one may not call the driver.
    fn leaves_jobs(&self) -> bool {
        let is_left = !self.driver.may_call();
        if is_left {
            self.leave_jobs();
        }
        is_left
    }

    /// Has the device's own thread do what is to be done.
    pub(super) fn leave_jobs(&self) {
        self.jobs_left.swap(true, Ordering::SeqCst);
        self.driver.unpark();
    }

    fn decide(&self) {
        let (ringing, retired, waits, steps, episode) = {
            let mut state = lock(&self.state);
            self.settle(&mut state);
            loop {
                state.core.step();
                self.route_all(&mut state);
                if !self.take_up_deferred(&mut state) {
                    break;
                }
            }
            #[cfg(debug_assertions)]
            state.recount();
            self.flags.put(Flags::GATE, state.core.gate_is_up());
            let pressed = state.core.is_pressed();
            if pressed {
                self.track();
            } else if state.is_quiet()
                && self.jobs.load(Ordering::SeqCst) == 0
                && !self.flags.has(Flags::MULTI)
                && state.noting == 0
                && self.copies_are_done()
            {
                self.flags.put(Flags::TRACK, false);
            }
            let steps: Vec<_> = state.core.drain_steps().collect();
            let episode = state.core.take_episode().map(|episode| {
                let record = state.core.record(episode.slot);
                (episode, record.and_then(|record| record.cell.tag.clone()))
            });
            let waits = std::mem::take(&mut state.waits);
            (std::mem::take(&mut state.ringing), std::mem::take(&mut state.retired), waits, steps, episode)
        };
        self.add_waits(&waits);
        for step in steps {
            tracing::debug!(
                target: "tack_residency",
                device = %self.settings.name, buffer = step.age, bytes = step.bytes, step = ?step.step,
                "state change"
            );
        }
        if let Some((episode, tag)) = episode {
            tracing::warn!(
                target: "tack_residency",
                device = %self.settings.name, buffer = episode.age, tag = tag.as_deref().unwrap_or(Cell::UNTAGGED),
                bytes = episode.bytes.0, trips = episode.trips,
                "thrash"
            );
        }
        drop(retired);
        if !ringing.is_empty() {
            self.activity.fetch_add(1, Ordering::Relaxed);
        }
        for bell in ringing {
            bell.notify(usize::MAX);
        }
    }

    /// Whether nothing is under way that a launch might have to wait for on the device.
    fn copies_are_done(&self) -> bool {
        [SPILL, RESTORE, READ].iter().all(|&index| self.queue(index).done() >= self.queue(index).queued())
    }

    pub(super) fn route_all(&self, state: &mut State) {
        while let Some(decision) = state.core.next_decision() {
            self.route(state, decision);
        }
    }

    fn is_settled(&self, begun: &[(usize, u64)]) -> bool {
        begun.iter().all(|&(index, number)| self.queue(index).is_settled(number))
    }

    /// Hands jobs on whose launches have been queued.
    fn settle(&self, state: &mut State) {
        let mut kept = std::collections::VecDeque::new();
        while let Some(waiting) = state.settling.pop_front() {
            if self.is_settled(&waiting.begun) {
                self.push(waiting.lane, waiting.job);
            } else {
                kept.push_back(waiting);
            }
        }
        state.settling = kept;
        self.flags.put(Flags::SETTLE, !state.settling.is_empty());
    }

    /// Runs the jobs of every lane whose turn is free; true if there were any.
    fn run_lanes(&self) -> bool {
        let mut any = false;
        for index in 0..self.lanes.len() {
            any |= !self.leaves_to_waiter(index) && self.run_lane(index);
        }
        if any {
            self.ring();
        }
        any
    }

    /// Runs the jobs of a lane, if its turn is free; true if there were any.
    pub(super) fn run_lane(&self, index: usize) -> bool {
        let (lane, mut any) = (&self.lanes[index], false);
        while !lane.is_empty() {
            let Some(turn) = lane.try_turn() else { break };
            while let Some(job) = lane.pop() {
                self.run(job);
                self.jobs.fetch_sub(1, Ordering::SeqCst);
                any = true;
            }
            drop(turn);
        }
        any
    }

    fn has_due(&self) -> bool {
        let state = lock(&self.state);
        !state.due.is_empty()
            || !state.settling.is_empty()
            || !state.refused.is_empty()
            || !state.deadlines.is_empty()
            || !state.alarms.is_empty()
            || state.core.gate_is_up()
    }

    /// Looks how far the device has come, and does what follows; true if anything did. Leaves that to whoever is at it
    /// already.
    pub(crate) fn turn(&self) -> bool {
        let Ok(_turning) = self.turning.try_lock() else { return false };
        self.look()
    }

    /// As [`turn`](Engine::turn), for the device's thread: it looks after whoever is at it already, who may have looked
    /// at a fence just before that passed and woke this thread.
    pub(super) fn turn_after_others(&self) -> bool {
        let _turning = lock(&self.turning);
        self.look()
    }

    fn look(&self) -> bool {
        let mut came = false;
        self.look_again.store(false, Ordering::SeqCst);
        for queue in self.queues() {
            let (further, looked) = queue.poll(&*self.driver);
            came |= further;
            if let Err(error) = looked {
                self.look_again.store(true, Ordering::SeqCst);
                self.failure(error);
            }
        }
        came |= self.follow_crossings();
        let (followed, retries) = self.follow_up();
        came |= followed | self.has_left_launchers();
        came |= self.jobs_left.swap(false, Ordering::SeqCst);
        if came || retries {
            self.pump();
        }
        if came {
            self.ring();
            for queue in self.queues() {
                queue.retire(&*self.driver, |index| self.queue(index).done());
            }
        }
        came
    }

    /// Does what is due, and fails what is too late; whether there was any, and whether a job is tried again.
    fn follow_up(&self) -> (bool, bool) {
        // The driver's clock may stand behind a kernel's body, and that behind the state lock.
        let now = self.driver.now();
        let mut state = lock(&self.state);
        let mut any = false;
        for queue in self.queues() {
            let done = queue.done();
            while let Some(entry) = state
                .due
                .range((queue.index, 0, 0)..=(queue.index, done, u64::MAX))
                .next()
                .map(|(key, _)| *key)
            {
                let Some(due) = state.due.remove(&entry) else { break };
                self.act_on(&mut state, due);
                self.route_all(&mut state);
                any = true;
            }
        }
        any |= state.settling.iter().any(|waiting| self.is_settled(&waiting.begun));
        any |= self.fail_late(&mut state, now);
        let retries = self.retry(&mut state, now);
        (any, retries)
    }

    /// Tries what the driver refused and must be done again, if it is time for that; true if there was any. That is
    /// nothing new by itself.
    pub(super) fn retry(&self, state: &mut State, now: Duration) -> bool {
        if now < state.retry_at && !self.driver.caps().computed_clock {
            return false;
        }
        state.retry_at = now.saturating_add(RETRY);
        let refused = std::mem::take(&mut state.refused);
        let any = !refused.is_empty();
        refused.into_iter().for_each(|(lane, job)| self.push(lane, job));
        any
    }

    fn act_on(&self, state: &mut State, due: Due) {
        match due {
            Due::CopiedOut { slot, cell, token, copy } => state.copied_out(slot, token, cell, copy),
            Due::Piece => self.piece_done(state),
            Due::Landed(landing) => self.push(SPILL, Job::Land(landing)),
            Due::Left(chunk) => self.give_chunk_in(state, chunk),
            Due::Arrived(slot, copy) => {
                drop(copy);
                state.core.arrived(slot);
            }
            Due::Free(job) => self.start_free(state, job),
            Due::Read(read) => self.hold_read(state, read),
            Due::Ordered(bytes) => state.core.order_passed(bytes),
            Due::Operation(op, staging) => {
                drop(staging);
                op.finish(&mut state.ringing);
            }
            Due::LetGo(runs) => drop(runs),
        }
    }

    /// Rings the alarms whose time has come; fails requests whose time is over, and one that nothing but pins has kept waiting for too long.
    fn fail_late(&self, state: &mut State, now: Duration) -> bool {
        let mut any = false;
        while let Some(alarm) = state.alarms.first_entry().filter(|alarm| alarm.key().0 <= now) {
            let event = alarm.remove();
            state.ringing.push(event);
            any = true;
        }
        any |= self.tell_late_hook(state, now);
        if state.deadlines.is_empty() && !state.core.gate_is_up() {
            state.stalled = None;
            return any;
        }
        let late: Vec<_> =
            state.deadlines.iter().filter(|&(_, &deadline)| deadline <= now).map(|(&id, _)| id).collect();
        for &id in &late {
            state.deadlines.remove(&id);
            if state.core.request(id).is_some_and(|request| request.is_waiting()) {
                state.core.fail(id, Failure::TimedOut);
            }
        }
        any |= !late.is_empty();
        state.stalled = match state.core.stalled() {
            Some(id) => match state.stalled {
                Some((before, since)) if before == id => {
                    if now.saturating_sub(since) >= self.settings.stall_after {
                        let bytes = state.core.request(id).map(|request| request.bytes).unwrap_or_default();
                        state.core.fail(id, Failure::Stalled { bytes });
                        any = true;
                        None
                    } else {
                        Some((id, since))
                    }
                }
                _ => Some((id, now)),
            },
            None => None,
        };
        self.route_all(state);
        any
    }

    /// How far computed time moves when nothing else does: to the next deadline, or to where a wait is a stall.
    pub(crate) fn next_pause(&self) -> Option<Duration> {
        let now = self.driver.now();
        let next = lock(&self.state).next_deadline().map(|at| at.saturating_sub(now));
        let stall = self.settings.stall_after;
        next.map_or(stall, |next| next.min(stall)).checked_add(Duration::from_nanos(1))
    }

    /// How long the device's thread may rest before something has to be looked at again.
    pub(crate) fn patience(&self) -> Duration {
        let now = self.driver.now();
        let state = lock(&self.state);
        let deadline = state.next_deadline();
        let stall = state.stalled.map(|(_, since)| since.saturating_add(self.settings.stall_after));
        let look = (state.core.gate_is_up() && stall.is_none()).then_some(now + Duration::from_millis(1));
        let refused = !state.refused.is_empty() || self.look_again.load(Ordering::SeqCst);
        let retry = refused.then_some(now + RETRY);
        let hook = self.hook.late_at(self.settings.stall_after);
        let settle = (!state.settling.is_empty()).then_some(now + Duration::from_micros(50));
        let crossing = self.has_crossings().then_some(now + SOON);
        [deadline, stall, look, retry, settle, hook, crossing]
            .into_iter()
            .flatten()
            .min()
            .map_or(Duration::from_secs(3600), |at| at.saturating_sub(now).max(Duration::from_micros(50)))
    }
}
