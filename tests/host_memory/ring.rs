//! Beyond the limit of pinned memory, spills and restores go on through the rings into ordinary memory.

use crate::{
    bench::{Bench, CLOCKS, RESTORE, SPILL, assert_bytes, finish, finish_polled, pattern, poll_once},
    pieces::Change,
};
use std::{pin::pin, time::Duration};
use tack_residency::{
    Buffer, Device, ErrorKind, Options, Use,
    driver::{
        DriverErrorKind,
        fault::{Call, Effect, Step},
        sim::Clock,
    },
};

/// What the buffers of these tests take: sixteen chunks of the limit below, and more than all of that.
const BYTES: u64 = 64 << 10;
const LIMIT: u64 = BYTES;

fn options() -> Options {
    Device::options().budget(8 * BYTES).pinned_limit(LIMIT)
}

#[test]
fn the_pinned_pool_ran_out_and_the_spill_failed() {
    for clock in CLOCKS {
        let bench = Bench::new(clock, options(), &[]);
        let held: Vec<Buffer> = (0..8).map(|seed| bench.buffer(BYTES, seed)).collect();
        finish(bench.device.spill_all()).expect("spilled");
        let info = bench.info();
        assert_eq!(
            (info.spilled, info.host_ordinary, info.host_pinned),
            (8 * BYTES, 8 * BYTES, 0),
            "{info:?}"
        );
        assert_eq!(info.host_ring_bytes, 8 * BYTES, "{info}");
        assert!(info.to_string().contains(", not pinned 512.0 KiB, copied by the host 512.0 KiB"), "{info}");
        assert!(bench.sim.live_host_bytes() <= LIMIT, "{} are pinned", bench.sim.live_host_bytes());
        for (seed, buffer) in (0..).zip(&held) {
            assert_bytes("spilled", buffer, &pattern(BYTES, seed));
            bench.dirty(buffer);
            assert_bytes("restored", buffer, &pattern(BYTES, seed));
        }
        assert_eq!(bench.info().host_ring_bytes, 16 * BYTES);
        assert_eq!(bench.info().host_ordinary, 0);
        bench.check();
        drop(held);
        bench.check_gone();
    }
}

#[test]
fn what_was_within_the_limit_was_not_pinned_or_took_it_beyond() {
    let bench = Bench::new(Clock::Computed, options(), &[]);
    let held: Vec<Buffer> = (0..20).map(|seed| bench.buffer(BYTES / 16, seed)).collect();
    finish(bench.device.spill_all()).expect("spilled");
    let info = bench.info();
    // Six chunks of a sixteenth each are for the rings.
    assert_eq!((info.host_pinned, info.host_ordinary), (10 * BYTES / 16, 10 * BYTES / 16), "{info:?}");
    assert!(info.host_pinned + info.host_spare <= LIMIT, "{info:?}");
    for (seed, buffer) in (0..).zip(&held) {
        bench.dirty(buffer);
        assert_bytes("restored", buffer, &pattern(BYTES / 16, seed));
    }
    drop(held);
    bench.check_gone();
}

#[test]
fn all_memory_of_the_host_was_not_kept_to_its_limit() {
    let bench = Bench::new(Clock::Computed, options().host_limit(3 * BYTES), &[]);
    let held: Vec<Buffer> = (0..4).map(|seed| bench.buffer(BYTES, seed)).collect();
    finish(held[0].spill()).expect("spilled");
    finish(held[1].spill()).expect("spilled");
    let error = finish(held[2].spill()).expect_err("more than the limit");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    let info = bench.info();
    assert!(info.host_ordinary + info.host_pinned + info.host_spare <= 3 * BYTES, "{info:?}");
    bench.dirty(&held[0]);
    finish(held[2].spill()).expect("there is room now");
    for seed in [2, 1, 0, 3] {
        let buffer = &held[usize::from(seed)];
        bench.dirty(buffer);
        assert_bytes("after all", buffer, &pattern(BYTES, seed));
    }
    drop(held);
    bench.check_gone();
}

#[test]
fn a_driver_that_refused_to_pin_failed_the_spill() {
    for clock in CLOCKS {
        for kind in [DriverErrorKind::OutOfMemory, DriverErrorKind::Refused] {
            for refused in [1, 2, 3, 4, 200] {
                let steps: Vec<_> = (0..refused)
                    .map(|nth| Step::new(Call::AllocateHost, nth, Effect::Refuse(kind)))
                    .collect();
                let bench = Bench::new(clock, Device::options().budget(8 * BYTES), &steps);
                let buffer = bench.buffer(BYTES, 1);
                for _ in 0..3 {
                    finish(buffer.spill()).expect("spilled");
                    assert_bytes("spilled", &buffer, &pattern(BYTES, 1));
                    bench.dirty(&buffer);
                }
                if refused == 200 {
                    let info = bench.info();
                    // The driver was given the ordinary memory itself.
                    assert_eq!((info.host_ring_bytes, bench.sim.live_host_bytes()), (0, 0), "{info:?}");
                }
                assert_bytes("restored", &buffer, &pattern(BYTES, 1));
                drop(buffer);
                bench.check_gone();
            }
        }
    }
}

#[test]
fn host_reads_and_writes_beyond_the_limit_failed() {
    for clock in CLOCKS {
        let bench = Bench::new(clock, options(), &[]);
        let buffer = bench.buffer(4 * BYTES, 1);
        assert_bytes("resident", &buffer, &pattern(4 * BYTES, 1));
        assert!(bench.info().host_spare <= LIMIT);
        drop(buffer);
        bench.check_gone();
    }
}

#[test]
fn one_direction_waited_for_the_chunks_of_the_other_or_a_thread_for_any() {
    for clock in CLOCKS {
        let bench = Bench::new(clock, options(), &[]);
        let [there, here, other] = [1, 2, 3].map(|seed| bench.buffer(BYTES, seed));
        finish(there.spill()).expect("spilled");
        bench.sim.hold(SPILL).expect("a queue");
        let [mut spill, mut behind] = [&here, &other].map(|buffer| Box::pin(buffer.spill()));
        assert!(poll_once(spill.as_mut()).is_pending() && poll_once(behind.as_mut()).is_pending());
        drop(finish(bench.device.prepare([Use::read(&there)])).expect("restored"));
        bench.sim.release(SPILL).expect("a queue");
        finish(spill).expect("spilled");
        finish(behind).expect("spilled");
        // The first one's restore has ended, or its spill would wait for that.
        finish(bench.device.idle()).expect("idle");
        bench.sim.hold(RESTORE).expect("a queue");
        let mut back = [&here, &other].map(|buffer| Box::pin(bench.device.prepare([Use::read(buffer)])));
        for back in &mut back {
            let polled = poll_once(back.as_mut()).map_err(|error| error.to_string());
            assert!(polled.is_pending(), "{clock:?}: {polled:?}, {:?}", bench.info());
        }
        finish(there.spill()).expect("spilled");
        bench.sim.release(RESTORE).expect("a queue");
        back.into_iter().for_each(|back| drop(finish(back).expect("restored")));
        for (seed, buffer) in [(1, &there), (2, &here), (3, &other)] {
            assert_bytes("after all", buffer, &pattern(BYTES, seed));
        }
        drop((there, here, other));
        bench.check_gone();
    }
}

#[test]
fn what_was_used_in_the_midst_of_a_restore_through_the_ring_lost_bytes() {
    for (clock, steps) in CLOCKS.into_iter().flat_map(|clock| (0..20).map(move |steps| (clock, steps))) {
        for change in Change::ALL {
            let what = format!("{clock:?}, {steps}: {change:?}");
            let bench = Bench::new(clock, options(), &[]);
            let buffer = bench.buffer(BYTES, 1);
            finish(buffer.spill()).expect("spilled");
            let mut restore = Box::pin(bench.device.prepare([Use::read(&buffer)]));
            let over = poll_once(restore.as_mut()).is_ready();
            (0..steps).for_each(|_| _ = poll_once(pin!(bench.device.idle())));
            (0..steps).for_each(|_| _ = bench.device.driver().advance());
            assert!(!over || clock == Clock::Real, "{what}: there are three chunks");
            if steps % 2 == 0 {
                drop(restore);
            } else if !over {
                drop(finish(restore).expect("restored"));
            }
            change.make(&what, &bench, buffer, pattern(BYTES, 1));
            bench.check_gone();
        }
    }
}

#[test]
fn a_refused_call_or_a_lost_device_left_a_restore_through_the_ring_half_way() {
    let calls = [Call::AllocateHost, Call::Wait, Call::CopyOut, Call::CopyIn, Call::Record, Call::IsPassed];
    for (clock, call) in CLOCKS.into_iter().flat_map(|clock| calls.map(|call| (clock, call))) {
        let every = if clock == Clock::Computed { 1 } else { 4 };
        for nth in (0..48).step_by(every) {
            for effect in [Effect::Refuse(DriverErrorKind::Refused), Effect::Lose] {
                one_refused(clock, Step::new(call, nth, effect));
            }
        }
    }
}

/// Two buffers go out and come back, and one call fails.
fn one_refused(clock: Clock, step: Step) {
    let what = format!("{clock:?}, {step:?}");
    let bench = Bench::new(clock, options(), &[step]);
    let is_lost = |error: &tack_residency::Error| {
        assert!(error.kind() == ErrorKind::DeviceLost || step.effect != Effect::Lose, "{what}: {error}");
        error.kind() == ErrorKind::DeviceLost
    };
    let again = |call: &dyn Fn() -> tack_residency::Result<()>| match call() {
        Err(error) if !is_lost(&error) => call().unwrap_or_else(|error| panic!("{what}: {error}")),
        _ => {}
    };
    let mut made = Vec::new();
    for seed in [1, 2] {
        let Ok(buffer) = finish(bench.device.alloc(BYTES)).or_else(|_| finish(bench.device.alloc(BYTES)))
        else {
            continue;
        };
        again(&|| finish(buffer.write(pattern(BYTES, seed))));
        made.push(buffer);
    }
    again(&|| finish(bench.device.spill_all()).map(drop));
    again(&|| finish(bench.device.prepare(made.iter().map(Use::read).collect::<Vec<_>>())).map(drop));
    for (seed, buffer) in (1..).zip(&made) {
        match finish(buffer.read()).or_else(|_| finish(buffer.read())) {
            Ok(bytes) => {
                assert!(bytes == pattern(BYTES, seed) || step.effect == Effect::Lose, "{what}: wrong bytes")
            }
            Err(error) => assert!(is_lost(&error), "{what}: {error}"),
        }
    }
    bench.check_after(&what, made, step);
}

#[test]
fn a_budget_lowered_or_a_device_dropped_in_the_midst_left_copies_behind() {
    for (clock, steps) in CLOCKS.into_iter().flat_map(|clock| (0..12).map(move |steps| (clock, steps))) {
        let bench = Bench::new(clock, options(), &[]);
        let held: Vec<Buffer> = (0..6).map(|seed| bench.buffer(BYTES, seed)).collect();
        bench.device.set_budget(Some(3 * BYTES));
        (0..steps).for_each(|_| _ = bench.device.driver().advance());
        bench.device.set_budget(Some(6 * BYTES));
        let mut back = Box::pin(bench.device.prepare(held.iter().map(Use::read).collect::<Vec<_>>()));
        let _ = poll_once(back.as_mut());
        (0..steps).for_each(|_| _ = bench.device.driver().advance());
        bench.device.set_budget(Some(2 * BYTES));
        drop(back);
        for (seed, buffer) in (0..).zip(&held) {
            assert_bytes(&format!("{clock:?}, {steps}"), buffer, &pattern(BYTES, seed));
        }
        let _ = poll_once(pin!(bench.device.spill_all()));
        drop(held);
        let sim = bench.close("in the midst of spills");
        assert_eq!((sim.live_bytes(), sim.faults()), (0, vec![]));
    }
}

#[test]
fn a_launch_given_room_waited_for_a_device_that_waited_for_it() {
    for clock in CLOCKS {
        let bench = Bench::new(clock, options(), &[]);
        let buffer = bench.buffer(BYTES, 1);
        finish(buffer.spill()).expect("spilled");
        // The first is to overwrite the whole, and the second asks for what was there before it has.
        let first = finish(bench.device.prepare([Use::write(&buffer)])).expect("room");
        let mut second = pin!(bench.device.prepare([Use::read(&buffer)]));
        let polled = poll_once(second.as_mut());
        first
            .submit(|run| run.host_kernel(Duration::ZERO, |args| args[0].bytes_mut().fill(5)))
            .expect("queued");
        drop(finish_polled(polled, second).expect("there"));
        assert_bytes("overwritten", &buffer, &vec![5; BYTES as usize]);
        drop(buffer);
        bench.check_gone();
    }
}
