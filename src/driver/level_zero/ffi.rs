//! Level Zero's numbers and structures, written as in `ze_api.h` and `zes_api.h`. The simulated loader has them too.

use std::ffi::{c_int, c_void};

/// A call's success.
pub(super) const SUCCESS: c_int = 0;
/// An event is not signalled: `ZE_RESULT_NOT_READY`.
pub(super) const NOT_READY: c_int = 1;

pub(super) const INIT_GPU_ONLY: u32 = 1;
pub(super) const DEVICE_IS_GPU: u32 = 1;
pub(super) const DEVICE_IS_INTEGRATED: u32 = 1;
pub(super) const GROUP_COMPUTES: u32 = 1;
pub(super) const GROUP_COPIES: u32 = 2;
pub(super) const QUEUE_EXPLICIT: u32 = 1;
/// From API 1.7 on: `ZE_COMMAND_QUEUE_FLAG_IN_ORDER`.
pub(super) const QUEUE_IN_ORDER: u32 = 2;
pub(super) const QUEUE_ASYNCHRONOUS: u32 = 2;
pub(super) const POOL_HOST_VISIBLE: u32 = 1;
/// What the device wrote is flushed as far as the host, and what the host wrote is read anew.
pub(super) const SCOPE_HOST: u32 = 4;
pub(super) const RELAXED_MAX_SIZE: u32 = 1;
/// Memory that `zeMemAllocHost` of this context gave.
pub(super) const MEMORY_IS_HOST: u32 = 1;
pub(super) const SYSMAN_MEMORY_ON_DEVICE: u32 = 1;

/// Structures that begin with their type and a link to the next, which is null unless set.
macro_rules! structures {
    ($($(#[$doc:meta])* $name:ident = $kind:literal, $theirs:literal {
        $($field:ident, $their_field:literal: $type:ty;)*
    })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            #[repr(C)]
            pub(super) struct $name {
                pub(super) stype: u32,
                pub(super) next: *const c_void,
                $(pub(super) $field: $type,)*
            }

            impl $name {
                /// All zero but for the type.
                pub(super) const fn new() -> $name {
                    $name { stype: $kind, next: std::ptr::null(), $($field: <$type as Zero>::ZERO,)* }
                }
            }
        )*

        /// Each structure's name in the headers, its size, and where each field is, in bytes.
        #[cfg(test)]
        #[allow(clippy::type_complexity)]
        pub(super) fn layouts() -> Vec<(&'static str, usize, Vec<(&'static str, usize)>)> {
            vec![$((
                $theirs,
                size_of::<$name>(),
                vec![
                    ("stype", std::mem::offset_of!($name, stype)),
                    ("pNext", std::mem::offset_of!($name, next)),
                    $(($their_field, std::mem::offset_of!($name, $field)),)*
                ],
            ),)*]
        }
    };
}

/// What a field is before it is set.
trait Zero {
    const ZERO: Self;
}

macro_rules! zero {
    ($($type:ty = $zero:expr;)*) => {
        $(impl Zero for $type {
            const ZERO: Self = $zero;
        })*
    };
}

zero! {
    u32 = 0;
    i32 = 0;
    u64 = 0;
    usize = 0;
    [u8; 16] = [0; 16];
    [u8; 256] = [0; 256];
    [[u8; 64]; 6] = [[0; 64]; 6];
    DeviceProperties = DeviceProperties::new();
}

structures! {
    DeviceProperties = 0x3, "ze_device_properties_t" {
        kind, "type": u32;
        vendor, "vendorId": u32;
        device, "deviceId": u32;
        flags, "flags": u32;
        subdevice, "subdeviceId": u32;
        clock, "coreClockRate": u32;
        max_allocation, "maxMemAllocSize": u64;
        contexts, "maxHardwareContexts": u32;
        priorities, "maxCommandQueuePriority": u32;
        threads, "numThreadsPerEU": u32;
        simd, "physicalEUSimdWidth": u32;
        units, "numEUsPerSubslice": u32;
        subslices, "numSubslicesPerSlice": u32;
        slices, "numSlices": u32;
        resolution, "timerResolution": u64;
        timestamp_bits, "timestampValidBits": u32;
        kernel_timestamp_bits, "kernelTimestampValidBits": u32;
        uuid, "uuid": [u8; 16];
        name, "name": [u8; 256];
    }

    MemoryProperties = 0x7, "ze_device_memory_properties_t" {
        flags, "flags": u32;
        clock, "maxClockRate": u32;
        width, "maxBusWidth": u32;
        total_bytes, "totalSize": u64;
        name, "name": [u8; 256];
    }

    GroupProperties = 0x6, "ze_command_queue_group_properties_t" {
        flags, "flags": u32;
        fill_bytes, "maxMemoryFillPatternSize": usize;
        engines, "numQueues": u32;
    }

    ContextDesc = 0xd, "ze_context_desc_t" {
        flags, "flags": u32;
    }

    QueueDesc = 0xe, "ze_command_queue_desc_t" {
        group, "ordinal": u32;
        engine, "index": u32;
        flags, "flags": u32;
        mode, "mode": u32;
        priority, "priority": u32;
    }

    PoolDesc = 0x10, "ze_event_pool_desc_t" {
        flags, "flags": u32;
        count, "count": u32;
    }

    EventDesc = 0x11, "ze_event_desc_t" {
        index, "index": u32;
        signal, "signal": u32;
        wait, "wait": u32;
    }

    DeviceAllocation = 0x15, "ze_device_mem_alloc_desc_t" {
        flags, "flags": u32;
        memory, "ordinal": u32;
    }

    HostAllocation = 0x16, "ze_host_mem_alloc_desc_t" {
        flags, "flags": u32;
    }

    RelaxedLimits = 0x0002_0001, "ze_relaxed_allocation_limits_exp_desc_t" {
        flags, "flags": u32;
    }

    AllocationProperties = 0x17, "ze_memory_allocation_properties_t" {
        kind, "type": u32;
        id, "id": u64;
        page_bytes, "pageSize": u64;
    }

    SysmanDevice = 0x1, "zes_device_properties_t" {
        core, "core": DeviceProperties;
        subdevices, "numSubdevices": u32;
        texts, "serialNumber": [[u8; 64]; 6];
    }

    SysmanMemory = 0xb, "zes_mem_properties_t" {
        kind, "type": u32;
        on_subdevice, "onSubdevice": u32;
        subdevice, "subdeviceId": u32;
        location, "location": u32;
        bytes, "physicalSize": u64;
        width, "busWidth": i32;
        channels, "numChannels": i32;
    }

    SysmanState = 0x1e, "zes_mem_state_t" {
        health, "health": u32;
        free_bytes, "free": u64;
        bytes, "size": u64;
    }
}
