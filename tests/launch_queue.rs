//! Launches taken ahead of time: in order, with the same victims, and with copies hidden behind kernels.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};
use tack_residency::{
    Buffer, Device, ErrorKind, MemoryInfo, Run, Use, Victims,
    driver::{
        Arg, DriverErrorKind, QueueId,
        fault::{Call, Effect, Fault, Step},
        sim::{Config, Contents, Sim},
    },
};

const MIB: u64 = 1 << 20;

fn device(budget: Option<u64>, contents: Contents) -> Device {
    let config = Config::profile("pcie4").expect("a profile").with_contents(contents);
    let sim = Sim::open(config).expect("a device");
    Device::options().maybe_budget(budget).open_driver("sim", sim).expect("opened")
}

async fn buffers(device: &Device, count: usize, bytes: u64) -> Vec<Buffer> {
    let mut made = Vec::new();
    for _ in 0..count {
        made.push(device.alloc(bytes).uninitialised().await.expect("a buffer"));
    }
    made
}

/// Reads and writes each of `count` buffers in turn, `passes` times; the device's time for that, and its ledger.
fn sweep(
    budget: Option<u64>,
    count: usize,
    bytes: u64,
    passes: usize,
    kernel: Duration,
    look_ahead: usize,
) -> (Duration, MemoryInfo) {
    futures::executor::block_on(async {
        let device = device(budget, Contents::NotHeld);
        let held = buffers(&device, count, bytes).await;
        device.idle().await.expect("idle");
        let (start, before) = (device.driver().now(), device.memory_info());
        let mut queue = device.launch_queue(look_ahead);
        for index in 0..count * passes {
            let uses = [Use::read_write(&held[index % count])];
            queue.push(uses, move |run| run.host_kernel(kernel, |_| ())).await.expect("a launch");
        }
        queue.flush().await.expect("all launches");
        drop(queue);
        device.idle().await.expect("all done");
        device.check().expect("the books balance");
        let mut info = device.memory_info();
        info.copied_out_bytes -= before.copied_out_bytes;
        info.copied_in_bytes -= before.copied_in_bytes;
        (device.driver().now() - start, info)
    })
}

#[test]
fn copies_half_as_long_as_kernels_are_hidden_at_look_ahead_4() {
    let copy = Duration::from_secs_f64(16.0 * MIB as f64 / 24e9) + Duration::from_micros(10);
    let (unlimited, _) = sweep(None, 256, 16 * MIB, 8, copy * 2, 4);
    let (limited, info) = sweep(Some(128 * 16 * MIB), 256, 16 * MIB, 8, copy * 2, 4);
    let ratio = limited.as_secs_f64() / unlimited.as_secs_f64();
    println!("copies half as long as kernels: {ratio:.4} x unlimited, {} restores", info.restores);
    assert!(info.restores >= 7 * 256, "{info}");
    assert!(ratio <= 1.05, "{ratio}");
}

#[test]
fn copies_twice_as_long_as_kernels_keep_the_engines_busy() {
    let copy = Duration::from_secs_f64(16.0 * MIB as f64 / 24e9) + Duration::from_micros(10);
    let (limited, info) = sweep(Some(128 * 16 * MIB), 256, 16 * MIB, 8, copy / 2, 4);
    let bound =
        info.copied_in_bytes.max(info.copied_out_bytes) as f64 / (16.0 * MIB as f64) * copy.as_secs_f64();
    let share = bound / limited.as_secs_f64();
    println!("copies twice as long as kernels: {share:.4} of the copy engines' bound");
    assert!(share >= 0.95, "{share}");
}

#[test]
fn looking_ahead_changes_no_victim_and_no_byte() {
    let run = |look_ahead: usize| {
        futures::executor::block_on(async {
            let device = device(Some(6 * 4096), Contents::Held);
            let mut held = buffers(&device, 12, 4096).await;
            for (buffer, value) in held.iter().zip(0..) {
                buffer.fill(value).await.expect("a fill");
            }
            let mut queue = device.launch_queue(look_ahead);
            let mut random = 7u64;
            for step in 0..400u64 {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let (a, b) = ((random >> 33) as usize % held.len(), (random >> 43) as usize % held.len());
                if a == b {
                    // A temporary: the program drops its handle while its launch may still wait.
                    let fresh = device.alloc(4096).await.expect("a buffer");
                    queue.push([Use::read(&held[a]), Use::write(&fresh)], copy).await.expect("a launch");
                    held[a] = fresh;
                } else if step % 29 == 0 {
                    queue.flush_uses(&held[a]).await.expect("queued");
                    held[a].read().await.expect("a read");
                } else {
                    queue
                        .push([Use::read(&held[a]), Use::read_write(&held[b])], add)
                        .await
                        .expect("a launch");
                }
            }
            queue.flush().await.expect("all");
            drop(queue);
            device.idle().await.expect("idle");
            device.check().expect("the books balance");
            let mut bytes = Vec::new();
            for buffer in &held {
                let read = buffer.read().await.expect("a read");
                assert!(read.iter().all(|&byte| byte == read[0]), "a buffer of mixed bytes");
                bytes.push(read[0]);
            }
            let info = device.memory_info();
            (bytes, info.spills, info.restores, info.spilled_bytes, info.copied_out_bytes)
        })
    };
    let plain = run(0);
    assert!(plain.1 > 50, "{} spills", plain.1);
    for look_ahead in [1, 2, 4, 16] {
        assert_eq!(run(look_ahead), plain, "look-ahead {look_ahead}");
    }
}

fn copy(run: &tack_residency::Run<'_>) -> tack_residency::Result<()> {
    run.host_kernel(Duration::from_micros(50), |args| {
        let [from, to] = args else { unreachable!() };
        to.bytes_mut().copy_from_slice(from.bytes());
    })
}

fn add(run: &tack_residency::Run<'_>) -> tack_residency::Result<()> {
    run.host_kernel(Duration::from_micros(50), |args| {
        let [from, to] = args else { unreachable!() };
        to.bytes_mut().iter_mut().zip(from.bytes()).for_each(|(to, from)| *to = to.wrapping_mul(3) ^ from);
    })
}

#[test]
fn launches_are_queued_in_order_and_one_that_fails_stops_no_other() {
    futures::executor::block_on(async {
        let device = device(Some(2 * 4096), Contents::Held);
        let held = buffers(&device, 4, 4096).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut queue = device.launch_queue(3);
        let mut failures = 0;
        for index in 0..16 {
            let noted = order.clone();
            let pushed = queue
                .push([Use::read_write(&held[index % 4])], move |run| {
                    noted.lock().expect("a list").push(index);
                    if index == 5 {
                        return run
                            .host_kernel(Duration::ZERO, |_| ())
                            .and_then(|()| Err(Device::open("no such device").expect_err("an error")));
                    }
                    run.host_kernel(Duration::ZERO, |_| ())
                })
                .await;
            failures += usize::from(pushed.is_err_and(|error| error.kind() == ErrorKind::Unavailable));
        }
        failures += usize::from(queue.flush().await.is_err());
        queue.flush().await.expect("the rest");
        assert_eq!(failures, 1);
        assert_eq!(*order.lock().expect("a list"), (0..16).collect::<Vec<_>>());
        device.check().expect("the books balance");
    });
}

#[test]
fn a_queue_dropped_in_the_middle_leaves_no_trace() {
    futures::executor::block_on(async {
        let device = device(Some(4 * 4096), Contents::Held);
        let held = buffers(&device, 8, 4096).await;
        let mut queue = device.launch_queue(3);
        for buffer in &held {
            queue
                .push([Use::read_write(buffer)], |run| run.host_kernel(Duration::ZERO, |_| ()))
                .await
                .expect("pushed");
        }
        drop(queue);
        device.idle().await.expect("idle");
        device.check().expect("the books balance");
        let info = device.memory_info();
        assert_eq!((info.pinned, info.reserved), (0, 0), "{info}");
        device.spill_all().await.expect("spilled");
        assert_eq!(device.memory_info().in_use, 0);
        drop(held);
        device.idle().await.expect("idle");
        assert_eq!(device.memory_info().buffers, 0);
    });
}

#[test]
fn a_launch_taken_up_within_the_closure_of_another_was_refused() {
    for name in ["sim", "sim:pcie4"] {
        let device = Device::options().open(name).expect("opened");
        let _second = device.add_queue().expect("a queue");
        let [a, b] = [4096; 2].map(|bytes| device.alloc(bytes).wait().expect("a buffer"));
        let mut queue = device.launch_queue(4);
        let launch = device.prepare([Use::read(&a)]).wait().expect("resident");
        launch
            .submit(|_| {
                let seven =
                    |run: &Run<'_>| run.host_kernel(Duration::ZERO, |args| args[0].bytes_mut().fill(7));
                queue.push([Use::write(&b)], seven).try_now()
            })
            .expect("it waits for its turn");
        queue.flush().wait().expect("queued once the other is");
        assert_eq!(b.read().wait().expect("read"), vec![7; 4096]);
        device.check().expect("the books balance");
    }
}

#[test]
fn a_launch_that_asked_for_the_hook_later_told_no_one() {
    let hook = |_| ();
    let device = Device::options().budget(2 * 4096).on_memory_pressure(hook).open("sim").expect("opened");
    let [a, b, c] = [4096; 3].map(|bytes| device.alloc(bytes).wait().expect("a buffer"));
    let guards = [&c, &b].map(|buffer| buffer.ensure_resident().wait().expect("resident"));
    let mut cx = Context::from_waker(Waker::noop());
    let mut ahead = Box::pin(device.alloc(4096));
    assert!(ahead.as_mut().poll(&mut cx).is_pending());
    let mut queue = device.launch_queue(4);
    let work = |run: &Run<'_>| run.host_kernel(Duration::ZERO, |_| ());
    queue.push([Use::read(&a)], work).try_now().expect("taken");
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let mut flush = Box::pin(queue.flush());
    assert!(flush.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(ahead);
    assert!(woken.0.load(Ordering::SeqCst), "it is its turn to ask");
    drop(guards);
    futures::executor::block_on(flush).expect("queued");
}

#[test]
fn a_flush_ended_while_the_last_launch_was_being_queued() {
    let sim = Sim::open(Config::new()).expect("a device");
    let device = Device::options().budget(4096).open_driver("sim", sim.clone()).expect("opened");
    let [a, _b] = [4096; 2].map(|bytes| device.alloc(bytes).wait().expect("a buffer"));
    let (begun, is_begun) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel();
    let mut queue = device.launch_queue(1);
    let work = move |run: &Run<'_>| {
        begun.send(()).expect("the test waits");
        may_go_on.recv().expect("the test lives");
        run.host_kernel(Duration::ZERO, |args| args[0].bytes_mut().fill(7))
    };
    // Not ready before the push is over, or this thread would queue it.
    sim.hold(QueueId(1)).expect("the queue of spills");
    queue.push([Use::write(&a)], work).try_now().expect("taken");
    sim.release(QueueId(1)).expect("the queue of spills");
    is_begun.recv().expect("the device's own thread queues it");
    assert_eq!(queue.len(), 1);
    assert!(queue.flush().try_now().is_err(), "its work has not returned");
    assert!(queue.flush_uses(&a).try_now().is_err(), "its work has not returned");
    go_on.send(()).expect("the work waits");
    queue.flush().wait().expect("queued");
    assert_eq!(a.read().wait().expect("read"), vec![7; 4096]);
}

#[test]
fn a_launch_was_lost_when_the_hook_dropped_its_buffers_handle() {
    let dropped: Arc<Mutex<Option<Buffer>>> = Arc::default();
    let in_hook = dropped.clone();
    let hook = move |_| drop(in_hook.lock().expect("not poisoned").take());
    let device = Device::options().budget(2 * 4096).on_memory_pressure(hook).open("sim").expect("opened");
    let [a, b, c] = [4096; 3].map(|bytes| device.alloc(bytes).wait().expect("a buffer"));
    let guards = [&c, &b].map(|buffer| buffer.ensure_resident().wait().expect("resident"));
    let mut queue = device.launch_queue(4);
    let ran = Arc::new(AtomicBool::new(false));
    let note = ran.clone();
    let work =
        move |run: &Run<'_>| run.host_kernel(Duration::ZERO, move |_| note.store(true, Ordering::SeqCst));
    let push = queue.push([Use::read(&a)], work);
    *dropped.lock().expect("not poisoned") = Some(a);
    push.try_now().expect("taken");
    assert!(queue.flush().try_now().is_err(), "guards stand in the way");
    assert!(dropped.lock().expect("not poisoned").is_none(), "the hook has run");
    drop(guards);
    queue.flush().wait().expect("queued");
    device.idle().wait().expect("all done");
    assert!(ran.load(Ordering::SeqCst));
    device.check().expect("the books balance");
    drop((b, c));
    device.idle().wait().expect("all done");
    assert_eq!(device.memory_info().in_use, 0);
}

#[test]
fn a_launch_was_refused_when_its_buffers_handle_was_dropped_before_its_first_poll() {
    let device = Device::options().budget(4096).open("sim").expect("opened");
    let [a, b] = [4096; 2].map(|bytes| device.alloc(bytes).wait().expect("a buffer"));
    a.fill(3).wait().expect("filled");
    let (sum, is_summed) = mpsc::channel();
    let mut queue = device.launch_queue(1);
    let work = move |run: &Run<'_>| {
        let add = move |args: &mut [tack_residency::driver::Arg<'_>]| {
            let bytes = args[0].bytes().iter();
            sum.send(bytes.map(|&byte| u32::from(byte)).sum::<u32>()).expect("the test waits");
        };
        run.host_kernel(Duration::ZERO, add)
    };
    let push = queue.push([Use::read(&a)], work);
    drop(a);
    push.wait().expect("it keeps its buffer");
    queue.flush().wait().expect("queued");
    assert_eq!(is_summed.recv(), Ok(3 * 4096));
    let never = queue.push([Use::read(&b)], |_| Ok(()));
    drop((b, never));
    device.idle().wait().expect("all done");
    assert_eq!(device.memory_info().buffers, 0);
}

fn nothing(run: &Run<'_>) -> tack_residency::Result<()> {
    run.host_kernel(Duration::ZERO, |_| ())
}

const SOON: Duration = Duration::from_secs(1);

#[test]
fn a_push_and_a_flush_waited_longer_than_they_were_told_to() {
    let device = device(Some(2 * 4096), Contents::Held);
    let held = futures::executor::block_on(buffers(&device, 4, 4096));
    let guards = [&held[2], &held[3]].map(|buffer| buffer.ensure_resident().wait().expect("resident"));
    let mut queue = device.launch_queue(0);
    let patience = Duration::from_millis(1);
    let pushed = queue.push([Use::read(&held[0])], nothing).within(patience).wait();
    assert_eq!(pushed.expect_err("guards stand in the way").kind(), ErrorKind::TimedOut);
    let flushed = queue.flush().within(patience).wait();
    assert_eq!(flushed.expect_err("guards stand in the way").kind(), ErrorKind::TimedOut);
    assert_eq!(queue.len(), 1, "it is in the queue all the same");
    drop(guards);
    queue.flush().within(SOON).wait().expect("queued");
}

#[test]
fn a_lower_budget_left_a_launch_waiting_for_what_one_behind_it_kept() {
    let device = device(Some(3 * 4096), Contents::Held);
    let mut held = futures::executor::block_on(buffers(&device, 4, 4096));
    let mut queue = device.launch_queue(4);
    queue.push([Use::read(&held[0])], nothing).try_now().expect("taken");
    queue.push([Use::read(&held[2]), Use::read(&held[3])], nothing).try_now().expect("taken");
    held.truncate(2);
    device.set_budget(Some(2 * 4096));
    queue.flush().within(SOON).wait().expect("both are queued");
    device.idle().wait().expect("all done");
    device.check().expect("the books balance");
    assert!(device.memory_info().in_use <= 2 * 4096);
}

#[test]
fn a_victim_was_taken_back_whose_room_a_dropped_buffer_was_waiting_for() {
    let device = device(Some(3 * 4096), Contents::Held);
    let mut held = futures::executor::block_on(buffers(&device, 4, 4096));
    let mut queue = device.launch_queue(4);
    queue.push([Use::read(&held[0])], nothing).try_now().expect("taken: the second buffer is spilled");
    drop(held.remove(0));
    let launch = device.prepare([Use::read_write(&held[0])]).within(SOON).wait().expect("resident");
    queue.flush().within(SOON).wait().expect("queued");
    drop(launch);
    device.check().expect("the books balance");
}

#[test]
fn a_launch_behind_one_that_waited_for_the_hook_was_prepared_before_it() {
    let config = Config::profile("pcie4").expect("a profile");
    let sim = Sim::open(config).expect("a device");
    let options = Device::options().budget(2 * 4096).on_memory_pressure(|_| ());
    let device = options.open_driver("sim", sim).expect("opened");
    let held = futures::executor::block_on(buffers(&device, 4, 4096));
    let guards = [&held[2], &held[3]].map(|buffer| buffer.ensure_resident().wait().expect("resident"));
    let mut cx = Context::from_waker(Waker::noop());
    let mut ahead = Box::pin(device.alloc(4096));
    assert!(ahead.as_mut().poll(&mut cx).is_pending());
    let (mut first, mut second) = (device.launch_queue(4), device.launch_queue(4));
    first.push([Use::read(&held[0]), Use::read(&held[1])], nothing).try_now().expect("taken");
    drop(ahead);
    // It is its turn to have the hook run; the next two must not keep what it needs.
    first.push([Use::write(&held[2])], nothing).try_now().expect("taken");
    second.push([Use::write(&held[3])], nothing).try_now().expect("taken");
    drop(guards);
    second.flush().within(SOON).wait().expect("queued: who waits for one queue runs the hook for all");
    first.flush().within(SOON).wait().expect("queued");
    device.check().expect("the books balance");
}

#[test]
fn a_refused_launch_waited_for_what_one_behind_it_kept() {
    let sim = Sim::open(Config::profile("pcie4").expect("a profile")).expect("opened");
    let refuse = Effect::Refuse(DriverErrorKind::OutOfMemory);
    // Five for the buffers; then the first launch's, and again after a trim.
    let fault = Fault::new(sim, (5..7).map(|nth| Step::new(Call::Allocate, nth, refuse)));
    let device = Device::options().budget(4 * MIB).open_driver("sim", fault).expect("opened");
    let held = futures::executor::block_on(buffers(&device, 5, MIB));
    device.idle().wait().expect("the first is spilled");
    let mut queue = device.launch_queue(4);
    queue.push([Use::read(&held[0])], nothing).try_now().expect("taken");
    let others: Vec<_> = held[2..].iter().map(Use::read).collect();
    queue.push(others, nothing).try_now().expect("taken");
    assert_eq!(queue.len(), 2, "the second is ready, and comes behind the first");
    queue.flush().within(SOON).wait().expect("both are queued");
    device.check().expect("the books balance");
}

#[test]
fn a_launch_waited_for_ever_for_room_that_others_were_given_while_the_hook_ran_for_it() {
    type Other = Pin<Box<dyn Future<Output = bool> + Send>>;
    let action: Arc<Mutex<Option<(Buffer, Other)>>> = Arc::default();
    let in_hook = action.clone();
    let hook = move |_| {
        let action = in_hook.lock().expect("not poisoned").take();
        if let Some((dropped, mut other)) = action {
            drop(dropped); // the launch in the queue keeps it, beside the budget
            assert!(other.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            OTHER.set(Some(other));
        }
    };
    thread_local! {
        static OTHER: std::cell::Cell<Option<Other>> = const { std::cell::Cell::new(None) };
    }
    let sim = Sim::open(Config::profile("pcie4").expect("a profile")).expect("opened");
    // Three for the buffers; then the launch's.
    let fault = Fault::new(sim, [Step::new(Call::Allocate, 3, Effect::Refuse(DriverErrorKind::OutOfMemory))]);
    let options = Device::options().budget(4 * MIB).on_memory_pressure(hook);
    let device = options.open_driver("sim", fault).expect("opened");
    let [first, kept, large] = [1, 1, 3].map(|mib| device.alloc(mib * MIB).wait().expect("a buffer"));
    large.spill().wait().expect("spilled");
    first.spill().wait().expect("spilled");
    let mut queue = device.launch_queue(4);
    let other = {
        let (device, first, large) = (device.clone(), first.clone(), large.clone());
        async move { device.prepare([Use::read(&first), Use::read(&large)]).await.is_ok() }
    };
    let push = queue.push([Use::read(&first), Use::read(&kept)], nothing);
    *action.lock().expect("not poisoned") = Some((kept, Box::pin(other)));
    push.try_now().expect("taken");
    queue.flush().within(SOON).wait().expect("queued: the other gives way");
    let other = OTHER.take().expect("the hook has run");
    assert!(futures::executor::block_on(other), "it comes behind");
    device.check().expect("the books balance");
}

#[test]
fn an_end_of_a_pin_was_told_to_no_one_where_a_launch_in_a_queue_waited_for_the_same_buffer() {
    let sim = Sim::open(Config::profile("pcie4").expect("a profile")).expect("opened");
    let options = Device::options().budget(2 * MIB).victims(Victims::NextUse);
    let device = options.open_driver("sim", sim).expect("opened");
    let _fixed = device.alloc(MIB).fixed().wait().expect("room");
    let held = futures::executor::block_on(buffers(&device, 2, MIB));
    assert!(held[0].is_spilled());
    let mut cx = Context::from_waker(Waker::noop());
    let mut coming = Box::pin(device.prepare([Use::read_write(&held[0])]));
    assert!(coming.as_mut().poll(&mut cx).is_pending(), "the other is being copied out");
    let mut behind = Box::pin(device.alloc(MIB).within(SOON));
    assert!(behind.as_mut().poll(&mut cx).is_pending());
    let mut queue = device.launch_queue(4);
    queue.push([Use::read(&held[0])], nothing).try_now().expect("taken: it waits behind that");
    let launch = futures::executor::block_on(coming).expect("resident");
    futures::executor::block_on(device.idle()).expect("nothing is under way");
    assert!(behind.as_mut().poll(&mut cx).is_pending(), "it is pinned");
    drop(launch);
    drop(futures::executor::block_on(behind).expect("there is room now"));
    queue.flush().within(SOON).wait().expect("queued");
}

#[test]
fn a_launch_waited_for_the_hook_with_no_one_waiting_for_its_queue() {
    let sim = Sim::open(Config::profile("pcie4").expect("a profile")).expect("opened");
    let refuse = Effect::Refuse(DriverErrorKind::OutOfMemory);
    // Three for the buffers; then the launch's, once its victim is gone.
    let fault = Fault::new(sim, [Step::new(Call::Allocate, 3, refuse)]);
    let hooks = Arc::new(Mutex::new(0));
    let count = hooks.clone();
    let options = Device::options().budget(2 * MIB);
    let options = options.on_memory_pressure(move |_| *count.lock().expect("not poisoned") += 1);
    let device = options.open_driver("sim", fault).expect("opened");
    let held = futures::executor::block_on(buffers(&device, 3, MIB));
    device.idle().wait().expect("the first is spilled");
    let before = *hooks.lock().expect("not poisoned");
    let mut queue = device.launch_queue(4);
    queue.push([Use::read(&held[0])], nothing).try_now().expect("taken");
    let launch = device.prepare([Use::read(&held[0])]).within(SOON).wait().expect("the same buffer");
    assert_eq!(*hooks.lock().expect("not poisoned"), before + 1, "whoever waits runs the hook");
    drop(launch);
    queue.flush().within(SOON).wait().expect("queued");
}

#[test]
fn a_dropped_buffer_that_a_failed_launch_was_to_overwrite_was_counted_out_twice() {
    let device = device(Some(2 * 4096), Contents::Held);
    let mut held = futures::executor::block_on(buffers(&device, 3, 4096));
    let fail = |_: &Run<'_>| Err(Device::open("no such device").expect_err("there is none"));
    let mut queue = device.launch_queue(4);
    queue.push([Use::write(&held[0])], fail).try_now().expect("taken");
    drop(held.remove(0));
    queue.flush().within(SOON).wait().expect_err("its work failed");
    device.check().expect("the books balance");
}

#[test]
fn a_launch_that_gave_way_to_a_refused_one_was_lost_with_its_handles() {
    let sim = Sim::open(Config::profile("pcie4").expect("a profile")).expect("opened");
    let refuse = Effect::Refuse(DriverErrorKind::OutOfMemory);
    // Five for the buffers; then the first launch's, again after a trim, and again once all else is on its way.
    let fault = Fault::new(sim, (5..8).map(|nth| Step::new(Call::Allocate, nth, refuse)));
    let device = Device::options().budget(3 * MIB).open_driver("sim", fault).expect("opened");
    let [a, c, x, y, d] = [1u8, 2, 3, 4, 5].map(|value| {
        let buffer = device.alloc(MIB).wait().expect("a buffer");
        buffer.fill(value).wait().expect("filled");
        buffer
    });
    device.idle().wait().expect("two are spilled");
    let sums: Arc<Mutex<Vec<u32>>> = Arc::default();
    let mut queue = device.launch_queue(4);
    for uses in [vec![Use::read(&a)], vec![Use::read(&c), Use::read(&d)]] {
        let sums = sums.clone();
        let add = move |run: &Run<'_>| {
            run.host_kernel(Duration::ZERO, move |args| {
                let sum = args.iter().map(|arg| u32::from(arg.bytes()[0])).sum();
                sums.lock().expect("not poisoned").push(sum);
            })
        };
        queue.push(uses, add).try_now().expect("taken");
    }
    assert_eq!(queue.len(), 2, "both wait for the copies of their victims");
    drop((a, c, d));
    queue.flush().wait().expect("both are queued");
    device.idle().wait().expect("all done");
    assert_eq!(*sums.lock().expect("not poisoned"), [1, 2 + 5]);
    device.check().expect("the books balance");
    drop((x, y));
    device.idle().wait().expect("all done");
    let info = device.memory_info();
    assert_eq!((info.in_use, info.spilled), (0, 0));
}

#[test]
fn an_allocation_in_the_queue_comes_in_its_turn_and_keeps_its_bytes() {
    for look_ahead in [0, 1, 4] {
        for name in ["sim", "sim:pcie4"] {
            let device = Device::options().budget(4 * 4096).open(name).expect("opened");
            let mut queue = device.launch_queue(look_ahead);
            let mut kept = Vec::new();
            for value in 1..=12u8 {
                let buffer = queue.alloc(4096).expect("a buffer");
                let count = move |run: &Run<'_>| {
                    run.host_kernel(Duration::from_micros(20), move |args| {
                        args[0].bytes_mut().iter_mut().for_each(|byte| *byte += value);
                    })
                };
                queue.push([Use::read_write(&buffer)], count).wait().expect("taken");
                let scratch = queue.alloc_uninitialised(4096).expect("a buffer");
                queue.push([Use::read(&buffer), Use::write(&scratch)], copy).wait().expect("taken");
                kept.push(if value % 2 == 0 { scratch } else { buffer });
            }
            queue.flush().wait().expect("all queued");
            for (buffer, value) in kept.iter().zip(1..) {
                assert_eq!(
                    buffer.read().wait().expect("read"),
                    [value; 4096],
                    "{look_ahead} ahead on {name}"
                );
            }
            device.idle().wait().expect("all done");
            let info = device.memory_info();
            assert!(info.spills > 4 && info.peak <= 4 * 4096, "{info}");
            device.check().expect("the books balance");
            drop((queue, kept));
            device.idle().wait().expect("all done");
            let info = device.memory_info();
            assert_eq!((info.in_use, info.spilled), (0, 0));
        }
    }
}

#[test]
fn an_allocation_that_finds_no_room_is_told_and_may_be_used_later() {
    let device = Device::options().budget(2 * 4096).open("sim").expect("opened");
    let fixed = [4096; 2].map(|bytes| device.alloc(bytes).fixed().wait().expect("a buffer"));
    let mut queue = device.launch_queue(4);
    assert_eq!(queue.alloc(0).expect("no bytes").len(), 0);
    let buffer = queue.alloc(4096).expect("a buffer, and no memory yet");
    assert_eq!(queue.flush().wait().unwrap_err().kind(), ErrorKind::Blocked);
    drop(fixed);
    let seven = |run: &Run<'_>| run.host_kernel(Duration::ZERO, |args| args[0].bytes_mut().fill(7));
    queue.push([Use::write(&buffer)], seven).wait().expect("taken");
    queue.flush().wait().expect("queued");
    assert_eq!(buffer.read().wait().expect("read"), [7; 4096]);
    device.set_budget(Some(3 * 4096));
    let large = queue.alloc(3 * 4096).expect("a buffer");
    queue.flush().wait().expect("it has its memory");
    device.set_budget(Some(2 * 4096));
    let error =
        queue.push([Use::write(&large)], seven).wait().and_then(|()| queue.flush().wait()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    device.check().expect("the books balance");
}

#[test]
fn an_allocation_larger_than_the_device_is_refused_at_once() {
    let device = Device::options().budget(2 * 4096).open("sim").expect("opened");
    let mut queue = device.launch_queue(4);
    for bytes in [2 * 4096 + 1, 1 << 45, u64::MAX] {
        assert_eq!(queue.alloc(bytes).unwrap_err().kind(), ErrorKind::TooLarge, "{bytes} bytes");
        assert_eq!(
            queue.alloc_uninitialised(bytes).unwrap_err().kind(),
            ErrorKind::TooLarge,
            "{bytes} bytes"
        );
    }
    drop(queue.alloc(2 * 4096).expect("it fits"));
    queue.flush().wait().expect("all done");
    device.check().expect("the books balance");
}

#[test]
fn a_buffer_written_by_the_host_before_its_turn_keeps_what_was_written() {
    for (name, cleared) in [("sim", false), ("sim", true), ("sim:pcie4", false), ("sim:pcie4", true)] {
        let device = Device::options().budget(2 * 4096).open(name).expect("opened");
        let held = [4096; 2].map(|bytes| device.alloc(bytes).wait().expect("a buffer"));
        let guards = held.each_ref().map(|buffer| buffer.ensure_resident().wait().expect("resident"));
        let mut queue = device.launch_queue(4);
        let buffer = if cleared { queue.alloc(4096) } else { queue.alloc_uninitialised(4096) };
        let buffer = buffer.expect("a buffer");
        buffer.write([5; 4096]).wait().expect("written to the host");
        let add = |run: &Run<'_>| {
            run.host_kernel(Duration::ZERO, |args| args[0].bytes_mut().iter_mut().for_each(|byte| *byte += 1))
        };
        queue.push([Use::read_write(&buffer)], add).try_now().expect("taken");
        drop(guards);
        queue.flush().wait().expect("queued");
        assert_eq!(buffer.read().wait().expect("read"), [6; 4096]);
        let info = device.memory_info();
        assert_eq!((info.restores, info.spills), (0, 1), "its first arrival is no restore: {info}");
        device.check().expect("the books balance");
    }
}

#[test]
fn a_write_by_the_host_was_cleared_away_when_the_turn_of_its_buffer_came() {
    for name in ["sim", "sim:pcie4"] {
        let device = Device::options().budget(4 << 20).open(name).expect("opened");
        let arrays = futures::executor::block_on(buffers(&device, 8, 1 << 20));
        let mut queue = device.launch_queue(4);
        let mut made = Vec::new();
        for value in 1..=64u8 {
            let add = |run: &Run<'_>| {
                run.host_kernel(Duration::from_micros(50), |args| args[0].bytes_mut()[0] += 1)
            };
            queue.push([Use::read_write(&arrays[usize::from(value) % 8])], add).wait().expect("taken");
            let buffer = queue.alloc(4096).expect("a buffer");
            if value % 2 == 0 {
                buffer.write(vec![value; 4096]).wait().expect("written");
            } else {
                buffer.fill(value).wait().expect("filled");
            }
            queue.push([Use::read(&buffer)], nothing).wait().expect("taken");
            made.push((value, buffer));
        }
        queue.flush().wait().expect("queued");
        for (value, buffer) in made {
            assert_eq!(buffer.read().wait().expect("read"), vec![value; 4096], "{name}");
        }
    }
}

/// Zeros were promised, and only the turn in the queue made them.
#[test]
fn a_buffer_whose_turn_never_came_was_what_the_memory_held_before() {
    for (name, is_refused) in [("sim", false), ("sim:pcie4", false), ("sim", true), ("sim:pcie4", true)] {
        let config = if name == "sim" { Config::new() } else { Config::profile("pcie4").expect("a profile") };
        let sim = Sim::open(config).expect("opened");
        let refuse = Effect::Refuse(DriverErrorKind::Refused);
        // Of fills: two for the buffers held, then the new one's.
        let fault = Fault::new(sim, is_refused.then_some(Step::new(Call::Fill, 2, refuse)));
        let device = Device::options().budget(2 * 4096).open_driver(name, fault).expect("opened");
        let held = [4096; 2].map(|bytes| device.alloc(bytes).wait().expect("a buffer"));
        let guards = held.each_ref().map(|buffer| buffer.ensure_resident().wait().expect("resident"));
        let mut queue = device.launch_queue(4);
        let buffer = queue.alloc(4096).expect("a buffer");
        if is_refused {
            drop(guards);
            let error = queue.flush().wait().expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        } else {
            drop(queue);
            drop(guards);
        }
        for round in 0..2 {
            let seen = Arc::new(Mutex::new(Vec::new()));
            let note = seen.clone();
            let look =
                move |args: &mut [Arg<'_>]| *note.lock().expect("not poisoned") = args[0].bytes().to_vec();
            let launch = device.prepare([Use::read(&buffer)]).wait().expect("room");
            launch.submit(|run| run.host_kernel(Duration::ZERO, look)).expect("queued");
            device.idle().wait().expect("idle");
            assert_eq!(*seen.lock().expect("not poisoned"), [0; 4096], "{name}, round {round}");
            assert_eq!(buffer.read().wait().expect("read"), [0; 4096]);
            buffer.spill().wait().expect("spilled, with no copy to make");
        }
        // A launch that was to overwrite it, and was not queued.
        drop(device.prepare([Use::write(&buffer)]).wait().expect("room"));
        assert_eq!(buffer.read().wait().expect("read"), [0; 4096]);
        device.check().expect("the books balance");
    }
}

/// Two launches of one buffer were taken ahead of time, the first overwriting all of it: bytes were copied in for the
/// second that the first overwrote.
#[test]
fn a_copy_was_made_of_what_the_launch_before_overwrites() {
    for fails in [false, true] {
        let device = Device::options().budget(2 * 4096).open("sim:pcie4").expect("opened");
        let buffers = [1u8, 2, 3].map(|value| {
            let buffer = device.alloc(4096).wait().expect("a buffer");
            buffer.fill(value).wait().expect("filled");
            buffer
        });
        device.idle().wait().expect("the first is spilled");
        let before = device.memory_info();
        assert!(buffers[0].is_spilled());
        let mut queue = device.launch_queue(4);
        let write = move |run: &Run<'_>| {
            if fails {
                return Device::open("none of that name").map(drop);
            }
            run.host_kernel(Duration::ZERO, |args| args[0].bytes_mut().fill(7))
        };
        let seen = Arc::new(Mutex::new(0));
        let note = seen.clone();
        let look = move |run: &Run<'_>| {
            run.host_kernel(Duration::ZERO, move |args| {
                *note.lock().expect("not poisoned") = args[0].bytes()[9]
            })
        };
        queue.push([Use::write(&buffers[0])], write).try_now().expect("taken");
        queue.push([Use::read(&buffers[0])], look).try_now().expect("taken");
        assert_eq!(queue.flush().wait().is_err(), fails);
        queue.flush().wait().expect("the other one is queued");
        device.idle().wait().expect("all done");
        assert_eq!(*seen.lock().expect("not poisoned"), if fails { 1 } else { 7 });
        let copied = device.memory_info().copied_in_bytes - before.copied_in_bytes;
        assert_eq!(copied, if fails { 4096 } else { 0 });
        device.check().expect("the books balance");
    }
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn what_will_not_be_used_is_spilled_first_and_a_use_makes_it_recent_again() {
    for look_ahead in [None, Some(4)] {
        let device = Device::options().budget(3 * 4096).open("sim:pcie4").expect("opened");
        let [a, b, c] = [1u8, 2, 3].map(|value| {
            let buffer = device.alloc(4096).wait().expect("a buffer");
            buffer.fill(value).wait().expect("filled");
            buffer
        });
        let mut queue = look_ahead.map(|launches| device.launch_queue(launches));
        let mut one_more = || match &mut queue {
            Some(queue) => {
                let buffer = queue.alloc(4096).expect("a buffer");
                queue.flush().wait().expect("its memory");
                buffer
            }
            None => device.alloc(4096).wait().expect("a buffer"),
        };
        c.wont_use();
        let first = one_more();
        assert_eq!([&a, &b, &c].map(Buffer::is_spilled), [false, false, true]);
        b.wont_use();
        drop(b.ensure_resident().wait().expect("resident"));
        let second = one_more();
        assert_eq!([&a, &b, &c].map(Buffer::is_spilled), [true, false, true], "b was used since");
        for (buffer, value) in [(&a, 1), (&b, 2), (&c, 3)] {
            assert_eq!(buffer.read().wait().expect("read"), [value; 4096]);
        }
        drop((first, second));
        device.check().expect("the books balance");
    }
}

#[test]
fn a_discard_kept_zeros_from_a_read_that_was_asked_before_it() {
    for name in ["sim", "sim:pcie4"] {
        let device = Device::options().budget(4096).open(name).expect("opened");
        let held = device.alloc(4096).wait().expect("a buffer");
        let guard = held.ensure_resident().wait().expect("resident");
        let mut queue = device.launch_queue(4);
        let buffer = queue.alloc(4096).expect("a buffer");
        let mut cx = Context::from_waker(Waker::noop());
        let mut coming = Box::pin(device.prepare([Use::read(&buffer)]));
        assert!(coming.as_mut().poll(&mut cx).is_pending());
        let mut guard = Some(guard);
        // As soon as its memory is on its way.
        for polls in 0..3 {
            if polls == 1 {
                guard = None;
            }
            _ = coming.as_mut().poll(&mut cx);
        }
        let mut read = Box::pin(buffer.read());
        let early = read.as_mut().poll(&mut cx);
        buffer.discard();
        let bytes = match early {
            Poll::Ready(bytes) => bytes,
            Poll::Pending => futures::executor::block_on(read),
        };
        assert_eq!(bytes.expect("read"), [0; 4096], "{name}");
        drop(guard);
    }
}
