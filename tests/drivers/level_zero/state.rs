//! All that the library knows.

use crate::{
    block::Block,
    code::{self, Answer},
    device::Device,
    event::{Event, Pool},
    handles::Handles,
    list::{List, Point},
    refusals::Refusals,
    settings::settings,
};
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

/// The library, once it is first called.
#[derive(Debug)]
pub struct Library {
    pub refusals: Refusals,
    state: Mutex<State>,
}

/// All that is open.
#[derive(Debug)]
pub struct State {
    pub initialised: bool,
    /// Those that are in use.
    pub devices: Vec<Option<Device>>,
    pub contexts: Handles<()>,
    pub pools: Handles<Pool>,
    pub events: Handles<Event>,
    pub lists: Handles<List>,
    /// Device memory, by its address.
    pub allocations: BTreeMap<u64, Allocation>,
    /// Pinned host memory, by its address.
    pub pinned: BTreeMap<usize, (Block, Vec<Point>)>,
}

/// Device memory that a call gave.
#[derive(Debug)]
pub struct Allocation {
    pub device: usize,
    pub bytes: u64,
    /// What may still use it.
    pub uses: Vec<Point>,
}

impl Library {
    pub fn get() -> &'static Library {
        static LIBRARY: OnceLock<Library> = OnceLock::new();
        LIBRARY.get_or_init(|| {
            crate::control::report_at_exit();
            let state = State {
                initialised: false,
                devices: (0..settings().devices).map(|_| None).collect(),
                contexts: Handles::new(1),
                pools: Handles::new(2),
                events: Handles::new(3),
                lists: Handles::new(4),
                allocations: BTreeMap::new(),
                pinned: BTreeMap::new(),
            };
            Library { refusals: Refusals::parse(&settings().refuse), state: Mutex::new(state) }
        })
    }

    /// Never held while a device is waited for.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// A device by its number, brought up if it is not in use.
    pub fn device(&mut self, number: usize) -> Answer<&mut Device> {
        let place = self.devices.get_mut(number).ok_or(code::INVALID_HANDLE)?;
        if place.is_none() {
            *place = Some(Device::open(number).map_err(|error| code::of(&error))?);
        }
        place.as_mut().ok_or(code::UNKNOWN)
    }

    /// Whether a list has come to a point. One that is given up has.
    pub fn is_over(&mut self, point: Point) -> Answer<bool> {
        let Ok(list) = self.lists.get(point.list) else { return Ok(true) };
        let sim = self.device(list.device)?.sim.clone();
        self.lists.get_mut(point.list)?.is_over(&sim, point.number)
    }

    /// Whether lists have come to all of these points, which are forgotten then.
    pub fn are_over(&mut self, points: &mut Vec<Point>) -> Answer<bool> {
        let mut left = Vec::new();
        for &point in points.iter() {
            if !self.is_over(point)? {
                left.push(point);
            }
        }
        *points = left;
        Ok(points.is_empty())
    }

    /// How much of each kind is open.
    pub fn open(&self) -> [(&'static str, usize); 6] {
        [
            ("contexts", self.contexts.len()),
            ("event pools", self.pools.len()),
            ("events", self.events.len()),
            ("command lists", self.lists.len()),
            ("allocations", self.allocations.len()),
            ("pinned blocks", self.pinned.len()),
        ]
    }
}
