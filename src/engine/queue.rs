//! One of a device's queues as the engine sees it: how far the host has queued work, how far the device has come,
//! and the fences between.

use super::sync::{AtomicU32, AtomicU64, Mutex, Ordering, lock};
use crate::driver::{Driver, Fence, QueueId, Result};
use std::{cell::Cell, collections::VecDeque};

/// The most queues of a device: its own, and four further compute queues. Loom's threads have small stacks.
pub const QUEUES: usize = if cfg!(model) { OWN } else { OWN + 4 };
/// The first compute queue.
pub const COMPUTE: usize = 0;
/// Copies to the host.
pub const SPILL: usize = 1;
/// Copies to the device.
pub const RESTORE: usize = 2;
/// Frees.
pub const RELEASE: usize = 3;
/// Host reads that wait for what writes their buffer: they hold back neither spills nor reads that need not wait.
pub const READ: usize = 4;
/// The queues that every engine has.
pub const OWN: usize = 5;
/// Where further compute queues start.
pub const FURTHER: usize = OWN;

/// A queue. Work queued on it is numbered after it is queued, so a fence recorded later covers every number drawn.
#[derive(Debug)]
pub struct Queue {
    /// The driver's name for it.
    pub id: QueueId,
    /// Its place among the device's queues.
    pub index: usize,
    places: [Place; PLACES],
    begun: AtomicU64,
    /// Which launches have begun to be queued and are not yet: a count of each would take a later one's end for an
    /// earlier one's.
    open: Mutex<Vec<Open>>,
    queued: AtomicU64,
    done: AtomicU64,
    base: AtomicU64,
    waited: [AtomicU64; QUEUES],
    marks: Mutex<Marks>,
}

/// Taken by a thread that queues a launch while uses are not noted, with its number. Threads share no cache line here.
#[derive(Debug)]
#[repr(align(64))]
struct Place(AtomicU32);

/// A launch that is being queued, and the number of the thread that does.
#[derive(Debug)]
struct Open {
    launch: u64,
    caller: u32,
}

const PLACES: usize = if cfg!(model) { 2 } else { 16 };

thread_local! {
    static CALLER: Cell<u32> = const { Cell::new(0) };
}

/// The calling thread's number, above zero.
#[inline]
fn caller() -> u32 {
    let caller = CALLER.get();
    if caller != 0 {
        return caller;
    }
    static LAST: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let caller = LAST.fetch_add(1, std::sync::atomic::Ordering::Relaxed).wrapping_add(1).max(1);
    CALLER.set(caller);
    caller
}

/// A thread's place: threads that come after many others share one.
#[inline]
fn place_of(caller: u32) -> usize {
    caller as usize % PLACES
}

#[derive(Debug, Default)]
struct Marks {
    recorded: VecDeque<Mark>,
    spent: Vec<Mark>,
    needed: u64,
    handing: u32,
}

/// A fence, the number it covers, and the queues that were told to wait for it, with the number they pass it by.
#[derive(Debug)]
struct Mark {
    covers: u64,
    fence: Fence,
    waiters: Vec<(usize, u64)>,
}

impl Queue {
    /// A queue with nothing on it.
    pub fn new(id: QueueId, index: usize) -> Queue {
        Queue {
            id,
            index,
            places: std::array::from_fn(|_| Place(AtomicU32::new(0))),
            begun: AtomicU64::new(0),
            open: Mutex::new(Vec::new()),
            queued: AtomicU64::new(0),
            done: AtomicU64::new(0),
            base: AtomicU64::new(0),
            waited: std::array::from_fn(|_| AtomicU64::new(0)),
            marks: Mutex::new(Marks::default()),
        }
    }

    /// Someone is about to queue a launch whose uses are not noted: one atomic operation, after which the flags are
    /// read. None if the place is taken, by a thread that shares it or by a launch this one is queued within.
    #[inline]
    pub fn enter(&self) -> Option<usize> {
        let caller = caller();
        let place = place_of(caller);
        let taken = self.places[place].0.compare_exchange(0, caller, Ordering::SeqCst, Ordering::Relaxed);
        taken.is_ok().then_some(place)
    }

    /// The launch is queued, or was not.
    #[inline]
    pub fn leave(&self, place: usize) {
        self.places[place].0.store(0, Ordering::Release);
    }

    /// Whether every launch that had begun before the flags said that uses are noted is queued, and those that were
    /// the `begun`-th and before.
    pub fn is_settled(&self, begun: u64) -> bool {
        lock(&self.open).iter().all(|open| open.launch > begun)
            && self.places.iter().all(|place| place.0.load(Ordering::SeqCst) == 0)
    }

    /// Whether one of those is a launch of the calling thread's.
    pub fn is_callers(&self, begun: u64) -> bool {
        let caller = caller();
        lock(&self.open).iter().any(|open| open.launch <= begun && open.caller == caller)
            || self.places[place_of(caller)].0.load(Ordering::SeqCst) == caller
    }

    /// Someone is about to queue a launch; which one that is, for [`end`](Queue::end).
    pub fn begin(&self) -> u64 {
        let mut open = lock(&self.open);
        let launch = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        open.push(Open { launch, caller: caller() });
        launch
    }

    /// The launch is queued, or was not; draws its number, and has it noted before others learn that it has ended.
    pub fn end(&self, launch: u64, note: impl FnOnce(u64) -> u64) -> u64 {
        let number = note(self.draw());
        lock(&self.open).retain(|open| open.launch != launch);
        number
    }

    /// Draws the number of work queued by a single call.
    pub fn number(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.draw()
    }

    fn draw(&self) -> u64 {
        self.queued.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// How much work has begun to be queued.
    pub fn begun(&self) -> u64 {
        self.begun.load(Ordering::SeqCst)
    }

    /// How much work has been queued.
    pub fn queued(&self) -> u64 {
        self.queued.load(Ordering::SeqCst)
    }

    /// How far the device is known to have come.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Acquire)
    }

    /// The number that covers all uses not noted.
    pub fn base(&self) -> u64 {
        self.base.load(Ordering::Acquire)
    }

    /// Sets [`base`](Queue::base) to cover all that is queued so far, numbered or not.
    pub fn rebase(&self) {
        self.base.fetch_max(self.number(), Ordering::AcqRel);
    }

    /// How far this queue already waits for another.
    pub fn waited(&self, other: usize) -> u64 {
        self.waited.get(other).map_or(u64::MAX, |waited| waited.load(Ordering::Acquire))
    }

    /// This queue was told to wait for another one's fence at `sequence`.
    pub fn note_wait(&self, other: usize, sequence: u64) {
        if let Some(waited) = self.waited.get(other) {
            waited.fetch_max(sequence, Ordering::AcqRel);
        }
    }

    /// A fence behind number `sequence`, recorded now if there is none yet; and the number it covers.
    ///
    /// No lock is held while it is recorded: a driver may do the device's work meanwhile, and that may ask for another.
    /// Two recorded at a time stand in the order of what they cover. The first may pass last then: the second is looked
    /// at only after it.
    fn fence(&self, driver: &dyn Driver, sequence: u64) -> Result<(u64, Fence)> {
        if let Some(mark) = self.mark(sequence) {
            return Ok(mark);
        }
        let covers = self.queued();
        let fence = driver.record(self.id)?;
        let mut marks = lock(&self.marks);
        let at = marks.recorded.partition_point(|mark| mark.covers <= covers);
        marks.recorded.insert(at, Mark { covers, fence, waiters: Vec::new() });
        Ok((covers, fence))
    }

    fn mark(&self, sequence: u64) -> Option<(u64, Fence)> {
        let marks = lock(&self.marks);
        let at = marks.recorded.partition_point(|mark| mark.covers < sequence);
        marks.recorded.get(at).map(|mark| (mark.covers, mark.fence))
    }

    /// Someone waits for number `sequence` to be done.
    pub fn need(&self, sequence: u64) {
        let mut marks = lock(&self.marks);
        marks.needed = marks.needed.max(sequence);
    }

    /// As [`need`](Queue::need), for all that is queued, numbered or not, unless someone waits already.
    pub fn need_all(&self) {
        if lock(&self.marks).needed <= self.done() {
            self.need(self.number());
        }
    }

    /// Looks how far the device has come; true if further than before. Records the fences that could not be before.
    /// After a refusal it is to be looked at again.
    pub fn poll(&self, driver: &dyn Driver) -> (bool, Result<()>) {
        let needed = lock(&self.marks).needed;
        let mut result = Ok(());
        if needed > self.done() && self.mark(needed).is_none() && self.queued() >= needed {
            result = self.fence(driver, needed).map(|_| ());
        }
        let mut came = false;
        loop {
            let head = lock(&self.marks).recorded.front().map(|mark| (mark.covers, mark.fence));
            let Some((covers, fence)) = head else { break };
            match driver.is_passed(fence) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
            let mut marks = lock(&self.marks);
            if marks.recorded.front().is_some_and(|mark| mark.fence == fence)
                && let Some(mark) = marks.recorded.pop_front()
            {
                marks.spent.push(mark);
                self.done.fetch_max(covers, Ordering::AcqRel);
                came = true;
            }
        }
        (came, result)
    }

    /// `fence` of this queue was handed to another queue to wait for; it passes it with number `sequence`.
    pub fn told(&self, fence: Fence, other: usize, sequence: u64) {
        let mut marks = lock(&self.marks);
        let Marks { recorded, spent, .. } = &mut *marks;
        let recorded = recorded.iter_mut().find(|mark| mark.fence == fence).map(|mark| &mut mark.waiters);
        let spent = spent.iter_mut().find(|spent| spent.fence == fence).map(|spent| &mut spent.waiters);
        if let Some(waiters) = recorded.or(spent) {
            waiters.push((other, sequence));
        }
    }

    /// Gives fences back that have passed and that no queue waits for any more.
    pub fn retire(&self, driver: &dyn Driver, done: impl Fn(usize) -> u64) {
        let mut free = Vec::new();
        {
            let mut marks = lock(&self.marks);
            if marks.handing > 0 {
                return;
            }
            marks.spent.retain_mut(|spent| {
                spent.waiters.retain(|&(other, sequence)| done(other) < sequence);
                if spent.waiters.is_empty() {
                    free.push(spent.fence);
                }
                !spent.waiters.is_empty()
            });
        }
        free.into_iter().for_each(|fence| driver.retire(fence));
    }

    /// Whether there are fences not given back.
    pub fn has_fences(&self) -> bool {
        let marks = lock(&self.marks);
        !marks.recorded.is_empty() || !marks.spent.is_empty()
    }

    /// Hands a fence behind `sequence` to `give`, and keeps every fence of this queue from being given back
    /// meanwhile.
    pub fn with_fence<T>(
        &self,
        driver: &dyn Driver,
        sequence: u64,
        give: impl FnOnce(u64, Fence) -> Result<T>,
    ) -> Result<Option<T>> {
        if self.done() >= sequence {
            return Ok(None);
        }
        lock(&self.marks).handing += 1;
        let given = match self.fence(driver, sequence) {
            Ok((covers, fence)) => give(covers, fence).map(Some),
            Err(error) => Err(error),
        };
        lock(&self.marks).handing -= 1;
        given
    }
}
