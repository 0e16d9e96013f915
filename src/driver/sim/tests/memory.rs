//! Memory: poison, capacity, the pool's rules between queues, the books.

use super::*;
use crate::driver::DriverErrorKind;
use crate::driver::sim::{Pinning, PinningWaits, Pool};

fn small(clock: Clock) -> Arc<Sim> {
    Sim::open(Config::new().with_capacity(100 * 512).with_clock(clock)).unwrap()
}

fn kind<T: std::fmt::Debug>(result: crate::driver::Result<T>) -> DriverErrorKind {
    result.expect_err("a refusal").kind
}

#[test]
fn fresh_memory_is_poisoned_and_freed_memory_differently() {
    for device in both_clocks(&Config::new()) {
        let queue = compute(&device);
        let ptr = device.allocate(queue, 1000).unwrap();
        let host = pinned(&device, 1000);
        device.copy_out(queue, ptr, &host).unwrap();
        drain(&device, queue);
        assert_eq!(bytes_of(&host), [0xCD; 1000]);
        device.free(queue, ptr).unwrap();
        drain(&device, queue);
        let mut bytes = [0; 10];
        device.peek(ptr.offset(5), &mut bytes).unwrap();
        assert_eq!(bytes, [0xDD; 10]);
    }
}

#[test]
fn bytes_go_round_trip_on_both_clocks_and_kinds_of_host_memory() {
    for device in both_clocks(&Config::new()) {
        let queue = compute(&device);
        let [first, second] = [0, 1].map(|_| device.allocate(queue, 5000).unwrap());
        let expected: Vec<u8> = (0..5000).map(|index| index as u8).collect();
        for host in [pinned(&device, 5000), ordinary(5000)] {
            host.memory.write(0, &expected);
            device.copy_in(queue, &host, first).unwrap();
            device.copy(queue, first, second, 5000).unwrap();
            device.fill(queue, first, 5000, 9).unwrap();
            drain(&device, queue);
            host.memory.fill(0, 5000, 0);
            device.copy_out(queue, second, &host).unwrap();
            drain(&device, queue);
            assert_eq!(bytes_of(&host), expected);
        }
    }
}

#[test]
fn capacity_counts_rounded_bytes() {
    for clock in [Clock::Real, Clock::Computed] {
        let device = small(clock);
        let queue = compute(&device);
        let held: Vec<_> = (0..100).map(|_| device.allocate(queue, 1).unwrap()).collect();
        assert_eq!(kind(device.allocate(queue, 1)), DriverErrorKind::OutOfMemory);
        assert_eq!(device.memory().free, Some(0));
        assert_eq!((device.live_bytes(), device.peak_bytes()), (51_200, 51_200));
        device.free(queue, held[0]).unwrap();
        device.allocate(queue, 512).unwrap();
        assert_eq!(kind(device.allocate(queue, 0)), DriverErrorKind::Invalid);
    }
    let device = Sim::open(Config::new().with_max_allocation(Some(1024))).unwrap();
    let queue = compute(&device);
    assert_eq!(kind(device.allocate(queue, 1025)), DriverErrorKind::TooLarge);
}

#[test]
fn out_of_memory_with_most_of_it_free_while_frees_are_pending() {
    for clock in [Clock::Real, Clock::Computed] {
        let device = small(clock);
        let [slow, other] = [compute(&device), compute(&device)];
        let ptr = device.allocate(slow, 51_200).unwrap();
        device.hold(slow).unwrap();
        device.free(slow, ptr).unwrap();
        assert_eq!(kind(device.allocate(other, 512)), DriverErrorKind::OutOfMemory);
        assert_eq!((device.memory().cached, device.trim().unwrap()), (51_200, 0));
        // Its own queue runs behind the free.
        let again = device.allocate(slow, 512).unwrap();
        // So does a queue that waits for a fence behind it.
        let fence = device.record(slow).unwrap();
        device.wait(other, fence).unwrap();
        device.allocate(other, 512).unwrap();
        let third = compute(&device);
        assert_eq!(kind(device.allocate(third, 512)), DriverErrorKind::OutOfMemory);
        device.release(slow).unwrap();
        drain(&device, slow);
        // And anyone, once it has happened.
        device.allocate(third, 512).unwrap();
        device.free(slow, again).unwrap();
        drain(&device, slow);
        assert_eq!(device.trim().unwrap(), 51_200 - 1024);
        assert_eq!(device.faults(), []);
    }
}

#[test]
fn reuse_within_a_queue_never_lifts_the_peak() {
    let device = small(Clock::Computed);
    let queue = compute(&device);
    for _ in 0..1000 {
        let ptr = device.allocate(queue, 51_200).unwrap();
        device.launch_host(queue, setter(micros(1), ptr, 51_200, 1)).unwrap();
        device.free(queue, ptr).unwrap();
    }
    drain(&device, queue);
    assert_eq!((device.peak_bytes(), device.live_bytes()), (51_200, 0));
}

#[test]
fn without_a_pool_a_free_waits_for_the_whole_device() {
    for device in both_clocks(&Config::new().with_pool(Pool::None)) {
        let [queue, other] = [compute(&device), compute(&device)];
        let ptr = device.allocate(queue, 512).unwrap();
        device.launch_host(other, setter(micros(300), ptr, 512, 1)).unwrap();
        let fence = device.record(other).unwrap();
        device.free(queue, ptr).unwrap();
        assert!(device.is_passed(fence).unwrap());
        assert!(device.now() >= micros(300));
        assert_eq!((device.memory().cached, device.live_bytes(), device.faults()), (0, 0, vec![]));
    }
}

#[test]
fn others_bytes_and_overcommit_change_what_is_granted() {
    let device = small(Clock::Computed);
    let queue = compute(&device);
    device.set_foreign_bytes(51_200 - 512);
    assert_eq!(device.memory().free, Some(512));
    assert_eq!(kind(device.allocate(queue, 1024)), DriverErrorKind::OutOfMemory);
    let mut config = Config::new().with_capacity(512);
    config.overcommits = true;
    let device = Sim::open(config).unwrap();
    device.allocate(compute(&device), 1 << 20).unwrap();
    assert_eq!(device.memory().free, Some(0));
}

#[test]
fn pinning_takes_its_time_and_waits_for_the_device_where_drivers_do() {
    let pinning = Pinning { call: micros(10), bandwidth: Some(1_000_000_000), waits: PinningWaits::Device };
    let device = Sim::open(Config::new().with_clock(Clock::Computed).with_pinning(pinning)).unwrap();
    drop(device.allocate_host(5000).unwrap());
    assert_eq!(device.now(), micros(15));
    device.launch_host(compute(&device), HostKernel::new(micros(500), |_| {})).unwrap();
    drop(device.allocate_host(5000).unwrap());
    assert_eq!(device.now(), micros(515));
    device.charge(micros(5));
    assert_eq!(device.now(), micros(520));
}

#[test]
fn pinned_host_memory_is_counted_while_it_lives() {
    let device = small(Clock::Real);
    let memory = device.allocate_host(1000).unwrap();
    assert_eq!(device.live_host_bytes(), 1000);
    drop(memory);
    assert_eq!(device.live_host_bytes(), 0);
}
