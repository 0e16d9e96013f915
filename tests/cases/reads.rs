//! Host reads behind kernels: what they hold back, and what they hold.

use crate::bench::{
    Bench, CLOCKS, COMPUTE, POOLS, UNIT, assert_bytes, config, finish, pattern, poll_once, still_waits,
};
use std::{pin::pin, time::Duration};
use tack_residency::{Buffer, Device, Use, driver::sim::Clock};

fn incremented(seed: u8) -> Vec<u8> {
    pattern(seed).iter().map(|byte| byte.wrapping_add(1)).collect()
}

/// Launches a kernel of a length that adds one to every byte.
fn increment(bench: &Bench, buffer: &Buffer, length: Duration) {
    let launch = finish(bench.device.prepare([Use::read_write(buffer)])).expect("resident");
    let add = launch.submit(|run| {
        run.host_kernel(length, |args| {
            args[0].bytes_mut().iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
        })
    });
    add.expect("submitted");
}

#[test]
fn a_read_behind_a_kernel_held_back_spills_and_other_reads() {
    for clock in CLOCKS {
        let bench = Bench::new(config(clock, 8), Device::options().budget(4 * UNIT));
        // With a second queue, every use is noted as it comes: what was used before the late kernel is known.
        let _second = bench.device.add_queue().expect("a queue");
        let [late, early, cold] = [1, 2, 3].map(|seed| bench.buffer(seed));
        bench.hold(&[COMPUTE]);
        bench.increment(&bench.device.queue(), &late);
        let mut read = pin!(late.read());
        assert!(poll_once(read.as_mut()).is_pending());
        finish(cold.spill()).expect("it is spilled while the read waits");
        assert_bytes("a read of what is there", &early, &pattern(2));
        still_waits(read.as_mut());
        bench.release(&[COMPUTE]);
        assert_eq!(finish(read).expect("read"), incremented(1));
        assert_bytes("what was spilled", &cold, &pattern(3));
        drop((late, early, cold));
        bench.check_empty();
    }
}

#[test]
fn a_read_behind_a_late_kernel_held_back_one_behind_an_early_kernel() {
    let bench = Bench::tight(Clock::Computed, 8);
    let buffers = [1, 2, 3].map(|seed| bench.buffer(seed));
    let begin = bench.device.driver().now();
    for (buffer, milliseconds) in buffers.iter().zip([1, 10, 1000]) {
        increment(&bench, buffer, Duration::from_millis(milliseconds));
    }
    let reads: Vec<_> = buffers.iter().rev().map(|buffer| Box::pin(buffer.read())).collect();
    let mut reads: Vec<_> = reads
        .into_iter()
        .map(|mut read| {
            assert!(poll_once(read.as_mut()).is_pending());
            read
        })
        .collect();
    for (seed, before) in [(1, 5), (2, 20), (3, 1020)] {
        let read = reads.pop().expect("three were begun");
        assert_eq!(finish(read).expect("read"), incremented(seed));
        let took = bench.device.driver().now() - begin;
        assert!(took < Duration::from_millis(before), "the read of buffer {seed} ended after {took:?}");
    }
    drop(buffers);
    bench.check_empty();
}

/// What waits behind a read that is queued late is in order all the same.
#[test]
fn what_came_after_a_held_read_was_done_before_it() {
    for clock in CLOCKS {
        let bench = Bench::new(config(clock, 8), Device::options());
        let _second = bench.device.add_queue().expect("a queue");
        let buffers = [1, 2].map(|seed| bench.buffer(seed));
        bench.hold(&[COMPUTE]);
        buffers.iter().for_each(|buffer| bench.increment(&bench.device.queue(), buffer));
        let mut reads: Vec<_> = buffers.iter().rev().map(|buffer| Box::pin(buffer.read())).collect();
        reads.iter_mut().for_each(|read| assert!(poll_once(read.as_mut()).is_pending()));
        let mut write = Box::pin(buffers[0].write(pattern(9)));
        let mut again = pin!(buffers[0].read());
        let is_written = poll_once(write.as_mut()).map(|written| written.expect("written")).is_ready();
        assert!(poll_once(again.as_mut()).is_pending());
        bench.release(&[COMPUTE]);
        for (read, seed) in reads.into_iter().zip([2, 1]) {
            assert_eq!(finish(read).expect("read"), incremented(seed), "{clock:?}");
        }
        if !is_written {
            finish(write.as_mut()).expect("written");
        }
        drop(write);
        assert_eq!(finish(again).expect("read"), pattern(9), "{clock:?}");
        drop(buffers);
        bench.check_empty();
    }
}

#[test]
fn a_buffer_dropped_while_it_is_read_was_kept_or_lost() {
    for (clock, pool) in CLOCKS.into_iter().zip(POOLS) {
        // Room for two, and for no third while a read keeps one.
        let bench = Bench::new(config(clock, 2).with_pool(pool), Device::options().budget(2 * UNIT));
        let [first, second] = [1, 2].map(|seed| bench.buffer(seed));
        bench.hold(&[COMPUTE]);
        for buffer in [&first, &second] {
            bench.increment(&bench.device.queue(), buffer);
        }
        let mut reads: Vec<_> = [second.read(), first.read()].into_iter().map(Box::pin).collect();
        reads.iter_mut().for_each(|read| assert!(poll_once(read.as_mut()).is_pending()));
        drop((first, second));
        let (mut room, cancelled) = (pin!(bench.device.alloc(2 * UNIT)), reads.pop());
        still_waits(room.as_mut());
        drop(cancelled);
        bench.release(&[COMPUTE]);
        let room = finish(room).expect("what the reads kept is given back while their futures live");
        assert_eq!(finish(reads.pop().expect("one is left")).expect("read"), incremented(2), "{clock:?}");
        assert_bytes("fresh memory", &room, &[0; 2 * UNIT as usize]);
        drop(room);
        bench.check_empty();
    }
}

/// The future alone keeps its device going.
#[test]
fn a_read_outlived_its_buffer_and_its_device() {
    let bench = Bench::new(config(Clock::Real, 4), Device::options());
    let buffer = bench.buffer(5);
    bench.hold(&[COMPUTE]);
    bench.increment(&bench.device.queue(), &buffer);
    let mut read = Box::pin(buffer.read());
    assert!(poll_once(read.as_mut()).is_pending());
    let Bench { sim, device } = bench;
    drop((buffer, device));
    sim.release(COMPUTE).expect("a queue");
    assert_eq!(finish(read).expect("read"), incremented(5));
    assert_eq!(sim.faults(), []);
}
