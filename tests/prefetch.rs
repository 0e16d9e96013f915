//! Hints at launches to come: copied beside what runs, behind what is asked for, and never at the cost of what is needed
//! sooner.

use std::{
    future::Future,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
    time::Duration,
};
use tack_residency::{
    Buffer, Device, ErrorKind, MemoryInfo, Run, Use,
    driver::sim::{Config, Contents, Sim},
};

const MIB: u64 = 1 << 20;
const SOON: Duration = Duration::from_secs(1);

fn device(budget: u64) -> Device {
    let config = Config::profile("pcie4").expect("a profile");
    Device::options().budget(budget).open_driver("sim", Sim::open(config).expect("a device")).expect("opened")
}

/// Buffers of `mib` MiB, each full of its number, the last of them on the device.
fn buffers(device: &Device, count: u8, mib: u64) -> Vec<Buffer> {
    let made = (0..count).map(|value| {
        let buffer = device.alloc(mib * MIB).uninitialised().wait().expect("room");
        buffer.fill(value).wait().expect("filled");
        buffer
    });
    let made = made.collect();
    device.idle().wait().expect("idle");
    made
}

fn spilled(held: &[Buffer]) -> Vec<usize> {
    (0..held.len()).filter(|&index| held[index].is_spilled()).collect()
}

fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[track_caller]
fn end(device: &Device, held: &[Buffer]) {
    device.idle().wait().expect("idle");
    device.check().expect("the books balance");
    for (value, buffer) in (0..).zip(held) {
        let bytes = buffer.read().wait().expect("read");
        assert!(bytes.iter().all(|byte| *byte == value), "wrong bytes in {value}");
    }
}

/// Reads and writes each of 48 buffers in turn, four times, with a hint at each next one or without; how long that took.
fn sweep(budget: Option<u64>, hints: bool) -> (Duration, MemoryInfo) {
    let config = Config::profile("pcie4").expect("a profile").with_contents(Contents::NotHeld);
    let sim = Sim::open(config).expect("a device");
    let device = Device::options().maybe_budget(budget).open_driver("sim", sim).expect("opened");
    let count = 48;
    let kernel = Duration::from_nanos(16 * MIB * 1_000_000_000 / 24_000_000_000 * 2);
    futures::executor::block_on(async {
        let mut held = Vec::new();
        for _ in 0..count {
            held.push(device.alloc(16 * MIB).uninitialised().await.expect("room"));
        }
        device.idle().await.expect("idle");
        let start = device.driver().now();
        for step in 0..4 * count {
            let launch = device.prepare([Use::read_write(&held[step % count])]).await.expect("room");
            launch.submit(|run| run.host_kernel(kernel, |_| ())).expect("queued");
            if hints {
                let next = &held[(step + 1) % count];
                assert_eq!(device.prefetch([Use::read_write(next)]).await.expect("brought"), 16 * MIB);
            }
            // The host needs what was computed, and goes on then.
            device.idle().await.expect("idle");
        }
        device.check().expect("the books balance");
        (device.driver().now() - start, device.memory_info())
    })
}

#[test]
fn a_hint_at_each_next_launch_hides_its_copies() {
    let (unlimited, _) = sweep(None, false);
    let budget = Some(24 * 16 * MIB);
    let (without, _) = sweep(budget, false);
    let (with, info) = sweep(budget, true);
    let ratio = |time: Duration| time.as_secs_f64() / unlimited.as_secs_f64();
    println!("{:.3} of unlimited with hints, {:.3} without: {info}", ratio(with), ratio(without));
    assert!(ratio(with) < 1.1 && ratio(without) > 1.4);
    assert!(info.peak <= 24 * 16 * MIB);
}

#[test]
fn a_hint_spills_the_coldest_but_nothing_that_is_needed_sooner() {
    let device = device(4 * MIB);
    let held = buffers(&device, 8, 1);
    assert_eq!(spilled(&held), [0, 1, 2, 3]);
    assert_eq!(held[0].prefetch().wait().expect("brought"), MIB);
    assert_eq!(spilled(&held), [1, 2, 3, 4], "the coldest");
    let guard = held[5].ensure_resident().wait().expect("there");
    assert_eq!(held[1].prefetch().wait().expect("brought"), MIB);
    assert_eq!(spilled(&held), [2, 3, 4, 6], "not what is pinned");
    assert_eq!(held[7].prefetch().wait().expect("there"), MIB, "it is about something that is there");
    let launch = [Use::read(&held[2]), Use::read(&held[3])];
    assert_eq!(device.prefetch(launch).wait().expect("no room"), 0, "not what earlier hints are about");
    assert_eq!(spilled(&held), [2, 3, 4, 6]);
    drop(guard);
    assert_eq!(device.prefetch(launch).wait().expect("room for one"), MIB);
    assert_eq!(spilled(&held), [3, 4, 5, 6]);
    // Used: it counts as any other from now on.
    drop(held[0].ensure_resident().wait().expect("there"));
    drop(held[1].ensure_resident().wait().expect("there"));
    assert_eq!(held[3].prefetch().wait().expect("brought"), MIB);
    assert_eq!(spilled(&held), [0, 4, 5, 6]);
    end(&device, &held);
}

#[test]
fn a_hint_leaves_what_launches_in_a_queue_wait_for() {
    let device = device(4 * MIB);
    let held = buffers(&device, 6, 1);
    assert_eq!(spilled(&held), [0, 1]);
    let nothing = |run: &Run<'_>| run.host_kernel(Duration::ZERO, |_| ());
    let guards: Vec<_> = held[4..].iter().map(|held| held.ensure_resident().wait().expect("there")).collect();
    let mut queue = device.launch_queue(8);
    queue.push([Use::read(&held[2]), Use::read(&held[3])], nothing).try_now().expect("taken");
    queue
        .push([Use::read(&held[2]), Use::read(&held[3]), Use::read(&held[0])], nothing)
        .try_now()
        .expect("taken");
    let mut hint = pin!(held[1].prefetch());
    assert!(poll_once(hint.as_mut()).is_pending(), "launches wait for room");
    drop(guards);
    queue.flush().within(SOON).wait().expect("queued");
    futures::executor::block_on(hint).expect("brought, or there was no room between the launches");
    assert!(!spilled(&held).iter().any(|index| [0, 2, 3].contains(index)));
    assert_eq!(held[1].prefetch().wait().expect("brought"), MIB);
    end(&device, &held);
}

#[test]
fn what_is_asked_for_comes_before_a_hint_under_way() {
    let device = device(2 * MIB);
    let held = buffers(&device, 4, 1);
    assert_eq!(spilled(&held), [0, 1]);
    let mut hint = Box::pin(held[0].prefetch());
    assert!(poll_once(hint.as_mut()).is_pending(), "the coldest is being copied out");
    let copied = || device.memory_info().copied_out_bytes;
    let before = copied();
    let guard = held[1].ensure_resident().within(SOON).wait().expect("brought");
    assert_eq!(copied() - before, MIB, "in the room that was being made for the hint");
    assert!(held[0].is_spilled());
    assert_eq!(futures::executor::block_on(hint).expect("brought behind it"), MIB);
    assert_eq!(spilled(&held), [2, 3]);
    drop(guard);
    end(&device, &held);
}

#[test]
fn a_hint_dropped_in_the_middle_leaves_no_trace() {
    let device = device(2 * MIB);
    let held = buffers(&device, 4, 1);
    for polls in 0..4 {
        let before = device.memory_info();
        let mut hint = Box::pin(device.prefetch([Use::read(&held[0]), Use::read(&held[1])]));
        for _ in 0..polls {
            _ = poll_once(hint.as_mut());
        }
        drop(hint);
        device.idle().wait().expect("idle");
        device.check().expect("the books balance");
        let after = device.memory_info();
        assert_eq!((after.reserved, after.leaving, after.pinned), (0, 0, 0));
        assert!(after.peak <= 2 * MIB && after.in_use <= before.in_use, "{polls}: {after:?}");
        // What it was about is not spared by later ones.
        assert_eq!(
            device.prefetch([Use::read(&held[2]), Use::read(&held[3])]).wait().expect("brought"),
            2 * MIB
        );
        assert_eq!(spilled(&held), [0, 1], "after {polls} polls");
        held[2..].iter().for_each(|held| drop(held.ensure_resident().wait().expect("there")));
    }
    end(&device, &held);
}

#[test]
fn a_hint_for_which_there_is_no_room_never_waits_for_who_asked() {
    let device = device(2 * MIB);
    let held = buffers(&device, 4, 1);
    let guards: Vec<_> = held[2..].iter().map(|held| held.ensure_resident().wait().expect("there")).collect();
    assert_eq!(held[0].prefetch().within(SOON).wait().expect("passed over"), 0);
    let mut other = Box::pin(held[1].ensure_resident());
    assert!(poll_once(other.as_mut()).is_pending(), "only the guards stand in the way");
    assert_eq!(held[0].prefetch().wait().expect("passed over: it would wait for itself"), 0);
    let late = futures::executor::block_on(held[0].prefetch().within(Duration::from_millis(1)));
    assert_eq!(late.expect_err("another waits").kind(), ErrorKind::TimedOut);
    drop(guards);
    drop(futures::executor::block_on(other).expect("brought"));
    end(&device, &held);
}

#[test]
fn a_hint_leaves_what_a_launch_overwrites_and_takes_no_other_device_s() {
    let (first, second) = (device(2 * MIB), device(2 * MIB));
    let held = buffers(&first, 4, 1);
    let uses = [Use::write(&held[0]), Use::read(&held[3])];
    assert_eq!(first.prefetch(uses).wait().expect("nothing to do"), MIB);
    assert_eq!(spilled(&held), [0, 1]);
    let error = second.prefetch(uses).wait().expect_err("of another device");
    assert_eq!(error.kind(), ErrorKind::Misuse);
    assert_eq!(first.prefetch([]).wait().expect("nothing to do"), 0);
    let guard = first.prepare([Use::write(&held[0])]).wait().expect("room, without a copy");
    assert_eq!(held[0].prefetch().within(SOON).wait().expect("it has its memory"), 0);
    drop(guard);
    end(&first, &held);
}
