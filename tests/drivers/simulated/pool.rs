//! Stream-ordered pools. The device's free memory is one: what a pool keeps beyond use is counted for each that is asked.

use super::{
    code::{self, Answer},
    outlet::Outlet,
    settings::settings,
    state::{Here, Library, State},
};
use std::ffi::{c_int, c_void};
use tack_residency::driver::Driver;

/// A pool of a device's.
#[derive(Debug)]
pub struct Pool {
    pub device: usize,
    /// Its attributes of int, by number less one: how it may use again what another stream freed.
    reuse: [c_int; 3],
    threshold: u64,
    /// Given up, and there until what was allocated from it is freed.
    pub destroyed: bool,
}

/// CUmemPoolProps and hipMemPoolProps, word by word: kind of allocation and of handle; kind of place and its number;
/// security attributes; most bytes; reserved.
pub type Props = [u64; 11];

const PINNED: u64 = 1;
const ON_DEVICE: u64 = 1;

const RELEASE_THRESHOLD: c_int = 4;
const RESERVED_BYTES: c_int = 5;
const RESERVED_PEAK: c_int = 6;
const USED_BYTES: c_int = 7;
const USED_PEAK: c_int = 8;

impl State {
    fn used(&self, pool: usize) -> u64 {
        self.allocations.values().filter(|held| held.pool == Some(pool)).map(|held| held.bytes).sum()
    }

    fn pools_of(&self, here: &Here) -> impl Iterator<Item = &Pool> {
        let device = here.device;
        self.pools.iter().map(|(_, pool)| pool).filter(move |pool| pool.device == device)
    }

    /// Forgets pools that were given up and have nothing left.
    pub fn forget_empty_pools(&mut self) {
        let ended: Vec<usize> = self
            .pools
            .iter()
            .filter(|&(handle, pool)| pool.destroyed && self.used(handle) == 0)
            .map(|(handle, _)| handle)
            .collect();
        for pool in ended {
            let _ = self.pools.remove(pool);
        }
    }

    /// Gives the device back what pools kept that are no more.
    pub fn release_orphaned(&self, here: &Here) {
        if self.pools_of(here).next().is_none() {
            let _ = here.sim.trim();
        }
    }

    /// "Stream Ordered Memory Allocator", CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: what a pool keeps beyond it goes back to the
    /// device when a stream, event or context is waited for.
    pub fn release_beyond_thresholds(&self, here: &Here) {
        let cached = here.sim.memory().cached;
        if self.pools_of(here).any(|pool| pool.threshold < cached) {
            let _ = here.sim.trim();
        }
    }
}

/// "Stream Ordered Memory Allocator", cuMemPoolCreate: of a device's memory, for this process alone; all that is reserved
/// is zero.
pub fn create(library: &Library, to: &Outlet<usize>, props: &Outlet<Props>) -> Answer {
    let (mut state, _here) = library.enter()?;
    if !settings().pools {
        return Err(code::NOT_SUPPORTED);
    }
    let [kind, place, security, _most, reserved @ ..] = props.get()?;
    let (on, device) = (place & 0xFFFF_FFFF, place >> 32);
    if kind != PINNED || on != ON_DEVICE || security != 0 || reserved != [0; 7] {
        return Err(code::INVALID_VALUE);
    }
    let device = usize::try_from(device).ok().filter(|&device| device < settings().devices);
    let device = device.ok_or(code::INVALID_VALUE)?;
    let pool = state.pools.add(Pool { device, reuse: [1; 3], threshold: 0, destroyed: false });
    to.put(pool)
}

/// "Stream Ordered Memory Allocator", cuMemPoolDestroy: returns at once; the pool goes when all that was allocated from it
/// is freed.
pub fn destroy(library: &Library, pool: usize) -> Answer {
    let (mut state, here) = library.enter()?;
    let known = state.pools.get_mut(pool)?;
    if std::mem::replace(&mut known.destroyed, true) {
        return Err(code::INVALID_HANDLE);
    }
    state.forget_empty_pools();
    state.release_orphaned(&here);
    Ok(())
}

/// "Stream Ordered Memory Allocator", cuMemPoolSetAttribute: three of int, the threshold; peaks can be set to zero.
pub fn set(library: &Library, pool: usize, attribute: c_int, value: &Outlet<c_void>) -> Answer {
    let (mut state, _here) = library.enter()?;
    let pool = state.pools.get_mut(pool)?;
    match attribute {
        1..=3 => pool.reuse[attribute as usize - 1] = value.of().get()?,
        RELEASE_THRESHOLD => pool.threshold = value.of().get()?,
        RESERVED_PEAK | USED_PEAK if value.of::<u64>().get()? == 0 => {}
        _ => return Err(code::INVALID_VALUE),
    }
    Ok(())
}

pub fn get(library: &Library, pool: usize, attribute: c_int, to: &Outlet<c_void>) -> Answer {
    let (state, here) = library.enter()?;
    let known = state.pools.get(pool)?;
    let used = state.used(pool);
    match attribute {
        1..=3 => to.of().put(known.reuse[attribute as usize - 1]),
        RELEASE_THRESHOLD => to.of().put(known.threshold),
        RESERVED_BYTES | RESERVED_PEAK => to.of().put(used + here.sim.memory().cached),
        USED_BYTES | USED_PEAK => to.of().put(used),
        _ => Err(code::INVALID_VALUE),
    }
}

/// "Stream Ordered Memory Allocator", cuMemPoolTrimTo: only what the host has seen freed goes back.
pub fn trim(library: &Library, pool: usize, keep: usize) -> Answer {
    let (state, here) = library.enter()?;
    state.pools.get(pool)?;
    if here.sim.memory().cached > keep as u64 {
        here.sim.trim().map_err(|error| code::of(&error))?;
    }
    Ok(())
}
