//! Launches taken ahead of time, write-back and copies beside kernels.

use crate::bench::{
    Bench, CLOCKS, POOLS, RESTORE, Random, SPILL, UNIT, assert_bytes, config, finish, pattern, poll_once,
};
use crate::recorder::Recorder;
use std::{
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};
use tack_residency::{
    Buffer, Device, LaunchQueue, Options, Run, Use, Victims,
    driver::{
        fault::{Call, Fault},
        sim::{Clock, Config, Contents, Pinning, PinningWaits, Sim},
    },
};

/// Where a kernel notes what it read.
type Seen = Arc<Mutex<Vec<Vec<u8>>>>;

/// Pushes a launch whose kernel notes what it reads of a buffer.
fn observe(queue: &mut LaunchQueue, buffer: &Buffer, seen: &Seen) {
    let seen = seen.clone();
    let work = move |run: &Run<'_>| {
        run.host_kernel(Duration::from_micros(20), move |args| {
            seen.lock().expect("not poisoned").push(args[0].bytes().to_vec());
        })
    };
    finish(queue.push([Use::read(buffer)], work)).expect("pushed");
}

/// Pushes a launch whose kernel adds one to every byte of a buffer.
fn increment(queue: &mut LaunchQueue, buffer: &Buffer) {
    let work = |run: &Run<'_>| {
        run.host_kernel(Duration::from_micros(20), |args| {
            args[0].bytes_mut().iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
        })
    };
    finish(queue.push([Use::read_write(buffer)], work)).expect("pushed");
}

fn incremented(seed: u8, times: u8) -> Vec<u8> {
    pattern(seed).iter().map(|byte| byte.wrapping_add(times)).collect()
}

/// Every way to look ahead and to write back.
fn ways() -> impl Iterator<Item = (usize, Options)> {
    [0, 1, 4, 16].into_iter().flat_map(|look_ahead| {
        let options = [Device::options(), Device::options().write_back(20, 80)];
        options
            .into_iter()
            .flat_map(|options| [options.clone(), options.victims(Victims::NextUse)])
            .map(move |options| (look_ahead, options))
    })
}

#[test]
fn restores_beside_new_data_took_the_device_over_its_limit() {
    for (clock, pool) in CLOCKS.into_iter().zip(POOLS).chain([(Clock::Computed, POOLS[1])]) {
        for (look_ahead, options) in ways() {
            let budget = 4 * UNIT;
            let bench = Bench::new(config(clock, 64).with_pool(pool), options.budget(budget));
            let held: Vec<Buffer> = (0..8).map(|seed| bench.buffer(seed)).collect();
            let (mut times, mut random) = ([0u8; 8], Random(look_ahead as u64 + 1));
            let mut queue = bench.device.launch_queue(look_ahead);
            for _ in 0..24 {
                let index = random.below(8) as usize;
                increment(&mut queue, &held[index]);
                times[index] += 1;
                let fresh = queue.alloc(UNIT * (1 + random.below(2))).expect("asked for");
                increment(&mut queue, &fresh);
                let info = bench.info();
                assert!(info.in_use <= budget, "{clock:?}, {look_ahead}: {info}");
            }
            finish(queue.flush()).expect("all");
            finish(bench.device.idle()).expect("idle");
            let (info, peak) = (bench.info(), bench.sim.peak_bytes());
            assert!(info.restores > 0 && info.peak <= budget, "{info:?}");
            assert!(peak <= budget, "{clock:?}, {look_ahead}: the device held {peak}");
            for (seed, buffer) in (0..).zip(&held) {
                let what = format!("{clock:?}, {look_ahead}: buffer {seed}");
                assert_bytes(&what, buffer, &incremented(seed, times[usize::from(seed)]));
            }
            bench.check();
        }
    }
}

#[test]
fn throughput_was_computed_from_the_time_to_queue_a_copy() {
    for clock in CLOCKS {
        let bench = Bench::tight(clock, 2);
        let held = [1, 2, 3].map(|seed| bench.buffer(seed));
        finish(bench.device.idle()).expect("idle");
        let busy = || bench.info().busy.expect("a simulated device can tell");
        let before = busy();
        // Queued, and not made.
        bench.hold(&[RESTORE]);
        drop(finish(bench.device.prepare([Use::read(&held[0])])).expect("queued"));
        assert_eq!(busy().copy_in, before.copy_in, "{clock:?}: a copy that is queued took time");
        bench.release(&[RESTORE]);
        finish(bench.device.idle()).expect("idle");
        let least = Duration::from_nanos(UNIT * 1_000_000_000 / 24_000_000_000);
        assert!(busy().copy_in - before.copy_in >= least, "{clock:?}: {:?}, {before:?}", busy());
        let info = bench.info();
        for (bytes, took) in
            [(info.copied_in_bytes, busy().copy_in), (info.copied_out_bytes, busy().copy_out)]
        {
            let rate = bytes as f64 / took.as_secs_f64();
            assert!(bytes > 0 && rate <= 24e9, "{clock:?}: {rate} bytes a second through a link for 24e9");
        }
        assert!(busy().hidden().is_some_and(|hidden| (0.0..=1.0).contains(&hidden)));
    }
}

/// A write while a buffer is cleaned ahead of need throws that copy away; its block is not for others until it has run.
#[test]
fn a_block_of_a_copy_thrown_away_went_to_another_before_the_copy_had_run() {
    for clock in CLOCKS {
        let options = Device::options().budget(4 * UNIT).write_back(50, 100);
        let bench = Bench::new(config(clock, 8), options);
        let first = bench.buffer(1);
        let [second, third] = [2, 3].map(|seed| bench.buffer(seed));
        // All are clean, and then the two that were used first are being cleaned once more.
        bench.hold(&[SPILL]);
        for buffer in [&first, &second] {
            finish(buffer.fill(9)).expect("queued");
        }
        // What is being copied is written again, dropped, and its blocks are wanted for others.
        finish(first.write(pattern(11))).expect("handed over");
        drop(second);
        let fourth = bench.buffer(4);
        let mut spill = pin!(third.spill());
        let mut another = pin!(fourth.spill());
        let _ = (poll_once(spill.as_mut()), poll_once(another.as_mut()));
        bench.release(&[SPILL]);
        finish(spill).expect("spilled");
        finish(another).expect("spilled");
        for (seed, buffer) in [(11, &first), (3, &third), (4, &fourth)] {
            assert_bytes(&format!("{clock:?}, {seed}"), buffer, &pattern(seed));
        }
        finish(bench.device.spill_all()).expect("spilled");
        for (seed, buffer) in [(11, &first), (3, &third), (4, &fourth)] {
            assert_bytes(&format!("{clock:?}, {seed} spilled"), buffer, &pattern(seed));
        }
        drop((first, third, fourth));
        bench.check_empty();
    }
}

#[test]
fn the_source_of_a_restore_ahead_of_time_was_rewritten_before_the_copy_had_run() {
    for clock in CLOCKS {
        let bench = Bench::tight(clock, 4);
        let [a, b] = [1, 2].map(|seed| bench.buffer(seed));
        finish(bench.device.spill_all()).expect("spilled");
        bench.hold(&[RESTORE]);
        let (seen, mut queue) = (Seen::default(), bench.device.launch_queue(4));
        observe(&mut queue, &a, &seen);
        observe(&mut queue, &b, &seen);
        finish(queue.flush_uses(&a)).expect("queued behind its restore");
        finish(a.write(pattern(3))).expect("handed over");
        drop(b);
        observe(&mut queue, &a, &seen);
        // Others want the host's blocks meanwhile.
        let other = bench.buffer(4);
        let mut spill = pin!(other.spill());
        let _ = poll_once(spill.as_mut());
        bench.release(&[RESTORE]);
        finish(queue.flush()).expect("queued");
        finish(spill).expect("spilled");
        finish(bench.device.idle()).expect("idle");
        let seen = seen.lock().expect("not poisoned").clone();
        assert!(seen == [pattern(1), pattern(2), pattern(3)], "{clock:?}: a launch saw other bytes");
        assert_bytes("written", &a, &pattern(3));
        assert_bytes("the other", &other, &pattern(4));
        drop((queue, a, other));
        bench.check_empty();
    }
}

#[test]
fn a_launch_taken_ahead_of_time_saw_half_of_a_restore_or_of_a_host_copy() {
    for (look_ahead, options) in ways() {
        for steps in [0, 1, 3, 7] {
            let bench =
                Bench::new(config(Clock::Computed, 8).with_copy_cuts(8), options.clone().budget(2 * UNIT));
            let held: Vec<Buffer> = (0..4).map(|seed| bench.buffer(seed)).collect();
            let (seen, mut queue) = (Seen::default(), bench.device.launch_queue(look_ahead));
            for round in 0..3 {
                for (seed, buffer) in (0..).zip(&held) {
                    observe(&mut queue, buffer, &seen);
                    increment(&mut queue, buffer);
                    (0..steps).for_each(|_| _ = bench.device.driver().advance());
                    finish(queue.flush_uses(buffer)).expect("queued");
                    assert_bytes("read between launches", buffer, &incremented(seed, round + 1));
                }
            }
            finish(queue.flush()).expect("all");
            finish(bench.device.idle()).expect("idle");
            let expected: Vec<_> =
                (0..3).flat_map(|round| (0..4).map(move |seed| incremented(seed, round))).collect();
            assert!(*seen.lock().expect("not poisoned") == expected, "{look_ahead}, {steps} steps on");
            bench.check();
        }
    }
}

/// From a megabyte on, host copies take no more than an eighth beyond their bytes.
#[test]
fn pinned_blocks_were_rounded_up_to_powers_of_two() {
    const MIB: u64 = 1 << 20;
    let config = config(Clock::Computed, 0).with_capacity(1 << 30).with_contents(Contents::NotHeld);
    for write_back in [None, Some((10, 50))] {
        let options = Device::options().budget(64 * MIB);
        let options = write_back.map_or(options.clone(), |(low, high)| options.write_back(low, high));
        let bench = Bench::new(config.clone(), options);
        let sizes = [MIB, MIB + 1, 3 * MIB / 2, 2 * MIB + 4096, 4 * MIB + 1, 9 * MIB - 1, 16 * MIB + 512];
        let alloc = |&bytes: &u64| finish(bench.device.alloc(bytes).uninitialised()).expect("room");
        let held: Vec<Buffer> = sizes.iter().map(alloc).collect();
        finish(bench.device.spill_all()).expect("spilled");
        finish(bench.device.idle()).expect("idle");
        let (info, asked) = (bench.info(), sizes.iter().sum::<u64>());
        assert_eq!(info.spills, sizes.len() as u64);
        assert!(info.host_pinned >= asked && info.host_pinned <= asked + asked / 8, "{info:?} for {asked}");
        assert!(
            bench.sim.live_host_bytes() <= asked + asked / 8,
            "{} for {asked}",
            bench.sim.live_host_bytes()
        );
        drop(held);
    }
}

/// Reads and writes each buffer in turn, `passes` times, with launches taken ahead of time.
fn sweep(device: &Device, held: &[Buffer], passes: usize, kernel: Duration) {
    let mut queue = device.launch_queue(4);
    for buffer in held.iter().cycle().take(passes * held.len()) {
        let work = move |run: &Run<'_>| run.host_kernel(kernel, |_| ());
        finish(queue.push([Use::read_write(buffer)], work)).expect("pushed");
    }
    finish(queue.flush()).expect("all");
    finish(device.idle()).expect("idle");
}

/// Blocks are pinned until there are enough, and then no more: pinning makes the host wait for the whole device.
#[test]
fn pinning_on_the_fly_made_every_copy_wait_for_the_device() {
    const BYTES: u64 = 1 << 20;
    let pinning = Pinning { call: Duration::from_micros(100), bandwidth: None, waits: PinningWaits::Device };
    let config = Config::profile("pcie4").expect("a profile").with_contents(Contents::NotHeld);
    let sim = Sim::open(config.with_pinning(pinning)).expect("a device");
    let driver = Fault::new(sim, []);
    let options = Device::options().budget(8 * BYTES);
    let device = options.open_driver("sim", driver.clone()).expect("opened");
    let alloc = |_| finish(device.alloc(BYTES).uninitialised()).expect("room");
    let held: Vec<Buffer> = (0..16).map(alloc).collect();
    let passes = |count: usize| {
        sweep(&device, &held, count, Duration::from_micros(200));
        (driver.calls(Call::AllocateHost), device.memory_info().busy.expect("it can tell"))
    };
    let (pinned, before) = passes(2);
    let (now, after) = passes(8);
    assert_eq!(now, pinned, "blocks were pinned with all of them there");
    let (copy, hidden) = (after.copy - before.copy, after.copy_while_compute - before.copy_while_compute);
    assert!(hidden.as_secs_f64() > 0.9 * copy.as_secs_f64(), "{hidden:?} of {copy:?} were hidden");
}

/// Beyond the limit of pinned memory nothing is pinned on the fly either, no copy makes a thread wait for the device,
/// and copies run beside kernels still.
#[test]
fn beyond_its_limit_memory_was_pinned_on_the_fly_or_copies_waited() {
    const BYTES: u64 = 1 << 20;
    let pinning = Pinning { call: Duration::from_micros(100), bandwidth: None, waits: PinningWaits::Device };
    let config = Config::profile("pcie4").expect("a profile").with_contents(Contents::NotHeld);
    let fault = Fault::new(Sim::open(config.with_pinning(pinning)).expect("a device"), []);
    let driver = Recorder::new(fault.clone());
    let options = Device::options().budget(8 * BYTES).pinned_limit(4 * BYTES);
    let device = options.open_driver("sim", driver.clone()).expect("opened");
    let alloc = |_| finish(device.alloc(BYTES).uninitialised()).expect("room");
    let held: Vec<Buffer> = (0..16).map(alloc).collect();
    let passes = |count: usize| {
        sweep(&device, &held, count, Duration::from_millis(1));
        (fault.calls(Call::AllocateHost), device.memory_info().busy.expect("it can tell"))
    };
    let (pinned, before) = passes(2);
    let (now, after) = passes(8);
    assert_eq!(now, pinned, "memory was pinned with all of it there");
    let info = device.memory_info();
    assert!(info.host_ordinary > 0 && info.host_ring_bytes > 100 * BYTES, "{info:?}");
    assert!(info.host_pinned + info.host_spare <= 4 * BYTES, "{info:?}");
    let calls = driver.take();
    assert!(calls.iter().any(|call| call == "copy_in") && calls.iter().any(|call| call == "copy_out"));
    assert!(!calls.iter().any(|call| call.contains("ordinary")), "the driver was given ordinary memory");
    let (copy, hidden) = (after.copy - before.copy, after.copy_while_compute - before.copy_while_compute);
    println!("{hidden:?} of {copy:?} were hidden");
    assert!(hidden.as_secs_f64() > 0.9 * copy.as_secs_f64(), "{hidden:?} of {copy:?} were hidden");
}
