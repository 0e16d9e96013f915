//! The launches that wait, in their order, and how they are queued.

use super::Work;
use crate::{
    device::Device,
    engine::{COMPUTE, Event, Launcher, Mutex, lock},
    error::{Error, Result},
    residency::RequestId,
    run::Run,
    usage::{self, Kept, Use},
};
use std::{
    collections::VecDeque,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) device: Device,
    pub(super) state: Mutex<State>,
    turn: Mutex<()>,
    pub(super) event: Arc<Event>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) entries: VecDeque<Entry>,
    /// Of those: launches, and not buffers that wait for their memory.
    pub(super) launches: usize,
    /// A launch has left `entries` and its work is not queued yet.
    pub(super) queueing: bool,
    pub(super) errors: VecDeque<Error>,
}

impl State {
    pub(super) fn waiting(&self) -> usize {
        self.entries.len() + usize::from(self.queueing)
    }

    fn add(&mut self, entry: Entry) {
        self.launches += usize::from(entry.work.is_some());
        self.entries.push_back(entry);
    }

    /// Takes out the first, to be queued now.
    fn begin(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.queueing = true;
        Some(entry)
    }

    /// The one taken out was queued, or could not be.
    fn end(&mut self, is_launch: bool, error: Option<Error>) {
        self.launches -= usize::from(is_launch);
        self.queueing = false;
        self.errors.extend(error);
    }
}

pub(super) struct Entry {
    pub(super) request: RequestId,
    pub(super) uses: Vec<Kept>,
    /// None for a buffer that gets its memory.
    work: Option<Work>,
}

/// Until how many are left a wait goes on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Keep {
    /// Launches not queued yet.
    Launches(usize),
    /// Launches, and buffers without their memory.
    All(usize),
}

impl Shared {
    pub(super) fn new(device: Device) -> Shared {
        let (state, turn, event) = (Mutex::default(), Mutex::default(), Arc::new(Event::new()));
        Shared { device, state, turn, event }
    }

    pub(super) fn ask(&self, mut uses: Vec<Kept>, work: Option<Work>) -> Result<()> {
        // Until the launch keeps them. Dropped with no lock held.
        let _handles: Vec<_> = uses.iter_mut().filter_map(Kept::let_go).collect();
        let used: Vec<Use<'_>> = uses.iter().map(Use::from).collect();
        if used.iter().any(|used| !self.device.is_of(used.cell())) {
            return Err(Error::misuse("a buffer of another device: copy it over first").on(&self.device));
        }
        let engine = self.device.engine();
        let wants = usage::wants(&used, true);
        let request = {
            let mut state = lock(&self.state);
            let request = engine.ask_kept(wants, &self.event);
            state.add(Entry { request, uses, work });
            request
        };
        engine.change(|_| ());
        engine.note_wait(request);
        Ok(())
    }

    /// Whether the first launch is ready or has failed.
    fn front_has_ended(&self) -> bool {
        let state = lock(&self.state);
        let front = state.entries.front();
        front.is_some_and(|entry| self.device.engine().has_ended(entry.request) && !self.awaits_others(entry))
    }

    /// Whether a launch would stand, where it is queued, behind others' use of a buffer: whoever queues it does not wait
    /// for that, and may be the device's own thread.
    fn awaits_others(&self, entry: &Entry) -> bool {
        self.device.engine().awaits_others(entry.uses.iter().map(Kept::cell))
    }

    /// The first launch, if it is ready or has failed.
    fn take_ended(&self) -> Option<(Entry, Result<()>)> {
        let engine = self.device.engine();
        let mut state = lock(&self.state);
        let front = state.entries.front().filter(|front| !self.awaits_others(front))?;
        let ended = engine.take_up(front.request)?;
        let entry = state.begin()?;
        Some((entry, ended.map_err(|failure| Error::from_failure(&self.device, "push", failure))))
    }

    fn submit(&self, entry: Entry) -> Result<()> {
        let Some(work) = entry.work else { return Ok(()) };
        let engine = self.device.engine();
        let used: Vec<Use<'_>> = entry.uses.iter().map(Use::from).collect();
        let submitting = engine
            .begin_submit(COMPUTE, used.iter().map(|used| (used.cell(), used.writes())))
            .map_err(|failure| Error::from_failure(&self.device, "submit", failure))?;
        let run = Run::new(&self.device, &used, COMPUTE);
        let result = catch_unwind(AssertUnwindSafe(|| work(&run)))
            .unwrap_or_else(|_| Err(Error::misuse("the work of a launch panicked").on(&self.device)));
        if result.is_ok() {
            engine.overwritten(entry.request);
        }
        drop(submitting);
        result
    }
}

impl Launcher for Shared {
    fn run_ready(&self) -> bool {
        let engine = self.device.engine();
        let mut any = false;
        while self.front_has_ended() {
            // Whoever has the turn looks again after giving it up.
            let Ok(turn) = self.turn.try_lock() else { break };
            while let Some((entry, prepared)) = self.take_ended() {
                let (request, is_launch) = (entry.request, entry.work.is_some());
                engine.unbell(request);
                let is_prepared = prepared.is_ok();
                let submitted = prepared.and_then(|()| self.submit(entry));
                lock(&self.state).end(is_launch, submitted.err());
                engine.change(
                    |core| if is_prepared { core.release_kept(request) } else { core.cancel(request) },
                );
                any = true;
            }
            drop(turn);
            self.event.notify(usize::MAX);
        }
        any
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("uses", &self.uses).finish_non_exhaustive()
    }
}
