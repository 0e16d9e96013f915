//! How much of a device's memory is free. "Sysman Programming Guide": devices have handles of their own here.

use crate::{
    call::export,
    code::{self, Answer},
    device::{checked, handles, list, number, properties},
    ffi::{SYSMAN_MEMORY_ON_DEVICE, SysmanDevice, SysmanMemory, SysmanState},
    outlet::Outlet,
};
use tack_residency::driver::Driver;

/// The one driver, as this part knows it.
const DRIVER: usize = 8 << 40;
/// What a device's handle, and its memory's, have more than the other part's.
const DEVICE: usize = 1 << 48;
const MEMORY: usize = 1 << 49;

fn device(handle: usize, more: usize) -> Answer<usize> {
    handle.checked_sub(more).ok_or(code::INVALID_HANDLE)
}

export! {
    zesInit(flags: u32) => |_| if flags == 0 { Ok(()) } else { Err(code::INVALID_ENUMERATION) };
    zesDriverGet(count: Outlet<u32>, to: Outlet<usize>) => |_| list(&count, &to, &[DRIVER]);
    zesDeviceGet(driver: usize, count: Outlet<u32>, to: Outlet<usize>) => |_| {
        let devices: Vec<usize> = handles().into_iter().map(|device| device + DEVICE).collect();
        if driver == DRIVER { list(&count, &to, &devices) } else { Err(code::INVALID_HANDLE) }
    };
    zesDeviceGetProperties(handle: usize, to: Outlet<SysmanDevice>) => |_| {
        checked(&to, SysmanDevice::new().stype, |place| place.stype)?;
        to.put(SysmanDevice { core: properties(device(handle, DEVICE)?)?, ..SysmanDevice::new() })
    };
    zesDeviceEnumMemoryModules(handle: usize, count: Outlet<u32>, to: Outlet<usize>) => |_| {
        number(device(handle, DEVICE)?)?;
        list(&count, &to, &[handle + MEMORY])
    };
    zesMemoryGetProperties(memory: usize, to: Outlet<SysmanMemory>) => |_| {
        number(device(memory, DEVICE + MEMORY)?)?;
        checked(&to, SysmanMemory::new().stype, |place| place.stype)?;
        to.put(SysmanMemory { location: SYSMAN_MEMORY_ON_DEVICE, ..SysmanMemory::new() })
    };
    zesMemoryGetState(memory: usize, to: Outlet<SysmanState>) => |library| {
        let number = number(device(memory, DEVICE + MEMORY)?)?;
        checked(&to, SysmanState::new().stype, |place| place.stype)?;
        let found = library.lock().device(number)?.sim.memory();
        let (free_bytes, bytes) = (found.free.unwrap_or(0), found.total.unwrap_or(0));
        to.put(SysmanState { free_bytes, bytes, ..SysmanState::new() })
    };
}
