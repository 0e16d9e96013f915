//! A future dropped at any of its await points: as if it had not been asked. One that is forgotten: no harm but a
//! buffer that stays where it is.

mod world;

use std::task::Poll;
use tack_residency::{ErrorKind, Use, driver::sim::Clock};
use world::{Kind, QUEUES, UNIT, World, poll_once};

/// Polls a call `polls` times and drops it, with queues held as told; whether it ended before that.
fn drop_after(world: &mut World, kind: Kind, polls: usize, held: &[usize], what: &str) -> bool {
    for &index in held {
        world.sim.hold(QUEUES[index].1).expect("a queue");
    }
    let mut ended = false;
    let changes = {
        let (mut future, changes) = world.call(kind);
        for _ in 0..polls {
            if let Poll::Ready(outcome) = poll_once(future.as_mut()) {
                outcome.unwrap_or_else(|error| panic!("{what}: {error}"));
                ended = true;
                break;
            }
        }
        // Someone stands behind it in the queue, and is served once it has gone.
        let [_, b, ..] = &world.buffers;
        let mut behind = Box::pin(world.device.prepare([Use::read(b)]));
        let early = poll_once(behind.as_mut());
        drop(future);
        for &index in held {
            world.sim.release(QUEUES[index].1).expect("a queue");
        }
        let behind = match early {
            Poll::Ready(launch) => launch,
            Poll::Pending => world.finish(&format!("{what}, behind it"), behind),
        };
        drop(behind.unwrap_or_else(|error| panic!("{what}, behind it: {error}")));
        changes
    };
    for (index, value) in changes.into_iter().filter(|_| polls > 0) {
        world.allowed[index].push(value);
        if ended {
            world.allowed[index] = vec![value];
        }
    }
    ended
}

/// Every set of queues that may be held.
fn holds() -> impl Iterator<Item = Vec<usize>> {
    (0..1 << QUEUES.len())
        .map(|bits: usize| (0..QUEUES.len()).filter(|index| bits >> index & 1 == 1).collect())
}

fn every_await_point(clock: Clock) {
    for kind in Kind::ALL {
        for held in holds() {
            // Held queues keep it waiting for ever: a few polls are all there is to see.
            let most = if held.is_empty() && clock == Clock::Computed { 400 } else { 6 };
            for polls in 0..most {
                let what = format!("{clock:?}, {kind:?} dropped after {polls} polls, {held:?} held");
                let mut world = World::new(clock);
                let ended = drop_after(&mut world, kind, polls, &held, &what);
                world.check(&what);
                if ended {
                    break;
                }
                assert!(polls + 1 < 400, "{what}: it never ends");
            }
        }
    }
}

#[test]
fn a_future_dropped_at_any_await_point_leaves_nothing_behind() {
    every_await_point(Clock::Computed);
}

#[test]
fn a_future_dropped_at_any_await_point_leaves_nothing_behind_in_real_time() {
    every_await_point(Clock::Real);
}

#[test]
fn a_buffer_is_still_a_victim_after_a_hundred_dropped_calls() {
    for clock in [Clock::Computed, Clock::Real] {
        let mut world = World::new(clock);
        for round in 0..100 {
            let kind = Kind::ALL[round * 7 % Kind::ALL.len()];
            let what = format!("{clock:?}, round {round}, {kind:?}");
            drop_after(&mut world, kind, round % 5, &[], &what);
            world.check(&what);
            world.settle();
        }
    }
}

#[test]
fn a_forgotten_guard_keeps_its_buffer_and_is_named() {
    for clock in [Clock::Computed, Clock::Real] {
        let world = World::new(clock);
        let what = format!("{clock:?}");
        let [a, b, c, _] = &world.buffers;
        std::mem::forget(world.finish(&what, c.ensure_resident()).expect("resident"));
        assert_eq!(world.finish(&what, c.spill()).expect("nothing to do"), 0);
        // Others go on in what is left.
        for _ in 0..3 {
            drop(world.finish(&what, a.ensure_resident()).expect("room"));
            drop(world.finish(&what, b.ensure_resident()).expect("room"));
        }
        let error = world.finish(&what, world.device.prepare([Use::read(a), Use::read(b)])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Stalled, "{error}");
        let text = error.to_string();
        assert!(text.contains("buffer 2") && text.contains(file!()), "{text}");
        assert_eq!(world.finish(&what, c.read()).expect("its bytes"), [2; UNIT as usize]);
        world.device.check().expect("balanced books");
    }
}

#[test]
fn a_forgotten_launch_keeps_its_buffers_and_is_named() {
    for clock in [Clock::Computed, Clock::Real] {
        let world = World::new(clock);
        let what = format!("{clock:?}");
        let [a, b, c, _] = &world.buffers;
        // All resident: nobody but the buffer's word knows of this launch.
        std::mem::forget(world.finish(&what, world.device.prepare([Use::read(c)])).expect("resident"));
        drop(world.finish(&what, a.ensure_resident()).expect("room"));
        let error = world.finish(&what, world.device.prepare([Use::read(a), Use::read(b)])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Stalled, "{error}");
        assert!(error.to_string().contains("buffer 2"), "{error}");
        let holders = world.device.largest_holders(4);
        let holder = holders.iter().find(|holder| holder.tag == "buffer 2").expect("it is named");
        assert_eq!(holder.stays.as_deref(), Some("pinned"));
        world.device.check().expect("balanced books");
    }
}

#[test]
fn a_forgotten_future_is_no_harm_to_others() {
    for clock in [Clock::Computed, Clock::Real] {
        for kind in Kind::ALL {
            let world = World::new(clock);
            let what = format!("{clock:?}, {kind:?} forgotten");
            {
                let (mut future, _) = world.call(kind);
                let _ = poll_once(future.as_mut());
                std::mem::forget(future);
            }
            // It may keep what it was given. Nobody waits for ever for that: there is room, or an error that says so.
            let [a, b, ..] = &world.buffers;
            match world.finish(&what, world.device.prepare([Use::read(a), Use::read(b)])) {
                Ok(launch) => drop(launch),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Stalled, "{what}: {error}"),
            }
            world.finish(&what, a.read()).unwrap_or_else(|error| panic!("{what}: {error}"));
            world.device.check().unwrap_or_else(|error| panic!("{what}: {error}"));
        }
    }
}
