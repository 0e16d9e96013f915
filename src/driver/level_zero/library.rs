//! The Level Zero loader: where it is looked for, what its calls are named, and the devices behind it.
#![allow(unsafe_code)]

use super::{
    super::{
        DriverError, DriverErrorKind, Result,
        loader::Loaded,
        symbols::{Handle, Lookup, symbols},
    },
    code,
    ffi::*,
};
use std::{
    ffi::{c_int, c_void},
    sync::OnceLock,
};

/// The events that a call waits for, or none.
pub(super) type Events = *mut Handle;

/// The environment variable that names the one library to open.
const VARIABLE: &str = "TACK_LEVEL_ZERO_LIBRARY";

/// Where it is looked for else.
const FILES: &[&str] =
    if cfg!(windows) { &["ze_loader.dll"] } else { &["libze_loader.so.1", "libze_loader.so"] };

/// What to look at where no driver has a device.
const ADVICE: &str = "; is there an Intel GPU and its driver (libze_intel_gpu.so.1), may this user open /dev/dri/renderD* \
                      (groups `render` and `video`), and does ZE_AFFINITY_MASK leave any?";

symbols! {
    /// What every device needs.
    pub(super) Calls, Names {
        init(u32);
        drivers(*mut u32, *mut Handle);
        api_version(Handle, *mut u32);
        devices(Handle, *mut u32, *mut Handle);
        device_properties(Handle, *mut DeviceProperties);
        device_memories(Handle, *mut u32, *mut MemoryProperties);
        device_groups(Handle, *mut u32, *mut GroupProperties);
        device_status(Handle);
        context_create(Handle, *const ContextDesc, *mut Handle);
        context_destroy(Handle);
        list_create(Handle, Handle, *const QueueDesc, *mut Handle);
        list_destroy(Handle);
        copy(Handle, *mut c_void, *const c_void, usize, Handle, u32, Events);
        fill(Handle, *mut c_void, *const c_void, usize, usize, Handle, u32, Events);
        barrier(Handle, Handle, u32, Events);
        signal(Handle, Handle);
        wait(Handle, u32, Events);
        pool_create(Handle, *const PoolDesc, u32, *mut Handle, *mut Handle);
        pool_destroy(Handle);
        event_create(Handle, *const EventDesc, *mut Handle);
        event_destroy(Handle);
        event_query(Handle);
        event_reset(Handle);
        event_signal(Handle);
        event_synchronize(Handle, u64);
        allocate(Handle, *const DeviceAllocation, usize, usize, Handle, *mut *mut c_void);
        allocate_host(Handle, *const HostAllocation, usize, usize, *mut *mut c_void);
        free(Handle, *mut c_void);
        allocation_properties(Handle, *const c_void, *mut AllocationProperties, *mut Handle);
    }
}

pub(super) const NAMES: Names = Names {
    init: "zeInit",
    drivers: "zeDriverGet",
    api_version: "zeDriverGetApiVersion",
    devices: "zeDeviceGet",
    device_properties: "zeDeviceGetProperties",
    device_memories: "zeDeviceGetMemoryProperties",
    device_groups: "zeDeviceGetCommandQueueGroupProperties",
    device_status: "zeDeviceGetStatus",
    context_create: "zeContextCreate",
    context_destroy: "zeContextDestroy",
    list_create: "zeCommandListCreateImmediate",
    list_destroy: "zeCommandListDestroy",
    copy: "zeCommandListAppendMemoryCopy",
    fill: "zeCommandListAppendMemoryFill",
    barrier: "zeCommandListAppendBarrier",
    signal: "zeCommandListAppendSignalEvent",
    wait: "zeCommandListAppendWaitOnEvents",
    pool_create: "zeEventPoolCreate",
    pool_destroy: "zeEventPoolDestroy",
    event_create: "zeEventCreate",
    event_destroy: "zeEventDestroy",
    event_query: "zeEventQueryStatus",
    event_reset: "zeEventHostReset",
    event_signal: "zeEventHostSignal",
    event_synchronize: "zeEventHostSynchronize",
    allocate: "zeMemAllocDevice",
    allocate_host: "zeMemAllocHost",
    free: "zeMemFree",
    allocation_properties: "zeMemGetAllocProperties",
};

symbols! {
    /// What tells how much memory is free. Loaders before API 1.5 have no `zesInit`.
    pub(super) SysmanCalls, SysmanNames {
        init(u32);
        drivers(*mut u32, *mut Handle);
        devices(Handle, *mut u32, *mut Handle);
        device_properties(Handle, *mut SysmanDevice);
        memories(Handle, *mut u32, *mut Handle);
        memory_properties(Handle, *mut SysmanMemory);
        memory_state(Handle, *mut SysmanState);
    }
}

pub(super) const SYSMAN_NAMES: SysmanNames = SysmanNames {
    init: "zesInit",
    drivers: "zesDriverGet",
    devices: "zesDeviceGet",
    device_properties: "zesDeviceGetProperties",
    memories: "zesDeviceEnumMemoryModules",
    memory_properties: "zesMemoryGetProperties",
    memory_state: "zesMemoryGetState",
};

/// The loader, initialised.
#[derive(Debug)]
pub(super) struct Library {
    pub(super) calls: Calls,
    pub(super) sysman: Option<SysmanCalls>,
}

/// The process's loader, opened once. A failure is looked into anew each time: a driver may be installed meanwhile.
pub(super) fn library() -> Result<&'static Library> {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    // SAFETY: whoever asks for Level Zero wants its loader, or what the environment names, to start.
    let loaded = unsafe { Loaded::open("Level Zero", VARIABLE, FILES) }?;
    let library = Library::resolve(&|name| loaded.find(name)).map_err(|error| loaded.blame(error))?;
    library.init().map_err(|error| loaded.blame(error))?;
    Ok(LIBRARY.get_or_init(|| library))
}

impl Library {
    pub(super) fn resolve(lookup: Lookup<'_>) -> Result<Library> {
        // SAFETY: each name is that of a Level Zero call of this signature (ze_api.h from 1.0 on), and the library is
        // never closed.
        let calls = unsafe { Calls::resolve(&NAMES, lookup) }?;
        // SAFETY: as above (zes_api.h).
        let sysman = unsafe { SysmanCalls::resolve(&SYSMAN_NAMES, lookup) }.ok();
        Ok(Library { calls, sysman })
    }

    fn init(&self) -> Result<()> {
        // SAFETY: the call takes a flag.
        let code = unsafe { (self.calls.init.call)(INIT_GPU_ONLY) };
        opening(self.calls.init.name, code)
    }

    /// The GPUs of every driver, each with its driver.
    pub(super) fn gpus(&self) -> Result<Vec<(Handle, Handle)>> {
        let (drivers, devices) = (self.calls.drivers, self.calls.devices);
        let mut gpus = Vec::new();
        // SAFETY: the call writes a number, and as many handles as that says.
        for driver in list(drivers.name, Handle::NULL, |count, to| unsafe { (drivers.call)(count, to) })? {
            // SAFETY: as above; the driver is one.
            let found =
                list(devices.name, Handle::NULL, |count, to| unsafe { (devices.call)(driver, count, to) })?;
            for device in found {
                if self.properties(device)?.kind == DEVICE_IS_GPU {
                    gpus.push((driver, device));
                }
            }
        }
        Ok(gpus)
    }

    /// The GPU with this ordinal, with its driver.
    pub(super) fn gpu(&self, ordinal: u32) -> Result<(Handle, Handle)> {
        let gpus = self.gpus()?;
        gpus.get(ordinal as usize).copied().ok_or_else(|| {
            let count = gpus.len();
            let advice = if count == 0 { ADVICE } else { "" };
            let message =
                format!("there is no Level Zero GPU {ordinal}: there are {count}, counted from 0{advice}");
            DriverError::new(DriverErrorKind::Unavailable, self.calls.devices.name, 0, message)
        })
    }

    pub(super) fn properties(&self, device: Handle) -> Result<DeviceProperties> {
        let (ask, mut properties) = (self.calls.device_properties, DeviceProperties::new());
        // SAFETY: the device is one, and `properties` is of the structure's layout.
        let code = unsafe { (ask.call)(device, &mut properties) };
        opening(ask.name, code).map(|()| properties)
    }

    /// The device's memories.
    pub(super) fn memories(&self, device: Handle) -> Result<Vec<MemoryProperties>> {
        let ask = self.calls.device_memories;
        // SAFETY: the device is one; the call writes a number, and as many structures as that says.
        list(ask.name, MemoryProperties::new(), |count, to| unsafe { (ask.call)(device, count, to) })
    }

    /// The device's groups of engines. A group's place among them is its ordinal.
    pub(super) fn groups(&self, device: Handle) -> Result<Vec<GroupProperties>> {
        let ask = self.calls.device_groups;
        // SAFETY: as for the memories.
        list(ask.name, GroupProperties::new(), |count, to| unsafe { (ask.call)(device, count, to) })
    }

    /// The version of the API that a driver has: the major part above 16 bits of the minor one.
    pub(super) fn api_version(&self, driver: Handle) -> Result<u32> {
        let (ask, mut version) = (self.calls.api_version, 0);
        // SAFETY: the driver is one, and `version` is where the number goes.
        let code = unsafe { (ask.call)(driver, &mut version) };
        opening(ask.name, code).map(|()| version)
    }
}

/// A call on the way to a device: refused, there is no such device.
pub(super) fn opening(call: &'static str, code: c_int) -> Result<()> {
    if code == SUCCESS {
        return Ok(());
    }
    let advice = if code::kind(code) == DriverErrorKind::Unavailable { ADVICE } else { "" };
    let message = format!("{call} says {}{advice}", code::words(code));
    Err(DriverError::new(DriverErrorKind::Unavailable, call, code.into(), message))
}

/// What a call lists that is asked for the number first.
pub(super) fn list<T: Clone>(
    call: &'static str,
    empty: T,
    ask: impl Fn(*mut u32, *mut T) -> c_int,
) -> Result<Vec<T>> {
    let mut count = 0;
    opening(call, ask(&mut count, std::ptr::null_mut()))?;
    let mut found = vec![empty; count as usize];
    if count > 0 {
        opening(call, ask(&mut count, found.as_mut_ptr()))?;
        found.truncate(count as usize);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::{
        super::super::{headers::Headers, symbols::miss_each},
        *,
    };

    #[test]
    fn numbers_layouts_and_signatures_are_those_of_the_headers() {
        let include = "#include <level_zero/ze_api.h>\n#include <level_zero/zes_api.h>\n#include <cstddef>\n";
        let mut headers = Headers::new("libze-dev", include);
        for &(code, name, ..) in code::CODES {
            headers.number(&format!("ZE_RESULT_{name}"), code);
        }
        for (name, number) in [
            ("ZE_RESULT_SUCCESS", SUCCESS as u32),
            ("ZE_RESULT_NOT_READY", NOT_READY as u32),
            ("ZE_INIT_FLAG_GPU_ONLY", INIT_GPU_ONLY),
            ("ZE_DEVICE_TYPE_GPU", DEVICE_IS_GPU),
            ("ZE_DEVICE_PROPERTY_FLAG_INTEGRATED", DEVICE_IS_INTEGRATED),
            ("ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE", GROUP_COMPUTES),
            ("ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY", GROUP_COPIES),
            ("ZE_COMMAND_QUEUE_FLAG_EXPLICIT_ONLY", QUEUE_EXPLICIT),
            ("ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS", QUEUE_ASYNCHRONOUS),
            ("ZE_COMMAND_QUEUE_PRIORITY_NORMAL", 0),
            ("ZE_EVENT_POOL_FLAG_HOST_VISIBLE", POOL_HOST_VISIBLE),
            ("ZE_EVENT_SCOPE_FLAG_HOST", SCOPE_HOST),
            ("ZE_RELAXED_ALLOCATION_LIMITS_EXP_FLAG_MAX_SIZE", RELAXED_MAX_SIZE),
            ("ZE_MEMORY_TYPE_HOST", MEMORY_IS_HOST),
            ("ZES_MEM_LOC_DEVICE", SYSMAN_MEMORY_ON_DEVICE),
            ("ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES", DeviceProperties::new().stype),
            ("ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES", MemoryProperties::new().stype),
            ("ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES", GroupProperties::new().stype),
            ("ZE_STRUCTURE_TYPE_CONTEXT_DESC", ContextDesc::new().stype),
            ("ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC", QueueDesc::new().stype),
            ("ZE_STRUCTURE_TYPE_EVENT_POOL_DESC", PoolDesc::new().stype),
            ("ZE_STRUCTURE_TYPE_EVENT_DESC", EventDesc::new().stype),
            ("ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC", DeviceAllocation::new().stype),
            ("ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC", HostAllocation::new().stype),
            ("ZE_STRUCTURE_TYPE_RELAXED_ALLOCATION_LIMITS_EXP_DESC", RelaxedLimits::new().stype),
            ("ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES", AllocationProperties::new().stype),
            ("ZES_STRUCTURE_TYPE_DEVICE_PROPERTIES", SysmanDevice::new().stype),
            ("ZES_STRUCTURE_TYPE_MEM_PROPERTIES", SysmanMemory::new().stype),
            ("ZES_STRUCTURE_TYPE_MEM_STATE", SysmanState::new().stype),
        ] {
            headers.number(name, number);
        }
        for (name, bytes, fields) in layouts() {
            headers.number(&format!("sizeof({name})"), bytes as u64);
            for (field, offset) in fields {
                headers.number(&format!("offsetof({name}, {field})"), offset as u64);
            }
        }
        headers.calls(&NAMES.widths());
        // Three of Sysman's are newer than the oldest headers.
        let newer = [SYSMAN_NAMES.init, SYSMAN_NAMES.drivers, SYSMAN_NAMES.devices];
        let mut calls = SYSMAN_NAMES.widths();
        calls.retain(|(name, _)| !newer.contains(name));
        headers.calls(&calls);
        headers.check();
    }

    #[test]
    fn each_symbol_that_is_missing_is_named_or_done_without() {
        let may = |gone: &str, library: &Library| gone.starts_with("zes") && library.sysman.is_none();
        assert_eq!(miss_each(Library::resolve, may), 36);
    }
}
