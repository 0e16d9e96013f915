//! Budgets, room for others, and buffers that stay or are not needed.

use crate::bench::{Bench, CLOCKS, UNIT, assert_bytes, config, finish, pattern, poll_once, still_waits};
use std::pin::pin;
use tack_residency::{Buffer, Device, ErrorKind, Use, driver::Driver};

#[test]
fn a_budget_lowered_or_raised_left_someone_over_or_waiting() {
    for clock in CLOCKS {
        let bench = Bench::new(config(clock, 8), Device::options().budget(4 * UNIT));
        let buffers = [1, 2, 3, 4].map(|seed| bench.buffer(seed));
        let guard = finish(buffers[0].ensure_resident()).expect("resident");
        let export = finish(buffers[1].export()).expect("resident");
        bench.device.set_budget(Some(UNIT));
        bench.until("what may go is gone", || bench.info().in_use == 2 * UNIT);
        let info = bench.info();
        assert!(info.over_budget && info.budget == Some(UNIT), "{info:?}");
        assert!(info.to_string().contains("over budget"), "{info}");
        assert_eq!(finish(bench.device.alloc(2 * UNIT)).unwrap_err().kind(), ErrorKind::TooLarge);
        drop(guard);
        bench.until("and the rest as pins end", || bench.info().in_use == UNIT);
        assert!(!bench.info().over_budget && !buffers[1].is_spilled());
        let error = finish(bench.device.alloc(UNIT)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Blocked, "{error}");
        bench.device.set_budget(Some(0));
        assert!(bench.info().over_budget);
        drop(export);
        bench.until("nothing is left", || bench.info().in_use == 0);
        assert!(!bench.info().over_budget);
        assert_eq!(
            finish(bench.device.prepare([Use::read(&buffers[0])])).unwrap_err().kind(),
            ErrorKind::TooLarge
        );
        // Raised while someone waits, who is served by that alone.
        bench.device.set_budget(Some(2 * UNIT));
        let guards = [0, 1].map(|index| finish(buffers[index].ensure_resident()).expect("resident"));
        let device = bench.device.clone();
        let mut waiting = pin!(device.prepare([Use::read(&buffers[2]), Use::read(&buffers[0])]));
        // It needs three where there are two, one of which is its own: no more than room for it will do.
        assert!(poll_once(waiting.as_mut()).is_pending());
        bench.device.set_budget(Some(3 * UNIT));
        drop(finish(waiting).expect("resident"));
        drop(guards);
        bench.device.set_budget(None);
        assert_eq!(bench.info().budget, None);
        for (seed, buffer) in (1..).zip(&buffers) {
            drop(finish(buffer.ensure_resident()).expect("resident"));
            assert_bytes("after all", buffer, &pattern(seed));
        }
        assert_eq!(bench.info().in_use, 4 * UNIT);
        drop(buffers);
        bench.check_empty();
    }
}

#[test]
fn room_made_for_others_was_kept_by_us() {
    for clock in CLOCKS {
        for budget in [None, Some(6 * UNIT)] {
            let bench = Bench::new(config(clock, 4), Device::options().maybe_budget(budget));
            let buffers = [1, 2, 3].map(|seed| bench.buffer(seed));
            finish(bench.device.make_room(UNIT)).expect("there was room");
            assert_eq!(bench.info().spills, 0);
            finish(bench.device.make_room(3 * UNIT)).expect("room");
            let info = bench.info();
            assert_eq!((info.spills, info.in_use, info.reserved), (2, UNIT, 0), "{clock:?}, {budget:?}");
            assert!(info.device_free >= Some(3 * UNIT), "{info:?}");
            bench.sim.set_foreign_bytes(3 * UNIT); // and the others take it
            for (units, kind) in [(4, ErrorKind::OutOfMemory), (5, ErrorKind::TooLarge)] {
                let error = finish(bench.device.make_room(units * UNIT)).unwrap_err();
                assert_eq!(error.kind(), kind, "{error}");
            }
            bench.sim.set_foreign_bytes(0);
            for (seed, buffer) in (1..).zip(&buffers) {
                drop(finish(bench.device.prepare([Use::read(buffer)])).expect("room"));
                assert_bytes("after all", buffer, &pattern(seed));
            }
            bench.check();
        }
        let bench = Bench::tight(clock, 4);
        assert_eq!(finish(bench.device.make_room(5 * UNIT)).unwrap_err().kind(), ErrorKind::TooLarge);
        let fixed = finish(bench.device.alloc(2 * UNIT).fixed().tag("texture")).expect("room");
        let error = finish(bench.device.make_room(3 * UNIT)).unwrap_err();
        assert_eq!(
            (error.kind(), error.holders()[0].tag.as_str()),
            (ErrorKind::Blocked, "texture"),
            "{error}"
        );
        let kept = [5, 6].map(|seed| bench.buffer(seed));
        finish(bench.device.make_room(2 * UNIT)).expect("room");
        assert!(kept.iter().all(Buffer::is_spilled));
        drop((fixed, kept));
        bench.check_empty();
    }
}

#[test]
fn a_fixed_buffer_moved_or_was_forgotten_in_the_sums() {
    for clock in CLOCKS {
        let bench = Bench::tight(clock, 3);
        let fixed = finish(bench.device.alloc(UNIT).fixed().tag("scalars")).expect("room");
        finish(fixed.write(pattern(1))).expect("written");
        let at = finish(fixed.ensure_resident()).expect("resident").ptr();
        for seed in 2..8 {
            let others = [bench.buffer(seed), bench.buffer(seed + 1)];
            assert_eq!(finish(fixed.spill()).expect("stays"), 0);
            drop(others);
        }
        finish(bench.device.spill_all()).expect("spilled");
        bench.device.set_budget(Some(0));
        assert!(!fixed.is_spilled() && bench.info().over_budget);
        bench.device.set_budget(Some(3 * UNIT));
        let export = finish(fixed.export()).expect("resident");
        assert_eq!((export.ptr(), bench.info().fixed), (at, UNIT));
        let error = finish(bench.device.alloc(3 * UNIT)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Blocked, "{error}: what is fixed and exported counts once");
        finish(bench.device.alloc(2 * UNIT)).map(drop).expect("room");
        drop(export);
        assert_eq!(finish(fixed.spill()).expect("still fixed"), 0);
        assert_bytes("where it was", &fixed, &pattern(1));
        drop(fixed);
        assert_eq!(bench.info().fixed, 0);
        bench.check_empty();
    }
}

#[test]
fn contents_that_no_one_needed_were_copied_or_needed_ones_were_not() {
    for clock in CLOCKS {
        let bench = Bench::tight(clock, 2);
        let a = bench.buffer(1);
        let moved = || (bench.info().copied_out_bytes, bench.info().copied_in_bytes);
        a.discard();
        finish(a.spill()).expect("spilled");
        drop(finish(a.ensure_resident()).expect("resident"));
        assert_eq!(moved(), (0, 0), "nothing to copy");
        // A guard may have written it: from there on its bytes are needed again.
        finish(a.write(pattern(2))).expect("written");
        finish(a.spill()).expect("spilled");
        assert_eq!(moved(), (UNIT, 0));
        drop(finish(bench.device.prepare([Use::read(&a)])).expect("resident"));
        assert_eq!(moved(), (UNIT, UNIT));
        assert_bytes("needed", &a, &pattern(2));
        // Discarded where it is, then written in part there: the part is what counts.
        finish(a.spill()).expect("spilled clean");
        a.discard();
        finish(a.view(8, 8).expect("within").fill(3)).expect("filled");
        drop(finish(bench.device.prepare([Use::read(&a)])).expect("resident"));
        assert_eq!(finish(a.view(8, 8).expect("within").read()).expect("read"), [3; 8]);
        // A launch or a host write under way has its way.
        let launch = finish(bench.device.prepare([Use::read_write(&a)])).expect("resident");
        a.discard();
        launch
            .submit(|run| run.host_kernel(Default::default(), |args| args[0].bytes_mut().fill(4)))
            .expect("queued");
        finish(a.spill()).expect("spilled");
        assert_bytes("written after that", &a, &[4; UNIT as usize]);
        bench.check();
    }
}

#[test]
fn an_uninitialised_buffer_was_cleared_or_a_cleared_one_was_not() {
    for clock in CLOCKS {
        let bench = Bench::tight(clock, 2);
        let used = bench.buffer(1);
        drop(used);
        let cleared = finish(bench.device.alloc(UNIT)).expect("room");
        assert_bytes("cleared", &cleared, &[0; UNIT as usize]);
        let raw = finish(bench.device.alloc(UNIT).uninitialised()).expect("room");
        let bytes = finish(raw.read()).expect("read");
        assert_eq!(bytes, [0xCD; UNIT as usize], "the simulated device's pattern");
        drop((cleared, raw));
        let caps = bench.sim.caps();
        assert!(caps.spills && caps.granularity == 1);
        bench.check_empty();
    }
}

#[test]
fn a_request_kept_what_it_had_been_given_when_the_budget_fell() {
    for clock in CLOCKS {
        let bench = Bench::new(config(clock, 8), Device::options().budget(4 * UNIT));
        let a = bench.buffer(1);
        bench.hold(&[crate::bench::SPILL]);
        let b = bench.buffer(2);
        let device = bench.device.clone();
        let mut large = pin!(device.alloc(4 * UNIT)); // both are on their way out
        still_waits(large.as_mut());
        bench.device.set_budget(Some(3 * UNIT));
        bench.release(&[crate::bench::SPILL]);
        assert_eq!(finish(large).unwrap_err().kind(), ErrorKind::TooLarge);
        assert!(bench.info().in_use <= 3 * UNIT);
        assert_bytes("a", &a, &pattern(1));
        assert_bytes("b", &b, &pattern(2));
        drop((a, b));
        bench.check_empty();
    }
}
