//! The host has no more memory for copies than its limit.

use crate::bench::{Bench, CLOCKS, UNIT, assert_bytes, config, finish, pattern};
use tack_residency::{Device, ErrorKind, HostMemoryKind, Use, driver::sim::Contents};

fn limited(clock: tack_residency::driver::sim::Clock, budget: u64, host: u64, kind: HostMemoryKind) -> Bench {
    let options = Device::options().budget(budget * UNIT).host_limit(host * UNIT).host_memory(kind);
    Bench::new(config(clock, 8), options)
}

#[test]
fn a_full_host_tier_lost_a_buffer_or_said_the_device_was_full() {
    for (clock, kind) in CLOCKS.into_iter().zip([HostMemoryKind::Pinned, HostMemoryKind::Ordinary]) {
        let bench = limited(clock, 4, 2, kind);
        let buffers = [1, 2, 3, 4].map(|seed| {
            let buffer = bench.buffer(seed);
            finish(bench.device.idle()).expect("its staging is back");
            buffer
        });
        finish(buffers[0].spill()).expect("spilled");
        finish(buffers[1].spill()).expect("spilled");
        let room = finish(bench.device.alloc(2 * UNIT)).expect("room");
        let refused = [
            finish(buffers[2].spill()).map(drop),
            finish(bench.device.spill_all()).map(drop),
            finish(bench.device.alloc(UNIT)).map(drop),
            finish(bench.device.make_room(UNIT)),
            finish(bench.device.prepare([Use::read(&buffers[0])])).map(drop),
            finish(buffers[3].read()).map(drop),
        ];
        for (index, error) in refused.into_iter().enumerate() {
            let error = error.err().unwrap_or_else(|| panic!("{clock:?}, {index}: the host is full"));
            assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{index}: {error}");
            assert!(error.to_string().contains("host memory") && error.is_retryable(), "{index}: {error}");
            assert!(
                error.memory_info().is_some_and(|info| info.host_pinned + info.host_ordinary == 2 * UNIT)
            );
            bench.check();
        }
        assert!(bench.info().host_pinned + bench.info().host_ordinary <= 2 * UNIT);
        drop(room);
        for (seed, buffer) in (1..).zip(&buffers) {
            drop(finish(bench.device.prepare([Use::read_write(buffer)])).expect("room"));
            finish(bench.device.idle()).expect("idle");
            assert_bytes("after all", buffer, &pattern(seed));
        }
        drop(buffers);
        bench.check_empty();
        assert!(bench.info().host_spare <= 2 * UNIT);
    }
}

#[test]
fn copies_kept_to_save_a_copy_left_no_room_for_one_that_was_needed() {
    for clock in CLOCKS {
        let bench = limited(clock, 3, 1, HostMemoryKind::Pinned);
        let settled = |buffer| {
            finish(bench.device.idle()).expect("its staging is back");
            buffer
        };
        let (a, b) = (settled(bench.buffer(1)), settled(bench.buffer(2)));
        finish(a.spill()).expect("spilled");
        drop(finish(bench.device.prepare([Use::read(&a)])).expect("resident"));
        finish(bench.device.idle()).expect("idle");
        assert_eq!(bench.info().clean, UNIT, "a host copy is kept");
        assert_eq!(finish(b.spill()).expect("room for its copy"), UNIT);
        assert_eq!(bench.info().clean, 0);
        assert_bytes("spilled", &b, &pattern(2));
        drop(finish(bench.device.prepare([Use::read(&b)])).expect("resident"));
        finish(bench.device.idle()).expect("idle");
        assert_eq!(bench.info().clean, UNIT);
        assert_bytes("no longer clean", &a, &pattern(1));
        finish(b.write(pattern(3))).expect("staged");
        finish(bench.device.idle()).expect("idle");
        finish(a.spill()).expect("spilled");
        assert_bytes("spilled in turn", &a, &pattern(1));
        assert_eq!(bench.info().host_pinned, UNIT);
        drop((a, b));
        bench.check_empty();
    }
}

#[test]
fn memory_kept_for_reuse_was_kept_beyond_the_limit() {
    for clock in CLOCKS {
        let bench = limited(clock, 8, 4, HostMemoryKind::Pinned);
        for bytes in [UNIT, 2 * UNIT, 3 * UNIT, 4 * UNIT, 100, UNIT] {
            let buffer = finish(bench.device.alloc(bytes)).expect("room");
            finish(buffer.spill()).expect("spilled");
            drop(buffer);
            finish(bench.device.idle()).expect("idle");
            let info = bench.info();
            assert!(info.host_pinned + info.host_spare <= 4 * UNIT, "{info:?}");
            // A copy engine may hold on to its block for a moment after the copy.
            bench.until("the driver has no more", || {
                bench.sim.live_host_bytes() == info.host_pinned + info.host_spare
            });
        }
    }
}

#[test]
fn victims_that_the_host_had_no_room_for_were_chosen_again_for_ever() {
    for clock in CLOCKS {
        let options = Device::options().host_limit(UNIT).stall_after(std::time::Duration::from_millis(20));
        let bench = Bench::new(config(clock, 3), options);
        let buffers = [1, 2, 3].map(|seed| {
            let buffer = bench.buffer(seed);
            finish(bench.device.idle()).expect("its staging is back");
            buffer
        });
        for _ in 0..3 {
            let error = finish(bench.device.alloc(2 * UNIT)).expect_err("room for one alone");
            assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{clock:?}: {error}");
            bench.check();
        }
        drop(finish(bench.device.alloc(UNIT)).expect("that one's"));
        for (seed, buffer) in (1..).zip(&buffers) {
            drop(finish(buffer.ensure_resident()).expect("room"));
            finish(bench.device.idle()).expect("idle");
            if let Ok(bytes) = finish(buffer.read()) {
                assert!(bytes == pattern(seed));
            }
        }
        drop(buffers);
        bench.check_empty();
    }
}

#[test]
fn a_read_of_more_than_the_hosts_memory_ended_the_program() {
    for clock in CLOCKS {
        let units = 1 << 40;
        let config = config(clock, units).with_contents(Contents::NotHeld);
        let bench = Bench::new(config, Device::options());
        let buffer = finish(bench.device.alloc(units * UNIT).uninitialised()).expect("room");
        assert_eq!(finish(buffer.read()).unwrap_err().kind(), ErrorKind::OutOfMemory);
        finish(buffer.fill(1)).expect("filled on the device");
        buffer.discard();
        assert_eq!(finish(buffer.spill()).expect("no copy"), units * UNIT);
        let error = finish(buffer.read()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert!(error.to_string().contains("host"), "{error}");
        assert_eq!(finish(buffer.view(5, 3).expect("within").read()).expect("read"), [0; 3]);
        drop(buffer);
        bench.check_empty();
    }
}
