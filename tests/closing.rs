//! The end of a device: what was under way is finished, and nothing is left.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Waker},
    thread,
    time::{Duration, Instant},
};
use tack_residency::{
    Buffer, Device, Use,
    driver::{
        Driver,
        fault::{Call, Fault},
        sim::{Clock, Config, Sim},
    },
};

fn sim(clock: Clock) -> Arc<Sim> {
    let config = Config::profile("pcie4").expect("a profile").with_granularity(512).with_clock(clock);
    Sim::open(config).expect("a device")
}

fn open(driver: Arc<dyn Driver>) -> (Device, [Buffer; 3]) {
    let device = Device::options().budget(2 * 4096).open_driver("closing", driver).expect("opened");
    let buffers = [1, 2, 3].map(|value| {
        let buffer = device.alloc(4096).wait().expect("a buffer");
        buffer.fill(value).wait().expect("filled");
        buffer
    });
    (device, buffers)
}

/// Once the device's thread, where it has one, has done what is left to do.
fn assert_gone(sim: &Sim, what: &str) {
    let held = || (sim.live_allocations(), sim.live_bytes(), sim.live_host_bytes(), sim.live_fences());
    let start = Instant::now();
    while held() != (0, 0, 0, 0) && start.elapsed() < Duration::from_secs(30) {
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(held(), (0, 0, 0, 0), "{what}: allocations, bytes, host bytes and fences left");
    assert_eq!(sim.faults(), [], "{what}: the device was misused");
}

fn poll_once(future: impl Future) {
    let _ = pin!(future).poll(&mut Context::from_waker(Waker::noop()));
}

/// What was under way kept the device's memory for ever, where no thread of the device's own saw to its end.
#[test]
fn a_device_dropped_with_work_under_way_kept_its_memory() {
    type Start = fn(&Device, &[Buffer; 3]);
    let starts: [(&str, Start); 9] = [
        ("spill", |_, [.., c]| poll_once(c.spill())),
        ("alloc", |device, _| poll_once(device.alloc(4096))),
        ("make_room", |device, _| poll_once(device.make_room(8192))),
        ("spill_all", |device, _| poll_once(device.spill_all())),
        ("read", |_, [a, ..]| poll_once(a.read())),
        ("write", |_, [.., c]| poll_once(c.write([7; 4096]))),
        ("ensure_resident", |_, [a, ..]| poll_once(a.ensure_resident())),
        ("copy_to", |_, [a, _, c]| poll_once(a.copy_to(c))),
        ("launch", |device, [a, ..]| {
            let mut queue = device.launch_queue(4);
            let work = |run: &tack_residency::Run<'_>| run.host_kernel(Duration::from_millis(1), |_| ());
            poll_once(queue.push([Use::read_write(a)], work));
        }),
    ];
    for clock in [Clock::Computed, Clock::Real] {
        for (what, start) in starts {
            let sim = sim(clock);
            let (device, buffers) = open(sim.clone());
            start(&device, &buffers);
            drop(device);
            drop(buffers);
            assert_gone(&sim, &format!("{what}, {clock:?}"));
        }
    }
}

/// Fences that one queue was told to wait for, and whose passing nothing showed, were never given back.
#[test]
fn fences_between_queues_outlived_the_device() {
    for clock in [Clock::Computed, Clock::Real] {
        let sim = sim(clock);
        let (device, [a, b, c]) = open(sim.clone());
        let queues =
            [device.queue(), device.add_queue().expect("a queue"), device.add_queue().expect("a queue")];
        for (round, buffer) in [&a, &b, &a, &c, &b, &a].into_iter().enumerate() {
            let launch = device.prepare([Use::read_write(buffer)]).wait().expect("resident");
            let launch = launch.on(&queues[round % 3]).expect("its queue");
            launch.submit(|run| run.host_kernel(Duration::from_micros(50), |_| ())).expect("queued");
        }
        drop((device, queues, a, b, c));
        assert_gone(&sim, &format!("{clock:?}"));
    }
}

/// A driver that frees nothing kept its device busy for ever.
#[test]
fn a_driver_that_refuses_every_free_was_asked_for_ever() {
    for clock in [Clock::Computed, Clock::Real] {
        let sim = sim(clock);
        let fault = Fault::random(sim.clone(), 1, 1, &[Call::Free]);
        let device = Device::options().open_driver("closing", fault.clone()).expect("opened");
        let buffers = [4096, 512].map(|bytes| device.alloc(bytes).wait().expect("a buffer"));
        buffers[1].spill().wait().expect("spilled");
        drop((device, buffers));
        drop(fault);
        let start = Instant::now();
        while Arc::strong_count(&sim) > 1 && start.elapsed() < Duration::from_secs(30) {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(Arc::strong_count(&sim), 1, "{clock:?}: the device's thread has given up");
    }
}
