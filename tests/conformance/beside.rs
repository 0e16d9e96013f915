//! What goes on beside copies between two devices, on either of them.

use crate::{
    backend::{BUSY, Check, Rig, until},
    pair::{Pair, holds, way},
};
use futures::future::FutureExt;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Waker},
    thread,
    time::Duration,
};
use tack_residency::{
    Device, Error, ErrorKind, Use,
    driver::{
        QueueId,
        fault::{Call, Effect, Step},
    },
};

pub const CHECKS: &[Check] = &[
    ("peers: to what launches use without end", steady),
    ("peers: what else the target's device does", beside),
    ("peers: what else waits for the source's room", room),
    ("peers: within a closure that a write waits for", nested_write),
    ("peers: the target lost and dropped", lost_target),
];

fn lost_target(rig: &Rig) -> String {
    let mut pair = Pair::open(rig, 4, &[Step::new(Call::Copy, 0, Effect::Lose)]);
    if !pair.is_direct() {
        return way(&pair);
    }
    let (from, to, other) = (pair.filled(1, 1), pair.filled(0, 2), pair.filled(0, 3));
    pair.check();
    let inner = pair.calls[1].inner().clone();
    pair.launch(1, [Use::read(&from)], |_| Ok(()));
    let mut copy = from.copy_to(&to).boxed();
    until("the copy is queued", || {
        assert!(copy.poll_unpin(&mut Context::from_waker(Waker::noop())).is_pending());
        pair.across() == 1
    });
    let fence = inner.record(QueueId(0)).expect("it is well");
    let launch = pair.devices[0].prepare([Use::read(&other)]).wait().expect("room");
    let lost =
        launch.submit(|run| Ok::<_, Error>(run.driver().copy(run.queue(), run.ptr(0), run.ptr(0), 1)?));
    assert_eq!(lost.expect_err("it is lost").kind(), ErrorKind::DeviceLost);
    let error = futures::executor::block_on(copy).expect_err("the target is lost");
    assert_eq!(error.kind(), ErrorKind::DeviceLost);
    assert!(!inner.is_passed(fence).expect("well"), "the copy has run already");
    let target = Arc::downgrade(pair.calls[0].inner());
    (pair.devices[0], pair.calls[0]) = (pair.devices[1].clone(), pair.calls[1].clone());
    drop((to, other));
    while !inner.is_passed(fence).expect("well") {
        assert!(target.strong_count() > 0, "the target's context went before the copy to it had run");
        thread::sleep(Duration::from_millis(1));
    }
    until("the lost device is given up", || target.strong_count() == 0);
    inner.retire(fence);
    holds(&from, 1);
    pair.check();
    String::new()
}

fn steady(rig: &Rig) -> String {
    let pair = Pair::open(rig, 4, &[]);
    let (from, to) = (pair.filled(0, 1), pair.filled(1, 2));
    let driver = pair.devices[1].driver();
    let is_over = AtomicBool::new(false);
    let copied = thread::scope(|scope| {
        scope.spawn(|| {
            let mut last = None;
            while !is_over.load(Ordering::Acquire) {
                pair.launch(1, [Use::read_write(&to)], |_| Ok(()));
                let fence = driver.record(QueueId(0)).expect("a fence");
                if let Some(before) = last.replace(fence) {
                    until("a launch is done", || driver.is_passed(before).expect("not lost"));
                    driver.retire(before);
                }
            }
            last.into_iter().for_each(|last| driver.retire(last));
        });
        thread::sleep(BUSY / 4);
        let copied = from.copy_to(&to).within(Duration::from_secs(5)).wait();
        is_over.store(true, Ordering::Release);
        copied
    });
    copied.expect("it has its turn");
    holds(&to, 1);
    pair.check();
    way(&pair)
}

fn beside(rig: &Rig) -> String {
    let pair = Pair::open(rig, 3, &[]);
    if !pair.is_direct() {
        return way(&pair);
    }
    let from = pair.filled(0, 1);
    let [late, early, to, other] = [2, 3, 4, 5].map(|value| pair.filled(1, value));
    pair.check();
    assert!(late.is_spilled());
    let inner = pair.calls[0].inner();
    let no_one = || Context::from_waker(Waker::noop());
    let mut copy = from.copy_to(&to).boxed();
    assert!(copy.poll_unpin(&mut no_one()).is_pending(), "it holds both");
    // A launch that has the target, and waits for the room of what a kernel is at.
    pair.launch(1, [Use::read_write(&early)], |_| Ok(()));
    pair.launch(1, [Use::read(&other)], |_| Ok(()));
    let mut queue = pair.devices[1].launch_queue(4);
    queue
        .push([Use::read_write(&to), Use::read(&late)], |_| Ok(()))
        .try_now()
        .expect("there is room in the queue");
    for _ in 0..8 {
        pair.launch(0, [Use::read(&from)], |_| Ok(()));
    }
    until("the copy is queued", || {
        assert!(copy.poll_unpin(&mut no_one()).is_pending());
        pair.across() == 1
    });
    let fence = inner.record(QueueId(0)).expect("it is well");
    until("the launch has all its buffers", || !late.is_spilled());
    for _ in 0..20 {
        holds(&other, 5);
    }
    assert!(!inner.is_passed(fence).expect("well"), "what has nothing to do with the copy waited for it");
    futures::executor::block_on(copy).expect("it is copied");
    queue.flush().wait().expect("the launch comes behind it");
    inner.retire(fence);
    holds(&to, 1);
    drop(queue);
    pair.check();
    String::new()
}

/// Nothing is stalled by a copy that waits for the target's device: it holds the source only to be queued.
fn room(rig: &Rig) -> String {
    let rigs = [rig.clone(), rig.other().expect("there is another device")];
    let bytes = rig.array_bytes();
    let options = || Device::options().budget(bytes).stall_after(BUSY / 10);
    let devices = rigs.each_ref().map(|rig| rig.device(options()));
    let [from, to] = devices.each_ref().map(|device| device.alloc(bytes).wait().expect("room"));
    let launch = devices[1].prepare([Use::read_write(&to)]).wait().expect("room");
    let queued = launch.submit(|run| {
        rigs[1].spin(run.driver(), run.queue(), BUSY);
        Ok::<_, Error>(())
    });
    queued.expect("it is queued");
    let mut copy = from.copy_to(&to).boxed();
    for _ in 0..3 {
        let _ = copy.poll_unpin(&mut Context::from_waker(Waker::noop()));
    }
    let other = thread::scope(|scope| {
        let other = scope.spawn(|| devices[0].alloc(bytes).wait());
        futures::executor::block_on(copy).expect("it is copied");
        other.join().expect("no panic")
    });
    other.expect("the source makes room");
    devices.iter().for_each(|device| device.check().expect("the books balance"));
    String::new()
}

fn nested_write(rig: &Rig) -> String {
    let pair = Pair::open(rig, 4, &[]);
    if !pair.is_direct() {
        return way(&pair);
    }
    let (from, to) = (pair.filled(0, 1), pair.filled(1, 2));
    pair.check();
    let mut copy = from.copy_to(&to);
    // It holds both.
    assert!(copy.poll_unpin(&mut Context::from_waker(Waker::noop())).is_pending());
    let launch = pair.devices[0].prepare([Use::read(&from)]).wait().expect("room");
    let mut write = from.fill(7).boxed();
    let copied = launch.submit(|_| {
        // Behind this launch, and in front of what comes next.
        let begun = write.poll_unpin(&mut Context::from_waker(Waker::noop()));
        Ok::<_, Error>((begun.is_pending(), copy.within(Duration::from_secs(5)).wait()))
    });
    let (pending, copied) = copied.expect("queued");
    let kind = copied.as_ref().map_err(|e| e.kind());
    assert_eq!((pending, kind), (true, Err(ErrorKind::Misuse)));
    futures::executor::block_on(write).expect("it is filled");
    holds(&from, 7);
    holds(&to, 2);
    pair.check();
    String::new()
}
