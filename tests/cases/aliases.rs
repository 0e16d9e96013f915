//! Handles, views, guards and exports of one buffer, and what each of them keeps from moving.

use crate::bench::{Bench, CLOCKS, Random, UNIT, assert_bytes, finish, pattern, poll_once, watched};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};
use tack_residency::{
    Error, ErrorKind, Use, View,
    driver::{Driver, QueueRole, sim::Clock},
};

#[test]
fn an_alias_was_made_while_the_original_was_being_spilled() {
    watched(|| {
        let bench = Bench::tight(Clock::Real, 2);
        let a = bench.buffer(1);
        let stop = Arc::new(AtomicBool::new(false));
        let (spilled, stopped) = (a.clone(), stop.clone());
        let spiller = thread::spawn(move || {
            let mut bytes = 0;
            while !stopped.load(Ordering::Acquire) {
                bytes += finish(spilled.spill()).expect("spilled");
            }
            bytes
        });
        let mut random = Random(7);
        for round in 0..400 {
            let clone = a.clone();
            let (at, bytes) = (random.below(UNIT), 1 + random.below(16));
            let view = clone.view(at.min(UNIT - bytes), bytes).expect("within");
            drop(clone);
            let again = view.view(0, bytes).expect("within").clone();
            drop(view);
            if round % 3 == 0 {
                drop(finish(again.ensure_resident()).expect("resident"));
            }
            let from = again.offset() as usize;
            assert_eq!(finish(again.read()).expect("read"), &pattern(1)[from..from + bytes as usize]);
        }
        stop.store(true, Ordering::Release);
        assert!(spiller.join().expect("it ends") > 0, "nothing was spilled meanwhile");
        assert_eq!(bench.info().buffers, 1);
        assert_bytes("after all", &a, &pattern(1));
        drop(a);
        bench.check_empty();
    });
}

#[test]
fn views_were_counted_each_on_their_own_and_spilling_one_freed_nothing() {
    for clock in CLOCKS {
        let bench = Bench::tight(clock, 2);
        let a = bench.buffer(1);
        let views: Vec<View> = (0..10).map(|at| a.view(at * 400, 400).expect("within")).collect();
        assert_eq!((bench.info().in_use, bench.info().buffers), (UNIT, 1));
        assert_eq!(finish(views[3].buffer().spill()).expect("spilled"), UNIT);
        for view in &views {
            assert!(view.buffer().is_spilled());
            assert_eq!(finish(view.buffer().spill()).expect("spilled already"), 0);
        }
        let info = bench.info();
        assert_eq!((info.in_use, info.spilled, info.spills, info.spilled_bytes), (0, UNIT, 1, UNIT));
        // All in one launch: it comes back once, and is pinned until each of them has let go.
        let uses: Vec<Use<'_>> = views.iter().map(Use::read).collect();
        let launch = finish(bench.device.prepare(uses)).expect("resident");
        assert_eq!((bench.info().restores, bench.info().pinned, bench.info().in_use), (1, UNIT, UNIT));
        assert_eq!(finish(a.spill()).expect("pinned"), 0);
        launch
            .submit(|run| {
                let starts = (0..10).map(|index| run.ptr(index).as_raw() - run.ptr(0).as_raw());
                assert!(
                    starts.eq((0..10).map(|at| at * 400)),
                    "each pointer is the buffer's plus the offset"
                );
                Ok::<(), Error>(())
            })
            .expect("submitted");
        assert_eq!(bench.info().pinned, 0);
        drop(a);
        assert_eq!(bench.info().in_use, UNIT, "the views keep it");
        assert_eq!(finish(views[0].buffer().spill()).expect("spilled"), UNIT);
        drop(views);
        bench.check_empty();
    }
}

#[test]
fn a_view_that_is_written_lost_the_rest_of_its_spilled_buffer() {
    for clock in CLOCKS {
        let bench = Bench::tight(clock, 2);
        let a = bench.buffer(1);
        let [left, right, whole] =
            [(0, 2048), (2048, 2048), (0, UNIT)].map(|(at, bytes)| a.view(at, bytes).expect("within"));
        let mut expected = pattern(1);
        for (uses, range) in [
            (vec![Use::write(&right)], 2048..4096),
            (vec![Use::write(&left), Use::read(&right)], 0..2048),
            (vec![Use::write(&whole)], 0..4096),
        ] {
            finish(a.spill()).expect("spilled");
            let copied_in = bench.info().copied_in_bytes;
            let is_whole = range.len() as u64 == UNIT;
            let value = range.start as u8 + range.len() as u8 + 5;
            finish(bench.device.prepare(uses))
                .expect("resident")
                .submit(|run| {
                    run.host_kernel(Default::default(), move |args| args[0].bytes_mut().fill(value))
                })
                .expect("queued");
            expected[range].fill(value);
            assert_bytes("written in part", &a, &expected);
            assert_eq!(bench.info().copied_in_bytes - copied_in, if is_whole { 0 } else { UNIT });
        }
        bench.check();
    }
}

#[test]
fn a_read_back_to_the_host_left_the_buffer_unspillable_for_ever() {
    for clock in CLOCKS {
        let bench = Bench::tight(clock, 2);
        let a = bench.buffer(1);
        let expect_spill = |what: &str| {
            assert_eq!(bench.info().pinned, 0, "{clock:?}: {what} kept a pin");
            assert_eq!(finish(a.spill()).expect("spilled"), UNIT, "{clock:?}: unspillable after {what}");
            drop(finish(a.ensure_resident()).expect("resident"));
            bench.check();
        };
        finish(a.read()).expect("read");
        expect_spill("a read");
        finish(a.view(5, 9).expect("within").read()).expect("read");
        expect_spill("a view's read");
        let mut read = Box::pin(a.read());
        let _ = poll_once(read.as_mut());
        drop(read);
        expect_spill("a dropped read");
        let mut read = Box::pin(a.read());
        let _ = poll_once(read.as_mut());
        std::mem::forget(read);
        expect_spill("a forgotten read");
        let _ = a.read().try_now();
        expect_spill("a read tried");
        finish(a.write(pattern(1))).expect("written");
        expect_spill("a write");
        drop(finish(bench.device.prepare([Use::read(&a), Use::read(&a)])).expect("resident"));
        expect_spill("a launch dropped");
        let launch = finish(bench.device.prepare([Use::read(&a)])).expect("resident");
        launch.submit(|_| Err::<(), _>(Error::from(refusal()))).expect_err("refused by the caller");
        expect_spill("a launch refused");
        let launch = finish(bench.device.prepare([Use::read(&a)])).expect("resident");
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            launch.submit(|_| -> Result<(), Error> { panic!("on purpose") })
        }));
        assert!(panicked.is_err());
        expect_spill("a launch that panicked");
        drop(finish(a.ensure_resident()).expect("resident"));
        expect_spill("a guard");
        let guard = finish(a.ensure_resident()).expect("resident");
        guard.used_on(&bench.device.queue()).expect("its queue");
        expect_spill("a guard used on a queue");
        drop(finish(a.export()).expect("exported"));
        expect_spill("an export");
        let export = finish(a.export()).expect("exported");
        export.end_after(&bench.device.queue()).expect("its queue");
        expect_spill("an export ended on a queue");
        assert_bytes("after all", &a, &pattern(1));
    }
}

fn refusal() -> tack_residency::driver::DriverError {
    let kind = tack_residency::driver::DriverErrorKind::Refused;
    tack_residency::driver::DriverError::new(kind, "cuLaunchKernel", 1, "on purpose")
}

#[test]
fn an_exported_buffer_was_spilled_and_no_report_said_why_it_was_not() {
    for clock in CLOCKS {
        let bench = Bench::tight(clock, 3);
        let [a, b, c] = [1, 2, 3].map(|seed| bench.buffer(seed));
        let (first, second) = (finish(a.export()).expect("exported"), finish(a.export()).expect("exported"));
        let other = finish(b.export()).expect("exported");
        let at = first.ptr();
        assert_eq!((second.ptr(), bench.info().exported), (at, 2 * UNIT), "counted once for each buffer");
        assert_eq!(finish(a.spill()).expect("stays"), 0);
        assert_eq!(finish(bench.device.spill_all()).expect("the other goes"), UNIT);
        assert!(c.is_spilled() && !a.is_spilled() && !b.is_spilled());
        let error = finish(bench.device.alloc(2 * UNIT)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Blocked, "{error}");
        assert!(error.is_retryable());
        let named: Vec<_> =
            error.holders().iter().map(|holder| (holder.tag.as_str(), holder.bytes)).collect();
        assert_eq!(named, [("buffer 1", UNIT), ("buffer 2", UNIT)], "{error}");
        assert!(error.holders().iter().all(|holder| holder.stays.as_deref() == Some("exported")), "{error}");
        assert!(error.to_string().contains("buffer 1") && error.to_string().contains("buffer 2"), "{error}");
        let report = bench.device.largest_holders(9);
        let said = report.iter().filter(|holder| holder.stays.as_deref() == Some("exported"));
        assert_eq!(said.count(), 2, "{report:?}");
        drop(first);
        assert_eq!(finish(a.spill()).expect("the second one keeps it"), 0);
        // Someone else writes through it; the end says where.
        second.end_after(&bench.device.queue()).expect("its queue");
        assert_eq!(bench.info().exported, UNIT);
        assert_eq!(finish(a.spill()).expect("spilled"), UNIT);
        drop(other);
        finish(bench.device.alloc(2 * UNIT)).map(drop).expect("room");
        for (seed, buffer) in (1..).zip([&a, &b, &c]) {
            assert_bytes("handed out and back", buffer, &pattern(seed));
        }
        bench.check();
    }
}

/// The same, on a stream that the crate knows nothing of either: the host, a spill and a free wait for it.
#[test]
fn what_another_library_still_wrote_on_its_own_stream_was_lost_once_its_export_had_ended() {
    let bench = Bench::tight(Clock::Real, 4);
    let [spilled, read, dropped, other] = [1, 2, 3, 4].map(|seed| bench.buffer(seed));
    let stranger = bench.sim.create_queue(QueueRole::Compute).expect("a stream");
    bench.hold(&[stranger]);
    for buffer in [&spilled, &read, &dropped] {
        let export = finish(buffer.export()).expect("exported");
        bench.sim.fill(stranger, export.ptr(), UNIT, 0xEE).expect("queued");
    }
    drop(dropped);
    let (mut spill, mut bytes) = (Box::pin(spilled.spill()), Box::pin(read.read()));
    crate::bench::still_waits(spill.as_mut());
    crate::bench::still_waits(bytes.as_mut());
    assert_eq!(finish(other.read()).expect("read"), pattern(4));
    bench.release(&[stranger]);
    assert_eq!(finish(spill).expect("spilled"), UNIT);
    assert_eq!(finish(bytes).expect("read"), [0xEE; UNIT as usize]);
    assert_bytes("written by another library", &spilled, &[0xEE; UNIT as usize]);
    drop([spilled, read, other]);
    bench.check_empty();
}

/// A writer that the crate knows nothing of, through a pointer handed out.
#[test]
fn what_was_written_through_an_export_was_lost_by_the_next_spill() {
    for clock in CLOCKS {
        for ended_on in [false, true] {
            let bench = Bench::tight(clock, 2);
            let further = bench.device.add_queue().expect("a queue");
            let a = bench.buffer(1);
            finish(a.spill()).expect("spilled");
            drop(finish(bench.device.prepare([Use::read(&a)])).expect("resident")); // clean
            finish(bench.device.idle()).expect("idle");
            let export = finish(a.export()).expect("exported");
            bench.hold(&[further.id()]);
            let kernel = tack_residency::driver::HostKernel::new(Default::default(), |args| {
                args[0].bytes_mut().fill(0xEE);
            });
            let kernel = kernel.arg(export.ptr(), UNIT, tack_residency::driver::ArgAccess::Write);
            bench.device.driver().launch_host(further.id(), kernel).expect("queued");
            if ended_on {
                export.end_after(&further).expect("its queue")
            } else {
                drop(export)
            }
            let mut spill = Box::pin(a.spill());
            crate::bench::still_waits(spill.as_mut());
            bench.release(&[further.id()]);
            assert_eq!(finish(spill).expect("spilled"), UNIT);
            assert_bytes("written by another library", &a, &[0xEE; UNIT as usize]);
            bench.check();
        }
    }
}
