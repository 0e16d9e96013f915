//! How much of a device's memory is free, which Level Zero's part for managing devices tells.
#![allow(unsafe_code)]

use super::{
    super::symbols::Handle,
    ffi::*,
    library::{SysmanCalls, list},
};

/// The memories of one device, as that part knows them.
#[derive(Debug)]
pub(super) struct Sysman {
    calls: SysmanCalls,
    memories: Vec<Handle>,
}

impl Sysman {
    /// Of the device with this number; none if the driver does not say, or this user may not ask.
    pub(super) fn find(calls: SysmanCalls, uuid: [u8; 16]) -> Option<Sysman> {
        // SAFETY: the call takes flags, of which there are none.
        let code = unsafe { (calls.init.call)(0) };
        if code != SUCCESS {
            return None;
        }
        let drivers = calls.drivers;
        // SAFETY: the call writes a number, and as many handles as that says.
        let drivers =
            list(drivers.name, Handle::NULL, |count, to| unsafe { (drivers.call)(count, to) }).ok()?;
        let device = drivers.into_iter().find_map(|driver| {
            let devices = calls.devices;
            // SAFETY: as above; the driver is one.
            let found =
                list(devices.name, Handle::NULL, |count, to| unsafe { (devices.call)(driver, count, to) });
            found.ok()?.into_iter().find(|&device| is(&calls, device, uuid))
        })?;
        let memories = calls.memories;
        // SAFETY: as above; the device is one.
        let found =
            list(memories.name, Handle::NULL, |count, to| unsafe { (memories.call)(device, count, to) });
        let memories: Vec<Handle> =
            found.ok()?.into_iter().filter(|&memory| is_local(&calls, memory)).collect();
        (!memories.is_empty()).then_some(Sysman { calls, memories })
    }

    /// What is free in all of them, in bytes.
    pub(super) fn free_bytes(&self) -> Option<u64> {
        self.memories.iter().try_fold(0u64, |free, &memory| {
            let mut state = SysmanState::new();
            // SAFETY: the memory is one, and `state` is of the structure's layout.
            let code = unsafe { (self.calls.memory_state.call)(memory, &mut state) };
            (code == SUCCESS).then(|| free.saturating_add(state.free_bytes))
        })
    }
}

/// Whether a device is the one with this number.
fn is(calls: &SysmanCalls, device: Handle, uuid: [u8; 16]) -> bool {
    let mut properties = SysmanDevice::new();
    properties.core = DeviceProperties::new();
    // SAFETY: the device is one, and `properties` is of the structure's layout.
    let code = unsafe { (calls.device_properties.call)(device, &mut properties) };
    code == SUCCESS && properties.core.uuid == uuid
}

/// Whether a memory is on the device.
fn is_local(calls: &SysmanCalls, memory: Handle) -> bool {
    let mut properties = SysmanMemory::new();
    // SAFETY: the memory is one, and `properties` is of the structure's layout.
    let code = unsafe { (calls.memory_properties.call)(memory, &mut properties) };
    code == SUCCESS && properties.location == SYSMAN_MEMORY_ON_DEVICE
}
