//! A host copy in a few runs: each is a copy of its own, and any of them may be refused.

use crate::bench::{
    Bench, CLOCKS, MIB, READS, RESTORE, SPILL, assert_bytes, finish, finish_polled, pattern, poll_once,
};
use std::{pin::pin, time::Duration};
use tack_residency::{
    Device, Use,
    driver::{
        DriverErrorKind,
        fault::{Call, Effect, Step},
        sim::Clock,
    },
};

const REFUSED: Effect = Effect::Refuse(DriverErrorKind::Refused);
/// What the buffers of these tests take: three runs of the gaps that `Bench::split` leaves.
const BYTES: u64 = 3 * MIB;

/// A device whose pinned memory, of 6 MiB, has three gaps of 1 MiB, and a buffer to be spilled into them. Its next call
/// of a kind but `passed` is refused, if one is named.
fn split(
    clock: Clock,
    refused: Option<(Call, u64)>,
) -> (Bench, Vec<tack_residency::Buffer>, tack_residency::Buffer) {
    let prepare = |steps: &[Step]| {
        let bench = Bench::new(clock, Device::options().budget(16 * MIB).host_limit(6 * MIB), steps);
        let buffer = bench.buffer(BYTES, 100);
        let held = bench.split(6);
        (bench, held, buffer)
    };
    let Some((call, passed)) = refused else { return prepare(&[]) };
    let calls = prepare(&[]).0.fault.calls(call);
    prepare(&[Step::new(call, calls + passed, REFUSED)])
}

#[test]
fn a_copy_in_three_runs_comes_back_whole_and_any_part_of_it_is_read_and_written() {
    for clock in CLOCKS {
        let (bench, held, buffer) = split(clock, None);
        let calls = || [Call::CopyOut, Call::CopyIn].map(|call| bench.fault.calls(call));
        let before = calls();
        finish(buffer.spill()).expect("spilled");
        assert_eq!((calls()[0] - before[0], bench.info().host_most_runs), (3, 3));
        assert_eq!((bench.info().host_pinned, bench.info().host_spare), (6 * MIB, 0));
        assert_eq!(bench.info().host_runs, 6);
        let mut expected = pattern(BYTES, 100);
        for (offset, bytes) in [(0, BYTES), (MIB - 3, 7), (MIB, MIB), (5, 2 * MIB), (BYTES - 1, 1)] {
            let view = buffer.view(offset, bytes).expect("a part");
            let (from, to) = (offset as usize, (offset + bytes) as usize);
            assert!(
                finish(view.read()).expect("read") == expected[from..to],
                "{clock:?}: {bytes} at {offset}"
            );
            let written = pattern(bytes, 50);
            finish(view.write(written.clone())).expect("written where it is");
            expected[from..to].copy_from_slice(&written);
            let view = buffer.view(offset + bytes / 2, 1).expect("a part");
            finish(view.fill(9)).expect("filled where it is");
            expected[(offset + bytes / 2) as usize] = 9;
        }
        assert_bytes("spilled", &buffer, &expected);
        bench.dirty(&buffer);
        assert_eq!(calls()[1] - before[1], 3);
        assert_bytes("restored", &buffer, &expected);
        for (part, buffer) in (0..).zip(&held) {
            assert_bytes("beside it", buffer, &pattern(MIB, 2 * part + 1));
        }
        bench.check();
        drop((held, buffer));
        bench.check_gone();
    }
}

#[test]
fn a_spill_refused_at_its_second_run_gave_back_what_the_first_still_writes() {
    for clock in CLOCKS {
        for (passed, dropped) in [(0, false), (1, false), (2, false), (1, true), (2, true)] {
            let (bench, held, buffer) = split(clock, Some((Call::CopyOut, passed)));
            bench.sim.hold(SPILL).expect("a queue");
            let mut spill = Box::pin(buffer.spill());
            let error = loop {
                match poll_once(spill.as_mut()) {
                    std::task::Poll::Ready(outcome) => break outcome.expect_err("refused"),
                    std::task::Poll::Pending => std::thread::yield_now(),
                }
            };
            assert_eq!(error.kind(), tack_residency::ErrorKind::Refused, "{error}");
            drop(spill);
            // The runs that were queued are taken still, the others are not.
            assert_eq!(
                bench.info().host_pinned,
                (3 + if passed > 0 { 3 } else { 0 }) * MIB,
                "{clock:?}, {passed}"
            );
            // What the device will read is kept, though no one has a handle of it.
            let buffer = if dropped {
                drop(buffer);
                None
            } else {
                Some(buffer)
            };
            bench.sim.release(SPILL).expect("a queue");
            finish(bench.device.idle()).expect("idle");
            bench.check();
            assert_eq!(bench.info().host_pinned, 3 * MIB);
            if let Some(buffer) = &buffer {
                finish(buffer.spill()).expect("spilled at the second try");
                assert_bytes("spilled", buffer, &pattern(BYTES, 100));
            }
            for (part, buffer) in (0..).zip(&held) {
                assert_bytes("beside it", buffer, &pattern(MIB, 2 * part + 1));
            }
            drop((held, buffer));
            bench.check_gone();
        }
    }
}

#[test]
fn a_restore_refused_at_its_second_run_freed_what_the_first_still_writes() {
    for clock in CLOCKS {
        for (passed, dropped) in [(0, false), (1, false), (2, false), (1, true), (2, true)] {
            let (bench, held, buffer) = split(clock, Some((Call::CopyIn, passed)));
            finish(buffer.spill()).expect("spilled");
            bench.sim.hold(RESTORE).expect("a queue");
            let error = finish(bench.device.prepare([Use::read(&buffer)])).map(drop).expect_err("refused");
            assert_eq!(error.kind(), tack_residency::ErrorKind::Refused, "{error}");
            let buffer = if dropped {
                drop(buffer);
                None
            } else {
                Some(buffer)
            };
            let kept = if passed > 0 || !dropped { 6 } else { 3 };
            assert_eq!(bench.info().host_pinned, kept * MIB, "{clock:?}, {passed}, {dropped}");
            bench.sim.release(RESTORE).expect("a queue");
            finish(bench.device.idle()).expect("idle");
            bench.check();
            if let Some(buffer) = &buffer {
                assert_bytes("spilled", buffer, &pattern(BYTES, 100));
                bench.dirty(buffer);
                assert_bytes("restored at the second try", buffer, &pattern(BYTES, 100));
            }
            drop((held, buffer));
            bench.check_gone();
        }
    }
}

#[test]
fn a_read_or_a_write_refused_at_its_second_run_left_half_of_it_or_none() {
    for clock in CLOCKS {
        for passed in 0..3 {
            let (bench, held, buffer) = split(clock, Some((Call::CopyOut, passed)));
            finish(buffer.read()).expect_err("refused");
            finish(bench.device.idle()).expect("idle");
            assert_eq!(bench.info().host_pinned, 3 * MIB);
            assert_bytes("at the second try", &buffer, &pattern(BYTES, 100));
            drop((held, buffer));
            bench.check_gone();

            let (bench, held, buffer) = split(clock, Some((Call::CopyIn, passed)));
            let written = finish(buffer.write(pattern(BYTES, 7)));
            // Nothing was queued of a write that failed; of one that had begun the rest was tried again.
            assert_eq!(written.is_ok(), passed > 0, "{clock:?}, {passed}: {written:?}");
            let seed = if passed > 0 { 7 } else { 100 };
            finish(bench.device.idle()).expect("its staging is back");
            assert_bytes("written or not", &buffer, &pattern(BYTES, seed));
            finish(bench.device.idle()).expect("idle");
            assert_eq!(bench.info().host_pinned, 3 * MIB);
            drop((held, buffer));
            bench.check_gone();
        }
    }
}

#[test]
fn a_launch_waited_for_ever_for_the_rest_of_a_write_that_only_its_own_thread_would_have_tried_again() {
    for clock in CLOCKS {
        let refusals = 3;
        let calls = split(clock, None).0.fault.calls(Call::CopyIn);
        let steps: Vec<_> =
            (0..refusals).map(|step| Step::new(Call::CopyIn, calls + 1 + step, REFUSED)).collect();
        let bench = Bench::new(clock, Device::options().budget(16 * MIB).host_limit(6 * MIB), &steps);
        let buffer = bench.buffer(BYTES, 100);
        let held = bench.split(6);
        let launch = finish(bench.device.prepare([Use::read_write(&buffer)])).expect("room");
        let mut write = Box::pin(buffer.write(pattern(BYTES, 7)));
        let polled = poll_once(write.as_mut());
        launch
            .submit(|run| {
                run.host_kernel(Duration::ZERO, |args| {
                    args[0].bytes_mut().iter_mut().for_each(|byte| *byte ^= 1)
                })
            })
            .expect("queued behind the write");
        finish_polled(polled, write).expect("written, the rest at the fourth try");
        finish(bench.device.idle()).expect("its staging is back");
        let expected: Vec<_> = pattern(BYTES, 7).iter().map(|byte| byte ^ 1).collect();
        assert_bytes("written, then launched", &buffer, &expected);
        drop((held, buffer));
        bench.check_gone();
    }
}

#[test]
fn a_read_dropped_with_its_copies_queued_gave_its_runs_to_another() {
    for clock in CLOCKS {
        let (bench, held, buffer) = split(clock, None);
        READS.into_iter().for_each(|queue| bench.sim.hold(queue).expect("a queue"));
        {
            let mut read = pin!(buffer.read());
            assert!(poll_once(read.as_mut()).is_pending());
        }
        assert_eq!(bench.info().host_pinned, 6 * MIB, "{clock:?}: the device will write there");
        READS.into_iter().for_each(|queue| bench.sim.release(queue).expect("a queue"));
        finish(bench.device.idle()).expect("idle");
        assert_eq!(bench.info().host_pinned, 3 * MIB);
        drop((held, buffer));
        bench.check_gone();
    }
}
