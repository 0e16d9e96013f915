//! Copies between two devices that do not come to their end: given up, refused, or with a device that is lost.

use crate::{
    backend::{BUSY, Check, Rig, until},
    pair::{Pair, holds, way},
};
use futures::future::{BoxFuture, FutureExt};
use std::{
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant},
};
use tack_residency::{
    Error, ErrorKind, Result, Use,
    driver::{
        DriverErrorKind, QueueId,
        fault::{Call, Effect, Step},
    },
};

pub const CHECKS: &[Check] = &[
    ("peers: a copy that is dropped or too late", given_up),
    ("peers: within a launch's closure", nested),
    ("peers: a try takes nothing", tried),
    ("peers: calls refused", refused),
    ("peers: a device lost", lost),
];

fn nested(rig: &Rig) -> String {
    let pair = Pair::open(rig, 4, &[]);
    if !pair.is_direct() {
        return way(&pair);
    }
    let (from, to, other) = (pair.filled(0, 1), pair.filled(1, 2), pair.filled(1, 3));
    let launch = pair.devices[1].prepare([Use::read(&other)]).wait().expect("room");
    let copied = launch.submit(|_| Ok::<_, Error>(from.copy_to(&to).wait()));
    let error = copied.expect("it is queued").expect_err("it waits for this launch");
    assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
    // On the other device it waits for nothing of the launch's.
    let launch = pair.devices[0].prepare([Use::read(&from)]).wait().expect("room");
    launch.submit(|_| from.copy_to(&to).wait()).expect("it is copied");
    holds(&to, 1);
    pair.check();
    String::new()
}

/// Polls a copy now and then until it has ended or this moment has come, and drops it; whether it has ended.
fn poll_for(mut copy: BoxFuture<'_, Result<()>>, time: Duration) -> bool {
    let end = Instant::now() + time;
    loop {
        if let Poll::Ready(done) = copy.poll_unpin(&mut Context::from_waker(Waker::noop())) {
            done.expect("it is copied");
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(Duration::from_micros(300));
    }
}

fn given_up(rig: &Rig) -> String {
    let pair = Pair::open(rig, 2, &[]);
    let arrays = [0, 1].map(|of| [pair.filled(of, 1), pair.filled(of, 2), pair.filled(of, 3)]);
    let (mut ended, mut stopped) = (0, 0);
    for round in 0..24u32 {
        let [[from, other, _], [to, target_other, _]] = &arrays;
        let (old, new) = (round as u8 * 2, round as u8 * 2 + 1);
        to.fill(old).wait().expect("it is filled");
        from.fill(new).wait().expect("it is filled");
        // Either end may have to come back first, behind kernels.
        pair.launch(0, [Use::read_write(if round % 2 == 0 { from } else { other })], |_| Ok(()));
        pair.launch(1, [Use::read(if round % 3 == 0 { to } else { target_other })], |_| Ok(()));
        let is_ended = poll_for(from.copy_to(to).boxed(), BUSY / 2 * round / 20);
        (ended, stopped) = (ended + u32::from(is_ended), stopped + u32::from(!is_ended));
        match round % 4 {
            0 => {
                // What is done next comes behind what was begun.
                to.fill(200).wait().expect("it is filled");
                from.fill(201).wait().expect("it is filled");
                holds(to, 200);
            }
            1 => {
                pair.launch(1, [Use::write(to)], |run| {
                    run.driver().fill(run.queue(), run.ptr(0), run.bytes(0), 202)
                });
                holds(to, 202);
            }
            2 => _ = to.spill().wait().expect("it is spilled or stays"),
            _ => {}
        }
        if round % 4 > 1 {
            let found = to.read().wait().expect("it is read");
            let is_whole = found.iter().all(|&byte| byte == found[0]);
            assert!(is_whole && [old, new].contains(&found[0]) && (!is_ended || found[0] == new));
        }
        pair.check();
        for buffer in arrays.iter().flatten() {
            drop(buffer.ensure_resident().wait().expect("it comes back"));
            buffer.spill().wait().expect("it is spilled");
            assert!(buffer.is_spilled(), "round {round}: something holds it");
        }
    }
    assert!(stopped > 3, "none was dropped before its end");
    // Too late, it goes on if it has begun.
    let [[from, ..], [to, ..]] = &arrays;
    from.fill(7).wait().expect("it is filled");
    pair.launch(0, [Use::read_write(from)], |_| Ok(()));
    let error = from.copy_to(to).within(BUSY / 40).wait().expect_err("it is too late");
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    to.fill(8).wait().expect("it is filled");
    pair.check();
    holds(to, 8);
    // The target's last handle goes while it is written.
    let gone = pair.filled(1, 1);
    pair.launch(0, [Use::read_write(from)], |_| Ok(()));
    poll_for(from.copy_to(&gone).boxed(), BUSY / 40);
    drop(gone);
    pair.check();
    drop(arrays);
    pair.check();
    assert!(pair.devices.iter().all(|device| device.memory_info().in_use == 0));
    format!("{stopped} dropped on their way, {ended} had ended")
}

fn tried(rig: &Rig) -> String {
    let pair = Pair::open(rig, 4, &[]);
    if !pair.is_direct() {
        return way(&pair);
    }
    let (from, to) = (pair.filled(0, 1), pair.filled(1, 2));
    pair.check();
    let error = from.copy_to(&to).try_now().expect_err("it always waits");
    assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
    pair.check();
    holds(&to, 2);
    assert_eq!(pair.across(), 0);
    String::new()
}

fn refused(rig: &Rig) -> String {
    let mut told = 0;
    let calls = [Call::CopyToPeer, Call::Record, Call::IsPassed, Call::CopyOut, Call::CopyIn, Call::Allocate];
    for (call, nth) in calls.into_iter().flat_map(|call| [(call, 0), (call, 1), (call, 3)]) {
        for kind in [DriverErrorKind::Refused, DriverErrorKind::OutOfMemory] {
            let pair = Pair::open(rig, 1, &[Step::new(call, nth, Effect::Refuse(kind))]);
            let to = pair.filled(1, 2);
            let mut errors = Vec::new();
            for round in 0..4u8 {
                let copied = {
                    let alloc = || pair.devices[0].alloc(pair.bytes).within(Duration::from_secs(20)).wait();
                    alloc().and_then(|from| {
                        from.fill(10 + round).wait()?;
                        // It goes to the host, and has to come back.
                        drop(alloc()?);
                        from.copy_to(&to).within(Duration::from_secs(20)).wait()
                    })
                };
                match copied {
                    Ok(()) => holds(&to, 10 + round),
                    Err(error) => errors.push(error),
                }
                pair.check();
            }
            let refusals = pair.calls[0].refused();
            assert!(errors.len() as u64 <= refusals, "{call:?} {nth}: {errors:?}");
            for error in &errors {
                assert_ne!(error.kind(), ErrorKind::TimedOut, "{call:?} {nth}: {error}");
            }
            if call == Call::CopyToPeer && pair.is_direct() {
                assert_eq!((errors.len(), errors[0].kind()), (1, ErrorKind::Refused), "{errors:?}");
                let source = std::error::Error::source(&errors[0]).expect("the call's");
                assert!(source.to_string().contains("copy_to_peer"), "{source}");
            }
            told += errors.len();
        }
    }
    format!("{told} errors")
}

fn lost(rig: &Rig) -> String {
    let steps = [(Call::CopyToPeer, 0), (Call::IsPassed, 3), (Call::Record, 4)];
    for (call, nth) in steps {
        let pair = Pair::open(rig, 2, &[Step::new(call, nth, Effect::Lose)]);
        if !pair.is_direct() {
            return way(&pair);
        }
        let to = pair.filled(1, 2);
        let from = pair.devices[0].alloc(pair.bytes).wait();
        let copied = from.and_then(|from| {
            from.fill(5).wait()?;
            (0..8).try_for_each(|_| from.copy_to(&to).within(Duration::from_secs(20)).wait())
        });
        let error = copied.expect_err("the device is lost");
        assert_eq!(error.kind(), ErrorKind::DeviceLost, "{call:?}: {error}");
        // It is only said to be lost: what it was given it does.
        let (inner, compute) = (pair.calls[0].inner(), QueueId(0));
        let fence = inner.record(compute).expect("it is well");
        until("the device has run out", || inner.is_passed(fence).expect("it is well"));
        // The other one goes on.
        let second = &pair.devices[1];
        until("the other device is at rest", || second.idle().try_now().is_ok());
        to.fill(9).wait().expect("it is filled");
        holds(&to, 9);
        assert_eq!(to.spill().wait().expect("it is spilled"), pair.bytes);
        second.check().expect("the books balance");
    }
    String::new()
}
