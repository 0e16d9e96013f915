//! Host kernels on a device whose memory the host does not see: their arguments are brought to pinned memory in the queue's
//! order, and what they write is taken back.

use super::{
    Arg, ArgAccess, DevicePtr, Driver, DriverError, HostKernel, HostMemory, HostRange, QueueId, Result,
    aligned::ALIGN,
    kernel::{Body, panic_text},
    sim::job::check_kernel,
};
use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{Ordering, fence},
    },
};

/// The most blocks of pinned memory that are kept for later kernels.
const KEPT: usize = 8;

/// What sizes of blocks are rounded up to, in bytes, so that one serves kernels that are nearly alike.
const STEP: usize = 64 << 10;

/// How often what a kernel wrote is tried to be taken back.
const TRIES: u32 = 4;

/// Pinned memory that kernels were run in, for those to come: pinning it, and giving it up, can wait for the device.
#[derive(Debug, Default)]
pub(super) struct Stages(Mutex<Vec<Arc<HostMemory>>>);

impl Stages {
    /// A block of at least `bytes` bytes that nobody else has.
    pub(super) fn take(&self, driver: &dyn Driver, bytes: usize) -> Result<Arc<HostMemory>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free = |block: &&Arc<HostMemory>| block.len() >= bytes && Arc::strong_count(block) == 1;
        if let Some(block) = kept.iter().filter(is_free).min_by_key(|block| block.len()) {
            // What the last kernel did there comes before what this one does.
            fence(Ordering::Acquire);
            return Ok(block.clone());
        }
        drop(kept);
        let block = Arc::new(driver.allocate_host(bytes.checked_next_multiple_of(STEP).unwrap_or(bytes))?);
        kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let spare = kept.iter().position(|block| Arc::strong_count(block) == 1);
        let gone = spare.filter(|_| kept.len() >= KEPT).map(|spare| kept.swap_remove(spare));
        if kept.len() < KEPT {
            kept.push(block.clone());
        }
        drop(kept);
        // Its memory is given up without the lock.
        drop(gone);
        Ok(block)
    }

    /// Gives up the blocks that no kernel is in.
    pub(super) fn trim(&self) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let free: Vec<_> = kept.extract_if(.., |block| Arc::strong_count(block) == 1).collect();
        drop(kept);
        drop(free);
    }
}

/// A kernel and the memory its arguments are brought to.
pub(super) struct Staged {
    memory: Arc<HostMemory>,
    /// Where each argument is on the device, where in the memory, and what the kernel does with it.
    args: Vec<(DevicePtr, usize, usize, ArgAccess)>,
    body: Mutex<Option<Body>>,
}

impl Staged {
    /// A kernel that has its memory.
    ///
    /// # Errors
    ///
    /// `Invalid` if two arguments overlap and one of them is written; what pinned memory is refused for.
    pub(super) fn new(driver: &dyn Driver, stages: &Stages, kernel: HostKernel) -> Result<Arc<Staged>> {
        check_kernel(&kernel)?;
        let mut end = 0usize;
        let mut place = |(ptr, bytes, access): (DevicePtr, u64, ArgAccess)| {
            let (start, bytes) = (end, usize::try_from(bytes).unwrap_or(usize::MAX));
            end = start.saturating_add(bytes).checked_next_multiple_of(ALIGN).unwrap_or(usize::MAX);
            (ptr, start, bytes, access)
        };
        let args: Vec<_> = kernel.args.into_iter().map(&mut place).collect();
        let memory = stages.take(driver, end.max(ALIGN))?;
        Ok(Arc::new(Staged { memory, args, body: Mutex::new(Some(kernel.body)) }))
    }

    /// Queues it; `call` queues the call of [`run`](Staged::run) between the copies, and `take_back` a copy of what it wrote.
    /// Whoever calls this sees that nobody else's writes and fences come between, and drops the kernel only afterwards: what
    /// its body has captured may call the driver then.
    ///
    /// What was written is taken back or the device is `lost`: the body runs all the same, so a refusal cannot be undone.
    pub(super) fn queue(
        self: &Arc<Staged>,
        driver: &dyn Driver,
        queue: QueueId,
        call: impl FnOnce(&Arc<Staged>) -> Result<()>,
        take_back: impl Fn(&HostRange, DevicePtr) -> Result<()>,
        lost: impl Fn(DriverError) -> DriverError,
    ) -> Result<()> {
        for &(ptr, start, bytes, _) in &self.args {
            driver.copy_out(queue, ptr, &self.range(start, bytes))?;
        }
        call(self)?;
        for &(ptr, start, bytes, access) in &self.args {
            if access == ArgAccess::Write {
                let range = self.range(start, bytes);
                let back = |_| take_back(&range, ptr);
                (1..TRIES).fold(back(()), |taken, _| taken.or_else(|_| back(()))).map_err(&lost)?;
            }
        }
        Ok(())
    }

    fn range(&self, offset: usize, bytes: usize) -> HostRange {
        HostRange { memory: self.memory.clone(), offset, bytes }
    }

    /// Runs the kernel's body, once. Why it failed, if it panicked.
    pub(super) fn run(&self) -> std::result::Result<(), String> {
        let body = self.body.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(body) = body else { return Ok(()) };
        let ran = catch_unwind(AssertUnwindSafe(|| {
            self.memory.with_bytes_mut(0, self.memory.len(), |mut rest| {
                let (mut args, mut at) = (Vec::with_capacity(self.args.len()), 0);
                for &(_, start, bytes, access) in &self.args {
                    let (_, after) = rest.split_at_mut(start - at);
                    let (arg, after) = after.split_at_mut(bytes);
                    (rest, at) = (after, start + bytes);
                    args.push(match access {
                        ArgAccess::Read => Arg::Read(arg),
                        ArgAccess::Write => Arg::Write(arg),
                    });
                }
                body(&mut args);
            });
        }));
        ran.map_err(panic_text)
    }
}

impl fmt::Debug for Staged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Staged").field("args", &self.args).finish_non_exhaustive()
    }
}
