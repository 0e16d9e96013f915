//! Memory is short: what is tried, in which order, and what the caller's hook may do meanwhile.

use crate::{
    bench::{
        Bench, CLOCKS, COMPUTE, SPILL, UNIT, assert_bytes, config, finish, pattern, poll_once, still_waits,
        watched,
    },
    recorder::Recorder,
};
use std::{
    pin::pin,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tack_residency::{
    Buffer, Device, ErrorKind, Options, Use,
    driver::{
        DriverErrorKind,
        fault::{Call, Effect, Fault, Step},
        sim::{Clock, Config, Pool, Sim},
    },
};

/// What a hook is to do, set once the device is there; and how often it was called, with what.
type Action = Box<dyn Fn(&Device) + Send + Sync>;

#[derive(Default)]
struct Hook {
    device: OnceLock<Device>,
    action: OnceLock<Action>,
    asked: Mutex<Vec<u64>>,
    inside: AtomicUsize,
}

impl Hook {
    fn options(self: &Arc<Hook>) -> Options {
        let hook = Arc::downgrade(self); // the device owns the closure
        Device::options().stall_after(Duration::from_millis(50)).on_memory_pressure(move |bytes| {
            let Some(hook) = hook.upgrade() else { return };
            assert_eq!(hook.inside.fetch_add(1, Ordering::SeqCst), 0, "the hook was entered twice");
            hook.asked.lock().expect("not poisoned").push(bytes);
            if let (Some(action), Some(device)) = (hook.action.get(), hook.device.get()) {
                action(device);
            }
            hook.inside.fetch_sub(1, Ordering::SeqCst);
        })
    }

    fn open(clock: Clock, units: u64, budget: Option<u64>) -> (Arc<Hook>, Bench) {
        let hook = Arc::new(Hook::default());
        let options = hook.options().maybe_budget(budget);
        let bench = Bench::new(config(clock, units), options);
        hook.device.set(bench.device.clone()).expect("set once");
        (hook, bench)
    }

    fn does(&self, action: impl Fn(&Device) + Send + Sync + 'static) {
        assert!(self.action.set(Box::new(action)).is_ok(), "set once");
    }

    fn asked(&self) -> Vec<u64> {
        std::mem::take(&mut self.asked.lock().expect("not poisoned"))
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        drop(self.device.take());
    }
}

/// A device whose calls are recorded, its hook's runs among them.
fn recorded(config: Config) -> (Arc<Recorder>, Bench) {
    let sim = Sim::open(config).expect("a device");
    let recorder = Recorder::new(sim.clone());
    let notes = Arc::downgrade(&recorder);
    let options = Device::options()
        .on_memory_pressure(move |_| notes.upgrade().into_iter().for_each(|log| log.note("hook")));
    let device = options.open_driver("bench", recorder.clone()).expect("a device");
    (recorder, Bench { sim, device })
}

/// Where a free waits for the whole device, so did whoever dropped, spilled or made room.
#[test]
fn a_caller_waited_for_the_whole_device_since_it_freed() {
    watched(|| {
        let (log, bench) = recorded(config(Clock::Real, 4).with_pool(Pool::None));
        let (used, unused) = (bench.buffer(1), bench.buffer(2));
        bench.hold(&[COMPUTE]);
        bench.observe(&bench.device.queue(), &used);
        drop(unused);
        let mut room = pin!(bench.device.make_room(UNIT));
        still_waits(room.as_mut());
        bench.release(&[COMPUTE]);
        finish(room).expect("room");
        finish(used.spill()).expect("spilled");
        drop(used);
        bench.check_empty();
        assert_eq!(log.freed_by(), [Some("tack bench waiter".to_owned())]);
    });
}

#[test]
fn nobody_learnt_of_copies_while_a_free_waited_for_the_whole_device() {
    watched(|| {
        let (log, bench) = recorded(config(Clock::Real, 4).with_pool(Pool::None));
        // With two queues, uses are noted one by one, and the free waits for its own alone.
        let _further = bench.device.add_queue().expect("a queue");
        let [used, unused, other] = [1, 2, 3].map(|seed| bench.buffer(seed));
        bench.hold(&[COMPUTE]);
        bench.observe(&bench.device.queue(), &used);
        drop(unused);
        bench.until("the free is called", || !log.freed_by().is_empty());
        assert_eq!(finish(other.read()).expect("read"), pattern(3));
        assert_eq!(finish(other.spill()).expect("spilled"), UNIT);
        bench.release(&[COMPUTE]);
        drop([used, other]);
        bench.check_empty();
    });
}

#[test]
fn room_was_made_in_the_wrong_order() {
    let (log, bench) = recorded(config(Clock::Computed, 4));
    let buffers = [1, 2, 3, 4].map(|seed| bench.buffer(seed));
    log.take();
    let large = finish(bench.device.alloc(2 * UNIT)).expect("room");
    let one = ["copy_out", "free", "allocate refused"];
    let expected = [["allocate refused", "hook", "trim"].as_slice(), &["allocate refused"], &one, &one[..2]];
    let expected: Vec<&str> = expected.concat().into_iter().chain(["allocate"]).collect();
    assert_eq!(log.take(), expected);
    assert!(buffers[0].is_spilled() && buffers[1].is_spilled() && !buffers[2].is_spilled());
    // All that is left is handed out: the error comes last.
    let guards = [&buffers[2], &buffers[3], &large].map(|buffer| finish(buffer.export()).expect("resident"));
    log.take();
    let error = finish(bench.device.alloc(UNIT)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Blocked, "{error}");
    assert_eq!(log.take(), ["allocate refused", "hook", "trim", "allocate refused"]);
    drop(guards);
    bench.check();
}

#[test]
fn out_of_memory_with_most_of_the_device_free_since_frees_were_pending_on_other_queues() {
    let (log, bench) = recorded(config(Clock::Computed, 4));
    let further = bench.device.add_queue().expect("a queue");
    let kept = bench.buffer(9);
    let pending = [1, 2, 3].map(|seed| bench.buffer(seed));
    bench.hold(&[further.id()]);
    let seen = pending.each_ref().map(|buffer| bench.observe(&further, buffer));
    drop(pending);
    let used = bench.info().in_use;
    log.take();
    let mut alloc = pin!(bench.device.alloc(3 * UNIT));
    still_waits(alloc.as_mut());
    assert_eq!(log.take(), ["allocate refused", "hook"], "it waits for what is on its way");
    bench.release(&[further.id()]);
    let large = finish(alloc).expect("room");
    assert_eq!(log.take(), ["free", "free", "free", "trim", "allocate"]);
    assert_eq!((used, bench.info().spills, kept.is_spilled()), (UNIT, 0, false));
    for (seed, seen) in (1..).zip(seen) {
        assert!(seen.lock().unwrap().as_ref() == Some(&pattern(seed)), "freed under its reader");
    }
    drop((large, kept));
    bench.check_empty();
}

#[test]
fn one_slow_queue_held_back_every_other_queues_frees() {
    for clock in CLOCKS {
        let bench = Bench::tight(clock, 4);
        let further = bench.device.add_queue().expect("a queue");
        let (slow, others) = (bench.buffer(1), [2, 3, 4].map(|seed| bench.buffer(seed)));
        bench.hold(&[further.id()]);
        let seen = bench.observe(&further, &slow);
        others.iter().for_each(|buffer| bench.increment(&bench.device.queue(), buffer));
        drop((slow, others));
        let large = finish(bench.device.alloc(3 * UNIT)).expect("the others' room");
        assert_eq!((bench.info().leaving, bench.info().spills), (UNIT, 0));
        assert!(seen.lock().unwrap().is_none());
        bench.release(&[further.id()]);
        drop(large);
        bench.check_empty();
    }
}

#[test]
fn the_limit_refused_an_allocation_while_the_cache_held_unused_bytes() {
    for clock in CLOCKS {
        for budget in [None, Some(4 * UNIT)] {
            let bench = Bench::new(config(clock, 4), Device::options().maybe_budget(budget));
            for units in [4, 1, 3, 2, 4] {
                let buffers: Vec<_> =
                    (0..4 / units).map(|_| finish(bench.device.alloc(units * UNIT)).expect("room")).collect();
                assert_eq!(bench.info().spills, 0);
                drop(buffers);
                finish(bench.device.idle()).expect("idle");
                assert_eq!(
                    (bench.info().in_use, bench.info().device_free),
                    (0, Some(4 * UNIT - bench.info().cached))
                );
            }
            // What the driver keeps is no use to others on the device.
            finish(bench.device.make_room(3 * UNIT)).expect("room");
            bench.sim.set_foreign_bytes(3 * UNIT);
            assert!(bench.info().cached <= UNIT, "{:?}", bench.info());
            bench.check_empty();
        }
    }
}

#[test]
fn the_spill_path_itself_allocated_device_memory() {
    let (log, bench) = recorded(config(Clock::Computed, 2));
    let buffers = [1, 2].map(|seed| bench.buffer(seed));
    log.take();
    assert_eq!(bench.info().device_free, Some(0));
    assert_eq!(finish(buffers[0].spill()).expect("spilled"), UNIT);
    assert_eq!(finish(bench.device.spill_all()).expect("spilled"), UNIT);
    assert_eq!(log.take(), ["copy_out", "free", "copy_out", "free"]);
    for (seed, buffer) in (1..).zip(&buffers) {
        finish(buffer.view(0, 1).expect("within").write([0])).expect("written where it is");
        assert!(finish(buffer.read()).expect("read")[1..] == pattern(seed)[1..]);
    }
    assert_eq!(log.take(), [""; 0]);
    bench.check();
}

#[test]
fn the_hook_was_not_asked_where_only_exports_stood_in_the_way() {
    for clock in CLOCKS {
        let (hook, bench) = Hook::open(clock, 2, Some(2 * UNIT));
        let exports = [1, 2].map(|seed| finish(bench.buffer(seed).export()).expect("handed out"));
        assert_eq!(finish(bench.device.alloc(UNIT)).unwrap_err().kind(), ErrorKind::Blocked);
        assert_eq!(hook.asked(), [UNIT], "in vain");
        let exports = Mutex::new(Some(exports));
        hook.does(move |_| drop(exports.lock().expect("not poisoned").take()));
        let fresh = finish(bench.device.alloc(UNIT)).expect("the hook gave them back");
        assert_eq!(hook.asked(), [UNIT]);
        drop(fresh);
        bench.check_empty();
    }
}

#[test]
fn the_hook_ran_though_victims_were_enough() {
    for clock in CLOCKS {
        let (hook, bench) = Hook::open(clock, 2, Some(2 * UNIT));
        let buffers = [1, 2, 3].map(|seed| bench.buffer(seed));
        assert_eq!((hook.asked(), bench.info().spills), (vec![], 1));
        let stash = Arc::new(Mutex::new(Some(buffers)));
        let kept = stash.lock().unwrap().as_ref().expect("there")[2].clone();
        let mut guards = Vec::new();
        for buffer in stash.lock().unwrap().iter().flatten().skip(1) {
            guards.push(finish(buffer.ensure_resident()).expect("resident"));
        }
        let guards = Mutex::new(Some(guards));
        hook.does(move |_| {
            // What a language's collector finds: dead guards and buffers.
            drop(guards.lock().expect("not poisoned").take());
            drop(stash.lock().expect("not poisoned").take());
        });
        let fresh = finish(bench.device.alloc(UNIT)).expect("room");
        assert_eq!(hook.asked(), [UNIT], "called once, with the bytes asked for");
        assert_bytes("kept", &kept, &pattern(3));
        assert_eq!(bench.info().spills, 1, "the hook's room was enough");
        drop((fresh, kept));
        bench.check_empty();
    }
}

/// Runs an allocation that needs the hook, on a device with a budget and on one whose driver refuses.
fn called_back(what: &str, act: impl Fn(&Device, &Mutex<Vec<Buffer>>) + Copy + Send + Sync + 'static) {
    for (clock, budget) in CLOCKS.into_iter().flat_map(|clock| [None, Some(3 * UNIT)].map(|b| (clock, b))) {
        let what = format!("{what}, {clock:?}, budget {budget:?}");
        watched(move || {
            let (hook, bench) = Hook::open(clock, 3, budget);
            let garbage = bench.buffer(1);
            let pinned = bench.buffer(2);
            let others = Arc::new(Mutex::new(vec![garbage]));
            let held = finish(pinned.ensure_resident()).expect("resident");
            let guard =
                Mutex::new(Some(finish(others.lock().unwrap()[0].ensure_resident()).expect("resident")));
            let shared = others.clone();
            hook.does(move |device| {
                drop(guard.lock().expect("not poisoned").take());
                act(device, &shared);
            });
            let large = finish(bench.device.alloc(2 * UNIT));
            let large = large.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(hook.asked(), [2 * UNIT], "{what}");
            assert_bytes(&what, &pinned, &pattern(2));
            drop((large, held, pinned));
            others.lock().expect("not poisoned").clear();
            bench.check_empty();
        });
    }
}

#[test]
fn a_hook_that_freed_ran_under_a_library_lock() {
    called_back("frees", |_, others| others.lock().expect("not poisoned").clear());
}

#[test]
fn a_hook_that_asked_the_device_ran_under_a_library_lock() {
    called_back("asks", |device, _| {
        device.check().expect("balanced books");
        assert!(device.memory_info().in_use > 0);
        assert!(!device.largest_holders(3).is_empty());
        device.set_budget(device.memory_info().budget);
        let scope = device.peak_scope();
        assert!(scope.finish() > 0);
        drop(device.add_queue().expect("a queue"));
    });
}

#[test]
fn a_hook_that_spilled_or_read_ran_under_a_library_lock() {
    called_back("spills", |device, others| {
        let buffer = others.lock().expect("not poisoned")[0].clone();
        assert_eq!(finish(buffer.spill()).expect("spilled"), UNIT);
        assert_bytes("in the hook", &buffer, &pattern(1));
        assert_eq!(finish(device.spill_all()).expect("spilled"), 0);
        finish(buffer.fill(3)).expect("filled");
        buffer.discard();
    });
}

#[test]
fn a_hook_that_allocated_ran_while_no_one_else_was_served() {
    called_back("allocates", |device, others| {
        let buffer = finish(device.alloc(UNIT)).expect("room for a small one");
        finish(buffer.fill(1)).expect("filled");
        drop(finish(device.prepare([Use::read(&buffer)])).expect("resident"));
        others.lock().expect("not poisoned").push(buffer);
    });
    // More than there is: it fails, and the hook is not entered for it.
    called_back("allocates in vain", |device, _| {
        let error = finish(device.alloc(1 << 40)).unwrap_err();
        assert!(
            [ErrorKind::TooLarge, ErrorKind::OutOfMemory, ErrorKind::Stalled].contains(&error.kind()),
            "{error}"
        );
    });
}

#[test]
fn a_hook_that_launched_ran_under_a_library_lock() {
    called_back("launches", |device, others| {
        let buffer = others.lock().expect("not poisoned")[0].clone();
        let launch = finish(device.prepare([Use::read_write(&buffer)])).expect("resident");
        launch
            .submit(|run| run.host_kernel(Duration::ZERO, |args| args[0].bytes_mut().fill(8)))
            .expect("queued");
        assert_bytes("in the hook", &buffer, &[8; UNIT as usize]);
    });
}

#[test]
fn a_hook_that_panicked_left_everyone_waiting() {
    for budget in [None, Some(2 * UNIT)] {
        let (hook, bench) = Hook::open(Clock::Computed, 2, budget);
        let [a, b] = [1, 2].map(|seed| bench.buffer(seed));
        let guards = [&a, &b].map(|buffer| finish(buffer.ensure_resident()).expect("resident"));
        let first = std::sync::atomic::AtomicBool::new(true);
        hook.does(move |_| assert!(!first.swap(false, Ordering::SeqCst), "on purpose"));
        let asked =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| finish(bench.device.alloc(UNIT))));
        assert!(asked.is_err());
        assert_eq!(hook.asked(), [UNIT]);
        hook.inside.store(0, Ordering::SeqCst);
        drop(guards);
        finish(bench.device.alloc(UNIT)).map(drop).expect("room");
        drop((a, b));
        bench.check_empty();
    }
}

#[test]
fn a_hook_ran_on_another_thread_than_the_one_that_asked() {
    for budget in [None, Some(UNIT)] {
        let (hook, bench) = Hook::open(Clock::Real, 1, budget);
        let a = bench.buffer(1);
        let guard = Mutex::new(Some(finish(a.ensure_resident()).expect("resident")));
        let asking = Arc::new(Mutex::new(None));
        let ran_on = asking.clone();
        hook.does(move |_| {
            *ran_on.lock().expect("not poisoned") = Some(std::thread::current().id());
            drop(guard.lock().expect("not poisoned").take());
        });
        let device = bench.device.clone();
        let id = watched(move || {
            drop(finish(device.alloc(UNIT)).expect("room"));
            std::thread::current().id()
        });
        assert_eq!(*asking.lock().expect("not poisoned"), Some(id));
        assert_bytes("spilled", &a, &pattern(1));
    }
}

#[test]
fn a_request_dropped_while_the_hook_was_due_left_everyone_waiting() {
    for budget in [None, Some(UNIT)] {
        let (hook, bench) = Hook::open(Clock::Computed, 1, budget);
        let a = bench.buffer(1);
        bench.hold(&[COMPUTE]);
        let guard = finish(a.ensure_resident()).expect("resident");
        for _ in 0..3 {
            let mut alloc = Box::pin(bench.device.alloc(UNIT));
            let _ = poll_once(alloc.as_mut());
        }
        drop(guard);
        bench.release(&[COMPUTE]);
        drop(finish(bench.device.alloc(UNIT)).expect("room"));
        assert!(!hook.asked().is_empty());
        drop(a);
        bench.check_empty();
    }
}

/// What a queue of launches needs room for, from within the hook or for a thread that the hook waits for, waited for the
/// hook's end.
#[test]
fn a_queue_of_launches_waited_for_the_hook_that_waited_for_it() {
    for (clock, elsewhere) in CLOCKS.into_iter().flat_map(|clock| [(clock, false), (clock, true)]) {
        watched(move || {
            let (hook, bench) = Hook::open(clock, 1, Some(UNIT));
            let pinned = bench.buffer(1);
            let guard = finish(pinned.ensure_resident()).expect("resident");
            let ends = Arc::new(Mutex::new(Vec::new()));
            let note = ends.clone();
            hook.does(move |device| {
                let queue = || {
                    let mut queue = device.launch_queue(1);
                    let scratch = queue.alloc(UNIT).expect("in its turn");
                    let flushed = queue.flush().wait().map_err(|error| error.kind());
                    note.lock().expect("not poisoned").push(flushed);
                    drop(scratch);
                };
                match elsewhere {
                    true => std::thread::scope(|scope| scope.spawn(queue).join().expect("no panic")),
                    false => queue(),
                }
            });
            let error = bench.device.alloc(UNIT).wait().expect_err("only the guard stands in the way");
            assert_eq!(error.kind(), ErrorKind::Stalled);
            assert_eq!(
                *ends.lock().expect("not poisoned"),
                [Err(ErrorKind::Stalled)],
                "{clock:?}, {elsewhere}"
            );
            drop(guard);
            assert_bytes("pinned", &pinned, &pattern(1));
            bench.check();
        });
    }
}

#[test]
fn a_request_failed_without_the_hook_while_it_ran_for_another() {
    watched(|| {
        let exports = Arc::new(Mutex::new(Vec::new()));
        let given = exports.clone();
        let hook = move |_| {
            std::thread::sleep(Duration::from_millis(100));
            given.lock().expect("not poisoned").clear();
        };
        let options = Device::options().budget(2 * UNIT).stall_after(Duration::from_secs(10));
        let device = options.on_memory_pressure(hook).open("sim").expect("opened");
        let held = [UNIT; 2].map(|bytes| device.alloc(bytes).wait().expect("room"));
        for buffer in &held {
            exports.lock().expect("not poisoned").push(buffer.export().wait().expect("handed out"));
        }
        std::thread::scope(|scope| {
            let ask = || device.alloc(UNIT).wait().map(drop);
            let first = scope.spawn(ask);
            std::thread::sleep(Duration::from_millis(30));
            let second = scope.spawn(ask);
            first.join().expect("no panic").expect("the hook gave room");
            second.join().expect("no panic").expect("the hook gave room");
        });
    });
}

/// Its future was kept and not polled any more: what waited for pins alone waited for ever, for its hook.
#[test]
fn a_request_that_waited_for_the_hook_unpolled_kept_others_from_being_told() {
    for clock in CLOCKS {
        watched(move || {
            let refuse = Effect::Refuse(DriverErrorKind::OutOfMemory);
            // Three for the buffers; then the one that is to come back.
            let sim = Sim::open(config(clock, 8)).expect("a device");
            let fault = Fault::new(sim.clone(), [Step::new(Call::Allocate, 3, refuse)]);
            let options = Device::options().budget(2 * UNIT).stall_after(Duration::from_millis(50));
            let options = options.on_memory_pressure(|_| ());
            let device = options.open_driver("unpolled", fault.clone()).expect("opened");
            let [back, _other, pinned] = [UNIT; 3].map(|bytes| device.alloc(bytes).wait().expect("room"));
            let guard = pinned.ensure_resident().wait().expect("resident");
            assert!(back.is_spilled());
            sim.hold(SPILL).expect("a queue");
            let mut unpolled = Box::pin(back.ensure_resident());
            assert!(poll_once(unpolled.as_mut()).is_pending(), "another is being copied out");
            sim.release(SPILL).expect("a queue");
            while fault.calls(Call::Allocate) < 4 {
                device.idle().within(Duration::from_millis(5)).wait().ok();
            }
            let asked = {
                let device = device.clone();
                std::thread::spawn(move || device.alloc(2 * UNIT).wait().map(drop))
            };
            let error = asked.join().expect("no panic").expect_err("only the guard stands in the way");
            assert_eq!(error.kind(), ErrorKind::Stalled, "{error}");
            drop(guard);
            drop(finish(unpolled).expect("there is room"));
        });
    }
}
