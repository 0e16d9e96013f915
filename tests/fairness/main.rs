//! Everyone is served in turn, or told at once that they never can be.

mod crowd;

use crowd::{Crowd, UNIT, WORKERS, device};
use futures::future::{join_all, poll_immediate};
use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    task::{Context, Poll, Waker},
    time::Duration,
};
use tack_residency::{
    Buffer, Device, ErrorKind, HostMemoryKind, Use, blocking,
    driver::{
        DriverErrorKind,
        fault::{Call, Effect, Fault, Step},
        sim::{Clock, Config, Sim},
    },
};

const CLOCKS: [Clock; 2] = [Clock::Computed, Clock::Real];
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs something on a thread of its own, and waits no longer than is reasonable.
fn watched<T: Send + 'static>(what: &str, run: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = mpsc::channel();
    let worker = std::thread::spawn(move || tell.send(run()));
    match told.recv_timeout(PATIENCE) {
        Ok(output) => output,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what} hangs: no end after {PATIENCE:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match worker.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(_) => unreachable!("it ended without telling"),
        },
    }
}

fn pinned(clock: Clock, units: u64) -> Device {
    device(clock, units, HostMemoryKind::Pinned)
}

async fn allocate<const N: usize>(device: &Device) -> [Buffer; N] {
    let mut buffers = Vec::new();
    for index in 0..N {
        buffers.push(device.alloc(UNIT).tag(format!("buffer {index}")).await.expect("room"));
    }
    buffers.try_into().expect("as many as asked for")
}

#[test]
fn two_launches_that_each_hold_half_of_what_they_need_never_come_about_on_a_thread_pool() {
    for clock in CLOCKS {
        watched(&format!("{clock:?}"), move || {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().expect("a runtime");
            let crowd = Crowd::new(clock, HostMemoryKind::Pinned);
            runtime.block_on(async {
                let tasks = (0..WORKERS).map(|worker| tokio::spawn(crowd.clone().work(worker)));
                join_all(tasks).await.into_iter().for_each(|task| task.expect("it ends"));
            });
            crowd.check(&format!("{clock:?}"));
        });
    }
}

#[test]
fn two_launches_that_each_hold_half_of_what_they_need_never_come_about_on_one_thread() {
    for clock in CLOCKS {
        watched(&format!("{clock:?}"), move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            let crowd = Crowd::new(clock, HostMemoryKind::Pinned);
            runtime.block_on(async {
                let tasks = (0..WORKERS).map(|worker| tokio::spawn(crowd.clone().work(worker)));
                join_all(tasks).await.into_iter().for_each(|task| task.expect("it ends"));
            });
            crowd.check(&format!("{clock:?}"));
        });
    }
}

#[test]
fn two_launches_that_each_hold_half_of_what_they_need_never_come_about_without_a_runtime() {
    for clock in CLOCKS {
        watched(&format!("{clock:?}"), move || {
            let crowd = Crowd::new(clock, HostMemoryKind::Pinned);
            futures::executor::block_on(join_all((0..WORKERS).map(|worker| crowd.clone().work(worker))));
            crowd.check(&format!("{clock:?}"));
        });
    }
}

#[test]
fn two_launches_that_each_hold_half_of_what_they_need_never_come_about_among_threads() {
    for (clock, kind) in [
        (Clock::Real, HostMemoryKind::Ordinary),
        (Clock::Real, HostMemoryKind::Pinned),
        (Clock::Computed, HostMemoryKind::Pinned),
    ] {
        watched(&format!("{clock:?}, {kind:?}"), move || {
            let crowd = Crowd::new(clock, kind);
            std::thread::scope(|scope| {
                for worker in 0..WORKERS {
                    let crowd = &crowd;
                    scope.spawn(move || crowd.work_waiting(worker));
                }
            });
            crowd.check(&format!("{clock:?}, {kind:?}"));
        });
    }
}

/// Holds a buffer again and again, with hardly a pause between.
async fn hold_for_ever(device: Device, buffer: Buffer, pause: usize, stop: Arc<AtomicBool>) {
    for _ in 0..pause {
        tokio::task::yield_now().await;
    }
    while !stop.load(Ordering::Acquire) {
        let held = device.prepare([Use::read(&buffer)]).await.expect("it is served");
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        drop(held);
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_request_whose_room_is_always_pinned_by_someone_is_served() {
    for clock in CLOCKS {
        watched(&format!("{clock:?}"), move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            runtime.block_on(async {
                let device = pinned(clock, 2);
                let [held, a, b] = allocate(&device).await;
                drop(device.prepare([Use::read(&held)]).await.expect("room"));
                let stop = Arc::new(AtomicBool::new(false));
                let tasks = [0, 10].map(|pause| {
                    tokio::spawn(hold_for_ever(device.clone(), held.clone(), pause, stop.clone()))
                });
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                    assert!(
                        device.memory_info().pinned > 0 || clock == Clock::Real,
                        "the pins do not overlap"
                    );
                }
                for _ in 0..10 {
                    drop(device.prepare([Use::read(&a), Use::read(&b)]).await.expect("it is served"));
                    tokio::task::yield_now().await;
                }
                stop.store(true, Ordering::Release);
                join_all(tasks).await.into_iter().for_each(|task| task.expect("it ends"));
                device.check().expect("balanced books");
            });
        });
    }
}

#[test]
fn a_dropped_pin_wakes_who_waits_for_its_room() {
    for clock in CLOCKS {
        watched(&format!("{clock:?}"), move || {
            futures::executor::block_on(async {
                let device = pinned(clock, 2);
                let [a, b, c] = allocate(&device).await;
                let launch = device.prepare([Use::read(&b), Use::read(&c)]).await.expect("room");
                let mut waiting = pin!(device.prepare([Use::read(&a)]));
                assert!(poll_immediate(&mut waiting).await.is_none(), "there was no room");
                drop(launch); // nothing is freed: two buffers may be spilled now
                drop(waiting.await.expect("it is served"));
                let guard = b.ensure_resident().await.expect("room");
                let other = a.ensure_resident().await.expect("room");
                let mut waiting = pin!(c.ensure_resident());
                assert!(poll_immediate(&mut waiting).await.is_none(), "there was no room");
                drop(guard);
                drop(waiting.await.expect("it is served"));
                drop(other);
            });
        });
    }
}

#[test]
fn a_task_that_asks_for_more_than_its_own_guard_leaves_is_told_where_it_took_that() {
    for clock in CLOCKS {
        watched(&format!("{clock:?}"), move || {
            futures::executor::block_on(async {
                let config = Config::profile("pcie4").expect("a profile").with_clock(clock);
                let options = Device::options().budget(2 * UNIT).stall_after(Duration::from_millis(50));
                let device =
                    options.open_driver("sim", Sim::open(config).expect("a device")).expect("a device");
                let [a, b, c] = allocate(&device).await;
                let (guard, line) = (a.ensure_resident().await.expect("room"), line!());
                let error = device.prepare([Use::read(&b), Use::read(&c)]).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Stalled, "{error}");
                let place = format!("{}:{line}", file!());
                assert!(error.to_string().contains(&place), "{error} names no {place}");
                assert!(error.to_string().contains("buffer 0"), "{error}");
                drop(guard);
                drop(device.prepare([Use::read(&b), Use::read(&c)]).await.expect("there is room now"));
            });
        });
    }
}

#[test]
fn a_thread_that_asks_for_more_than_its_own_guard_leaves_is_told_at_once() {
    watched("the facade", || {
        let options = blocking::Device::options().budget(2 * UNIT);
        let device = options.with(|options| options.stall_after(Duration::from_secs(3600)));
        let device = device.open("sim").expect("a device");
        let [a, b, c] = [0, 1, 2].map(|_| device.alloc(512).expect("room"));
        let d = device.alloc(UNIT).expect("room");
        let (guard, line) = (d.ensure_resident().expect("room"), line!());
        let error = device.alloc(2 * UNIT).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Stalled, "{error}");
        assert!(error.to_string().contains(&format!("{}:{line}", file!())), "{error}");
        drop(guard);
        let launch = device.prepare([Use::read(&a), Use::read(&b), Use::read(&c)]).expect("room");
        let error = d.ensure_resident().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Stalled, "{error}");
        drop(launch);
        drop(d.ensure_resident().expect("there is room now"));
    });
}

#[test]
fn a_thread_waits_for_the_guard_of_another() {
    watched("the facade", || {
        let device = blocking::Device::options().budget(2 * UNIT).open("sim").expect("a device");
        let [a, b] = [0, 1].map(|_| device.alloc(2 * UNIT).expect("room"));
        let guard = a.ensure_resident().expect("room");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| b.ensure_resident().map(drop));
            // It holds nothing itself, so it waits, and raises the gate while it does.
            while device.prepare([Use::read(&a)]).is_ok() && !waiting.is_finished() {
                std::thread::yield_now();
            }
            assert!(!waiting.is_finished(), "it was served beside a guard that left no room");
            drop(guard);
            waiting.join().expect("no panic").expect("it is served");
        });
    });
}

#[test]
fn a_request_larger_than_the_budget_fails_at_its_first_poll() {
    for clock in CLOCKS {
        let device = pinned(clock, 2);
        let [a, b, c] = futures::executor::block_on(allocate(&device));
        let mut cx = Context::from_waker(Waker::noop());
        let too_large = |what: &str, outcome: Poll<Result<(), tack_residency::Error>>| match outcome {
            Poll::Ready(Err(error)) => assert_eq!(error.kind(), ErrorKind::TooLarge, "{what}: {error}"),
            other => panic!("{what}: {other:?}"),
        };
        too_large("alloc", pin!(device.alloc(2 * UNIT + 1)).as_mut().poll(&mut cx).map_ok(drop));
        let uses = [Use::read(&a), Use::read(&b), Use::read(&c)];
        too_large("prepare", pin!(device.prepare(uses)).as_mut().poll(&mut cx).map_ok(drop));
        too_large("make_room", pin!(device.make_room(3 * UNIT)).as_mut().poll(&mut cx));
        assert_eq!(device.alloc(u64::MAX).try_now().unwrap_err().kind(), ErrorKind::TooLarge);
        let config =
            Config::profile("pcie4").expect("a profile").with_clock(clock).with_max_allocation(Some(UNIT));
        let device =
            Device::options().open_driver("sim", Sim::open(config).expect("a device")).expect("a device");
        assert_eq!(device.alloc(UNIT + 1).try_now().unwrap_err().kind(), ErrorKind::TooLarge);
    }
}

#[test]
fn spilling_that_frees_nothing_ends_in_an_error() {
    for clock in CLOCKS {
        watched(&format!("{clock:?}"), move || {
            let config = Config::profile("pcie4").expect("a profile").with_clock(clock);
            let sim = Sim::open(config.with_capacity(4 * UNIT)).expect("a device");
            // Whatever is spilled, another program has it at once.
            let refusal = Effect::Refuse(DriverErrorKind::OutOfMemory);
            let fault = Fault::new(sim, (4..34).map(|nth| Step::new(Call::Allocate, nth, refusal)));
            let options = Device::options().stall_after(Duration::from_millis(50));
            let device = options.open_driver("sim", fault.clone()).expect("a device");
            futures::executor::block_on(async {
                let buffers = allocate::<4>(&device).await;
                for (value, buffer) in (0u8..).zip(&buffers) {
                    buffer.fill(value).await.expect("filled");
                }
                let mut before = fault.calls(Call::Allocate);
                while before < 28 {
                    let error = device.alloc(UNIT).await.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
                    assert_eq!(device.memory_info().in_use, 0, "not all was tried: {error}");
                    let tries = fault.calls(Call::Allocate) - before;
                    assert!(
                        tries <= 6,
                        "one, one after giving up what is kept, one for each victim: {tries}"
                    );
                    before += tries;
                }
                while device.alloc(UNIT).await.is_err() {}
                assert!(fault.calls(Call::Allocate) < 45);
                for (value, buffer) in (0u8..).zip(&buffers) {
                    drop(buffer.ensure_resident().await.expect("room"));
                    assert_eq!(buffer.read().await.expect("its bytes"), [value; UNIT as usize]);
                }
                // Pins alone stand in the way: nothing is spillable, and that is what the error says.
                let guards = join_all(buffers.iter().map(Buffer::ensure_resident)).await;
                let error = device.alloc(UNIT).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Stalled, "{error}");
                drop(guards);
                drop(device.alloc(UNIT).await.expect("there is room now"));
                device.check().expect("balanced books");
            });
        });
    }
}
