//! Calls that wait no longer than told, or not at all.

use crate::bench::{Bench, CLOCKS, COMPUTE, RESTORE, SPILL, UNIT, assert_bytes, finish, pattern};
use std::{
    future::Future,
    pin::Pin,
    time::{Duration, Instant},
};
use tack_residency::{ErrorKind, Result, Use};

const SOON: Duration = Duration::from_millis(30);

#[test]
fn a_deadline_passed_and_the_call_went_on_waiting() {
    for clock in CLOCKS {
        let bench = Bench::tight(clock, 2);
        let (spilled, a, b) = (bench.buffer(3), bench.buffer(1), bench.buffer(2));
        assert!(spilled.is_spilled());
        bench.hold(&[COMPUTE, SPILL, RESTORE]);
        bench.increment(&bench.device.queue(), &a);
        let device = bench.device.clone();
        type Call<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;
        let calls: Vec<(&str, Call<'_>)> = vec![
            ("alloc", Box::pin(async { device.alloc(UNIT).within(SOON).await.map(drop) })),
            ("read", Box::pin(async { a.read().within(SOON).await.map(drop) })),
            (
                "prepare",
                Box::pin(async { device.prepare([Use::read(&spilled)]).within(SOON).await.map(drop) }),
            ),
            ("ensure_resident", Box::pin(async { spilled.ensure_resident().within(SOON).await.map(drop) })),
            ("export", Box::pin(async { spilled.export().within(SOON).await.map(drop) })),
            ("copy_to", Box::pin(async { spilled.copy_to(&b).within(SOON).await })),
            ("spill", Box::pin(async { a.spill().within(SOON).await.map(drop) })),
            ("spill_all", Box::pin(async { device.spill_all().within(SOON).await.map(drop) })),
            ("make_room", Box::pin(async { device.make_room(2 * UNIT).within(SOON).await })),
            ("idle", Box::pin(async { device.idle().within(SOON).await })),
        ];
        for (name, call) in calls {
            let (started, start) = (Instant::now(), device.driver().now());
            let error = finish(call).expect_err(name);
            assert_eq!(error.kind(), ErrorKind::TimedOut, "{clock:?}, {name}: {error}");
            assert!(error.is_retryable() && error.device() == Some("bench"), "{name}");
            let waited = device.driver().now() - start;
            assert!(waited >= SOON, "{clock:?}, {name}: given up after {waited:?}");
            assert!(started.elapsed() < Duration::from_secs(20), "{clock:?}, {name}");
            if device.driver().caps().computed_clock {
                assert!(waited < 2 * SOON, "{name}: computed time went on by {waited:?}");
            }
        }
        bench.release(&[COMPUTE, SPILL, RESTORE]);
        finish(device.idle().within(Duration::from_secs(60))).expect("in time");
        let expected: Vec<u8> = pattern(1).iter().map(|byte| byte.wrapping_add(1)).collect();
        assert_bytes("a", &a, &expected);
        assert_bytes("b", &b, &pattern(2));
        drop((a, b, spilled));
        bench.check_empty();
    }
}

#[test]
fn a_call_that_would_have_had_to_wait_was_done_after_all() {
    for clock in CLOCKS {
        let bench = Bench::tight(clock, 2);
        let (spilled, a, b) = (bench.buffer(3), bench.buffer(1), bench.buffer(2));
        bench.hold(&[COMPUTE, SPILL, RESTORE]);
        let device = &bench.device;
        let before = bench.info();
        let refused = [
            device.alloc(UNIT).try_now().map(drop),
            a.read().try_now().map(drop),
            device.prepare([Use::read(&spilled)]).try_now().map(drop),
            device.prepare([Use::read_write(&spilled), Use::read(&a)]).try_now().map(drop),
            spilled.ensure_resident().try_now().map(drop),
            spilled.export().try_now().map(drop),
            b.copy_to(&spilled).try_now(),
            b.spill().try_now().map(drop),
            device.make_room(UNIT).try_now(),
            device.idle().try_now(),
        ];
        for (index, error) in refused.into_iter().enumerate() {
            assert_eq!(error.expect_err("it would wait").kind(), ErrorKind::WouldBlock, "call {index}");
            bench.check();
        }
        // What needs no wait is done.
        device.prepare([Use::read(&a), Use::read(&b)]).try_now().map(drop).expect("resident");
        assert!(spilled.read().try_now().expect("its host copy") == pattern(3));
        spilled.view(0, 1).expect("within").fill(0).try_now().expect("where it is");
        bench.release(&[COMPUTE, SPILL, RESTORE]);
        finish(device.idle()).expect("idle");
        let info = bench.info();
        assert_eq!((info.buffers, info.restores, info.pinned), (3, before.restores, 0), "{info:?}");
        drop((a, b, spilled));
        bench.check_empty();
    }
}

/// A write that has to wait for a restore to be queued, and is taken back before: its bytes must not come later.
#[test]
fn a_write_taken_back_was_made_after_all() {
    for clock in CLOCKS {
        let bench = Bench::tight(clock, 1);
        let a = bench.buffer(1);
        bench.hold(&[SPILL, RESTORE]);
        let mut spill = Box::pin(a.spill());
        assert!(crate::bench::poll_once(spill.as_mut()).is_pending());
        let tried = a.fill(9).try_now();
        drop(spill);
        bench.release(&[SPILL, RESTORE]);
        finish(bench.device.idle()).expect("idle");
        match tried {
            Ok(()) => assert_bytes("filled", &a, &[9; UNIT as usize]),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                assert_bytes("not filled", &a, &pattern(1));
            }
        }
        bench.check();
    }
}
