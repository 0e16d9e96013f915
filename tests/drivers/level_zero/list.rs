//! Immediate command lists: each is a queue of its device's.

use crate::{
    call::export,
    code::{self, Answer},
    device::{has_engine, number},
    event::State as Signal,
    ffi::{QUEUE_ASYNCHRONOUS, QUEUE_EXPLICIT, QUEUE_IN_ORDER, QueueDesc},
    outlet::Outlet,
    state::Library,
};
use std::{collections::VecDeque, sync::Arc, thread, time::Duration};
use tack_residency::driver::{Driver, DriverErrorKind, Fence, HostKernel, QueueId, Result, sim::Sim};

/// A list.
#[derive(Debug)]
pub struct List {
    pub device: usize,
    pub queue: QueueId,
    /// A thread is appending.
    is_taken: bool,
    /// How many commands were appended.
    begun: u64,
    /// Fences behind those that may not have run.
    marks: VecDeque<(u64, Fence)>,
}

/// A command by its number in a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Point {
    pub list: usize,
    pub number: u64,
}

impl List {
    /// Whether a command has run.
    pub fn is_over(&mut self, sim: &Sim, number: u64) -> Answer<bool> {
        while let Some(&(_, fence)) = self.marks.front() {
            if !sim.is_passed(fence).map_err(|error| code::of(&error))? {
                break;
            }
            sim.retire(fence);
            self.marks.pop_front();
        }
        Ok(self.marks.front().is_none_or(|&(first, _)| first > number))
    }

    fn mark(&self, number: u64) -> Option<Fence> {
        let found = self.marks.binary_search_by_key(&number, |mark| mark.0);
        found.ok().and_then(|at| self.marks.get(at)).map(|mark| mark.1)
    }
}

/// Appends what `work` queues. "zeCommandListAppend...": never from simultaneous threads with the same list.
pub fn append(
    library: &Library,
    list: usize,
    work: impl FnOnce(&Arc<Sim>, QueueId) -> Result<()>,
) -> Answer<Point> {
    let mut state = library.lock();
    let found = state.lists.get_mut(list)?;
    if std::mem::replace(&mut found.is_taken, true) {
        return Err(code::INVALID_VALUE);
    }
    let (device, queue) = (found.device, found.queue);
    let sim = state.device(device)?.sim.clone();
    // A queue may be full, and is waited for then.
    drop(state);
    let fence = work(&sim, queue).and_then(|()| sim.record(queue)).map_err(|error| code::of(&error));
    let mut state = library.lock();
    let found = state.lists.get_mut(list)?;
    found.is_taken = false;
    found.begun += 1;
    found.marks.push_back((found.begun, fence?));
    let point = Point { list, number: found.begun };
    found.is_over(&sim, point.number)?;
    Ok(point)
}

/// Signals an event behind what was appended.
fn signal(library: &Library, list: usize, event: usize) -> Answer {
    if library.lock().events.get(event)?.state != Signal::Not {
        return Err(code::INVALID_SYNCHRONISATION);
    }
    let point = append(library, list, |_, _| Ok(()))?;
    library.lock().events.get_mut(event)?.state = Signal::By(point);
    Ok(())
}

/// Makes a list wait for an event: for the fence behind what signals it, or until somebody does.
fn wait(library: &Library, list: usize, event: usize) -> Answer {
    let mut state = library.lock();
    let found = state.events.get(event)?.state;
    let fence = match found {
        Signal::By(point) if !state.is_over(point)? => {
            state.lists.get(point.list).ok().and_then(|list| list.mark(point.number))
        }
        _ => None,
    };
    drop(state);
    let point = append(library, list, |sim, queue| match (found, fence) {
        (_, Some(fence)) => sim.wait(queue, fence).or_else(|error| match error.kind {
            // It has passed meanwhile.
            DriverErrorKind::Invalid => Ok(()),
            _ => Err(error),
        }),
        (Signal::Not, None) => {
            let kernel = HostKernel::new(Duration::ZERO, move |_| wait_for_host(event));
            sim.launch_host(queue, kernel.labelled("wait"))
        }
        _ => Ok(()),
    })?;
    library.lock().events.get_mut(event)?.waits.push(point);
    Ok(())
}

/// Waits until an event is signalled, or is no more.
fn wait_for_host(event: usize) {
    let library = Library::get();
    loop {
        let mut state = library.lock();
        match state.events.get(event).map(|event| event.state) {
            Ok(Signal::Not) => {}
            Ok(Signal::By(point)) if state.is_over(point) == Ok(false) => {}
            _ => return,
        }
        drop(state);
        thread::sleep(Duration::from_micros(20));
    }
}

export! {
    zeCommandListCreateImmediate(context: usize, device: usize, desc: Outlet<QueueDesc>, to: Outlet<usize>) => |library| {
        let (mut state, desc) = (library.lock(), desc.get()?);
        state.contexts.get(context)?;
        let number = number(device)?;
        let QueueDesc { stype, group, engine, flags, mode, priority, .. } = desc;
        // "index must be zero if EXPLICIT_ONLY is not set". Lists without an order of their own are not simulated.
        let is_known = stype == QueueDesc::new().stype && flags & !(QUEUE_EXPLICIT | QUEUE_IN_ORDER) == 0;
        let is_explicit = engine == 0 || flags & QUEUE_EXPLICIT != 0;
        if !is_known || !is_explicit || mode != QUEUE_ASYNCHRONOUS || priority != 0 || !has_engine(group, engine) {
            return Err(code::INVALID_ENUMERATION);
        }
        if flags & QUEUE_IN_ORDER == 0 {
            return Err(code::UNKNOWN);
        }
        let queue = state.device(number)?.take_queue()?;
        let list = List { device: number, queue, is_taken: false, begun: 0, marks: VecDeque::new() };
        to.put(state.lists.add(list))
    };
    // "the device is not currently referencing the command list".
    zeCommandListDestroy(list: usize) => |library| {
        let mut state = library.lock();
        let number = state.lists.get(list)?.begun;
        if !state.is_over(Point { list, number })? {
            return Err(code::IN_USE);
        }
        let gone = state.lists.remove(list)?;
        state.device(gone.device)?.spare.push(gone.queue);
        Ok(())
    };
    zeCommandListAppendSignalEvent(list: usize, event: usize) => |library| signal(library, list, event);
    zeCommandListAppendWaitOnEvents(list: usize, count: u32, events: Outlet<usize>) => |library| {
        (0..count as usize).try_for_each(|index| wait(library, list, events.after(index).get()?))
    };
    zeCommandListAppendBarrier(list: usize, event: usize, count: u32, events: Outlet<usize>) => |library| {
        (0..count as usize).try_for_each(|index| wait(library, list, events.after(index).get()?))?;
        if event == 0 { append(library, list, |_, _| Ok(())).map(drop) } else { signal(library, list, event) }
    };
}
