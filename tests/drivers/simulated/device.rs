//! A device that is in use: one simulated device, and its queues.

use super::{
    code::{self, Answer},
    outlet::Outlet,
    settings::settings,
    state::Library,
};
use crate::VENDOR;
use std::{
    ffi::{c_char, c_int},
    sync::Arc,
    thread,
    time::Duration,
};
use tack_residency::driver::{
    Driver, DriverErrorKind, Fence, QueueId, QueueRole, Result,
    sim::{Config, Pool, Sim},
};

/// One simulated device.
#[derive(Debug)]
pub struct Device {
    pub sim: Arc<Sim>,
    /// What calls without a stream use.
    pub own: QueueId,
    /// What other devices' copies to this one use.
    pub arrivals: QueueId,
    /// Every queue there is.
    queues: Vec<QueueId>,
    /// Queues of streams that were given up, with what marks the end of their work.
    spare: Vec<(QueueId, Fence)>,
}

impl Device {
    /// "Unified Addressing": no two devices of a process have an address in common.
    pub fn open(number: usize) -> Result<Device> {
        let pool = if settings().pools { Pool::StreamOrdered } else { Pool::None };
        let config = Config::new().with_capacity(settings().capacity).with_pool(pool);
        let sim = Sim::open(config.with_first_address((number as u64 + 1) << 40))?;
        let [own, arrivals] = [sim.create_queue(QueueRole::Compute)?, sim.create_queue(QueueRole::Compute)?];
        Ok(Device { sim, own, arrivals, queues: vec![own, arrivals], spare: Vec::new() })
    }

    /// A queue for a stream: one that was given up and has run out, or a new one.
    pub fn take_queue(&mut self) -> Answer<QueueId> {
        let sim = &self.sim;
        let ended = self.spare.iter().position(|&(_, end)| sim.is_passed(end).unwrap_or(false));
        if let Some(ended) = ended {
            let (queue, end) = self.spare.swap_remove(ended);
            sim.retire(end);
            return Ok(queue);
        }
        let queue = sim.create_queue(QueueRole::Compute).map_err(|error| code::of(&error))?;
        self.queues.push(queue);
        Ok(queue)
    }

    /// Takes a stream's queue back.
    pub fn give_queue(&mut self, queue: QueueId) -> Answer {
        let end = self.sim.record(queue).map_err(|error| code::of(&error))?;
        self.spare.push((queue, end));
        Ok(())
    }

    /// What waits until the device is idle, once the state is let go.
    pub fn idle(&self) -> impl FnOnce() -> Answer + use<> {
        let (sim, queues) = (Arc::clone(&self.sim), self.queues.clone());
        move || queues.into_iter().try_for_each(|queue| finish(&sim, queue))
    }
}

/// Waits until all that is in a queue has run.
pub fn finish(sim: &Sim, queue: QueueId) -> Answer {
    let end = sim.record(queue).map_err(|error| code::of(&error))?;
    let mut rest = Duration::ZERO;
    while !sim.is_passed(end).map_err(|error| code::of(&error))? {
        thread::sleep(rest);
        rest = (rest + Duration::from_micros(5)).min(Duration::from_micros(200));
    }
    sim.retire(end);
    Ok(())
}

/// Whether a device is lost. No fence has this number, so nothing is learnt from asking but that.
pub fn is_lost(sim: &Sim) -> bool {
    sim.is_passed(Fence(u64::MAX)).is_err_and(|error| error.kind == DriverErrorKind::Lost)
}

/// The number of a device that there is.
fn known(device: c_int) -> Answer<usize> {
    let number = usize::try_from(device).ok().filter(|&number| number < settings().devices);
    number.ok_or(code::INVALID_DEVICE)
}

pub fn count(to: &Outlet<c_int>) -> Answer {
    to.put(settings().devices as c_int)
}

pub fn total(to: &Outlet<usize>, device: c_int) -> Answer {
    known(device)?;
    to.put(settings().capacity as usize)
}

/// "Device Management", cuDeviceGetName: a text that ends with a zero, cut to `bytes`.
pub fn name(to: &Outlet<c_char>, bytes: c_int, device: c_int) -> Answer {
    known(device)?;
    let room = usize::try_from(bytes).ok().filter(|&bytes| bytes > 0).ok_or(code::INVALID_VALUE)?;
    to.get()?;
    let text = VENDOR.device.bytes().take(room - 1).chain([0]);
    text.enumerate().try_for_each(|(at, byte)| to.after(at).put(byte as c_char))
}

pub fn attribute(to: &Outlet<c_int>, attribute: c_int, device: c_int) -> Answer {
    known(device)?;
    if attribute == VENDOR.pools_attribute {
        return to.put(settings().pools.into());
    }
    let found = VENDOR.attributes.iter().find(|(number, _)| *number == attribute);
    to.put(found.ok_or(code::INVALID_VALUE)?.1)
}

impl Library {
    /// "Device Management", cuDeviceGet: the ordinals count from zero.
    pub fn find_device(&self, ordinal: c_int) -> Answer<usize> {
        known(ordinal)
    }
}
