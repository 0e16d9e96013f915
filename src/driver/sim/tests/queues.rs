//! Queues: order within, order between by fences, pieces of copies, threads.

use super::*;
use crate::driver::sim::Link;
use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
    mpsc,
};

#[test]
fn a_waiting_queue_runs_behind_the_fence_and_no_other_does() {
    for device in both_clocks(&Config::new()) {
        let [first, second, free] = [0; 3].map(|_| compute(&device));
        let log = Arc::new(Mutex::new(Vec::new()));
        let note = |name: &'static str| {
            let log = Arc::clone(&log);
            HostKernel::new(micros(10), move |_| log.lock().unwrap().push(name))
        };
        device.hold(first).unwrap();
        device.launch_host(first, note("first")).unwrap();
        let fence = device.record(first).unwrap();
        device.wait(second, fence).unwrap();
        device.launch_host(second, note("second")).unwrap();
        device.launch_host(free, note("free")).unwrap();
        drain(&device, free);
        assert!(!device.is_passed(fence).unwrap());
        device.release(first).unwrap();
        drain(&device, second);
        assert_eq!(*log.lock().unwrap(), ["free", "first", "second"]);
        assert!(device.is_passed(fence).unwrap());
    }
}

#[test]
fn a_write_lands_between_the_pieces_of_an_unordered_copy() {
    let link = Link { pinned_bandwidth: Some(1_000_000_000), ..Link::default() };
    let config = Config::new().with_clock(Clock::Computed).with_outward(link).with_copy_cuts(4);
    let device = Sim::open(config).unwrap();
    let [writer, spill] = [0; 2].map(|_| compute(&device));
    let ptr = device.allocate(writer, 400_000).unwrap();
    device.fill(writer, ptr, 400_000, 1).unwrap();
    let filled = device.record(writer).unwrap();
    device.wait(spill, filled).unwrap();
    let host = pinned(&device, 400_000);
    device.copy_out(spill, ptr, &host).unwrap();
    // Pieces move at 100, 200, 300 and 400 µs; this writes at 250.
    device.launch_host(writer, setter(micros(250), ptr, 400_000, 2)).unwrap();
    while device.advance() {}
    let bytes = bytes_of(&host);
    assert_eq!(bytes[..200_000], [1; 200_000]);
    assert_eq!(bytes[200_000..], [2; 200_000]);
}

#[test]
fn kernels_and_copies_on_one_block_tear_and_do_not_race() {
    let device = Sim::open(Config::new()).unwrap();
    let [writer, spill] = [0; 2].map(|_| compute(&device));
    let ptr = device.allocate(writer, 1 << 16).unwrap();
    drain(&device, writer);
    let host = pinned(&device, 1 << 16);
    for round in 0..50 {
        device.launch_host(writer, setter(Duration::ZERO, ptr, 1 << 16, round)).unwrap();
        device.copy_out(spill, ptr, &host).unwrap();
        drain(&device, spill);
        for piece in bytes_of(&host).chunks(1 << 14) {
            assert!(piece.iter().all(|byte| *byte == piece[0]), "a piece is torn");
        }
    }
}

#[test]
fn one_flipped_bit_is_asked_for_and_given_once() {
    for device in both_clocks(&Config::new()) {
        let queue = compute(&device);
        let ptr = device.allocate(queue, 100).unwrap();
        device.fill(queue, ptr, 100, 0).unwrap();
        device.corrupt_next_copy_out();
        let flipped = [0; 2].map(|_| {
            let host = pinned(&device, 100);
            device.copy_out(queue, ptr, &host).unwrap();
            drain(&device, queue);
            bytes_of(&host).iter().map(|byte| byte.count_ones()).sum::<u32>()
        });
        assert_eq!(flipped, [1, 0]);
    }
}

#[test]
fn what_a_kernel_owns_may_free_when_it_is_dropped() {
    struct Held(Arc<Sim>, QueueId, DevicePtr);
    impl Drop for Held {
        fn drop(&mut self) {
            self.0.free(self.1, self.2).expect("a free from within a kernel");
        }
    }
    for device in both_clocks(&Config::new()) {
        let queue = compute(&device);
        let ptr = device.allocate(queue, 512).unwrap();
        let held = Held(Arc::clone(&device), queue, ptr);
        let kernel = HostKernel::new(micros(1), move |_| drop(held));
        device.launch_host(queue, kernel).unwrap();
        drain(&device, queue);
        drain(&device, queue);
        assert_eq!((device.live_allocations(), device.faults()), (0, vec![]));
    }
}

#[test]
fn no_thread_outlives_the_device_and_a_long_kernel_does_not_hold_it() {
    let device = Sim::open(Config::new()).unwrap();
    let queues = [0; 3].map(|_| compute(&device));
    assert_eq!(device.threads(), 0, "a queue without work needs no thread");
    for queue in queues {
        device.launch_host(queue, HostKernel::new(Duration::from_secs(3600), |_| {})).unwrap();
    }
    assert_eq!(device.threads(), 3);
    let shared = Arc::clone(&device.shared);
    drop(device);
    assert_eq!(shared.threads.load(Ordering::SeqCst), 0);
}

#[test]
fn the_last_handle_may_go_on_a_thread_of_the_device() {
    let device = Sim::open(Config::new()).unwrap();
    let queue = compute(&device);
    let (told, gone) = mpsc::channel();
    let own = Arc::clone(&device);
    device.hold(queue).unwrap();
    let kernel = HostKernel::new(Duration::ZERO, move |_| {
        drop(own);
        told.send(()).expect("the test listens");
    });
    device.launch_host(queue, kernel).unwrap();
    device.release(queue).unwrap();
    drop(device);
    gone.recv().expect("the kernel ran");
}

#[test]
fn many_threads_may_submit_at_once() {
    for device in both_clocks(&Config::new()) {
        let ran = Arc::new(AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let queue = compute(&device);
                    for _ in 0..100 {
                        let ptr = device.allocate(queue, 512).unwrap();
                        let ran = Arc::clone(&ran);
                        let kernel =
                            HostKernel::new(Duration::ZERO, move |_| _ = ran.fetch_add(1, Ordering::SeqCst));
                        device.launch_host(queue, kernel.arg(ptr, 512, ArgAccess::Read)).unwrap();
                        device.copy_out(queue, ptr, &ordinary(512)).unwrap();
                        device.free(queue, ptr).unwrap();
                    }
                    let fence = device.record(queue).unwrap();
                    while !device.is_passed(fence).unwrap() {
                        device.advance();
                        std::thread::yield_now();
                    }
                });
            }
        });
        assert_eq!((ran.load(Ordering::SeqCst), device.live_bytes()), (400, 0));
    }
}
