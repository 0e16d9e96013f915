//! Drivers, devices and contexts.

use crate::{
    call::export,
    code::{self, Answer, Code},
    ffi::{
        ContextDesc, DEVICE_IS_GPU, DeviceProperties, GROUP_COMPUTES, GROUP_COPIES, GroupProperties,
        INIT_GPU_ONLY, MemoryProperties,
    },
    outlet::Outlet,
    settings::settings,
};
use std::{sync::Arc, thread, time::Duration};
use tack_residency::driver::{
    Driver, DriverErrorKind, Fence, QueueId, QueueRole, Result,
    sim::{Config, Pool, Sim},
};

/// The one driver.
pub const DRIVER: usize = 6 << 40;
/// A device's handle, less its number.
const DEVICE: usize = 7 << 40;

/// What one allocation may be unless its limit is relaxed, in bytes.
pub const MOST: u64 = 1 << 30;

/// The groups of engines: one that does all, and one that only copies.
const GROUPS: [(u32, u32); 2] = [(GROUP_COMPUTES | GROUP_COPIES, 1), (GROUP_COPIES, 2)];

/// One simulated device.
#[derive(Debug)]
pub struct Device {
    pub sim: Arc<Sim>,
    /// What allocations use.
    pub own: QueueId,
    /// Queues of lists that were given up, and have run out.
    pub spare: Vec<QueueId>,
}

impl Device {
    /// No two devices of a process have an address in common.
    pub fn open(number: usize) -> Result<Device> {
        let config = Config::new().with_capacity(settings().capacity).with_pool(Pool::None);
        let sim = Sim::open(config.with_first_address((number as u64 + 1) << 40))?;
        let own = sim.create_queue(QueueRole::Compute)?;
        Ok(Device { sim, own, spare: Vec::new() })
    }

    /// A queue for a list.
    pub fn take_queue(&mut self) -> Answer<QueueId> {
        let spare = self.spare.pop().map_or_else(|| self.sim.create_queue(QueueRole::Compute), Ok);
        spare.map_err(|error| code::of(&error))
    }
}

/// Waits until all that is in a queue has run.
pub fn finish(sim: &Sim, queue: QueueId) -> Answer {
    let of = |error| code::of(&error);
    let end = sim.record(queue).map_err(of)?;
    while !sim.is_passed(end).map_err(of)? {
        thread::sleep(Duration::from_micros(5));
    }
    sim.retire(end);
    Ok(())
}

/// The number of a device that there is.
pub fn number(device: usize) -> Answer<usize> {
    let number = device.checked_sub(DEVICE).filter(|number| *number < settings().devices);
    number.ok_or(code::INVALID_HANDLE)
}

fn only_driver(driver: usize) -> Answer {
    if driver == DRIVER { Ok(()) } else { Err(code::INVALID_HANDLE) }
}

/// "Initialization and Discovery": a call that lists says how many there are where it is asked for none, and gives no more
/// than it is asked for.
pub fn list<T: Copy>(count: &Outlet<u32>, to: &Outlet<T>, all: &[T]) -> Answer {
    let asked = count.get()? as usize;
    if asked == 0 {
        return count.put(all.len() as u32);
    }
    let given = asked.min(all.len());
    all[..given].iter().enumerate().try_for_each(|(index, value)| to.after(index).put(*value))?;
    count.put(given as u32)
}

pub fn handles() -> Vec<usize> {
    (0..settings().devices).map(|number| DEVICE + number).collect()
}

pub fn properties(device: usize) -> Answer<DeviceProperties> {
    let number = number(device)?;
    let mut found = DeviceProperties::new();
    (found.kind, found.vendor, found.max_allocation) = (DEVICE_IS_GPU, 0x8086, MOST);
    found.uuid = [number as u8 + 1; 16];
    let name = b"Intel Simulated";
    found.name[..name.len()].copy_from_slice(name);
    Ok(found)
}

/// Who asks must have said of which type the place is.
pub fn checked<T: Copy>(to: &Outlet<T>, kind: u32, stype: impl Fn(&T) -> u32) -> Answer {
    if stype(&to.get()?) == kind { Ok(()) } else { Err(code::INVALID_ENUMERATION) }
}

fn init(flags: u32) -> Answer {
    if flags & !INIT_GPU_ONLY != 0 {
        return Err(code::INVALID_ENUMERATION);
    }
    if settings().devices == 0 { Err(code::UNINITIALISED) } else { Ok(()) }
}

fn lost(sim: &Sim) -> Code {
    // No fence has this number, so nothing is learnt from asking but that.
    let is_lost = sim.is_passed(Fence(u64::MAX)).is_err_and(|error| error.kind == DriverErrorKind::Lost);
    if is_lost { code::DEVICE_LOST } else { 0 }
}

export! {
    zeInit(flags: u32) => |library| {
        init(flags)?;
        library.lock().initialised = true;
        Ok(())
    };
    zeDriverGet(count: Outlet<u32>, to: Outlet<usize>) => |_| list(&count, &to, &[DRIVER]);
    zeDriverGetApiVersion(driver: usize, to: Outlet<u32>) => |_| {
        only_driver(driver)?;
        to.put(settings().version as u32)
    };
    zeDeviceGet(driver: usize, count: Outlet<u32>, to: Outlet<usize>) => |_| {
        only_driver(driver)?;
        list(&count, &to, &handles())
    };
    zeDeviceGetProperties(device: usize, to: Outlet<DeviceProperties>) => |_| {
        checked(&to, DeviceProperties::new().stype, |place| place.stype)?;
        to.put(properties(device)?)
    };
    zeDeviceGetMemoryProperties(device: usize, count: Outlet<u32>, to: Outlet<MemoryProperties>) => |_| {
        number(device)?;
        list(&count, &to, &[MemoryProperties { total_bytes: settings().capacity, ..MemoryProperties::new() }])
    };
    zeDeviceGetCommandQueueGroupProperties(device: usize, count: Outlet<u32>, to: Outlet<GroupProperties>) => |_| {
        number(device)?;
        let groups = GROUPS
            .map(|(flags, engines)| GroupProperties { flags, engines, fill_bytes: 16, ..GroupProperties::new() });
        list(&count, &to, &groups)
    };
    zeDeviceGetStatus(device: usize) => |library| {
        let sim = library.lock().device(number(device)?)?.sim.clone();
        match lost(&sim) {
            0 => Ok(()),
            code => Err(code),
        }
    };
    zeContextCreate(driver: usize, desc: Outlet<ContextDesc>, to: Outlet<usize>) => |library| {
        only_driver(driver)?;
        checked(&desc, ContextDesc::new().stype, |desc| desc.stype)?;
        to.put(library.lock().contexts.add(()))
    };
    // What belongs to it must be given up before.
    zeContextDestroy(context: usize) => |library| {
        let mut state = library.lock();
        let belongs = state.open()[1..].iter().map(|(_, count)| count).sum::<usize>();
        if state.contexts.len() == 1 && belongs > 0 {
            return Err(code::IN_USE);
        }
        state.contexts.remove(context)
    };
}

/// Whether there is such an engine.
pub fn has_engine(group: u32, engine: u32) -> bool {
    GROUPS.get(group as usize).is_some_and(|&(_, engines)| engine < engines)
}
