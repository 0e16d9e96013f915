//! Every kind of error, and what it says.

use crate::bench::{Bench, COMPUTE, UNIT, config, finish};
use std::{error::Error as _, time::Duration};
use tack_residency::{
    Device, Error, ErrorKind, Use, blocking,
    driver::{
        Driver, DriverError, DriverErrorKind,
        fault::{Call, Effect, Fault, Step},
        sim::{Clock, Config, Sim},
    },
};

/// What a reader of an error may rely on.
#[track_caller]
fn expect<T>(outcome: Result<T, Error>, kind: ErrorKind, retryable: bool, says: &[&str]) -> Error {
    let Err(error) = outcome else { panic!("no error where {kind:?} was to be") };
    let text = error.to_string();
    assert_eq!((error.kind(), error.is_retryable()), (kind, retryable), "{text}");
    says.iter().for_each(|word| assert!(text.contains(word), "{text:?} does not say {word:?}"));
    assert!(!text.ends_with('.') && !text.contains('\n'), "{text:?}");
    assert_eq!(error.clone().to_string(), text);
    assert!(format!("{error:?}").contains(&format!("{kind:?}")));
    error
}

#[test]
fn an_error_did_not_say_what_to_do() {
    let bench = Bench::new(
        config(Clock::Computed, 8).with_max_allocation(Some(3 * UNIT)),
        Device::options().budget(2 * UNIT).stall_after(Duration::from_millis(5)),
    );
    let device = &bench.device;
    let named = |error: Error| {
        assert_eq!(error.device(), Some("bench"), "{error}");
        error
    };
    let error =
        named(expect(finish(device.alloc(3 * UNIT)), ErrorKind::TooLarge, false, &["12.0 KiB", "8.0 KiB"]));
    assert_eq!(error.memory_info().map(|info| info.budget), Some(Some(2 * UNIT)));
    named(expect(finish(device.alloc(4 * UNIT)), ErrorKind::TooLarge, false, &["16.0 KiB", "12.0 KiB"]));
    let (a, b) = (bench.buffer(1), bench.buffer(2));
    let guards = [&a, &b].map(|buffer| finish(buffer.ensure_resident()).expect("resident"));
    let error =
        named(expect(finish(device.alloc(UNIT)), ErrorKind::Stalled, true, &["buffer 1", "errors.rs"]));
    assert_eq!(error.holders().len(), 2);
    drop(guards);
    let export = finish(a.export()).expect("resident");
    let error =
        named(expect(finish(device.alloc(2 * UNIT)), ErrorKind::Blocked, true, &["buffer 1", "4.0 KiB"]));
    assert_eq!(error.holders().len(), 1);
    drop(export);
    bench.hold(&[COMPUTE]);
    bench.increment(&device.queue(), &a);
    expect(a.read().try_now(), ErrorKind::WouldBlock, true, &["read", "await"]);
    let soon = Duration::from_millis(1);
    named(expect(finish(a.read().within(soon)), ErrorKind::TimedOut, true, &["read", "deadline"]));
    bench.release(&[COMPUTE]);
    named(expect(finish(a.write([0; 2 * UNIT as usize])), ErrorKind::Misuse, false, &["8192", "4096"]));
    expect(a.view(UNIT, 1), ErrorKind::Misuse, false, &["4096"]);
    expect(a.view(u64::MAX, 2), ErrorKind::Misuse, false, &["4096"]);
    let view = a.view(1, 10).expect("within");
    expect(view.view(5, 6), ErrorKind::Misuse, false, &["6 bytes at 5", "10"]);
    named(expect(finish(a.copy_to(&a)), ErrorKind::Misuse, false, &["one buffer"]));
    let short = finish(device.alloc(1)).expect("room");
    named(expect(finish(a.copy_to(&short)), ErrorKind::Misuse, false, &["4096"]));
    let other = Bench::tight(Clock::Computed, 1);
    let theirs = other.buffer(9);
    named(expect(
        finish(device.prepare([Use::read(&theirs)])),
        ErrorKind::Misuse,
        false,
        &["another device"],
    ));
    let launch = finish(device.prepare([Use::read(&a)])).expect("resident");
    expect(launch.on(&other.device.queue()), ErrorKind::Misuse, false, &["another device"]);
    let guard = finish(a.ensure_resident()).expect("resident");
    expect(guard.used_on(&other.device.queue()), ErrorKind::Misuse, false, &["another device"]);
    let export = finish(a.export()).expect("resident");
    expect(export.end_after(&other.device.queue()), ErrorKind::Misuse, false, &["another device"]);
    assert_eq!((bench.info().pinned, bench.info().exported), (0, 0), "a refused end is an end");
    let queues: Vec<_> = (0..4).map(|_| device.add_queue().expect("a queue")).collect();
    for _ in 0..3 {
        named(expect(device.add_queue(), ErrorKind::Unsupported, false, &["five"]));
    }
    let made = bench.sim.create_queue(tack_residency::driver::QueueRole::Compute).expect("a queue");
    assert_eq!(made.0, 9, "{queues:?}: a refused queue was made all the same");
    expect(Device::open("cuda:99x"), ErrorKind::Unavailable, false, &["sim"]);
    expect(Device::open("sim:nothing"), ErrorKind::Unavailable, false, &["pcie4"]);
    expect(blocking::Device::open("gpu"), ErrorKind::Unavailable, false, &["gpu"]);
    bench.check();
}

#[test]
fn an_error_did_not_keep_the_vendors_call_and_number() {
    let open = |call, kind| {
        let sim = Sim::open(config(Clock::Computed, 4)).expect("a device");
        let fault = Fault::new(sim, [Step::new(call, 0, Effect::Refuse(kind))]);
        Device::options().budget(2 * UNIT).open_driver("faulty", fault)
    };
    let source = |error: &Error| {
        let source = error.source().expect("a source").downcast_ref::<DriverError>().expect("the driver's");
        (source.call, source.code)
    };
    let refused = DriverErrorKind::Refused;
    let error = expect(open(Call::CreateQueue, refused), ErrorKind::Refused, true, &["refused"]);
    assert_eq!(source(&error), ("create_queue", -1));
    let error =
        expect(open(Call::CreateQueue, DriverErrorKind::Unavailable), ErrorKind::Unavailable, false, &[]);
    assert_eq!(source(&error), ("create_queue", -1));
    let device = open(Call::Allocate, refused).expect("a device");
    let error = expect(finish(device.alloc(UNIT)), ErrorKind::Refused, true, &["alloc", "refused"]);
    assert_eq!((source(&error), error.device()), (("allocate", -1), Some("faulty")));
    let device = open(Call::Allocate, DriverErrorKind::TooLarge).expect("a device");
    expect(finish(device.alloc(UNIT)), ErrorKind::TooLarge, false, &["alloc"]);
    let device = open(Call::LaunchHost, DriverErrorKind::Unsupported).expect("a device");
    let a = finish(device.alloc(UNIT)).expect("room");
    let launch = finish(device.prepare([Use::read(&a)])).expect("resident");
    let error = launch.submit(|run| run.host_kernel(Duration::ZERO, |_| {}));
    expect(error, ErrorKind::Unsupported, false, &["faulty"]);
    let device = open(Call::Record, DriverErrorKind::Lost).expect("a device");
    let a = finish(device.alloc(UNIT)).expect("room");
    let error = expect(finish(a.read()), ErrorKind::DeviceLost, false, &["lost"]);
    assert_eq!((source(&error), error.device()), (("record", -1), Some("faulty")));
    let error =
        expect(device.add_queue().map(drop).and(finish(device.idle())), ErrorKind::DeviceLost, false, &[]);
    assert!(error.source().is_some());
}

#[test]
fn an_error_could_not_be_passed_on() {
    fn check<T: std::error::Error + Send + Sync + Clone + 'static>() {}
    check::<Error>();
    let device =
        Device::options().budget(1).open_driver("bench", Sim::open(Config::new()).expect("a device"));
    let boxed: Box<dyn std::error::Error + Send + Sync> =
        finish(device.expect("a device").alloc(UNIT)).unwrap_err().into();
    assert!(boxed.downcast_ref::<Error>().is_some_and(|error| error.kind() == ErrorKind::TooLarge));
}
