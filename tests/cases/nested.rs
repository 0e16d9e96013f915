//! Calls within the closure of a launch, and what never ends there.

use crate::bench::{Bench, CLOCKS, UNIT, assert_bytes, finish, pattern, poll_once, watched};
use tack_residency::{ErrorKind, Result, Use, driver::sim::Clock};

/// On one compute queue and on more, on both clocks; with a buffer that the launch writes, and one that it does not use.
fn benches() -> impl Iterator<Item = (Clock, bool)> {
    CLOCKS.into_iter().flat_map(|clock| [(clock, false), (clock, true)])
}

fn bench(clock: Clock, further: bool) -> Bench {
    let bench = Bench::tight(clock, 2);
    if further {
        bench.device.add_queue().expect("a queue");
    }
    bench
}

fn is_misuse<T>(outcome: Result<T>) -> bool {
    outcome.is_err_and(|error| error.kind() == ErrorKind::Misuse)
}

#[test]
fn a_wait_for_the_very_launch_that_was_being_queued_never_ended() {
    for (clock, further) in benches() {
        watched(move || {
            let bench = bench(clock, further);
            let (device, a, b) = (&bench.device, bench.buffer(1), bench.buffer(2));
            for tracked in [false, true] {
                let launch = finish(device.prepare([Use::read_write(&a)])).expect("resident");
                let work = launch.submit(|run| {
                    if tracked {
                        let mut write = Box::pin(a.write([1]));
                        assert!(poll_once(write.as_mut()).is_pending());
                        assert!(is_misuse(a.read().wait()), "behind another of the kind");
                        assert!(is_misuse(device.idle().wait()));
                        assert!(is_misuse(device.prepare([Use::read(&a)]).wait()));
                        assert!(is_misuse(a.ensure_resident().wait()));
                    }
                    assert!(is_misuse(a.read().wait()));
                    assert!(is_misuse(a.write([2]).wait()));
                    assert!(is_misuse(a.view(3, 2)?.fill(3).wait()));
                    // What is taken back is not done, and is in no one's way.
                    assert!(b.read().wait()? == pattern(2), "another buffer");
                    b.write(pattern(3)).wait()?;
                    b.write(pattern(2)).wait()?;
                    run.host_kernel(Default::default(), |args| args[0].bytes_mut()[UNIT as usize - 1] = 9)
                });
                work.expect("queued");
                let mut expected = pattern(1);
                expected[UNIT as usize - 1] = 9;
                assert!(finish(a.read()).expect("read") == expected, "{clock:?}, {further}, {tracked}");
            }
            finish(device.idle()).expect("idle");
            bench.check();
        });
    }
}

#[test]
fn a_launch_behind_a_write_that_waited_for_the_launch_around_it_never_ended() {
    for (clock, further) in benches() {
        watched(move || {
            let bench = bench(clock, further);
            let (device, a) = (&bench.device, bench.buffer(1));
            let launch = finish(device.prepare([Use::read_write(&a)])).expect("resident");
            let mut write = Box::pin(a.write(pattern(7)));
            let inner = launch.submit(|_| {
                let inner = device.prepare([Use::read_write(&a)]).wait()?;
                assert!(poll_once(write.as_mut()).is_pending());
                Ok::<_, tack_residency::Error>(inner.submit(|_| Ok::<(), tack_residency::Error>(())))
            });
            assert!(is_misuse(inner.expect("queued")));
            finish(write).expect("written");
            assert!(finish(a.read()).expect("read") == pattern(7));
            bench.increment(&device.queue(), &a);
            finish(device.idle()).expect("idle");
            bench.check();
        });
    }
}

#[test]
fn a_wait_for_a_queue_of_launches_within_one_that_they_come_behind_never_ended() {
    for (clock, further) in benches() {
        watched(move || {
            let bench = bench(clock, further);
            let (device, a) = (&bench.device, bench.buffer(1));
            let mut queue = device.launch_queue(1);
            let launch = finish(device.prepare([Use::read_write(&a)])).expect("resident");
            let flushed = launch.submit(|_| {
                queue.push([Use::read(&a)], |_| Ok(())).wait()?;
                Ok::<_, tack_residency::Error>(queue.flush().wait())
            });
            assert_eq!(is_misuse(flushed.expect("queued")), further);
            finish(queue.flush()).expect("queued");
            finish(device.idle()).expect("idle");
            bench.check();
        });
    }
}

#[test]
fn a_read_within_a_launch_of_what_was_handed_out_until_then_never_ended() {
    for further in [false, true] {
        watched(move || {
            let bench = Bench::tight(Clock::Real, 2);
            if further {
                bench.device.add_queue().expect("a queue");
            }
            let a = bench.buffer(1);
            let export = finish(a.export()).expect("exported");
            let launch = finish(bench.device.prepare([Use::read(&a)])).expect("resident");
            let work = launch.submit(|_| {
                drop(export);
                assert!(is_misuse(a.read().wait()));
                Ok::<(), tack_residency::Error>(())
            });
            work.expect("queued");
            assert_bytes("read", &a, &pattern(1));
            bench.check();
        });
    }
}

#[test]
fn a_spill_within_a_launch_that_a_read_of_the_buffer_was_behind_never_ended() {
    for clock in CLOCKS {
        for all in [false, true] {
            watched(move || {
                let bench = Bench::tight(clock, 3);
                let (device, a, b) = (&bench.device, bench.buffer(1), bench.buffer(2));
                let launch = finish(device.prepare([Use::read(&a)])).expect("resident");
                let other = finish(device.prepare([Use::read(&b)])).expect("resident");
                let mut read = Box::pin(b.read());
                let work = launch.submit(|_| {
                    assert!(
                        poll_once(read.as_mut()).is_pending(),
                        "behind this launch, as the other may use it"
                    );
                    drop(other);
                    let spilled = if all { device.spill_all().wait() } else { b.spill().wait() };
                    assert!(is_misuse(spilled));
                    Ok::<(), tack_residency::Error>(())
                });
                work.expect("queued");
                assert!(finish(read).expect("read") == pattern(2));
                assert_eq!(finish(b.spill()).expect("spilled"), UNIT);
                bench.check();
            });
        }
    }
}

#[test]
fn a_request_within_a_launch_stood_behind_a_spill_that_waited_for_the_launch() {
    watched(|| {
        let bench = Bench::tight(Clock::Real, 3);
        let (device, a, b) = (&bench.device, bench.buffer(1), bench.buffer(2));
        let launch = finish(device.prepare([Use::read(&a)])).expect("resident");
        let other = finish(device.prepare([Use::read(&b)])).expect("resident");
        let (mut read, mut spill) = (Box::pin(b.read()), Box::pin(b.spill()));
        let work = launch.submit(|_| {
            assert!(poll_once(read.as_mut()).is_pending());
            drop(other);
            assert!(poll_once(spill.as_mut()).is_pending(), "behind the read");
            assert!(is_misuse(device.alloc(UNIT).wait()));
            Ok::<(), tack_residency::Error>(())
        });
        work.expect("queued");
        assert!(finish(read).expect("read") == pattern(2));
        assert_eq!(finish(spill).expect("spilled"), UNIT);
        finish(device.alloc(UNIT)).map(drop).expect("room");
        bench.check();
    });
}
