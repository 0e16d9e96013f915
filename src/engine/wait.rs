//! Waits: for a request, for a host operation, for all that is queued.

use super::sync::{Event, EventListener};
use super::{
    Cell, Engine, Owner,
    alarm::Alarm,
    block::is_blocking,
    host_op::HostOp,
    nested::NESTED_WAIT,
    state::Spec,
    sync::{Ordering, lock},
};
use crate::residency::{Ask, Failure, Outcome, RequestId, WordCell};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

/// Looks, listens, looks again, and waits. On a computed clock it moves time on when nobody else has anything to do.
#[derive(Debug, Default)]
pub(super) struct Watch {
    listener: Option<EventListener>,
    /// How much had happened on the device at the last poll.
    seen: Option<u64>,
    /// The last poll left it to others to do something.
    rested: bool,
    /// Rounds in which nobody had anything to do, and since when.
    fruitless: u32,
    since: Option<Instant>,
}

/// On a computed clock, how many rounds without any change, and for how long of the host's own time, say that only
/// the clock can help. Threads that hold what is waited for may not be running.
const FRUITLESS: (u32, Duration) = (1000, Duration::from_millis(250));

impl Watch {
    pub(super) fn poll<T>(
        &mut self,
        engine: &Engine,
        event: &Event,
        cx: &mut Context<'_>,
        mut look: impl FnMut() -> Option<T>,
    ) -> Poll<T> {
        loop {
            if let Some(found) = look() {
                self.listener = None;
                return Poll::Ready(found);
            }
            match &mut self.listener {
                None => self.listener = Some(event.listen()),
                Some(listener) => match Pin::new(listener).poll(cx) {
                    Poll::Ready(()) => self.listener = None,
                    Poll::Pending if engine.driver.caps().computed_clock => {
                        if !self.compute(engine) {
                            cx.waker().wake_by_ref();
                            return Poll::Pending;
                        }
                    }
                    Poll::Pending => return Poll::Pending,
                },
            }
        }
    }

    /// Moves computed time on, if nothing else has happened since the last poll; true to look again at once.
    fn compute(&mut self, engine: &Engine) -> bool {
        let now = engine.activity.load(Ordering::Relaxed);
        if self.seen != Some(now) {
            self.seen = Some(now);
            self.rested = false;
            self.start_over();
        }
        if !self.rested {
            self.rested = true;
            return false;
        }
        self.rested = false;
        if engine.turn() || engine.driver.advance() {
            engine.turn();
            self.start_over();
            return true;
        }
        self.fruitless += 1;
        let since = *self.since.get_or_insert_with(Instant::now);
        if self.fruitless >= FRUITLESS.0 && since.elapsed() >= FRUITLESS.1 {
            self.start_over();
            engine.turn();
            if let Some(pause) = engine.next_pause() {
                engine.driver.charge(pause);
                engine.turn();
            }
        }
        std::thread::yield_now();
        false
    }

    fn start_over(&mut self) {
        self.fruitless = 0;
        self.since = None;
    }
}

/// A request under way. Dropped, it is as if it had not been asked, but for copies already started.
#[derive(Debug)]
pub struct Wait {
    owner: Arc<Owner>,
    id: RequestId,
    bell: Arc<Event>,
    watch: Watch,
    taken: bool,
}

impl Wait {
    /// Asks. What can be done at once is done before this returns.
    pub fn new(owner: &Arc<Owner>, ask: Ask, stamp: u64, spec: Option<Spec>) -> Wait {
        let bell = Arc::new(Event::new());
        let id = {
            let mut state = lock(&owner.engine.state);
            let id = state.core.ask(ask, stamp);
            if let Some(spec) = spec {
                state.specs.insert(id, spec);
            }
            state.add_bell(id, &bell);
            if state.lost.is_some() {
                state.core.fail(id, Failure::Lost);
            }
            id
        };
        owner.engine.pump();
        owner.engine.note_wait(id);
        Wait { owner: owner.clone(), id, bell, watch: Watch::default(), taken: false }
    }

    /// Fails the request if it has not ended in `patience` from now.
    pub fn within(&self, patience: Duration) {
        let engine = &self.owner.engine;
        let deadline = engine.driver.now().saturating_add(patience);
        lock(&engine.state).deadlines.insert(self.id, deadline);
        engine.driver.unpark();
    }

    /// Waits for the request's end.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<RequestId, Failure>> {
        let (engine, id) = (&self.owner.engine, self.id);
        self.watch.poll(engine, &self.bell, cx, || engine.outcome(id))
    }

    /// Ends the wait of a request for a new buffer that is done; the buffer.
    pub fn into_buffer(mut self) -> Option<Arc<Cell>> {
        self.taken = true;
        let mut state = lock(&self.owner.engine.state);
        self.forget_in(&mut state);
        state.core.take_request(self.id);
        state.fresh.remove(&self.id)
    }

    /// Ends the wait of a request that is done. Its pins are the caller's now, and it is in the core until
    /// [`Engine::end_request`].
    pub fn into_id(mut self) -> RequestId {
        self.taken = true;
        let mut state = lock(&self.owner.engine.state);
        self.forget_in(&mut state);
        self.id
    }

    fn forget_in(&self, state: &mut super::state::State) {
        state.remove_bell(self.id);
        state.deadlines.remove(&self.id);
        state.specs.remove(&self.id);
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        let engine = &self.owner.engine;
        let fresh = {
            let mut state = lock(&engine.state);
            self.forget_in(&mut state);
            let fresh = state.fresh.remove(&self.id);
            state.core.cancel(self.id);
            fresh
        };
        if let Some(cell) = fresh {
            engine.drop_handle(&cell);
        }
        engine.pump();
        engine.ring();
    }
}

/// A host operation under way.
#[derive(Debug, Default)]
pub struct OpWait {
    watch: Watch,
    alarm: Alarm,
}

impl OpWait {
    /// Waits for the operation's end, or for that of `patience` from the first poll on.
    pub fn poll(
        &mut self,
        owner: &Arc<Owner>,
        op: &HostOp,
        cx: &mut Context<'_>,
        patience: Option<Duration>,
    ) -> Poll<Result<(), Failure>> {
        self.alarm.set(owner, &op.event, patience);
        let alarm = &self.alarm;
        let late = || (alarm.is_over() && op.cancel()).then_some(Err(Failure::TimedOut));
        let nested = || {
            let waits = owner.engine.op_waits_for_caller(op) && op.cancel();
            waits.then_some(Err(NESTED_WAIT))
        };
        self.watch.poll(&owner.engine, &op.event, cx, || op.outcome().or_else(late).or_else(nested))
    }
}

/// A wait for all that is queued on a device.
#[derive(Debug, Default)]
pub struct IdleWait {
    watch: Watch,
    alarm: Alarm,
    until: Option<Vec<(usize, u64)>>,
}

impl IdleWait {
    /// Waits until all that was queued at the first poll is done, and what followed from it; or for the end of
    /// `patience` from then on.
    pub fn poll(
        &mut self,
        owner: &Arc<Owner>,
        cx: &mut Context<'_>,
        patience: Option<Duration>,
    ) -> Poll<Result<(), Failure>> {
        let engine = &*owner.engine;
        self.alarm.set(owner, &engine.bell, patience);
        let alarm = &self.alarm;
        if self.until.is_none() {
            let until: Vec<_> = engine.queues().map(|queue| (queue.index, queue.number())).collect();
            for &(index, number) in &until {
                engine.queue(index).need(number);
            }
            self.until = Some(until);
            engine.driver.unpark();
            engine.turn();
        }
        let until = self.until.as_deref().unwrap_or_default();
        self.watch.poll(engine, &engine.bell, cx, || {
            if engine.flags.has(super::Flags::LOST) {
                return Some(Err(Failure::Lost));
            }
            let done = until.iter().all(|&(index, number)| engine.queue(index).done() >= number);
            let late = || alarm.is_over().then_some(Err(Failure::TimedOut));
            let nested = || engine.all_waits_for_caller().then_some(Err(NESTED_WAIT));
            (done && engine.is_quiet()).then_some(Ok(())).or_else(late).or_else(nested)
        })
    }
}

impl Engine {
    /// How a request has ended, if it has. Runs the caller's hook if that is asked for.
    fn outcome(&self, id: RequestId) -> Option<Result<RequestId, Failure>> {
        loop {
            let outcome = lock(&self.state).core.request(id).map(|r| (r.outcome.clone(), r.bytes));
            match outcome {
                Some((Outcome::Done, _)) => return Some(Ok(id)),
                Some((Outcome::Failed(failure), _)) => return Some(Err(failure)),
                Some((Outcome::AskHook, bytes)) => {
                    if !self.run_hook(id, bytes) {
                        return None;
                    }
                }
                Some(_) if self.run_hook_of_launches() => {}
                Some(_) if self.request_waits_for_caller(id) => {
                    lock(&self.state).core.fail(id, NESTED_WAIT);
                }
                Some(_) if is_blocking() && self.waits_for_caller(id) => {
                    let mut state = lock(&self.state);
                    let bytes = state.core.request(id).map(|request| request.bytes).unwrap_or_default();
                    state.core.fail(id, Failure::Stalled { bytes });
                }
                Some(_) => return None,
                None => return Some(Err(Failure::Misuse("the request was taken twice"))),
            }
        }
    }

    /// Whether a request waits in vain for as long as the calling thread does: for pins alone, of which that thread
    /// holds some; or behind a request that does, if it holds all of them.
    pub(super) fn waits_for_caller(&self, id: RequestId) -> bool {
        let thread = std::thread::current().id();
        let state = lock(&self.state);
        let mine = || state.holders.values().filter(|holder| holder.thread == thread);
        if mine().next().is_none() || state.core.request(id).is_none_or(|request| !request.is_waiting()) {
            return false;
        }
        let Some(first) = state.core.stalled() else { return false };
        let held: u64 = mine().map(|holder| holder.bytes).sum();
        let pinned = state.core.records().filter(|(_, record)| record.cell.load().pins() > 0);
        first == id || pinned.map(|(_, record)| record.cell.bytes).sum::<u64>() <= held
    }

    /// A request that has not ended where it was asked waits for room from now on.
    pub fn note_wait(&self, id: RequestId) {
        let waits = |state: &super::state::State| {
            let request = state.core.request(id).filter(|request| request.is_waiting());
            request.is_some_and(|request| matches!(request.ask, Ask::Uses(_) | Ask::Fresh(_) | Ask::Room(_)))
        };
        if !waits(&lock(&self.state)) {
            return;
        }
        let now = self.driver.now();
        let state = &mut *lock(&self.state);
        if waits(state)
            && let Some(bell) = state.bells.get_mut(&id)
        {
            bell.waits_since = Some(now);
        }
    }

    /// How long requests have waited for room, those that still do left out.
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited.load(Ordering::Relaxed))
    }

    /// Adds waits up that are over, by when they began.
    pub(super) fn add_waits(&self, began: &[Duration]) {
        if began.is_empty() {
            return;
        }
        let now = self.driver.now();
        let waited: Duration = began.iter().map(|began| now.saturating_sub(*began)).sum();
        self.waited.fetch_add(u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// A launch's work is queued, and what it overwrites whole is what it wrote. Called before the launch's number is
    /// drawn: who waits for that number finds it so.
    pub fn overwritten(&self, id: RequestId) {
        let core = &mut lock(&self.state).core;
        let Some(Ask::Uses(wants)) = core.request(id).map(|request| request.ask.clone()) else { return };
        wants.iter().filter(|want| want.overwrites).for_each(|want| core.overwritten(want.slot, id));
    }

    /// The launch or guard that a request's pins were for has ended. What it was to overwrite and did not is spilled
    /// with its bytes.
    pub fn end_request(&self, id: RequestId) {
        self.change(|core| {
            if let Some(request) = core.take_request(id)
                && let Ask::Uses(wants) = request.ask
            {
                wants.iter().filter(|want| want.overwrites).for_each(|want| core.room_unused(want.slot, id));
            }
        });
    }

    /// A watched buffer's last pin has been dropped.
    pub fn unpinned(&self, cell: &Cell) {
        self.change(|core| core.unpinned(cell.slot()));
    }

    /// Drops one handle of a buffer, and the buffer with the last.
    pub fn drop_handle(&self, cell: &Arc<Cell>) {
        if cell.drop_handle() {
            self.change(|core| core.drop_buffer(cell.slot()));
            drop(cell.disown());
        }
    }
}
