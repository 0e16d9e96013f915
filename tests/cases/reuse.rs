//! Memory used again, or freed, while someone else on the device was still at it.

use crate::bench::{Bench, CLOCKS, COMPUTE, RESTORE, UNIT, assert_bytes, finish, pattern, still_waits};
use std::pin::pin;
use tack_residency::{Buffer, Queue, Use, driver::sim::Clock};

/// Three queues: the device's own, and two more.
fn queues(bench: &Bench) -> [Queue; 3] {
    let add = || bench.device.add_queue().expect("a queue");
    [bench.device.queue(), add(), add()]
}

/// Each reads `a`, and one of them, held, has not got to it; `act` then does what must not overtake it.
fn read_by_all(clock: Clock, act: impl Fn(&Bench, Buffer, &Queue)) {
    for held in 0..3 {
        for last in [false, true] {
            let bench = Bench::tight(clock, 3);
            let queues = queues(&bench);
            let (a, mut seen) = (bench.buffer(1), Vec::new());
            bench.hold(&[queues[held].id()]);
            let rest = (0..3).filter(|&at| at != held);
            let order: Vec<usize> =
                if last { rest.chain([held]).collect() } else { [held].into_iter().chain(rest).collect() };
            for &at in &order {
                seen.push((at, bench.observe(&queues[at], &a)));
            }
            let others = seen.iter().filter(|(at, _)| *at != held);
            bench.until("the other readers end", || {
                others.clone().all(|(_, seen)| seen.lock().expect("not poisoned").is_some())
            });
            act(&bench, a, &queues[held]);
            finish(bench.device.idle()).expect("idle");
            for (at, seen) in seen {
                let seen = seen.lock().expect("not poisoned");
                assert!(
                    seen.as_ref() == Some(&pattern(1)),
                    "{clock:?}: queue {at} of {order:?} read wrong bytes"
                );
            }
            bench.check();
        }
    }
}

#[test]
fn a_buffer_was_freed_after_its_copy_out_while_another_queues_kernel_still_read_it() {
    for clock in CLOCKS {
        read_by_all(clock, |bench, a, held| {
            let (b, c) = (bench.buffer(2), bench.buffer(3));
            let device = bench.device.clone();
            let mut alloc = pin!(device.alloc(UNIT));
            still_waits(alloc.as_mut());
            bench.until("its copy has ended", || a.is_spilled());
            still_waits(alloc.as_mut());
            assert_eq!(bench.info().leaving, UNIT);
            // Nothing waits for the whole device: what is not held goes on.
            let others = [&b, &c].map(|buffer| (buffer, bench.device.queue()));
            if held.id() != COMPUTE {
                let seen = others.map(|(buffer, queue)| bench.observe(&queue, buffer));
                bench.until("other work goes on", || {
                    seen.iter().all(|seen| seen.lock().expect("not poisoned").is_some())
                });
            }
            bench.release(&[held.id()]);
            let fresh = finish(alloc).expect("room");
            assert_bytes("the fresh one", &fresh, &[0; UNIT as usize]);
            assert_bytes("the spilled one", &a, &pattern(1));
        });
    }
}

#[test]
fn only_the_last_readers_event_was_kept_so_a_free_overtook_an_earlier_one() {
    for clock in CLOCKS {
        read_by_all(clock, |bench, a, held| {
            drop(a);
            for _ in 0..20 {
                let _ = bench.device.alloc(UNIT).try_now().map(drop);
            }
            bench.check();
            bench.release(&[held.id()]);
        });
    }
}

#[test]
fn only_the_last_readers_event_was_kept_so_a_write_overtook_an_earlier_one() {
    for clock in CLOCKS {
        read_by_all(clock, |bench, a, held| {
            finish(a.write(pattern(9))).expect("handed over");
            bench.release(&[held.id()]);
            assert_bytes("written", &a, &pattern(9));
        });
        read_by_all(clock, |bench, a, held| {
            finish(a.fill(9)).expect("queued");
            bench.release(&[held.id()]);
            assert_bytes("filled", &a, &[9; UNIT as usize]);
        });
        read_by_all(clock, |bench, a, held| {
            bench.increment(&bench.device.queue(), &a);
            bench.release(&[held.id()]);
            finish(bench.device.idle()).expect("idle");
        });
        read_by_all(clock, |bench, a, held| {
            let b = bench.buffer(5);
            finish(b.copy_to(&a)).expect("queued");
            bench.release(&[held.id()]);
            assert_bytes("copied into", &a, &pattern(5));
        });
    }
}

#[test]
fn a_restore_target_was_still_being_read_by_an_older_kernel() {
    for clock in CLOCKS {
        let bench = Bench::tight(clock, 1);
        let [compute, further, _] = queues(&bench);
        let b = bench.buffer(2);
        let a = bench.buffer(1); // `b` goes
        for (reader, held) in [(&compute, COMPUTE), (&further, further.id())] {
            bench.hold(&[held]);
            let of_a = bench.observe(reader, &a);
            let device = bench.device.clone();
            let mut prepare = pin!(device.prepare([Use::read_write(&b)]));
            still_waits(prepare.as_mut());
            bench.release(&[held]);
            drop(finish(prepare).expect("resident"));
            let of_b = bench.observe(&compute, &b);
            finish(bench.device.idle()).expect("idle");
            assert!(
                of_a.lock().unwrap().as_ref() == Some(&pattern(1)),
                "{clock:?}: overwritten under a reader"
            );
            assert!(of_b.lock().unwrap().as_ref() == Some(&pattern(2)), "{clock:?}: wrong bytes came back");
            drop(finish(bench.device.prepare([Use::read_write(&a)])).expect("resident"));
            bench.check();
        }
        assert!(bench.sim.peak_bytes() <= UNIT);
    }
}

#[test]
fn a_restored_buffer_was_spilled_and_freed_under_its_own_copy_in() {
    for clock in CLOCKS {
        let bench = Bench::tight(clock, 1);
        let (b, a) = (bench.buffer(2), bench.buffer(1));
        bench.hold(&[RESTORE]);
        let device = bench.device.clone();
        // Pressed out again with its copy in still queued, and dropped in that state.
        drop(finish(device.prepare([Use::read(&b)])).expect("queued"));
        let mut back = pin!(device.prepare([Use::read(&a)]));
        still_waits(back.as_mut());
        drop(b);
        still_waits(back.as_mut());
        bench.release(&[RESTORE]);
        drop(finish(back).expect("resident"));
        assert_bytes("the one that came back", &a, &pattern(1));
        drop(a);
        bench.check_empty();
    }
}
