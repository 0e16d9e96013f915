//! What a simulated device of these tests knows, and how it runs what it is given.
#![allow(unsafe_code)]

use super::Handle;
use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet, VecDeque},
    ffi::c_int,
    ptr::{NonNull, copy_nonoverlapping},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// What a device knows. Handles are numbers that tell their world.
#[derive(Default)]
pub(in super::super) struct World {
    pub(in super::super) version: u32,
    pub(in super::super) integrated: bool,
    /// Nothing runs until it is let.
    pub(in super::super) stopped: bool,
    /// What a call of a name returns.
    pub(in super::super) refuse: Option<(&'static str, c_int)>,
    pub(in super::super) called: BTreeMap<&'static str, u32>,
    pub(in super::super) misuse: Vec<String>,
    /// Lists' groups, engines and flags.
    pub(in super::super) opened: Vec<(u32, u32, u32)>,
    /// Whether each allocation's limit was relaxed.
    pub(in super::super) relaxed: Vec<bool>,
    pub(super) number: usize,
    made: usize,
    pub(super) live: BTreeSet<usize>,
    pub(super) lists: BTreeMap<usize, List>,
    /// Whether each is signalled.
    pub(super) events: BTreeMap<usize, bool>,
    pub(super) device_memory: BTreeMap<usize, Vec<u64>>,
    pub(super) host_memory: BTreeMap<usize, Vec<u64>>,
}

#[derive(Default)]
pub(super) struct List {
    pub(super) in_order: bool,
    pub(super) queued: VecDeque<Command>,
}

#[derive(Clone, Copy)]
pub(super) enum Command {
    Copy { to: usize, from: usize, bytes: usize },
    Fill { to: usize, bytes: usize, value: u8 },
    Signal(usize),
    Wait(usize),
    Barrier(Option<usize>),
}

static WORLDS: Mutex<BTreeMap<usize, World>> = Mutex::new(BTreeMap::new());

thread_local! {
    /// What a loader finds on this thread.
    pub(super) static CURRENT: Cell<usize> = const { Cell::new(0) };
}

pub(super) fn worlds() -> MutexGuard<'static, BTreeMap<usize, World>> {
    WORLDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a world, which this thread's loader finds from now on.
pub(in super::super) fn make(change: impl FnOnce(&mut World)) -> usize {
    let mut worlds = worlds();
    let number = worlds.len() + 1;
    let mut world = World { version: 1 << 16 | 7, number, ..World::default() };
    change(&mut world);
    worlds.insert(number, world);
    CURRENT.set(number);
    number
}

/// Looks at a world, or changes it; then what may run runs.
pub(in super::super) fn with<R>(world: usize, look: impl FnOnce(&mut World) -> R) -> R {
    let mut worlds = worlds();
    let world = worlds.get_mut(&world).expect("it was made");
    let found = look(world);
    world.run();
    found
}

pub(super) const SHIFT: u32 = 24;

impl World {
    /// Everything that is not given up.
    pub(in super::super) fn live(&self) -> usize {
        self.live.len()
            + self.lists.len()
            + self.events.len()
            + self.device_memory.len()
            + self.host_memory.len()
    }

    pub(super) fn make(&mut self) -> usize {
        self.made += 16;
        self.number << SHIFT | self.made
    }

    pub(super) fn wrong(&mut self, what: impl Into<String>) -> c_int {
        self.misuse.push(what.into());
        0x7800_0004
    }

    /// Where a range of the context's memory is.
    fn find(&mut self, at: usize, bytes: usize) -> Option<NonNull<u8>> {
        let found = |blocks: &mut BTreeMap<usize, Vec<u64>>| {
            let (start, block) = blocks.range_mut(..=at).next_back()?;
            let offset = at - start;
            let fits = offset.checked_add(bytes)? <= block.len() * 8;
            let first = NonNull::new(block.as_mut_ptr().cast::<u8>())?;
            // SAFETY: the offset is within the block.
            fits.then(|| unsafe { first.add(offset) })
        };
        found(&mut self.device_memory).or_else(|| found(&mut self.host_memory))
    }

    /// Runs what may: in the order of each list; of what no barrier is between, the last first.
    pub(super) fn run(&mut self) {
        let lists: Vec<usize> = self.lists.keys().copied().collect();
        let mut goes_on = !self.stopped;
        while std::mem::take(&mut goes_on) {
            for &list in &lists {
                while let Some(command) = self.next(list) {
                    self.execute(command);
                    goes_on = true;
                }
            }
        }
    }

    fn next(&mut self, list: usize) -> Option<Command> {
        let World { lists, events, .. } = self;
        let List { in_order, queued } = lists.get_mut(&list)?;
        let group = if *in_order {
            queued.len().min(1)
        } else {
            let end = queued.iter().position(|command| matches!(command, Command::Barrier(_)));
            end.unwrap_or(queued.len()).max(1).min(queued.len())
        };
        let ready = |command: &Command| !matches!(command, Command::Wait(event) if !events[event]);
        let last = queued.iter().take(group).rposition(ready)?;
        queued.remove(last)
    }

    pub(super) fn execute(&mut self, command: Command) {
        match command {
            Command::Copy { to, from, bytes } => {
                let (Some(from), Some(to)) = (self.find(from, bytes), self.find(to, bytes)) else {
                    self.wrong("a copy of memory that is freed, or not the context's");
                    return;
                };
                // SAFETY: both ranges are within their blocks, which are not the same.
                unsafe { copy_nonoverlapping(from.as_ptr(), to.as_ptr(), bytes) };
            }
            Command::Fill { to, bytes, value } => {
                let Some(to) = self.find(to, bytes) else {
                    self.wrong("a fill of memory that is freed, or not the context's");
                    return;
                };
                // SAFETY: the range is within its block.
                unsafe { to.as_ptr().write_bytes(value, bytes) };
            }
            Command::Signal(event) | Command::Barrier(Some(event)) => {
                if self.events.insert(event, true) == Some(true) {
                    self.wrong("an event is signalled twice");
                }
            }
            Command::Wait(_) | Command::Barrier(None) => {}
        }
    }

    pub(super) fn is_queued(&self, event: usize) -> bool {
        let names = |command: &Command| match command {
            Command::Signal(named) | Command::Wait(named) | Command::Barrier(Some(named)) => *named == event,
            _ => false,
        };
        self.lists.values().any(|list| list.queued.iter().any(names))
    }

    pub(super) fn append(&mut self, list: Handle, command: Command) -> c_int {
        let Some(list) = self.lists.get_mut(&list.0.addr()) else { return self.wrong("no such list") };
        list.queued.push_back(command);
        self.run();
        0
    }
}
