//! What a wrong program does to the device: refused, or lost with what was touched.

use super::*;
use crate::driver::{DriverError, DriverErrorKind};

/// The fault that lost a device.
fn lost(device: &Sim, queue: QueueId) -> DriverError {
    let fence = device.record(queue);
    let error = fence.and_then(|fence| {
        while !device.is_passed(fence)? {
            if !device.advance() {
                device.park(Duration::from_secs(1));
            }
        }
        Ok(())
    });
    let error = error.expect_err("the device is lost");
    assert_eq!((error.kind, device.faults()), (DriverErrorKind::Lost, vec![error.clone()]));
    error
}

#[test]
fn a_kernel_on_freed_memory_loses_the_device() {
    for device in both_clocks(&Config::new()) {
        let queue = compute(&device);
        let ptr = device.allocate(queue, 512).unwrap();
        device.free(queue, ptr).unwrap();
        device.launch_host(queue, setter(micros(1), ptr, 512, 1)).unwrap();
        let error = lost(&device, queue);
        assert_eq!(error.call, "launch_host");
        assert!(error.message.contains(&format!("{:#x}", ptr.as_raw())), "{error}");
        assert!(error.message.contains("freed"), "{error}");
    }
}

#[test]
fn an_access_outside_an_allocation_loses_the_device() {
    for device in both_clocks(&Config::new()) {
        let queue = compute(&device);
        let ptr = device.allocate(queue, 512).unwrap();
        device.fill(queue, ptr.offset(1), 512, 0).unwrap();
        assert_eq!(lost(&device, queue).call, "fill");
    }
}

#[test]
fn memory_allocated_on_another_queue_needs_a_wait() {
    for device in both_clocks(&Config::new()) {
        let [queue, other] = [compute(&device), compute(&device)];
        let ptr = device.allocate(queue, 512).unwrap();
        let made = device.record(queue).unwrap();
        device.wait(other, made).unwrap();
        device.fill(other, ptr, 512, 0).unwrap();
        drain(&device, other);
        let unordered = device.allocate(queue, 512).unwrap();
        device.copy_in(other, &pinned(&device, 512), unordered).unwrap();
        assert_eq!(lost(&device, other).call, "copy_in");
    }
}

#[test]
fn a_free_must_run_behind_every_use() {
    for device in both_clocks(&Config::new()) {
        let [queue, reader] = [compute(&device), compute(&device)];
        let ptr = device.allocate(queue, 512).unwrap();
        drain(&device, queue);
        device.fill(reader, ptr, 512, 1).unwrap();
        device.free(queue, ptr).unwrap();
        assert_eq!(lost(&device, queue).call, "free");
    }
}

#[test]
fn wrong_calls_are_refused_and_do_nothing() {
    for device in both_clocks(&Config::new()) {
        let queue = compute(&device);
        let ptr = device.allocate(queue, 512).unwrap();
        let invalid = |result: crate::driver::Result<()>| {
            assert_eq!(result.expect_err("a refusal").kind, DriverErrorKind::Invalid);
        };
        invalid(device.free(queue, DevicePtr::NULL));
        invalid(device.free(queue, ptr.offset(1)));
        invalid(device.free(QueueId(7), ptr));
        invalid(device.wait(queue, Fence(0)));
        invalid(device.copy(queue, ptr, ptr.offset(8), 9));
        let kernel = setter(micros(1), ptr, 512, 1).arg(ptr.offset(500), 12, ArgAccess::Read);
        invalid(device.launch_host(queue, kernel));
        let host = pinned(&device, 8);
        invalid(device.copy_in(queue, &HostRange { bytes: 9, ..host }, ptr));
        device.free(queue, ptr).unwrap();
        invalid(device.free(queue, ptr));
        drain(&device, queue);
        invalid(device.free(queue, ptr));
        assert_eq!(device.faults(), []);
    }
}

#[test]
fn fences_retired_too_early_are_noted() {
    for device in both_clocks(&Config::new()) {
        let [queue, other] = [compute(&device), compute(&device)];
        device.hold(other).unwrap();
        let fence = device.record(queue).unwrap();
        device.wait(other, fence).unwrap();
        finish(&device, fence);
        device.retire(fence);
        assert_eq!(device.faults().len(), 1);
        assert_eq!(device.is_passed(fence).expect_err("retired").kind, DriverErrorKind::Invalid);
        device.release(other).unwrap();
        drain(&device, other);
        assert_eq!(device.live_fences(), 0);
    }
}

#[test]
fn a_panicking_body_loses_the_device_and_wakes_everyone() {
    for device in both_clocks(&Config::new()) {
        let queue = compute(&device);
        let ptr = device.allocate(queue, 512).unwrap();
        device.launch_host(queue, HostKernel::new(micros(1), |_| panic!("on purpose"))).unwrap();
        let error = lost(&device, queue);
        assert!(error.message.contains("on purpose"), "{error}");
        let kind = |result: crate::driver::Result<()>| result.expect_err("lost").kind;
        assert_eq!(kind(device.fill(queue, ptr, 1, 1)), DriverErrorKind::Lost);
        assert_eq!(kind(device.copy_out(queue, ptr, &ordinary(1))), DriverErrorKind::Lost);
        assert_eq!(kind(device.create_queue(QueueRole::Spill).map(|_| ())), DriverErrorKind::Lost);
        device.free(queue, ptr).unwrap();
        assert_eq!(device.live_allocations(), 0);
        assert!(!device.advance());
    }
}
