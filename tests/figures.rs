//! Figures of overlap in the report: how long copies and kernels ran, what was hidden, and what was waited for.

use std::{future::Future, pin::pin, task::Context, time::Duration};
use tack_residency::{
    Buffer, Device, MemoryInfo, Use,
    driver::{
        Driver,
        fault::Fault,
        sim::{Config, Contents, Sim},
    },
};

const BYTES: u64 = 24_000_000;
/// At 24 GB/s, and what each copy takes besides.
const COPY: Duration = Duration::from_micros(1000 + 10);
const KERNEL: Duration = Duration::from_millis(5);

fn device(budget: u64) -> Device {
    let config = Config::profile("pcie4").expect("a profile").with_contents(Contents::NotHeld);
    let sim = Sim::open(config).expect("a device");
    Device::options().budget(budget * BYTES).open_driver("sim", sim).expect("opened")
}

fn buffer(device: &Device) -> Buffer {
    device.alloc(BYTES).uninitialised().wait().expect("a buffer")
}

fn launch(device: &Device, buffer: &Buffer) {
    let launch = device.prepare([Use::read_write(buffer)]).wait().expect("room");
    launch.submit(|run| run.host_kernel(KERNEL, |_| ())).expect("a launch");
}

fn settled(device: &Device) -> MemoryInfo {
    device.idle().wait().expect("idle");
    device.memory_info()
}

fn is_near(time: Duration, wanted: Duration) -> bool {
    time.abs_diff(wanted) < Duration::from_micros(100)
}

#[test]
fn what_ran_beside_a_kernel_is_hidden_and_the_rest_is_not() {
    let device = device(3);
    let (a, b) = (buffer(&device), buffer(&device));
    let idle = device.memory_info().busy.expect("it can tell");
    assert_eq!((idle.copy, idle.hidden()), (Duration::ZERO, None));
    // One copy out alone.
    a.spill().wait().expect("spilled");
    let busy = settled(&device).busy.expect("it can tell");
    assert!(is_near(busy.copy_out, COPY) && busy.copy_in.is_zero(), "{busy:?}");
    assert_eq!(busy.hidden(), Some(0.0));
    // And one in, beside a kernel on another buffer.
    launch(&device, &b);
    drop(a.ensure_resident().wait().expect("restored"));
    let info = settled(&device);
    let busy = info.busy.expect("it can tell");
    assert!(is_near(busy.copy_in, COPY) && is_near(busy.compute, KERNEL), "{busy:?}");
    assert!(is_near(busy.copy_while_compute, COPY) && busy.both_ways.is_zero(), "{busy:?}");
    assert!((busy.hidden().expect("copies") - 0.5).abs() < 0.01, "{busy}");
    assert!(info.to_string().contains(", hidden 50.0%, waited "), "{info}");
}

#[test]
fn a_driver_that_cannot_tell_says_so() {
    let info = Device::open("cpu").expect("the host").memory_info();
    assert_eq!(info.busy, None);
    let info = {
        let mut info = info;
        info.spills = 1;
        info
    };
    assert!(info.to_string().contains(", hidden -, waited 0.0ns"), "{info}");
    // One around another tells what that tells.
    let sim = Sim::open(Config::profile("pcie4").expect("a profile")).expect("a device");
    assert_eq!(Fault::new(sim.clone(), []).busy(), sim.busy());
    assert!(sim.busy().is_some());
}

#[test]
fn what_fits_is_not_waited_for() {
    let device = device(3);
    let held = [buffer(&device), buffer(&device), buffer(&device)];
    held.iter().cycle().take(100).for_each(|buffer| launch(&device, buffer));
    assert_eq!(settled(&device).waited, Duration::ZERO);
}

#[test]
fn the_wait_for_room_is_the_wait_for_who_used_it_and_for_the_copy() {
    let device = device(1);
    let (a, b) = (buffer(&device), buffer(&device));
    launch(&device, &a);
    let before = settled(&device).waited;
    launch(&device, &a);
    let asked = device.driver().now();
    launch(&device, &b);
    let took = device.driver().now() - asked;
    let waited = settled(&device).waited - before;
    assert!(waited <= took && is_near(waited, KERNEL + COPY), "{waited:?} of {took:?}");
}

#[test]
fn a_wait_that_was_given_up_was_one() {
    let device = device(1);
    let (a, b) = (buffer(&device), buffer(&device));
    launch(&device, &a);
    let before = settled(&device).waited;
    {
        let guard = a.ensure_resident().wait().expect("resident");
        let mut wait = pin!(b.ensure_resident());
        let cx = &mut Context::from_waker(std::task::Waker::noop());
        assert!(wait.as_mut().poll(cx).is_pending());
        device.driver().charge(Duration::from_millis(7));
        drop(guard);
    }
    let waited = settled(&device).waited - before;
    assert!(is_near(waited, Duration::from_millis(7)), "{waited:?}");
}

/// Of launches taken ahead of time each waits on its own.
#[test]
fn waits_at_the_same_time_count_each() {
    let [one, four] = [1, 4].map(|look_ahead| {
        let device = device(8);
        let held: Vec<Buffer> = (0..16).map(|_| buffer(&device)).collect();
        let before = settled(&device).waited;
        let mut queue = device.launch_queue(look_ahead);
        for buffer in held.iter().cycle().take(64) {
            let work = |run: &tack_residency::Run<'_>| run.host_kernel(KERNEL, |_| ());
            queue.push([Use::read_write(buffer)], work).wait().expect("a launch");
        }
        queue.flush().wait().expect("all");
        drop(queue);
        let info = settled(&device);
        (info.waited - before, info.busy.expect("it can tell").hidden().expect("copies"))
    });
    assert!(four.0 > one.0, "{four:?}, {one:?}");
    assert!((0.9..=1.0).contains(&four.1), "{four:?}");
}
