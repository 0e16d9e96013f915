//! Ends of exports of which nobody says where the last use is: the device is waited for, and nobody else is kept from going on.

use crate::bench::{Bench, COMPUTE, UNIT, assert_bytes, config, finish, pattern, poll_once, watched};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};
use tack_residency::{
    Buffer, Device, Use,
    driver::{
        Driver, QueueId, QueueRole,
        fault::{Call, Fault},
        sim::{Clock, Pool, Sim},
    },
};

/// A stream that the device knows nothing of, stopped, with a use of a buffer in it whose export has ended.
fn held_end(bench: &Bench, buffer: &Buffer) -> QueueId {
    let stranger = bench.sim.create_queue(QueueRole::Compute).expect("a stream");
    let export = finish(buffer.export()).expect("exported");
    let fence = bench.sim.record(COMPUTE).expect("a fence");
    bench.sim.wait(stranger, fence).expect("behind what was written");
    bench.sim.hold(stranger).expect("a queue");
    bench.sim.fill(stranger, export.ptr(), UNIT, 0xEE).expect("queued");
    stranger
}

#[test]
fn a_buffer_was_kept_until_the_work_behind_the_end_of_another_export_was_done() {
    let bench = Bench::tight(Clock::Real, 4);
    let [a, b] = [1, 2].map(|seed| bench.buffer(seed));
    let first = held_end(&bench, &a);
    // The wait for that has begun.
    thread::sleep(Duration::from_millis(20));
    let second = held_end(&bench, &b);
    bench.release(&[first]);
    assert_bytes("the first", &a, &[0xEE; UNIT as usize]);
    bench.release(&[second]);
    assert_bytes("the second", &b, &[0xEE; UNIT as usize]);
    bench.check();
}

#[test]
fn the_device_was_waited_for_once_for_each_export_that_had_ended() {
    let fault = Fault::new(Sim::open(config(Clock::Real, 16)).expect("a device"), []);
    let device = Device::options().open_driver("bench", fault.clone()).expect("a device");
    let (body, go_on) = mpsc::channel::<()>();
    let exports: Vec<_> = (0..16)
        .map(|_| finish(finish(device.alloc(UNIT)).expect("room").export()).expect("exported"))
        .collect();
    let launch = finish(device.prepare([])).expect("ready");
    let work = launch.submit(|run| run.host_kernel(Duration::ZERO, move |_| _ = go_on.recv()));
    work.expect("queued");
    drop(exports);
    drop(body);
    finish(device.idle()).expect("idle");
    assert!(fault.calls(Call::Drain) <= 2, "one, and one for those that ended since it began");
    assert_eq!(device.memory_info().in_use, 0);
}

#[test]
fn memory_was_not_freed_while_another_library_was_at_work() {
    for fixed in [false, true] {
        let bench = Bench::new(
            config(Clock::Real, 8).with_pool(Pool::StreamOrdered),
            Device::options().budget(3 * UNIT),
        );
        let keeps = fixed.then(|| finish(bench.device.alloc(UNIT).fixed()).expect("room"));
        let others: Vec<Buffer> = (0..if fixed { 1 } else { 2 }).map(|seed| bench.buffer(seed)).collect();
        let used = bench.buffer(9);
        let stranger = held_end(&bench, &used);
        let new =
            finish(bench.device.alloc(UNIT).within(Duration::from_secs(20))).expect("another one is spilled");
        assert!(others[0].is_spilled(), "the least recently used");
        bench.until("freed", || bench.info().leaving == 0);
        bench.release(&[stranger]);
        assert_bytes("the used one", &used, &[0xEE; UNIT as usize]);
        drop((keeps, others, used, new));
        bench.check_empty();
    }
}

#[test]
fn the_hook_was_asked_for_room_by_what_needed_none() {
    let asked = Arc::new(AtomicU64::new(0));
    let counts = asked.clone();
    let options = Device::options().budget(2 * UNIT).on_memory_pressure(move |_| {
        counts.fetch_add(1, Ordering::SeqCst);
    });
    let bench = Bench::new(config(Clock::Real, 4), options);
    let [a, b] = [1, 2].map(|seed| bench.buffer(seed));
    let pins = finish(bench.device.prepare([Use::read(&b)])).expect("resident");
    let stranger = held_end(&bench, &a);
    let late = finish(a.export().within(Duration::from_millis(1)));
    assert!(late.is_err(), "it waits for the stranger");
    bench.device.set_budget(Some(0));
    let mut spill = Box::pin(a.spill());
    let _ = poll_once(spill.as_mut());
    bench.release(&[stranger]);
    finish(spill).expect("spilled");
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    drop(pins);
    bench.check();
}

#[test]
fn an_export_that_ended_in_a_kernels_body_never_let_go() {
    watched(|| {
        let bench = Bench::tight(Clock::Real, 3);
        let (a, b) = (bench.buffer(1), bench.buffer(2));
        let export = finish(a.export()).expect("exported");
        let (tell, told) = mpsc::channel();
        let launch = finish(bench.device.prepare([Use::read(&b)])).expect("resident");
        let work = launch.submit(|run| {
            run.host_kernel(Duration::ZERO, move |_| {
                drop(export);
                tell.send(()).expect("heard");
            })
        });
        work.expect("queued");
        told.recv().expect("told");
        assert_bytes("ended in a body", &a, &pattern(1));
        assert_eq!(finish(a.spill()).expect("spilled"), UNIT);
        drop([a, b]);
        bench.check_empty();
    });
}

#[test]
fn buffers_whose_exports_had_not_ended_kept_a_lost_or_closed_device() {
    watched(|| {
        for lose in [false, true] {
            let bench = Bench::tight(Clock::Real, 4);
            let [a, b] = [1, 2].map(|seed| bench.buffer(seed));
            let strangers = [held_end(&bench, &a), held_end(&bench, &b)];
            let (mut read, mut spill) = (Box::pin(a.read()), Box::pin(b.spill()));
            assert!(poll_once(read.as_mut()).is_pending());
            assert!(poll_once(spill.as_mut()).is_pending());
            let mut queue = bench.device.launch_queue(1);
            assert!(poll_once(Box::pin(queue.push([Use::read(&a)], |_| Ok(()))).as_mut()).is_ready());
            if lose {
                // Nothing is there.
                bench
                    .sim
                    .fill(strangers[0], tack_residency::driver::DevicePtr::NULL, UNIT, 0)
                    .expect("queued");
                bench.release(&strangers);
                let _ = finish(spill);
                drop((read, queue, a, b));
                bench.device.check().expect("balanced books");
            } else {
                drop((read, spill, queue, a, b));
                bench.release(&strangers);
                bench.check_empty();
            }
        }
    });
}
