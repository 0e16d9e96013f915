//! Memory, copies and fills.

use crate::{
    block::Block,
    call::export,
    code::{self, Answer},
    device::{MOST, checked, finish, number},
    ffi::{
        AllocationProperties, DeviceAllocation, HostAllocation, MEMORY_IS_HOST, RELAXED_MAX_SIZE,
        RelaxedLimits,
    },
    list::{Point, append},
    outlet::{HostPlace, Outlet},
    state::{Allocation, Library, State},
};
use std::{ffi::c_void, time::Duration};
use tack_residency::driver::{ArgAccess, DevicePtr, Driver, HostKernel};

/// What a range of memory is part of, by its address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Device(u64),
    Pinned(usize),
}

impl State {
    /// "zeCommandListAppendMemoryCopy": memory must be accessible by the device, so allocated by this library.
    fn place(&self, at: usize, bytes: usize) -> Answer<Place> {
        let end = (at as u64).checked_add(bytes as u64).ok_or(code::INVALID_VALUE)?;
        let device = self.allocations.range(..=at as u64).next_back();
        if let Some((start, _)) = device.filter(|(start, held)| end <= *start + held.bytes) {
            return Ok(Place::Device(*start));
        }
        let pinned = self.pinned.range(..=at).next_back();
        match pinned.filter(|(start, (block, _))| end <= (*start + block.bytes()) as u64) {
            Some((start, _)) => Ok(Place::Pinned(*start)),
            None => Err(code::INVALID_VALUE),
        }
    }

    fn uses(&mut self, place: Place) -> Option<&mut Vec<Point>> {
        match place {
            Place::Device(start) => self.allocations.get_mut(&start).map(|held| &mut held.uses),
            Place::Pinned(start) => self.pinned.get_mut(&start).map(|(_, uses)| uses),
        }
    }

    /// Notes what may use these places until it has run.
    fn note(&mut self, places: impl IntoIterator<Item = Place>, point: Point) -> Answer {
        for place in places {
            let Some(uses) = self.uses(place) else { continue };
            let mut uses = std::mem::take(uses);
            self.are_over(&mut uses)?;
            uses.push(point);
            if let Some(place) = self.uses(place) {
                *place = uses;
            }
        }
        Ok(())
    }
}

fn copy(library: &Library, list: usize, to: HostPlace, from: HostPlace, bytes: usize) -> Answer {
    let state = library.lock();
    let places = [to, from].map(|place| state.place(place.addr(), bytes));
    drop(state);
    let [into, out_of] = places;
    let (into, out_of) = (into?, out_of?);
    let ptr = |place: HostPlace| DevicePtr::from_raw(place.addr() as u64);
    let point = append(library, list, |sim, queue| match (into, out_of) {
        (Place::Device(_), Place::Device(_)) => sim.copy(queue, ptr(from), ptr(to), bytes as u64),
        (Place::Device(_), Place::Pinned(_)) => {
            let kernel = HostKernel::new(Duration::ZERO, move |args| from.read(args[0].bytes_mut()));
            sim.launch_host(queue, kernel.labelled("copy in").arg(ptr(to), bytes as u64, ArgAccess::Write))
        }
        (_, Place::Device(_)) => {
            let kernel = HostKernel::new(Duration::ZERO, move |args| to.write(args[0].bytes()));
            sim.launch_host(queue, kernel.labelled("copy out").arg(ptr(from), bytes as u64, ArgAccess::Read))
        }
        // No backend asks for it.
        _ => panic!("a copy from the host to the host"),
    })?;
    library.lock().note([into, out_of], point)
}

fn fill(library: &Library, list: usize, to: u64, value: u8, bytes: usize) -> Answer {
    let place = library.lock().place(to as usize, bytes)?;
    if !matches!(place, Place::Device(_)) {
        return Err(code::INVALID_VALUE);
    }
    let point =
        append(library, list, |sim, queue| sim.fill(queue, DevicePtr::from_raw(to), bytes as u64, value))?;
    library.lock().note([place], point)
}

/// "Memory": an alignment is a power of two.
fn check_size(bytes: usize, alignment: usize, is_relaxed: bool) -> Answer {
    if bytes == 0 || !(alignment == 0 || alignment.is_power_of_two()) {
        return Err(code::INVALID_SIZE);
    }
    if bytes as u64 > MOST && !is_relaxed { Err(code::UNSUPPORTED_SIZE) } else { Ok(()) }
}

fn is_relaxed(desc: &DeviceAllocation) -> Answer<bool> {
    if desc.next.is_null() {
        return Ok(false);
    }
    // SAFETY: who chains a structure gives its address; the first of its fields says which it is.
    let relaxed = unsafe { desc.next.cast::<RelaxedLimits>().read() };
    if relaxed.stype == RelaxedLimits::new().stype {
        Ok(relaxed.flags & RELAXED_MAX_SIZE != 0)
    } else {
        Err(code::INVALID_ENUMERATION)
    }
}

/// "zeMemFree": the device must not be using it; what it is asked to free while it is, it keeps.
fn free(library: &Library, start: usize) -> Answer {
    let mut state = library.lock();
    let place = state.place(start, 0)?;
    if !matches!(place, Place::Device(at) if at == start as u64) && place != Place::Pinned(start) {
        return Err(code::INVALID_VALUE);
    }
    let mut uses = state.uses(place).map(std::mem::take).unwrap_or_default();
    if !state.are_over(&mut uses)? {
        if let Some(place) = state.uses(place) {
            *place = uses;
        }
        return Err(code::IN_USE);
    }
    if let Place::Pinned(start) = place {
        state.pinned.remove(&start);
        return Ok(());
    }
    let gone = state.allocations.remove(&(start as u64)).ok_or(code::INVALID_VALUE)?;
    let device = state.device(gone.device)?;
    let (sim, own) = (device.sim.clone(), device.own);
    drop(state);
    let given = sim.free(own, DevicePtr::from_raw(start as u64)).and_then(|()| sim.trim());
    given.map(drop).map_err(|error| code::of(&error))
}

export! {
    zeMemAllocDevice(
        context: usize,
        desc: Outlet<DeviceAllocation>,
        bytes: usize,
        alignment: usize,
        device: usize,
        to: Outlet<u64>,
    ) => |library| {
        let mut state = library.lock();
        state.contexts.get(context)?;
        checked(&desc, DeviceAllocation::new().stype, |desc| desc.stype)?;
        let desc = desc.get()?;
        check_size(bytes, alignment, is_relaxed(&desc)?)?;
        let number = number(device)?;
        let device = state.device(number)?;
        let (sim, own, bytes) = (device.sim.clone(), device.own, bytes as u64);
        let ptr = sim.allocate(own, bytes.next_multiple_of(512)).map_err(|error| code::of(&error))?;
        // Every list may use it at once.
        finish(&sim, own)?;
        state.allocations.insert(ptr.as_raw(), Allocation { device: number, bytes, uses: Vec::new() });
        to.put(ptr.as_raw())
    };
    zeMemAllocHost(
        context: usize,
        desc: Outlet<HostAllocation>,
        bytes: usize,
        alignment: usize,
        to: Outlet<*mut c_void>,
    ) => |library| {
        let mut state = library.lock();
        state.contexts.get(context)?;
        checked(&desc, HostAllocation::new().stype, |desc| desc.stype)?;
        check_size(bytes, alignment, false)?;
        let block = Block::new(context, bytes).ok_or(code::OUT_OF_HOST_MEMORY)?;
        let start = block.start();
        state.pinned.insert(start.addr(), (block, Vec::new()));
        to.put(start)
    };
    zeMemFree(context: usize, start: usize) => |library| {
        library.lock().contexts.get(context)?;
        free(library, start)
    };
    zeMemGetAllocProperties(
        context: usize,
        at: usize,
        to: Outlet<AllocationProperties>,
        _device: Outlet<usize>,
    ) => |library| {
        let state = library.lock();
        state.contexts.get(context)?;
        checked(&to, AllocationProperties::new().stype, |place| place.stype)?;
        let kind = match state.place(at, 1) {
            Ok(Place::Pinned(_)) => MEMORY_IS_HOST,
            Ok(Place::Device(_)) => 2,
            Err(_) => 0,
        };
        to.put(AllocationProperties { kind, ..AllocationProperties::new() })
    };
    // Events of a copy's own are not simulated.
    zeCommandListAppendMemoryCopy(
        list: usize,
        to: HostPlace,
        from: HostPlace,
        bytes: usize,
        signal: usize,
        count: u32,
        _waits: Outlet<usize>,
    ) => |library| if (signal, count) == (0, 0) { copy(library, list, to, from, bytes) } else { Err(code::UNKNOWN) };
    zeCommandListAppendMemoryFill(
        list: usize,
        to: u64,
        pattern: Outlet<u8>,
        pattern_bytes: usize,
        bytes: usize,
        signal: usize,
        count: u32,
        _waits: Outlet<usize>,
    ) => |library| match (pattern_bytes, signal, count) {
        (1, 0, 0) => fill(library, list, to, pattern.get()?, bytes),
        _ => Err(code::INVALID_SIZE),
    };
}
