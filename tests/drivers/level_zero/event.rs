//! Event pools and events. "Events": an event is signalled or not; it is reset by whoever knows that nobody uses it.

use crate::{
    call::export,
    code::{self, Answer},
    device::{checked, number},
    ffi::{EventDesc, PoolDesc, SCOPE_HOST},
    list::Point,
    outlet::Outlet,
    state::Library,
};
use std::{
    collections::BTreeSet,
    thread,
    time::{Duration, Instant},
};

/// A pool.
#[derive(Debug)]
pub struct Pool {
    count: u32,
    /// Where it has events.
    used: BTreeSet<u32>,
}

/// An event.
#[derive(Debug)]
pub struct Event {
    pool: usize,
    index: u32,
    pub state: State,
    /// The commands that wait for it.
    pub waits: Vec<Point>,
}

/// Whether an event is signalled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    Not,
    /// Once a list has come so far.
    By(Point),
    ByHost,
}

impl crate::state::State {
    fn is_signalled(&mut self, event: usize) -> Answer<bool> {
        match self.events.get(event)?.state {
            State::Not => Ok(false),
            State::By(point) => self.is_over(point),
            State::ByHost => Ok(true),
        }
    }

    /// Nothing is under way that signals the event or waits for it.
    fn check_unused(&mut self, event: usize) -> Answer {
        let found = self.events.get_mut(event)?;
        let mut uses = std::mem::take(&mut found.waits);
        if let State::By(point) = found.state {
            uses.push(point);
        }
        if self.are_over(&mut uses)? {
            return Ok(());
        }
        self.events.get_mut(event)?.waits = uses;
        Err(code::INVALID_SYNCHRONISATION)
    }
}

fn query(library: &Library, event: usize) -> Answer {
    if library.lock().is_signalled(event)? { Ok(()) } else { Err(code::NOT_READY) }
}

export! {
    zeEventPoolCreate(
        context: usize,
        desc: Outlet<PoolDesc>,
        count: u32,
        devices: Outlet<usize>,
        to: Outlet<usize>,
    ) => |library| {
        let mut state = library.lock();
        state.contexts.get(context)?;
        checked(&desc, PoolDesc::new().stype, |desc| desc.stype)?;
        (0..count as usize).try_for_each(|index| number(devices.after(index).get()?).map(drop))?;
        let count = desc.get()?.count;
        if count == 0 {
            return Err(code::INVALID_SIZE);
        }
        to.put(state.pools.add(Pool { count, used: BTreeSet::new() }))
    };
    zeEventPoolDestroy(pool: usize) => |library| {
        let mut state = library.lock();
        if !state.pools.get(pool)?.used.is_empty() {
            return Err(code::IN_USE);
        }
        state.pools.remove(pool).map(drop)
    };
    zeEventCreate(pool: usize, desc: Outlet<EventDesc>, to: Outlet<usize>) => |library| {
        let mut state = library.lock();
        checked(&desc, EventDesc::new().stype, |desc| desc.stype)?;
        let EventDesc { index, signal, .. } = desc.get()?;
        let found = state.pools.get_mut(pool)?;
        // What the host reads behind an event must be flushed as far as the host.
        if index >= found.count || signal & SCOPE_HOST == 0 || !found.used.insert(index) {
            return Err(code::INVALID_VALUE);
        }
        to.put(state.events.add(Event { pool, index, state: State::Not, waits: Vec::new() }))
    };
    zeEventDestroy(event: usize) => |library| {
        let mut state = library.lock();
        state.check_unused(event)?;
        let gone = state.events.remove(event)?;
        state.pools.get_mut(gone.pool)?.used.remove(&gone.index);
        Ok(())
    };
    zeEventQueryStatus(event: usize) => |library| query(library, event);
    zeEventHostSynchronize(event: usize, nanos: u64) => |library| {
        let end = Instant::now().checked_add(Duration::from_nanos(nanos));
        loop {
            match query(library, event) {
                Err(code::NOT_READY) if end.is_none_or(|end| Instant::now() < end) => {
                    thread::sleep(Duration::from_micros(20));
                }
                answer => return answer,
            }
        }
    };
    zeEventHostReset(event: usize) => |library| {
        let mut state = library.lock();
        state.check_unused(event)?;
        state.events.get_mut(event)?.state = State::Not;
        Ok(())
    };
    zeEventHostSignal(event: usize) => |library| {
        let mut state = library.lock();
        let found = state.events.get_mut(event)?;
        if found.state != State::Not {
            return Err(code::INVALID_SYNCHRONISATION);
        }
        found.state = State::ByHost;
        Ok(())
    };
}
