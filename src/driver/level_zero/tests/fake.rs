//! A loader, a driver and a device that run each list at once, or when a test lets them; and that run what nothing orders
//! backwards. What Level Zero leaves undefined is noted as misuse. One world for each device that a test opens.
#![allow(unsafe_code)]

mod world;

use super::super::{super::symbols::Handle, ffi::*, library};
use std::{
    collections::VecDeque,
    ffi::{c_int, c_void},
};
use world::{CURRENT, Command, List, SHIFT, worlds};
pub(super) use world::{World, make, with};

fn handle(number: usize) -> Handle {
    Handle(std::ptr::without_provenance_mut(number))
}

/// What every call does first: it looks for its world by a handle.
fn call(name: &'static str, of: Handle, work: impl FnOnce(&mut World) -> c_int) -> c_int {
    let number = of.0.addr() >> SHIFT;
    let mut worlds = worlds();
    let Some(world) = worlds.get_mut(&number) else { return 0x7800_0005 };
    *world.called.entry(name).or_default() += 1;
    match world.refuse {
        Some((refused, code)) if refused == name => code,
        _ => work(world),
    }
}

/// Puts something where a caller has a place for it.
fn put<T>(to: *mut T, value: T) -> c_int {
    // SAFETY: the backend hands places of the types that the calls name.
    unsafe { to.write(value) };
    0
}

/// Lists one thing, as calls do that are asked for the number first.
fn put_list<T>(count: *mut u32, to: *mut T, values: Vec<T>) -> c_int {
    put(count, values.len() as u32);
    if !to.is_null() {
        for (index, value) in values.into_iter().enumerate() {
            put(to.wrapping_add(index), value);
        }
    }
    0
}

fn get<T: Copy>(from: *const T) -> T {
    // SAFETY: the backend hands what the calls name.
    unsafe { from.read() }
}

extern "C" fn init(flags: u32) -> c_int {
    if flags == 1 || flags == 0 { 0 } else { 0x7800_0004 }
}

extern "C" fn drivers(count: *mut u32, to: *mut Handle) -> c_int {
    let driver = handle(CURRENT.get() << SHIFT | 1);
    call("drivers", driver, |_| put_list(count, to, vec![driver]))
}

extern "C" fn api_version(driver: Handle, to: *mut u32) -> c_int {
    call("api_version", driver, |world| put(to, world.version))
}

extern "C" fn devices(driver: Handle, count: *mut u32, to: *mut Handle) -> c_int {
    call("devices", driver, |world| {
        // Of two kinds: the first is no GPU.
        put_list(count, to, vec![handle(world.number << SHIFT | 2), handle(world.number << SHIFT | 3)])
    })
}

fn device_facts(device: Handle, integrated: bool) -> DeviceProperties {
    let mut facts = DeviceProperties::new();
    facts.kind = if device.0.addr() & 0xff == 3 { DEVICE_IS_GPU } else { 4 };
    facts.flags = u32::from(integrated);
    facts.max_allocation = 1 << 20;
    facts.uuid = [device.0.addr() as u8; 16];
    facts.name[..4].copy_from_slice(b"fake");
    facts
}

extern "C" fn device_properties(device: Handle, to: *mut DeviceProperties) -> c_int {
    call("device_properties", device, |world| put(to, device_facts(device, world.integrated)))
}

extern "C" fn device_memories(device: Handle, count: *mut u32, to: *mut MemoryProperties) -> c_int {
    let memory = MemoryProperties { total_bytes: 1 << 24, ..MemoryProperties::new() };
    call("device_memories", device, |_| put_list(count, to, vec![memory; 2]))
}

extern "C" fn device_groups(device: Handle, count: *mut u32, to: *mut GroupProperties) -> c_int {
    let group = |flags, engines| GroupProperties { flags, engines, ..GroupProperties::new() };
    call("device_groups", device, |_| put_list(count, to, vec![group(3, 2), group(2, 1), group(2, 2)]))
}

extern "C" fn device_status(device: Handle) -> c_int {
    call("device_status", device, |_| 0)
}

extern "C" fn context_create(driver: Handle, desc: *const ContextDesc, to: *mut Handle) -> c_int {
    assert_eq!(get(desc).stype, 0xd);
    call("context_create", driver, |world| make_at(world, to))
}

fn make_at(world: &mut World, to: *mut Handle) -> c_int {
    let made = world.make();
    world.live.insert(made);
    put(to, handle(made))
}

extern "C" fn context_destroy(context: Handle) -> c_int {
    call("context_destroy", context, |world| {
        world.live.remove(&context.0.addr());
        if world.live() > 0 { world.wrong("a context given up before what it has") } else { 0 }
    })
}

extern "C" fn list_create(context: Handle, _: Handle, desc: *const QueueDesc, to: *mut Handle) -> c_int {
    let QueueDesc { group, engine, flags, mode, .. } = get(desc);
    call("list_create", context, |world| {
        assert_eq!(mode, QUEUE_ASYNCHRONOUS);
        world.opened.push((group, engine, flags));
        let (made, in_order) = (world.make(), flags & QUEUE_IN_ORDER != 0);
        world.lists.insert(made, List { in_order, queued: VecDeque::new() });
        put(to, handle(made))
    })
}

extern "C" fn list_destroy(list: Handle) -> c_int {
    call("list_destroy", list, |world| match world.lists.remove(&list.0.addr()) {
        Some(list) if list.queued.is_empty() => 0,
        _ => world.wrong("a list given up in use"),
    })
}

extern "C" fn copy(
    list: Handle,
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    _: Handle,
    _: u32,
    _: library::Events,
) -> c_int {
    call("copy", list, |world| world.append(list, Command::Copy { to: to.addr(), from: from.addr(), bytes }))
}

extern "C" fn fill(
    list: Handle,
    to: *mut c_void,
    pattern: *const c_void,
    pattern_bytes: usize,
    bytes: usize,
    _: Handle,
    _: u32,
    _: library::Events,
) -> c_int {
    assert_eq!(pattern_bytes, 1);
    let value = get(pattern.cast());
    call("fill", list, |world| world.append(list, Command::Fill { to: to.addr(), bytes, value }))
}

extern "C" fn barrier(list: Handle, event: Handle, _: u32, _: library::Events) -> c_int {
    let event = (event != Handle::NULL).then_some(event.0.addr());
    call("barrier", list, |world| world.append(list, Command::Barrier(event)))
}

extern "C" fn signal(list: Handle, event: Handle) -> c_int {
    call("signal", list, |world| world.append(list, Command::Signal(event.0.addr())))
}

extern "C" fn wait(list: Handle, count: u32, events: library::Events) -> c_int {
    assert_eq!(count, 1);
    let event = get(events).0.addr();
    call("wait", list, |world| world.append(list, Command::Wait(event)))
}

extern "C" fn pool_create(
    context: Handle,
    desc: *const PoolDesc,
    _: u32,
    _: *mut Handle,
    to: *mut Handle,
) -> c_int {
    assert_eq!(get(desc).flags, POOL_HOST_VISIBLE);
    call("pool_create", context, |world| make_at(world, to))
}

extern "C" fn pool_destroy(pool: Handle) -> c_int {
    call("pool_destroy", pool, |world| match world.events.is_empty() {
        true => c_int::from(!world.live.remove(&pool.0.addr())),
        false => world.wrong("a pool given up before its events"),
    })
}

extern "C" fn event_create(pool: Handle, desc: *const EventDesc, to: *mut Handle) -> c_int {
    let EventDesc { signal, wait, .. } = get(desc);
    assert_eq!((signal, wait), (SCOPE_HOST, SCOPE_HOST));
    call("event_create", pool, |world| {
        let made = world.make();
        world.events.insert(made, false);
        put(to, handle(made))
    })
}

extern "C" fn event_destroy(event: Handle) -> c_int {
    call("event_destroy", event, |world| {
        if world.is_queued(event.0.addr()) || world.events.remove(&event.0.addr()).is_none() {
            return world.wrong("an event given up in use");
        }
        0
    })
}

extern "C" fn event_query(event: Handle) -> c_int {
    call("event_query", event, |world| c_int::from(!world.events[&event.0.addr()]))
}

extern "C" fn event_reset(event: Handle) -> c_int {
    call("event_reset", event, |world| {
        if world.is_queued(event.0.addr()) {
            return world.wrong("an event reset in use");
        }
        world.events.insert(event.0.addr(), false);
        0
    })
}

extern "C" fn event_signal(event: Handle) -> c_int {
    call("event_signal", event, |world| {
        world.execute(Command::Signal(event.0.addr()));
        world.run();
        0
    })
}

extern "C" fn event_synchronize(event: Handle, nanoseconds: u64) -> c_int {
    assert!(nanoseconds < u64::MAX);
    call("event_synchronize", event, |world| c_int::from(!world.events[&event.0.addr()]))
}

extern "C" fn allocate(
    context: Handle,
    desc: *const DeviceAllocation,
    bytes: usize,
    _: usize,
    _: Handle,
    to: *mut *mut c_void,
) -> c_int {
    let relaxed = !get(desc).next.is_null();
    call("allocate", context, |world| {
        world.relaxed.push(relaxed);
        match bytes {
            _ if bytes > 1 << 24 => return 0x7000_0003,
            _ if bytes > 1 << 20 && !relaxed => return 0x7800_0009,
            _ => {}
        }
        let block = vec![0u64; bytes.div_ceil(8)];
        let start = block.as_ptr().addr();
        world.device_memory.insert(start, block);
        put(to, std::ptr::without_provenance_mut(start))
    })
}

extern "C" fn allocate_host(
    context: Handle,
    _: *const HostAllocation,
    bytes: usize,
    _: usize,
    to: *mut *mut c_void,
) -> c_int {
    call("allocate_host", context, |world| {
        let mut block = vec![0u64; bytes.div_ceil(8)];
        put(to, block.as_mut_ptr().cast());
        world.host_memory.insert(block.as_ptr().addr(), block);
        0
    })
}

extern "C" fn free(context: Handle, ptr: *mut c_void) -> c_int {
    call("free", context, |world| {
        let held = |command: &Command| matches!(command, Command::Copy { .. } | Command::Fill { .. });
        if world.lists.values().any(|list| list.queued.iter().any(held)) {
            return world.wrong("memory freed with copies or fills queued");
        }
        let gone = world.device_memory.remove(&ptr.addr()).or_else(|| world.host_memory.remove(&ptr.addr()));
        if gone.is_none() { world.wrong("no such memory") } else { 0 }
    })
}

extern "C" fn allocation_properties(
    context: Handle,
    at: *const c_void,
    to: *mut AllocationProperties,
    _: *mut Handle,
) -> c_int {
    call("allocation_properties", context, |world| {
        let below = world.host_memory.range(..=at.addr()).next_back();
        let own = below.is_some_and(|(start, block)| at.addr() < start + block.len() * 8);
        let kind = if own { MEMORY_IS_HOST } else { 0 };
        put(to, AllocationProperties { kind, ..AllocationProperties::new() })
    })
}

extern "C" fn sysman_properties(device: Handle, to: *mut SysmanDevice) -> c_int {
    let core = device_facts(device, false);
    call("sysman_properties", device, |_| put(to, SysmanDevice { core, ..SysmanDevice::new() }))
}

extern "C" fn memories(device: Handle, count: *mut u32, to: *mut Handle) -> c_int {
    let of = |number: usize| handle(device.0.addr() | number << 8);
    call("memories", device, |_| put_list(count, to, vec![of(1), of(2), of(3)]))
}

extern "C" fn memory_properties(memory: Handle, to: *mut SysmanMemory) -> c_int {
    // The first is the host's.
    let location = u32::from(memory.0.addr() >> 8 & 3 != 1);
    call("memory_properties", memory, |_| put(to, SysmanMemory { location, ..SysmanMemory::new() }))
}

extern "C" fn memory_state(memory: Handle, to: *mut SysmanState) -> c_int {
    let free_bytes = (memory.0.addr() >> 8 & 3) as u64 * 1000;
    call("memory_state", memory, |_| put(to, SysmanState { free_bytes, ..SysmanState::new() }))
}

/// The functions under the loader's names.
pub(super) fn lookup(name: &'static str) -> Option<Handle> {
    let address = match name {
        "zeInit" | "zesInit" => init as *const (),
        "zeDriverGet" | "zesDriverGet" => drivers as *const (),
        "zeDriverGetApiVersion" => api_version as *const (),
        "zeDeviceGet" | "zesDeviceGet" => devices as *const (),
        "zeDeviceGetProperties" => device_properties as *const (),
        "zeDeviceGetMemoryProperties" => device_memories as *const (),
        "zeDeviceGetCommandQueueGroupProperties" => device_groups as *const (),
        "zeDeviceGetStatus" => device_status as *const (),
        "zeContextCreate" => context_create as *const (),
        "zeContextDestroy" => context_destroy as *const (),
        "zeCommandListCreateImmediate" => list_create as *const (),
        "zeCommandListDestroy" => list_destroy as *const (),
        "zeCommandListAppendMemoryCopy" => copy as *const (),
        "zeCommandListAppendMemoryFill" => fill as *const (),
        "zeCommandListAppendBarrier" => barrier as *const (),
        "zeCommandListAppendSignalEvent" => signal as *const (),
        "zeCommandListAppendWaitOnEvents" => wait as *const (),
        "zeEventPoolCreate" => pool_create as *const (),
        "zeEventPoolDestroy" => pool_destroy as *const (),
        "zeEventCreate" => event_create as *const (),
        "zeEventDestroy" => event_destroy as *const (),
        "zeEventQueryStatus" => event_query as *const (),
        "zeEventHostReset" => event_reset as *const (),
        "zeEventHostSignal" => event_signal as *const (),
        "zeEventHostSynchronize" => event_synchronize as *const (),
        "zeMemAllocDevice" => allocate as *const (),
        "zeMemAllocHost" => allocate_host as *const (),
        "zeMemFree" => free as *const (),
        "zeMemGetAllocProperties" => allocation_properties as *const (),
        "zesDeviceGetProperties" => sysman_properties as *const (),
        "zesDeviceEnumMemoryModules" => memories as *const (),
        "zesMemoryGetProperties" => memory_properties as *const (),
        "zesMemoryGetState" => memory_state as *const (),
        _ => return None,
    };
    Some(Handle(address.cast_mut().cast()))
}
