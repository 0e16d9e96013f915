//! Host kernels, and a device that is closed while it has some.

use super::{
    super::{
        super::{ArgAccess, DevicePtr, Driver, DriverErrorKind, Fence, HostKernel, QueueRole},
        LevelZero,
    },
    Bench, bytes_of,
    fake::with,
};
use std::{sync::Arc, time::Duration};

fn pass(device: &LevelZero, fence: Fence) {
    while !device.is_passed(fence).expect("not lost") {
        device.park(Duration::from_secs(60));
    }
}

#[test]
fn host_kernels_have_their_arguments_between_copies_in_the_order_of_their_queues() {
    for bench in [Bench::open(|_| {}), Bench::unordered()] {
        let device = &bench.device;
        let queues = [QueueRole::Compute; 2].map(|role| bench.queue(role));
        let ptr = device.allocate(queues[0], 64 << 10).expect("memory");
        let host = bench.pinned(8);
        for round in 0..20u8 {
            device.fill(queues[0], ptr, 8, round).expect("a fill");
            for step in 0..4 {
                // Each queue in turn, behind the other.
                let [queue, other] = [step % 2, (step + 1) % 2].map(|which| queues[which]);
                let before = device.record(other).expect("a fence");
                device.wait(queue, before).expect("it waits");
                let kernel = HostKernel::new(Duration::ZERO, |args| {
                    let [numbers, one] = args else { panic!("two arguments") };
                    for byte in numbers.bytes_mut() {
                        *byte = byte.wrapping_mul(3).wrapping_add(one.bytes()[0] / one.bytes()[0].max(1));
                    }
                });
                let kernel = kernel.arg(ptr, 8, ArgAccess::Write).arg(ptr.offset(8), 1, ArgAccess::Read);
                device.fill(queue, ptr.offset(8), 1, 7).expect("a fill");
                device.launch_host(queue, kernel).expect("it is queued");
            }
            device.copy_out(queues[1], ptr, &host).expect("a copy");
            let fence = device.record(queues[1]).expect("a fence");
            pass(device, fence);
            let expected = (0..4).fold(round, |byte, _| byte.wrapping_mul(3).wrapping_add(1));
            assert_eq!(bytes_of(&host), [expected; 8]);
        }
        drop(host);
        bench.close();
    }
}

#[test]
fn a_host_kernel_that_panics_loses_the_device() {
    let bench = Bench::open(|_| {});
    let (device, queue) = (&bench.device, bench.queue(QueueRole::Compute));
    let token = Arc::new(());
    let held = token.clone();
    let kernel = HostKernel::new(Duration::ZERO, move |_| panic!("it went astray: {held:?}"));
    device.launch_host(queue, kernel).expect("it is queued");
    let kernel = HostKernel::new(Duration::ZERO, |_| ());
    let mut lost = device.launch_host(queue, kernel).err();
    while lost.is_none() {
        lost = device.fill(queue, DevicePtr::from_raw(8), 0, 0).err();
    }
    let error = lost.expect("it is lost");
    assert_eq!((error.kind, error.call), (DriverErrorKind::Lost, "launch_host"), "{error}");
    assert!(error.message.contains("it went astray"), "{error}");
    bench.close();
    assert_eq!(Arc::strong_count(&token), 1);
}

#[test]
fn a_device_that_is_closed_at_work_is_given_up_once_that_is_done() {
    let bench = Bench::unordered();
    let (device, queue) = (&bench.device, bench.queue(QueueRole::Compute));
    let (ptr, range) = (device.allocate(queue, 64 << 10).expect("memory"), bench.pinned(8));
    device.fill(queue, ptr, 8, 7).expect("a fill");
    let ran = Arc::new(());
    let token = ran.clone();
    bench.set(|world| world.stopped = true);
    let kernel = HostKernel::new(Duration::ZERO, move |_| drop(token));
    device.launch_host(queue, kernel.arg(ptr, 8, ArgAccess::Write)).expect("it is queued");
    device.copy_out(queue, ptr, &range).expect("a copy");
    device.record(queue).expect("a fence");
    let (world, memory) = (bench.world, Arc::downgrade(&range.memory));
    drop((bench, range));
    assert_eq!(with(world, |world| world.called.get("list_destroy").copied()), None);
    assert_eq!((Arc::strong_count(&ran), memory.strong_count()), (2, 1));
    with(world, |world| world.stopped = false);
    while with(world, |world| world.live()) > 0 {
        std::thread::yield_now();
    }
    assert_eq!(Arc::strong_count(&ran), 1);
    assert_eq!(with(world, |world| std::mem::take(&mut world.misuse)), Vec::<String>::new());
}
