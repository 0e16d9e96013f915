//! Device memory that was freed, kept to be allocated again: for drivers whose own allocation and free may wait for the
//! whole device.
//!
//! Must never hand out what work may still use, nor call the driver under its own lock. It has no fences: as
//! [`Driver::free`](super::Driver::free) asks where frees are not ordered by a queue, a block comes here once the fences
//! behind its last uses have passed, so whoever takes it next need not wait for anything.

use super::{DevicePtr, DriverError, DriverErrorKind, Result};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// What is kept at most, as a share of the device's memory.
///
/// A program that spills is near its budget and takes what it has just freed, so that little is idle at a time; what is
/// idle beyond this is left over from another phase, and only keeps other libraries on the device from it.
const SHARE: u64 = 4;

/// The blocks of one device, by exact size: a larger one is never split, nor handed out for a smaller.
#[derive(Debug)]
pub(super) struct Cache {
    limit_bytes: u64,
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    /// Handed out, with their sizes in bytes.
    live: HashMap<DevicePtr, u64>,
    /// Kept: by size, and among those of a size by when they came.
    by_size: BTreeMap<(u64, u64), DevicePtr>,
    /// The sizes of those kept, by when they came.
    by_age: BTreeMap<u64, u64>,
    kept_bytes: u64,
    arrivals: u64,
}

/// A block that is kept.
#[derive(Clone, Copy, Debug)]
struct Block {
    ptr: DevicePtr,
    bytes: u64,
    /// When it came: larger is later.
    arrival: u64,
}

impl Cache {
    /// For a device of this many bytes.
    pub(super) fn new(total_bytes: u64) -> Cache {
        Cache { limit_bytes: total_bytes / SHARE, books: Mutex::default() }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A kept block of exactly this many bytes, the last that came; else one that `allocate` gives.
    pub(super) fn allocate(
        &self,
        bytes: u64,
        allocate: impl FnOnce() -> Result<DevicePtr>,
    ) -> Result<DevicePtr> {
        let kept = self.books().take(bytes);
        let ptr = kept.map_or_else(allocate, Ok)?;
        self.books().live.insert(ptr, bytes);
        Ok(ptr)
    }

    /// Whether a block is handed out.
    #[cfg(any(feature = "cuda", feature = "hip"))]
    pub(super) fn owns(&self, ptr: DevicePtr) -> bool {
        self.books().live.contains_key(&ptr)
    }

    /// Keeps a block that was handed out. Past the limit the oldest are released through `release` until half of it is
    /// left, since the first release waits for the device and those after it hardly do.
    ///
    /// # Errors
    ///
    /// `Invalid` for an address that is not handed out.
    pub(super) fn free(&self, ptr: DevicePtr, release: impl Fn(DevicePtr) -> Result<()>) -> Result<()> {
        let mut books = self.books();
        let Some(bytes) = books.live.remove(&ptr) else {
            let message = format!("{ptr:?} is not allocated here, or has been freed");
            return Err(DriverError::new(DriverErrorKind::Invalid, "free", 0, message));
        };
        let arrival = books.next_arrival();
        books.keep(Block { ptr, bytes, arrival });
        let is_over = books.kept_bytes > self.limit_bytes;
        drop(books);
        if is_over {
            // The block is freed for its caller in any case. What is refused here stays kept, and is tried again.
            let _ = self.release_down_to(self.limit_bytes / 2, release);
        }
        Ok(())
    }

    /// Releases all that is kept; how many bytes that was.
    ///
    /// # Errors
    ///
    /// The first refusal. What was refused is kept.
    pub(super) fn trim(&self, release: impl Fn(DevicePtr) -> Result<()>) -> Result<u64> {
        self.release_down_to(0, release)
    }

    /// Releases the oldest while more than `left` bytes are kept; how many bytes that was.
    fn release_down_to(&self, left: u64, release: impl Fn(DevicePtr) -> Result<()>) -> Result<u64> {
        let mut released = 0;
        loop {
            let oldest = self.books().take_oldest(left);
            let Some(block) = oldest else { return Ok(released) };
            if let Err(error) = release(block.ptr) {
                self.books().keep(block);
                return Err(error);
            }
            released += block.bytes;
        }
    }

    /// Everything, handed out or kept, to be released at the device's end. A device that was lost has been given nothing
    /// back.
    pub(super) fn drain(&self) -> Vec<DevicePtr> {
        let books = std::mem::take(&mut *self.books());
        books.live.into_keys().chain(books.by_size.into_values()).collect()
    }

    /// What is kept, in bytes.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.books().kept_bytes
    }
}

impl Books {
    fn keep(&mut self, block: Block) {
        self.by_size.insert((block.bytes, block.arrival), block.ptr);
        self.by_age.insert(block.arrival, block.bytes);
        self.kept_bytes += block.bytes;
    }

    fn next_arrival(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }

    /// The last block of this size that came.
    fn take(&mut self, bytes: u64) -> Option<DevicePtr> {
        let (&(_, arrival), _) = self.by_size.range((bytes, 0)..=(bytes, u64::MAX)).next_back()?;
        self.remove(bytes, arrival).map(|block| block.ptr)
    }

    /// The oldest block, while more than `left` bytes are kept.
    fn take_oldest(&mut self, left: u64) -> Option<Block> {
        let (&arrival, &bytes) = self.by_age.first_key_value().filter(|_| self.kept_bytes > left)?;
        self.remove(bytes, arrival)
    }

    fn remove(&mut self, bytes: u64, arrival: u64) -> Option<Block> {
        let ptr = self.by_size.remove(&(bytes, arrival))?;
        self.by_age.remove(&arrival);
        self.kept_bytes -= bytes;
        Some(Block { ptr, bytes, arrival })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    /// A driver that gives addresses in turn, notes what it is given back, and refuses that where told.
    #[derive(Default)]
    struct Plain {
        given: Cell<u64>,
        released: RefCell<Vec<u64>>,
        refuses: Cell<bool>,
    }

    impl Plain {
        fn allocate(&self, cache: &Cache, bytes: u64) -> u64 {
            let allocate = || {
                self.given.set(self.given.get() + 1);
                Ok(DevicePtr::from_raw(self.given.get()))
            };
            cache.allocate(bytes, allocate).expect("memory").as_raw()
        }

        fn release(&self, ptr: DevicePtr) -> Result<()> {
            if self.refuses.get() {
                return Err(DriverError::new(DriverErrorKind::Refused, "release", 1, "not now"));
            }
            self.released.borrow_mut().push(ptr.as_raw());
            Ok(())
        }

        fn free(&self, cache: &Cache, ptr: u64) -> Result<()> {
            cache.free(DevicePtr::from_raw(ptr), |ptr| self.release(ptr))
        }

        fn trim(&self, cache: &Cache) -> Result<u64> {
            cache.trim(|ptr| self.release(ptr))
        }
    }

    #[test]
    fn a_freed_block_serves_its_own_size_alone_the_last_one_first() {
        let (plain, cache) = (Plain::default(), Cache::new(1 << 20));
        let [first, second, other] = [512, 512, 1024].map(|bytes| plain.allocate(&cache, bytes));
        for ptr in [first, second, other] {
            plain.free(&cache, ptr).expect("it is freed");
        }
        assert_eq!(cache.kept_bytes(), 2048);
        assert_eq!([512, 512, 1024].map(|bytes| plain.allocate(&cache, bytes)), [second, first, other]);
        assert_eq!((cache.kept_bytes(), plain.given.get()), (0, 3));
        plain.free(&cache, other).expect("it is freed");
        assert_eq!(plain.allocate(&cache, 512), 4, "a larger block served a smaller size");
        assert_eq!((cache.kept_bytes(), plain.released.take()), (1024, vec![]));
    }

    #[test]
    fn an_address_that_is_not_handed_out_is_refused_and_changes_nothing() {
        let (plain, cache) = (Plain::default(), Cache::new(1 << 20));
        let ptr = plain.allocate(&cache, 512);
        plain.free(&cache, ptr).expect("it is freed");
        for wrong in [ptr, 0, 77] {
            assert_eq!(plain.free(&cache, wrong).expect_err("wrong").kind, DriverErrorKind::Invalid);
        }
        assert_eq!(
            (cache.kept_bytes(), plain.trim(&cache), plain.released.take()),
            (512, Ok(512), vec![ptr])
        );
        assert_eq!(plain.free(&cache, ptr).expect_err("released").kind, DriverErrorKind::Invalid);
    }

    #[test]
    fn past_the_limit_the_oldest_go_until_half_of_it_is_left() {
        let (plain, cache) = (Plain::default(), Cache::new(4 * 4096));
        let blocks = [1024, 512, 1024, 1024, 512, 512].map(|bytes| plain.allocate(&cache, bytes));
        for ptr in &blocks[..5] {
            plain.free(&cache, *ptr).expect("it is freed");
        }
        assert_eq!((cache.kept_bytes(), plain.released.borrow().len()), (4096, 0));
        plain.free(&cache, blocks[5]).expect("it is freed");
        assert_eq!((cache.kept_bytes(), plain.released.take()), (2048, blocks[..3].to_vec()));
        let large = plain.allocate(&cache, 8192);
        plain.free(&cache, large).expect("it is freed");
        assert_eq!(cache.kept_bytes(), 0, "a block above the limit is not kept");
    }

    #[test]
    fn what_a_release_is_refused_for_stays_kept() {
        let (plain, cache) = (Plain::default(), Cache::new(4 * 1024));
        let blocks = [512, 512, 512].map(|bytes| plain.allocate(&cache, bytes));
        plain.refuses.set(true);
        for ptr in blocks {
            plain.free(&cache, ptr).expect("its caller is rid of it");
        }
        assert_eq!((cache.kept_bytes(), plain.trim(&cache).map_err(|error| error.code)), (1536, Err(1)));
        plain.refuses.set(false);
        assert_eq!((plain.trim(&cache), plain.released.take()), (Ok(1536), blocks.to_vec()));
        assert_eq!(plain.trim(&cache), Ok(0));
    }

    #[test]
    fn a_refused_allocation_is_nobodys() {
        let cache = Cache::new(1 << 20);
        let refusal = DriverError::new(DriverErrorKind::OutOfMemory, "allocate", 2, "no");
        assert_eq!(cache.allocate(512, || Err(refusal.clone())), Err(refusal));
        assert!(cache.books().live.is_empty());
    }

    #[test]
    fn random_steps_lose_and_double_no_block() {
        let (plain, cache) = (Plain::default(), Cache::new(64 << 10));
        let (mut live, mut seed) = (HashMap::new(), 7u64);
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (draw, bytes) = (seed >> 33, 512 << (seed >> 40 & 3));
            plain.refuses.set(draw % 7 == 0);
            match draw % 64 {
                0 => _ = plain.trim(&cache),
                1..32 => assert!(live.insert(plain.allocate(&cache, bytes), bytes).is_none(), "twice"),
                _ => {
                    let Some(&ptr) = live.keys().min() else { continue };
                    live.remove(&ptr);
                    plain.free(&cache, ptr).expect("it is freed");
                }
            }
            let books = cache.books();
            assert_eq!(books.by_size.keys().map(|(bytes, _)| bytes).sum::<u64>(), books.kept_bytes);
            assert_eq!((books.by_age.len(), books.live.len()), (books.by_size.len(), live.len()));
            assert_eq!(books.live.values().sum::<u64>(), live.values().sum::<u64>());
            let count = live.len() + books.by_size.len() + plain.released.borrow().len();
            assert_eq!(count as u64, plain.given.get());
        }
        assert!(plain.released.borrow().len() > 100);
    }
}
