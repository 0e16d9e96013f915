//! What a check needs of a device, real or simulated: a driver with its queues, work that takes time, two kernels.

pub use crate::mixing::mixed;
use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use tack_residency::{
    Device, Error, Options, Run,
    driver::{DevicePtr, Driver, Fence, HostKind, HostMemory, HostRange, QueueId, QueueRole},
};

/// One check, by a name that its line shows: what it found out.
pub type Check = (&'static str, fn(&Rig) -> String);

/// A device to check. Clones are the same.
pub type Rig = Arc<dyn Backend>;

/// A kind of device.
pub trait Backend: Send + Sync {
    /// A driver of the check's own.
    fn open(&self) -> Arc<dyn Driver>;

    /// Another device of this kind, if there is one.
    fn other(&self) -> Option<Rig>;

    /// Queues what keeps a queue busy for a time.
    fn spin(&self, driver: &dyn Driver, queue: QueueId, time: Duration);

    /// How long an array of a program is, in bytes: large enough that copies are what takes its time, and a multiple of 64.
    fn array_bytes(&self) -> u64;

    /// A launch's work: one added to every number of the use at `index`.
    fn add_one(&self, run: &Run<'_>, index: usize) -> Result<(), Error>;

    /// A launch's work: one of its uses mixed into another, or into nothing.
    fn mix_uses(&self, run: &Run<'_>, mix: Mix) -> Result<(), Error>;

    /// A launch's work: its second use mixed into its first, as [`mixed`] does.
    fn mix(&self, run: &Run<'_>, salt: u32) -> Result<(), Error> {
        self.mix_uses(run, Mix { to: 0, from: Some(1), keeps: true, salt })
    }

    /// A device of a driver's own, with these options.
    fn device(&self, options: Options) -> Device {
        options.open_driver("checked", self.open()).expect("the device opens")
    }
}

/// What a kernel mixes: every number that it reads changes one that it writes.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// The use that is written.
    pub to: usize,
    /// The use that is read, if one is.
    pub from: Option<usize>,
    /// Whether what was in `to` counts too.
    pub keeps: bool,
    pub salt: u32,
}

/// How long a queue is kept busy where that is to be noticed.
/// Far longer than a few calls take on a machine that is busy with other things.
pub const BUSY: Duration = Duration::from_millis(200);

/// Waits until something is so; panics after a while.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not within ten seconds");
        thread::sleep(Duration::from_micros(50));
    }
}

/// A driver with its queues.
pub struct Bench {
    rig: Rig,
    pub driver: Arc<dyn Driver>,
    pub compute: QueueId,
    pub spill: QueueId,
    pub restore: QueueId,
    pub release: QueueId,
}

impl Bench {
    pub fn open(rig: &Rig) -> Bench {
        Bench::on(rig, rig.open())
    }

    pub fn on(rig: &Rig, driver: Arc<dyn Driver>) -> Bench {
        use QueueRole::{Compute, Release, Restore, Spill};
        let [compute, spill, restore, release] =
            [Compute, Spill, Restore, Release].map(|role| driver.create_queue(role).expect("a queue"));
        Bench { rig: rig.clone(), driver, compute, spill, restore, release }
    }

    pub fn spin(&self, queue: QueueId, time: Duration) {
        self.rig.spin(&*self.driver, queue, time);
    }

    pub fn finish(&self, queue: QueueId) {
        let fence = self.driver.record(queue).expect("a fence");
        self.pass(fence);
        self.driver.retire(fence);
    }

    pub fn pass(&self, fence: Fence) {
        until("a fence passes", || self.driver.is_passed(fence).expect("the device is not lost"));
    }

    /// Memory that is freed once the bench's queues have run out.
    pub fn allocate(&self, queue: QueueId, bytes: u64) -> DevicePtr {
        self.driver.allocate(queue, bytes).expect("memory")
    }

    /// Frees what all queues are done with.
    pub fn free(&self, ptr: DevicePtr) {
        for queue in [self.compute, self.spill, self.restore] {
            self.finish(queue);
        }
        self.driver.free(self.release, ptr).expect("it is freed");
    }

    pub fn host(&self, kind: HostKind, bytes: usize) -> HostRange {
        let memory = match kind {
            HostKind::Pinned => self.driver.allocate_host(bytes).expect("pinned memory"),
            HostKind::Ordinary => HostMemory::ordinary(bytes).expect("ordinary memory"),
        };
        assert_eq!((memory.kind(), memory.len()), (kind, bytes));
        HostRange::whole(Arc::new(memory))
    }

    /// What device memory holds, behind nothing but what is known to have run.
    pub fn read(&self, ptr: DevicePtr, bytes: usize) -> Vec<u8> {
        let host = self.host(HostKind::Pinned, bytes);
        self.driver.copy_out(self.spill, ptr, &host).expect("a copy out");
        self.finish(self.spill);
        bytes_of(&host)
    }
}

pub fn bytes_of(range: &HostRange) -> Vec<u8> {
    let mut bytes = vec![0; range.bytes];
    range.memory.read(range.offset, &mut bytes);
    bytes
}

/// Bytes that are not alike at any two near places.
pub fn pattern(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8 ^ seed as u8).collect()
}
