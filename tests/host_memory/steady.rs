//! What the host tier takes: little more than what it holds, and nothing once a program has settled.

use crate::bench::{MIB, Random, finish, poll_once};
use std::{
    collections::BTreeSet,
    pin::pin,
    ptr,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};
use tack_residency::{
    Buffer, Device, Use,
    driver::{
        Arg,
        fault::{Call, Fault},
        sim::{Config, Contents, Sim},
    },
};

/// A device that holds no bytes: sizes are all that matters here.
fn open(budget: u64) -> (Arc<Sim>, Arc<Fault>, Device) {
    let config = Config::profile("pcie4").expect("a profile").with_contents(Contents::NotHeld);
    let sim = Sim::open(config).expect("a device");
    let fault = Fault::new(sim.clone(), []);
    let device = Device::options().budget(budget).open_driver("steady", fault.clone()).expect("a device");
    (sim, fault, device)
}

#[test]
fn nothing_is_pinned_or_unpinned_once_a_program_has_settled() {
    let (sim, fault, device) = open(256 * MIB);
    let pins = || fault.calls(Call::AllocateHost);
    let mut random = Random(11);
    let mut size = move || {
        let scale = 4096 << random.below(14);
        scale + random.below(scale)
    };
    let mut held: Vec<Buffer> = Vec::new();
    let mut random = Random(12);
    let (mut alive, mut settled) = (0, (0, 0));
    for step in 0..6000 {
        let bytes = size();
        while alive + bytes > 768 * MIB {
            let gone = held.swap_remove(random.below(held.len() as u64) as usize);
            alive -= gone.len();
        }
        held.push(finish(device.alloc(bytes).uninitialised()).expect("room"));
        alive += bytes;
        let mut any = || &held[random.below(held.len() as u64) as usize];
        let uses = [any(), any(), any()];
        let slots: BTreeSet<_> = uses.iter().map(|buffer| ptr::from_ref(*buffer)).collect();
        if slots.len() == 3 && uses.iter().map(|buffer| buffer.len()).sum::<u64>() < 200 * MIB {
            let uses = [Use::read_write(uses[0]), Use::read(uses[1]), Use::read_write(uses[2])];
            let launch = finish(device.prepare(uses)).expect("room");
            launch.submit(|run| run.host_kernel(Default::default(), |_| {})).expect("queued");
        }
        if step == 3000 {
            settled = (pins(), sim.live_host_bytes());
        }
    }
    let info = device.memory_info();
    println!("{} slabs, {} MiB pinned: {info:?}", pins(), sim.live_host_bytes() / MIB);
    assert!(info.spills > 3000 && info.host_most_runs <= 8, "{info:?}");
    assert_eq!((pins(), sim.live_host_bytes()), settled, "pinned or unpinned in steady state");
}

#[test]
fn a_host_copy_takes_an_eighth_more_than_its_bytes_at_most_from_a_mebibyte_on() {
    for shift in 12..=26 {
        let bytes = (1u64 << shift) + 1;
        let (sim, _, device) = open(bytes.next_multiple_of(512));
        let count = (64 * MIB / bytes).clamp(1, 70);
        let held: Vec<_> = (0..count)
            .map(|_| {
                let buffer = finish(device.alloc(bytes).uninitialised()).expect("room");
                finish(buffer.fill(1)).expect("filled");
                finish(buffer.spill()).expect("spilled");
                buffer
            })
            .collect();
        let (info, asked) = (device.memory_info(), count * bytes);
        let pinned = sim.live_host_bytes();
        println!(
            "{count:>3} of {bytes:>9} bytes: {pinned:>9} pinned, {:.2} % over",
            (pinned - asked) as f64 * 100.0 / asked as f64
        );
        assert_eq!((info.host_pinned, info.host_pinned + info.host_spare), (asked, pinned), "{info:?}");
        assert!(pinned <= asked.max(MIB) / 8 * 9, "{info:?}");
        drop(held);
    }
}

#[test]
fn pinning_held_a_lock_that_the_device_s_own_work_waited_for() {
    let sim = Sim::open(Config::profile("pcie4").expect("a profile")).expect("a device");
    let fault = Fault::new(sim.clone(), []);
    let device = Device::options().budget(16 * MIB).open_driver("pinning", fault.clone()).expect("a device");
    let [kernel, first, second] = [0; 3].map(|_| finish(device.alloc(MIB).uninitialised()).expect("room"));
    let (begun, has_begun) = mpsc::channel();
    let (done, is_done) = mpsc::channel();
    let launch = finish(device.prepare([Use::read_write(&kernel)])).expect("room");
    let pins = fault.clone();
    let body = move |_: &mut [Arg<'_>]| {
        let before = pins.calls(Call::AllocateHost);
        begun.send(()).expect("it is waited for");
        let start = Instant::now();
        while pins.calls(Call::AllocateHost) == before && start.elapsed() < Duration::from_secs(10) {
            thread::yield_now();
        }
        // Memory is being pinned for the read of the other thread, which waits for this kernel's end.
        assert!(poll_once(pin!(second.read())).is_pending());
    };
    launch.submit(|run| run.host_kernel(Duration::from_micros(10), body)).expect("queued");
    let other = thread::spawn({
        let done = done.clone();
        move || {
            has_begun.recv().expect("it begins");
            let bytes = finish(first.read()).expect("read").len();
            done.send(bytes).expect("it is waited for");
        }
    });
    let idle = thread::spawn(move || {
        finish(device.idle()).expect("idle");
        done.send(0).expect("it is waited for");
    });
    for _ in 0..2 {
        is_done.recv_timeout(Duration::from_secs(60)).expect("a thread hangs");
    }
    _ = [other, idle].map(|thread| thread.join().expect("no panic"));
}
