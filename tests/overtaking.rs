//! What one call did to another under way: faults that the model test found, each on its own.

use futures::FutureExt;
use std::{sync::Arc, time::Duration};
use tack_residency::{
    Buffer, Device, ErrorKind, Use,
    driver::{
        Driver, DriverErrorKind,
        fault::{Call, Effect, Fault, Step},
        sim::{Clock, Config, Link, Sim},
    },
};

const BYTES: u64 = 1024;

fn config() -> Config {
    let link = Link { pinned_bandwidth: Some(1_000_000_000), ..Link::default() };
    Config::new().with_clock(Clock::Computed).with_outward(link).with_inward(link)
}

fn open(driver: Arc<dyn Driver>, budget: Option<u64>) -> Device {
    Device::options().maybe_budget(budget).open_driver("overtaking", driver).expect("the device opens")
}

fn simulated(config: Config, budget: Option<u64>) -> Device {
    open(Sim::open(config).expect("the device opens"), budget)
}

/// Submits a kernel that sets every byte of a prepared launch's one buffer.
fn set<'a>(launch: tack_residency::Launch<'a, [Use<'a>; 1]>, value: u8) {
    launch
        .submit(|run| run.host_kernel(Duration::ZERO, move |args| args[0].bytes_mut().fill(value)))
        .expect("it is queued");
}

fn filled(device: &Device, value: u8) -> Buffer {
    let buffer = device.alloc(BYTES).wait().expect("room is made");
    buffer.write(vec![value; BYTES as usize]).wait().expect("it is written");
    buffer
}

#[test]
fn a_discard_between_prepare_and_submit_loses_what_the_launch_writes() {
    let device = simulated(config(), None);
    let buffer = filled(&device, 1);
    let launch = device.prepare([Use::read_write(&buffer)]).wait().expect("it is resident");
    buffer.discard();
    set(launch, 2);
    buffer.spill().wait().expect("it is spilled");
    assert_eq!(buffer.read().wait().expect("it is read"), [2; BYTES as usize]);
}

#[test]
fn a_buffer_set_aside_for_its_export_is_forgotten_when_a_pin_outlives_that() {
    let device = simulated(config(), Some(2 * BYTES));
    let buffer = filled(&device, 1);
    let guard = buffer.ensure_resident().wait().expect("it is resident");
    let export = buffer.export().wait().expect("it is exported");
    let other = filled(&device, 2);
    let third = filled(&device, 3); // The search meets the export and takes the other.
    assert!(other.is_spilled());
    drop(export);
    drop(guard);
    drop(third);
    let both = [device.alloc(BYTES).wait(), device.alloc(BYTES).wait()];
    assert!(both.iter().all(Result::is_ok), "{both:?}");
    assert!(buffer.is_spilled());
}

#[test]
fn a_request_admitted_before_the_budget_fell_below_it_waits_for_ever() {
    let device = simulated(config(), Some(2 * BYTES));
    let _held = [filled(&device, 1), filled(&device, 2)];
    let mut large = Box::pin(device.alloc(2 * BYTES));
    assert!(large.as_mut().now_or_never().is_none(), "it waits for its victims");
    device.set_budget(Some(BYTES));
    assert_eq!(futures::executor::block_on(large).unwrap_err().kind(), ErrorKind::TooLarge);
}

#[test]
fn a_launch_overtakes_a_fill_that_the_device_has_not_done() {
    let mut slow = config();
    slow.memory_bandwidth = Some(1_000_000);
    let device = simulated(slow, None);
    let buffer = device.alloc(BYTES).uninitialised().wait().expect("there is room");
    device.idle().wait().expect("the device is not lost");
    buffer.fill(1).wait().expect("it is queued");
    set(device.prepare([Use::read_write(&buffer)]).wait().expect("it is resident"), 2);
    assert_eq!(buffer.read().wait().expect("it is read"), [2; BYTES as usize]);
}

#[test]
fn a_refused_copy_in_takes_the_room_of_a_launch_that_overwrites() {
    let refusal = Step::new(Call::CopyIn, 1, Effect::Refuse(DriverErrorKind::Refused));
    let device = open(Fault::new(Sim::open(config()).expect("the device opens"), [refusal]), None);
    let buffer = filled(&device, 1);
    buffer.spill().wait().expect("it is spilled");
    let first = device.prepare([Use::write(&buffer)]).wait().expect("there is room");
    let second = device.prepare([Use::read(&buffer)]).wait();
    assert_eq!(second.unwrap_err().kind(), ErrorKind::Refused);
    set(first, 2);
    assert_eq!(buffer.read().wait().expect("it is read"), [2; BYTES as usize]);
    device.check().expect("the books balance");
}

#[test]
fn discarded_contents_are_copied_for_a_launch_beside_the_one_that_overwrites() {
    let device = simulated(config(), None);
    let buffer = filled(&device, 1);
    buffer.discard();
    buffer.spill().wait().expect("it is spilled");
    let first = device.prepare([Use::write(&buffer)]).wait().expect("there is room");
    drop(device.prepare([Use::read(&buffer)]).wait().expect("there is nothing to copy"));
    set(first, 2);
    buffer.spill().wait().expect("it is spilled");
    assert_eq!(buffer.read().wait().expect("it is read"), [2; BYTES as usize]);
}

#[test]
fn memory_that_a_spill_under_way_will_free_is_not_waited_for() {
    let device = simulated(config().with_capacity(BYTES), None);
    let buffer = filled(&device, 1);
    let mut spill = Box::pin(buffer.spill());
    assert!(spill.as_mut().now_or_never().is_none(), "its copy is under way");
    let other = device.alloc(BYTES).wait();
    assert!(other.is_ok(), "{other:?}");
}

#[test]
fn two_requests_take_each_others_room_for_ever() {
    let device = simulated(config().with_capacity(2 * BYTES), None);
    let buffers = [filled(&device, 1), filled(&device, 2)];
    let mut room = Box::pin(device.make_room(2 * BYTES));
    let _ = room.as_mut().now_or_never();
    let uses = [Use::read(&buffers[0]), Use::read_write(&buffers[1])];
    let mut launch = Box::pin(device.prepare(uses));
    let mut ended = (None, None);
    for _ in 0..1000 {
        if ended.0.is_none() {
            ended.0 = room.as_mut().now_or_never();
        }
        if ended.1.is_none() {
            ended.1 = launch.as_mut().now_or_never();
        }
    }
    ended.0.expect("it ends").expect("room");
    drop(ended.1.expect("it ends").expect("resident"));
}
