//! The host as a device: it counts and never spills.

use crate::bench::{UNIT, finish};
use tack_residency::{Device, ErrorKind, Use, driver::cpu::Cpu};

#[test]
fn a_device_that_shares_the_hosts_memory_spilled_to_it() {
    let cpu = Cpu::open();
    let device =
        Device::options().budget(UNIT).host_limit(0).open_driver("cpu", cpu.clone()).expect("the host");
    assert_eq!(device.memory_info().budget, None, "a budget has nothing to do here");
    device.set_budget(Some(1));
    let scope = device.peak_scope();
    let a = finish(device.alloc(4 * UNIT).tag("a")).expect("room");
    let b = finish(device.alloc(UNIT)).expect("room");
    let info = device.memory_info();
    assert_eq!((info.in_use, info.peak, info.buffers, info.budget), (5 * UNIT, 5 * UNIT, 2, None));
    assert!(!info.over_budget);
    assert_eq!(finish(a.spill()).expect("stays"), 0);
    assert_eq!(finish(device.spill_all()).expect("stays"), 0);
    finish(device.make_room(UNIT)).expect("nothing to do");
    assert!(!a.is_spilled() && !b.is_spilled());
    assert_eq!(
        finish(a.read()).map(|bytes| bytes.len()).map_err(|error| error.kind()),
        Err(ErrorKind::OutOfMemory)
    );
    drop((a, b));
    finish(device.idle()).expect("idle");
    assert_eq!((device.memory_info().in_use, cpu.live_allocations(), scope.finish()), (0, 0, 5 * UNIT));
    device.check().expect("balanced books");
}

#[test]
fn the_host_did_not_do_as_a_device_does() {
    let device = Device::open("cpu").expect("the host");
    let (a, b) = (finish(device.alloc(UNIT)).expect("room"), finish(device.alloc(UNIT)).expect("room"));
    finish(a.write([7; 100])).expect("written");
    finish(a.view(100, 5).expect("within").fill(8)).expect("filled");
    let launch = finish(device.prepare([Use::read(&a), Use::write(&b)])).expect("resident");
    launch
        .submit(|run| {
            run.host_kernel(Default::default(), |args| {
                let [a, b] = args else { unreachable!() };
                b.bytes_mut().copy_from_slice(a.bytes());
            })
        })
        .expect("done");
    let bytes = finish(b.read()).expect("read");
    assert_eq!((&bytes[99..106], bytes.len() as u64), (&[7, 8, 8, 8, 8, 8, 0][..], UNIT));
    let further = device.add_queue().expect("a queue");
    finish(device.prepare([Use::read_write(&b)]))
        .expect("resident")
        .on(&further)
        .expect("its queue")
        .submit(|run| run.host_kernel(Default::default(), |args| args[0].bytes_mut()[0] = 1))
        .expect("done");
    finish(b.copy_to(&a)).expect("copied");
    assert_eq!(finish(a.read()).expect("read")[..2], [1, 7]);
    drop(finish(a.export()).expect("resident"));
    finish(device.idle()).expect("idle");
    assert!(device.memory_info().device_total.is_none_or(|total| total > 0));
    device.check().expect("balanced books");
}
