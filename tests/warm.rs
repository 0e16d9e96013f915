//! The warm path allocates nothing on the heap.
#![allow(unsafe_code)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};
use tack_residency::{Device, Error, Use};

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is the system allocator's, with what it was given.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps `GlobalAlloc::alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps `GlobalAlloc::dealloc`'s contract.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = COUNT.get();
    work();
    COUNT.get() - before
}

#[test]
fn a_warm_launch_allocates_nothing() {
    let device = Device::open("sim").expect("the device");
    let buffers: Vec<_> = (0..8).map(|_| device.alloc(4096).wait().expect("a buffer")).collect();
    let launch = || {
        let uses: [Use<'_>; 8] = std::array::from_fn(|i| Use::read_write(&buffers[i]));
        let launch = device.prepare(uses).try_now().expect("resident");
        launch
            .submit(|run| (run.len() == 8).then_some(()).ok_or_else(|| unreachable!()))
            .map_err(|e: Error| e)
    };
    launch().expect("the first");
    assert!(allocations(|| drop(vec![0u8; 16])) > 0, "the counter does not count");
    let counted = allocations(|| (0..1000).for_each(|_| launch().expect("warm")));
    assert_eq!(counted, 0, "a thousand warm launches allocated");
}

#[test]
fn a_warm_await_allocates_nothing() {
    let device = Device::open("sim").expect("the device");
    let buffers: Vec<_> = (0..8).map(|_| device.alloc(4096).wait().expect("a buffer")).collect();
    futures::executor::block_on(async {
        let counted = {
            let before = COUNT.get();
            for _ in 0..1000 {
                let uses: [Use<'_>; 8] = std::array::from_fn(|i| Use::read_write(&buffers[i]));
                device
                    .prepare(uses)
                    .await
                    .expect("resident")
                    .submit(|_| Ok::<(), Error>(()))
                    .expect("submitted");
            }
            COUNT.get() - before
        };
        assert_eq!(counted, 0);
    });
}
