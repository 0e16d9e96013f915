//! Memory of others, wrapped: used as any buffer, counted apart, never moved.

use crate::bench::{Bench, CLOCKS, COMPUTE, UNIT, assert_bytes, config, finish, pattern};
use tack_residency::{
    Device, ErrorKind, Use,
    driver::{DevicePtr, Driver, sim::Clock},
};

/// Memory that another library has allocated, and that is ready for every queue.
fn others(bench: &Bench, bytes: u64) -> DevicePtr {
    let ptr = bench.sim.allocate(COMPUTE, bytes).expect("room");
    bench.sim.fill(COMPUTE, ptr, bytes, 5).expect("queued");
    finish(bench.device.idle()).expect("idle");
    ptr
}

#[test]
fn wrapped_memory_was_counted_with_ours_or_moved() {
    for clock in CLOCKS {
        let bench = Bench::new(config(clock, 4), Device::options().budget(2 * UNIT));
        let ptr = others(&bench, UNIT);
        let wrapped = bench.device.wrap(ptr, UNIT).expect("nobody else's");
        let info = bench.info();
        assert_eq!((info.foreign, info.in_use, info.buffers), (UNIT, 0, 1));
        assert_bytes("as it was", &wrapped, &[5; UNIT as usize]);
        finish(wrapped.write(pattern(1))).expect("written");
        let (a, b) = (bench.buffer(2), bench.buffer(3));
        assert_eq!(bench.info().in_use, 2 * UNIT, "the budget is for ours alone");
        finish(bench.device.alloc(UNIT)).map(drop).expect("room"); // one of ours goes
        assert_eq!(finish(bench.device.spill_all()).expect("spilled"), UNIT);
        assert_eq!(finish(wrapped.spill()).expect("stays"), 0);
        wrapped.discard();
        finish(bench.device.make_room(2 * UNIT)).expect("room");
        bench.device.set_budget(Some(UNIT));
        assert!(!wrapped.is_spilled());
        // It is launched on, viewed, copied and handed out as any other.
        bench.increment(&bench.device.queue(), &wrapped);
        let guard = finish(wrapped.ensure_resident()).expect("resident");
        assert_eq!(guard.ptr(), ptr);
        drop(guard);
        let export = finish(wrapped.export()).expect("resident");
        assert_eq!((export.ptr(), bench.info().exported), (ptr, 0));
        drop(export);
        assert_eq!(finish(wrapped.spill()).expect("stays, the export over"), 0);
        finish(wrapped.copy_to(&a)).expect("copied");
        let expected: Vec<u8> = pattern(1).iter().map(|byte| byte.wrapping_add(1)).collect();
        assert_bytes("copied", &a, &expected);
        let launch =
            finish(bench.device.prepare([Use::read(&wrapped), Use::write(&b)])).expect("only ours count");
        launch
            .submit(|run| {
                run.host_kernel(Default::default(), |args| {
                    let [from, to] = args else { unreachable!() };
                    to.bytes_mut().copy_from_slice(from.bytes());
                })
            })
            .expect("queued");
        assert_bytes("launched", &b, &expected);
        let holders = bench.device.largest_holders(5);
        assert!(
            holders.iter().any(|holder| holder.stays.as_deref().is_some_and(|why| why.contains("foreign")))
        );
        let live = bench.sim.live_allocations();
        drop(wrapped);
        finish(bench.device.idle()).expect("idle");
        assert_eq!((bench.info().foreign, bench.sim.live_allocations()), (0, live), "not ours to free");
        drop((a, b));
        finish(bench.device.idle()).expect("idle");
        bench.check();
        bench.sim.free(COMPUTE, ptr).expect("its owner frees it");
        bench.check_empty();
    }
}

#[test]
fn memory_inside_a_managed_buffer_was_wrapped_as_someone_elses() {
    let bench = Bench::new(config(Clock::Computed, 8), Device::options());
    let a = bench.buffer(1);
    let guard = finish(a.ensure_resident()).expect("resident");
    let at = guard.ptr();
    drop(guard);
    let misused = |ptr: DevicePtr, bytes: u64| {
        let error = bench.device.wrap(ptr, bytes).expect_err("not another's");
        assert_eq!(error.kind(), ErrorKind::Misuse, "{error}");
        assert!(!error.is_retryable() && error.device() == Some("bench"));
    };
    misused(at, UNIT);
    misused(at, 1);
    misused(at.offset(UNIT - 1), 1);
    misused(DevicePtr::from_raw(at.as_raw() - 1), 2);
    misused(DevicePtr::NULL, 1);
    misused(DevicePtr::from_raw(u64::MAX), 2);
    let ptr = others(&bench, UNIT);
    let wrapped = bench.device.wrap(ptr, UNIT).expect("nobody else's");
    misused(ptr.offset(10), 10);
    drop(wrapped);
    drop(bench.device.wrap(ptr, UNIT).expect("let go of"));
    drop(bench.device.wrap(DevicePtr::NULL, 0).expect("nothing at all"));
    // Where a buffer was once, and is not any more.
    finish(a.spill()).expect("spilled");
    drop(bench.device.wrap(at, UNIT).expect("no longer ours"));
    bench.sim.free(COMPUTE, ptr).expect("its owner frees it");
    drop(a);
    bench.check_empty();
}

#[test]
fn a_buffer_without_bytes_was_in_someones_way() {
    for clock in CLOCKS {
        let bench = Bench::new(config(clock, 2), Device::options().budget(UNIT));
        let full = bench.buffer(1);
        let empty = finish(bench.device.alloc(0).tag("empty")).expect("it needs no room");
        assert!(empty.is_empty() && !empty.is_spilled());
        assert_eq!(finish(empty.read()).expect("nothing"), [0; 0]);
        finish(empty.write([0; 0])).expect("nothing");
        finish(empty.fill(1)).expect("nothing");
        assert_eq!(finish(empty.write([1])).unwrap_err().kind(), ErrorKind::Misuse);
        assert!(empty.view(0, 0).expect("within").is_empty());
        assert_eq!(empty.view(0, 1).unwrap_err().kind(), ErrorKind::Misuse);
        assert_eq!(finish(empty.spill()).expect("nothing"), 0);
        empty.discard();
        let other = finish(bench.device.alloc(0)).expect("it needs no room");
        finish(empty.copy_to(&other)).expect("nothing");
        finish(full.view(5, 0).expect("within").copy_to(&empty.view(0, 0).expect("within")))
            .expect("nothing");
        assert_eq!(finish(empty.ensure_resident()).expect("resident").ptr(), DevicePtr::NULL);
        drop(finish(empty.export()).expect("resident"));
        finish(bench.device.prepare([Use::write(&empty), Use::read(&full), Use::read(&other)]))
            .expect("resident")
            .submit(|run| {
                assert_eq!((run.bytes(0), run.ptr(0)), (0, DevicePtr::NULL));
                run.host_kernel(Default::default(), |args| assert!(args[0].bytes().is_empty()))
            })
            .expect("queued");
        let inside = finish(full.ensure_resident()).expect("resident").ptr().offset(5);
        drop(bench.device.wrap(inside, 0).expect("nothing of another's"));
        let others = others(&bench, UNIT);
        let nothing = bench.device.wrap(others.offset(5), 0).expect("nothing");
        drop(bench.device.wrap(others, UNIT).expect("nothing of it is wrapped"));
        bench.sim.free(COMPUTE, others).expect("freed");
        drop(nothing);
        finish(bench.device.make_room(0)).expect("nothing");
        finish(bench.device.prepare([] as [Use<'_>; 0])).map(drop).expect("nothing");
        let info = bench.info();
        assert_eq!((info.in_use, info.spills, info.foreign, info.buffers), (UNIT, 0, 0, 3));
        drop((full, empty, other));
        bench.check_empty();
    }
}
