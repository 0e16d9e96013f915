//! Time: arithmetic by hand on the computed clock, overlap, determinism, speed.

use super::*;
use crate::driver::sim::{Contents, Link, Trace};
use std::time::Duration;

fn pcie4() -> Arc<Sim> {
    Sim::open(Config::profile("pcie4").expect("a profile").with_trace(Trace::Recorded)).expect("it opens")
}

/// 16 MiB at 24 GB/s take 699,051 ns, and the call 10 µs.
const COPY: u64 = 699_051 + 10_000;

#[test]
fn a_copy_takes_its_call_and_its_bytes_and_the_host_reacts_later() {
    let device = pcie4();
    let queue = compute(&device);
    let ptr = device.allocate(queue, 16 * MIB).unwrap();
    let host = pinned(&device, 16 << 20);
    device.copy_out(queue, ptr, &host).unwrap();
    let fence = device.record(queue).unwrap();
    assert_eq!(device.now(), micros(15));
    assert!(!device.is_passed(fence).unwrap());
    assert!(device.advance());
    // Submitted at 10 µs, behind the allocation's 5 and its own 5.
    assert_eq!(device.now(), Duration::from_nanos(10_000 + COPY + 15_000));
    assert!(device.is_passed(fence).unwrap());
    assert!(!device.advance());
}

#[test]
fn a_pageable_copy_moves_the_host_to_its_end() {
    let device = pcie4();
    let queue = compute(&device);
    let ptr = device.allocate(queue, 6_000_000).unwrap();
    device.launch_host(queue, setter(micros(100), ptr, 6_000_000, 3)).unwrap();
    let host = ordinary(6_000_000);
    device.copy_out(queue, ptr, &host).unwrap();
    // Submitted at 10 µs, the kernel ends at 110; 6 MB at 6 GB/s.
    assert_eq!(device.now(), micros(110 + 10 + 1000));
    assert_eq!(bytes_of(&host), vec![3; 6_000_000]);
}

#[test]
fn both_directions_and_kernels_run_at_the_same_time() {
    let device = pcie4();
    let [kernels, spill, restore] = [QueueRole::Compute, QueueRole::Spill, QueueRole::Restore]
        .map(|role| device.create_queue(role).unwrap());
    let ptrs = [kernels, spill, restore].map(|queue| device.allocate(queue, 16 * MIB).unwrap());
    let host = [pinned(&device, 16 << 20), pinned(&device, 16 << 20)];
    let start = device.now();
    device.launch_host(kernels, setter(Duration::from_nanos(COPY), ptrs[0], MIB, 1)).unwrap();
    device.copy_out(spill, ptrs[1], &host[0]).unwrap();
    device.copy_in(restore, &host[1], ptrs[2]).unwrap();
    while device.advance() {}
    let end = device.now();
    // The first, submitted at 5 µs, is reacted to at 20 behind it; the others have ended by then.
    assert_eq!(end - start, Duration::from_nanos(COPY) + micros(20));
    let busy = device.busy().unwrap();
    let [copy, five] = [Duration::from_nanos(COPY), micros(5)];
    assert_eq!((busy.copy_out, busy.copy_in, busy.compute), (copy, copy, copy));
    assert_eq!((busy.copy, busy.both_ways), (copy + five, copy - five));
    assert_eq!(busy.copy_while_compute, copy - five);
    let spans = device.spans();
    assert_eq!(spans.iter().map(|span| span.label).collect::<Vec<_>>(), ["kernel", "copy_out", "copy_in"]);
    assert_eq!(spans.iter().map(|span| span.ptr).collect::<Vec<_>>(), ptrs);
    assert_eq!(spans[1].end - spans[1].start, copy);
}

#[test]
fn copies_of_one_direction_take_turns_and_kernels_do_only_if_told() {
    for (slots, wall) in [(None, 100), (Some(1), 200)] {
        let config = Config::profile("pcie4").unwrap().with_concurrent_kernels(slots);
        let device = Sim::open(config).unwrap();
        let queues = [compute(&device), compute(&device)];
        for queue in queues {
            let ptr = device.allocate(queue, 8).unwrap();
            device.launch_host(queue, setter(micros(100), ptr, 8, 1)).unwrap();
        }
        while device.advance() {}
        assert_eq!(
            device.busy().unwrap().compute,
            micros(wall) + if slots.is_none() { micros(10) } else { micros(0) }
        );
    }
    let device = pcie4();
    let queues = [compute(&device), compute(&device)];
    let host = pinned(&device, 16 << 20);
    for queue in queues {
        let ptr = device.allocate(queue, 16 * MIB).unwrap();
        device.copy_in(queue, &host, ptr).unwrap();
    }
    while device.advance() {}
    assert_eq!(device.busy().unwrap().copy_in, Duration::from_nanos(2 * COPY));
}

#[test]
fn latency_holds_back_the_queue_and_not_the_engine() {
    let link = Link { pinned_bandwidth: Some(1_000_000_000), latency: micros(50), ..Link::default() };
    let config = Config::new().with_clock(Clock::Computed).with_outward(link);
    let device = Sim::open(config).unwrap();
    let queues = [compute(&device), compute(&device)];
    let host = [pinned(&device, 100_000), pinned(&device, 100_000)];
    let fences = [0, 1].map(|index| {
        let ptr = device.allocate(queues[index], 100_000).unwrap();
        device.copy_out(queues[index], ptr, &host[index]).unwrap();
        device.record(queues[index]).unwrap()
    });
    for (fence, at) in fences.into_iter().zip([150, 250]) {
        finish(&device, fence);
        assert_eq!(device.now(), micros(at));
    }
}

#[test]
fn a_launch_waits_where_the_queue_is_full() {
    let config = Config::profile("pcie4").unwrap().with_launch_depth(4);
    let device = Sim::open(config).unwrap();
    let queue = compute(&device);
    for _ in 0..4 {
        device.launch_host(queue, HostKernel::new(micros(100), |_| {})).unwrap();
    }
    assert_eq!(device.now(), micros(20));
    device.launch_host(queue, HostKernel::new(micros(100), |_| {})).unwrap();
    // The first was submitted at 5 µs.
    assert_eq!(device.now(), micros(105));
}

#[test]
fn a_full_queue_lets_go_on_a_real_clock_too() {
    let device = Sim::open(Config::new().with_launch_depth(2)).unwrap();
    let queue = compute(&device);
    for _ in 0..100 {
        device.launch_host(queue, HostKernel::new(Duration::ZERO, |_| {})).unwrap();
    }
    drain(&device, queue);
}

/// Some thousand calls of all kinds on three queues.
fn program(device: &Sim, rounds: usize) -> (Duration, Vec<crate::driver::sim::Span>) {
    let queues = [QueueRole::Compute, QueueRole::Spill, QueueRole::Restore];
    let [kernels, spill, restore] = queues.map(|role| device.create_queue(role).unwrap());
    let host = pinned(device, 4096);
    for round in 0..rounds {
        let ptr = device.allocate(kernels, 4096).unwrap();
        device.launch_host(kernels, setter(micros(7), ptr, 4096, round as u8)).unwrap();
        let written = device.record(kernels).unwrap();
        for queue in [spill, restore] {
            device.wait(queue, written).unwrap();
        }
        device.copy_out(spill, ptr, &host).unwrap();
        device.copy_in(restore, &host, ptr).unwrap();
        let copied = [spill, restore].map(|queue| device.record(queue).unwrap());
        for fence in copied {
            device.wait(kernels, fence).unwrap();
        }
        device.free(kernels, ptr).unwrap();
        let freed = device.record(kernels).unwrap();
        finish(device, freed);
        for fence in [written, copied[0], copied[1], freed] {
            device.retire(fence);
        }
    }
    assert_eq!(device.faults(), []);
    assert_eq!((device.live_allocations(), device.live_fences()), (0, 0));
    (device.now(), device.spans())
}

#[test]
fn two_runs_of_a_program_are_the_same_to_the_nanosecond() {
    let [first, second] = [pcie4(), pcie4()].map(|device| program(&device, 300));
    assert_eq!(first, second);
    assert_eq!(first.1.len(), 900);
}

#[test]
fn the_same_program_runs_on_a_real_clock() {
    program(&Sim::open(Config::new()).unwrap(), 300);
}

#[test]
fn a_device_that_holds_no_bytes_takes_as_long_and_touches_nothing() {
    let config = Config::profile("h200").unwrap().with_contents(Contents::NotHeld);
    let device = Sim::open(config).unwrap();
    let queue = compute(&device);
    let bytes = 100 << 30;
    let ptr = device.allocate(queue, bytes).unwrap();
    let kernel = HostKernel::new(micros(5), |_| panic!("no bytes, no body"));
    device.launch_host(queue, kernel.arg(ptr, bytes, ArgAccess::Write)).unwrap();
    device.fill(queue, ptr, bytes, 1).unwrap();
    while device.advance() {}
    // Reading nothing and writing 100 GiB at 4.8 TB/s.
    assert_eq!(device.busy().unwrap().compute, micros(5) + Duration::from_nanos(22_369_622));
    assert!(device.peek(ptr, &mut [0]).is_err());
}

#[test]
fn work_that_ends_beyond_all_time_overflowed() {
    for device in both_clocks(&Config::new()) {
        let queue = compute(&device);
        let ptr = device.allocate(queue, 512).unwrap();
        device.launch_host(queue, setter(micros(100), ptr, 512, 1)).unwrap();
        device.launch_host(queue, setter(Duration::MAX, ptr, 512, 2)).unwrap();
        device.launch_host(queue, setter(Duration::MAX, ptr, 512, 3)).unwrap();
        let fence = device.record(queue).unwrap();
        while device.advance() {}
        let ends = device.caps().computed_clock;
        assert_eq!((device.is_passed(fence).unwrap(), device.faults()), (ends, vec![]));
    }
}
