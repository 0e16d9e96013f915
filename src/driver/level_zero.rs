//! Level Zero: Intel's loader, opened at run time, behind structures and numbers of this crate's own.
//!
//! Must never make memory resident for good, which the driver could then not move; nor hand the device host memory that
//! its context did not allocate.

mod code;
mod context;
mod end;
mod engines;
mod ffi;
mod host_kernel;
mod library;
mod list;
mod ordinary;
mod sysman;
#[cfg(test)]
mod tests;

use super::{
    Caps, DevicePtr, Driver, DriverError, DriverErrorKind, DriverMemory, Fence, HostKernel, HostKind,
    HostMemory, HostRange, QueueId, QueueRole, Result,
    cache::Cache,
    invalid,
    queues::{Queue, Queues},
    staged::Stages,
    symbols::Handle,
    watch::{Look, Watch},
};
use context::Context;
use end::{End, release};
use engines::Engines;
use host_kernel::RunnerPlace;
use library::{Library, library};
use list::{List, address};
use ordinary::Way;
use std::{
    any::Any,
    ffi::{CStr, c_void},
    mem::take,
    sync::{Arc, OnceLock},
    time::Duration,
};
use sysman::Sysman;

/// What sizes are rounded up to, in bytes: the pages that a device's own memory is mapped by.
const GRANULARITY: u64 = 64 << 10;

/// The first API version whose lists keep their order by themselves: 1.7.
const IN_ORDER_SINCE: u32 = 1 << 16 | 7;

/// How long nothing has passed before the device is asked whether it is well.
const QUIET: Duration = Duration::from_secs(1);

/// An Intel GPU.
///
/// Opened by name (`level_zero` or `level_zero:1`). The loader is the one that the environment variable
/// `TACK_LEVEL_ZERO_LIBRARY` names, else `libze_loader.so.1` (`ze_loader.dll`). Queues are immediate command lists;
/// spills and restores go by the device's copy engines, where it has any.
///
/// Its memory may be lent out beyond what it has, since the kernel's driver moves what is used least to the host's by
/// itself: a budget is set by default, and what is freed is kept by its size to be allocated again. A GPU that has the
/// host's memory for its own spills nothing.
///
/// ```
/// use tack_residency::{Device, ErrorKind};
///
/// match Device::open("level_zero") {
///     // the GPU's name and the API's version
///     Ok(device) => println!("{}", device.driver().description()),
///     // [...] no Level Zero library could be opened: libze_loader.so.1: cannot open shared object file [...]
///     Err(error) => {
///         assert_eq!(error.kind(), ErrorKind::Unavailable);
///         println!("{error}");
///     }
/// }
/// ```
///
/// A kernel of the program's own is appended to the queue's list, which `Run::raw_queue` gives as a
/// `ze_command_list_handle_t`. It is asked for in each launch: before API 1.7 that is what orders the kernels of one launch
/// behind those of the last.
///
/// ```no_run
/// use std::{error::Error, ffi::c_void, ptr::null_mut, sync::Arc};
/// use tack_residency::{Device, Use, driver::level_zero::LevelZero};
///
/// type Set = unsafe extern "C" fn(*mut c_void, u32, usize, *const c_void) -> i32;
/// type Launch = unsafe extern "C" fn(*mut c_void, *mut c_void, *const [u32; 3], *mut c_void, u32, *mut c_void) -> i32;
///
/// /// With zeKernelSetArgumentValue, zeCommandListAppendLaunchKernel, and a kernel of a module that zeModuleCreate gave for
/// /// `driver.raw_context()` and `driver.raw_device()`.
/// fn run(driver: Arc<LevelZero>, set: Set, launch: Launch, kernel: *mut c_void) -> Result<(), Box<dyn Error>> {
///     let device = Device::options().budget(8 << 30).open_driver("level_zero:0", driver)?;
///     let buffer = device.alloc(4 << 20).wait()?;
///     device.prepare([Use::read_write(&buffer)]).wait()?.submit(|run| {
///         let (list, ptr, groups) = (run.raw_queue()?, run.ptr(0).as_raw(), [4096, 1, 1]);
///         // SAFETY: the kernel's one argument is a pointer, which is read at once.
///         let set = unsafe { set(kernel, 0, 8, (&raw const ptr).cast()) };
///         // SAFETY: the kernel takes one pointer to a million numbers.
///         match unsafe { launch(list, kernel, &groups, null_mut(), 0, null_mut()) } {
///             0 if set == 0 => Ok(()),
///             code => Err(format!("zeCommandListAppendLaunchKernel says {code:#x}").into()),
///         }
///     })
/// }
/// ```
#[derive(Debug)]
pub struct LevelZero {
    context: Arc<Context>,
    caps: Caps,
    description: String,
    identity: String,
    uuid: [u8; 16],
    total_bytes: u64,
    in_order: bool,
    engines: Engines,
    cache: Cache,
    queues: Queues<List>,
    watch: Arc<Watch>,
    stages: Stages,
    runner: RunnerPlace,
    sysman: OnceLock<Option<Sysman>>,
}

impl LevelZero {
    /// The GPU with this ordinal, as `ZE_AFFINITY_MASK` leaves them, counted over all drivers.
    ///
    /// ```
    /// use tack_residency::driver::{DriverErrorKind, level_zero::LevelZero};
    ///
    /// let error = LevelZero::open(4_000_000_000).expect_err("nobody has so many");
    /// assert_eq!(error.kind, DriverErrorKind::Unavailable);
    /// assert_eq!(LevelZero::count().unwrap_or(0) > 0, LevelZero::open(0).is_ok());
    /// ```
    ///
    /// # Errors
    ///
    /// `Unavailable`, with what was tried, if there is no loader, no driver, no such GPU, or a symbol is missing.
    pub fn open(ordinal: u32) -> Result<Arc<LevelZero>> {
        LevelZero::open_in(library()?, ordinal)
    }

    /// How many GPUs there are, as `ZE_AFFINITY_MASK` leaves them.
    ///
    /// # Errors
    ///
    /// `Unavailable`, with what was tried, if there is no loader, no driver, or a symbol is missing.
    pub fn count() -> Result<u32> {
        Ok(library()?.gpus()?.len() as u32)
    }

    fn open_in(library: &'static Library, ordinal: u32) -> Result<Arc<LevelZero>> {
        let (driver, device) = library.gpu(ordinal)?;
        let properties = library.properties(device)?;
        // Memory is allocated from the first.
        let total_bytes = library.memories(device)?.first().map_or(0, |memory| memory.total_bytes);
        let engines = Engines::new(&library.groups(device)?).ok_or_else(|| {
            let call = library.calls.device_groups.name;
            DriverError::new(DriverErrorKind::Unavailable, call, 0, "the device has no engine that computes")
        })?;
        let version = library.api_version(driver)?;
        let name = CStr::from_bytes_until_nul(&properties.name).ok().filter(|name| !name.is_empty());
        let name = name.map_or("an Intel GPU".into(), CStr::to_string_lossy);
        let caps = Caps {
            spills: properties.flags & ffi::DEVICE_IS_INTEGRATED == 0,
            stream_ordered: false,
            granularity: GRANULARITY,
            max_allocation: Some(total_bytes).filter(|&bytes| bytes > 0),
            overcommits: true,
            computed_clock: false,
            // Level Zero knows no wait for a device, only for one's own queues.
            drains: false,
            pageable_copies_wait: true,
        };
        Ok(Arc::new(LevelZero {
            context: Arc::new(Context::new(library, driver, device, properties.max_allocation)?),
            caps,
            description: format!("{name} behind Level Zero {}.{}", version >> 16, version & 0xffff),
            identity: format!("level_zero:{ordinal}"),
            uuid: properties.uuid,
            total_bytes,
            in_order: version >= IN_ORDER_SINCE,
            engines,
            cache: Cache::new(total_bytes),
            queues: Queues::default(),
            watch: Arc::default(),
            stages: Stages::default(),
            runner: OnceLock::new(),
            sysman: OnceLock::new(),
        }))
    }

    /// The `ze_context_handle_t` that everything of this device belongs to, for the program's own modules. It lives as
    /// long as this device, its buffers and its pinned memory.
    pub fn raw_context(&self) -> *mut c_void {
        self.context.handle.0
    }

    /// The device's `ze_device_handle_t`.
    pub fn raw_device(&self) -> *mut c_void {
        self.context.device.0
    }

    /// An event that is not signalled, and nobody's.
    fn event(&self) -> Result<Handle> {
        match self.watch.fences.spare() {
            Some(event) => self.context.reset(event).map(|()| event),
            None => self.context.new_event(),
        }
    }

    fn queue(&self, queue: QueueId, call: &'static str) -> Result<&Queue<List>> {
        self.context.alive()?;
        self.queues.find(queue, call)
    }

    /// A copy between the device and the host.
    fn transfer(&self, queue: QueueId, ptr: DevicePtr, range: &HostRange, way: Way) -> Result<()> {
        let name = self.context.calls().copy.name;
        let queue = self.queue(queue, name)?;
        let start = range.start(name)?;
        let is_own = range.memory.kind() == HostKind::Pinned && self.context.is_own(start)?;
        if !is_own {
            return ordinary::copy(self, queue, ptr, range, way);
        }
        match way {
            Way::Out => queue.copy(range, name, |start| {
                queue.stream.copy(&self.context, start, address(ptr), range.bytes)
            }),
            Way::In => {
                let _turn = queue.turn();
                self.bring_in(queue, range, ptr)
            }
        }
    }

    /// Queues a copy in from pinned memory of the context. The queue's turn is the caller's.
    fn bring_in(&self, queue: &Queue<List>, from: &HostRange, to: DevicePtr) -> Result<()> {
        queue.copy(from, self.context.calls().copy.name, |start| {
            queue.stream.copy(&self.context, address(to), start, from.bytes)
        })
    }

    fn sysman(&self) -> Option<&Sysman> {
        let find = || self.context.library.sysman.and_then(|calls| Sysman::find(calls, self.uuid));
        self.sysman.get_or_init(find).as_ref()
    }
}

impl Driver for LevelZero {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn description(&self) -> String {
        self.description.clone()
    }

    fn identity(&self) -> Option<String> {
        Some(self.identity.clone())
    }

    fn memory(&self) -> DriverMemory {
        DriverMemory {
            free: self.sysman().and_then(Sysman::free_bytes),
            total: Some(self.total_bytes).filter(|&bytes| bytes > 0),
            cached: self.cache.kept_bytes(),
        }
    }

    fn create_queue(&self, role: QueueRole) -> Result<QueueId> {
        self.context.alive()?;
        let list = List::new(&self.context, self.engines.choose(role), self.in_order)?;
        let name = self.context.calls().list_create.name;
        self.queues.add(list, role, name, |list| list.destroy(&self.context))
    }

    fn allocate(&self, queue: QueueId, bytes: u64) -> Result<DevicePtr> {
        self.queue(queue, "allocate")?;
        if bytes == 0 {
            return Err(invalid("allocate", "an allocation has at least one byte"));
        }
        self.cache.allocate(bytes, || self.context.allocate(bytes))
    }

    fn free(&self, queue: QueueId, ptr: DevicePtr) -> Result<()> {
        self.queue(queue, "free")?;
        self.cache.free(ptr, |ptr| release(&self.context, ptr))
    }

    fn trim(&self) -> Result<u64> {
        self.context.alive()?;
        self.stages.trim();
        self.cache.trim(|ptr| release(&self.context, ptr))
    }

    fn allocate_host(&self, bytes: usize) -> Result<HostMemory> {
        self.context.alive()?;
        self.context.allocate_host(bytes)
    }

    fn copy_out(&self, queue: QueueId, from: DevicePtr, to: &HostRange) -> Result<()> {
        self.transfer(queue, from, to, Way::Out)
    }

    fn copy_in(&self, queue: QueueId, from: &HostRange, to: DevicePtr) -> Result<()> {
        self.transfer(queue, to, from, Way::In)
    }

    fn copy(&self, queue: QueueId, from: DevicePtr, to: DevicePtr, bytes: u64) -> Result<()> {
        let queue = self.queue(queue, "copy")?;
        let _turn = queue.turn();
        if bytes == 0 {
            return Ok(());
        }
        queue.stream.copy(&self.context, address(to), address(from), bytes as usize)
    }

    fn fill(&self, queue: QueueId, to: DevicePtr, bytes: u64, value: u8) -> Result<()> {
        let queue = self.queue(queue, "fill")?;
        let _turn = queue.turn();
        if bytes == 0 { Ok(()) } else { queue.stream.fill(&self.context, to, bytes as usize, value) }
    }

    fn launch_host(&self, queue: QueueId, kernel: HostKernel) -> Result<()> {
        host_kernel::launch(self, queue, kernel)
    }

    fn record(&self, queue: QueueId) -> Result<Fence> {
        let (index, queue) = (queue.0 as usize, self.queue(queue, "record")?);
        let _turn = queue.turn();
        let event = self.event()?;
        self.watch.record(index, queue, event, || queue.stream.signal(&self.context, event))
    }

    fn wait(&self, queue: QueueId, fence: Fence) -> Result<()> {
        let (name, queue) = (self.context.calls().wait.name, self.queue(queue, "wait")?);
        match self.watch.outstanding(fence, name)? {
            Some(event) => queue.stream.wait(&self.context, event),
            None => Ok(()),
        }
    }

    fn is_passed(&self, fence: Fence) -> Result<bool> {
        self.context.alive()?;
        self.watch.is_passed(fence, |event| self.context.query(event))
    }

    fn retire(&self, fence: Fence) {
        self.watch.fences.retire(fence);
    }

    fn park(&self, patience: Duration) {
        self.watch.park(patience, |next| {
            if self.context.alive().is_err() {
                return Look::Blind;
            }
            let pending = next.iter().all(|&(_, event)| matches!(self.context.query(event), Ok(false)));
            let is_well = || self.watch.pace.quiet() < QUIET || self.context.status().is_ok();
            if pending && is_well() { Look::Nothing } else { Look::Something }
        });
    }

    fn unpark(&self) {
        self.watch.bell.ring();
    }

    fn now(&self) -> Duration {
        self.watch.pace.now()
    }

    fn raw_queue(&self, queue: QueueId) -> Result<*mut c_void> {
        let queue = self.queue(queue, "raw_queue")?;
        queue.stream.hand_out(&self.context).map(|list| list.0)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for LevelZero {
    /// Waits for nothing: what still runs ends by itself, and is given up then.
    fn drop(&mut self) {
        if let Some(runner) = self.runner.get() {
            runner.close();
        }
        let (_, mut held) = self.watch.fences.drain();
        for (_, queue) in self.queues.all() {
            held.append(&mut queue.copying());
        }
        let (queues, stages) = (take(&mut self.queues), take(&mut self.stages));
        let cache = std::mem::replace(&mut self.cache, Cache::new(0));
        // Blocks that kernels were run in.
        held.push(Arc::new(stages));
        End { queues, held, cache, context: self.context.clone() }.begin();
    }
}
