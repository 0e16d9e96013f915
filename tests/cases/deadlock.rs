//! Deadlock and livelock: locks held while waiting, and waits that nothing ends.

use crate::bench::{
    Bench, CLOCKS, COMPUTE, POOLS, READS, RESTORE, Random, SPILL, UNIT, config, finish, pattern, poll_once,
    watched,
};
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Wake, Waker},
    thread,
    time::Duration,
};
use tack_residency::{Device, ErrorKind, HostMemoryKind, Use, blocking, driver::sim::Clock};

/// Runs `work` on so many threads, and waits for all of them.
fn threads(count: usize, work: impl Fn(usize) + Send + Sync + 'static) {
    let work = Arc::new(work);
    watched(move || {
        let threads = (0..count).map(|index| {
            let work = work.clone();
            thread::spawn(move || work(index))
        });
        threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().expect("it ends well"));
    });
}

#[test]
fn a_spill_ran_under_the_lock_that_the_failing_allocation_held() {
    for pool in POOLS {
        for budget in [None, Some(4 * UNIT)] {
            let sim = config(Clock::Real, 4).with_pool(pool);
            let bench = Arc::new(Bench::new(sim, Device::options().maybe_budget(budget)));
            let shared = bench.clone();
            threads(4, move |index| {
                let seed = index as u8 + 1;
                for round in 0..20 {
                    let buffer = shared.buffer(seed);
                    let other = finish(shared.device.alloc(UNIT)).expect("room");
                    finish(other.fill(round)).expect("filled");
                    assert!(finish(buffer.read()).expect("read") == pattern(seed));
                }
            });
            assert!(bench.info().spills > 0);
            bench.check_empty();
        }
    }
}

#[test]
fn more_spillers_than_staging_blocks_all_waited_for_one() {
    for kind in [HostMemoryKind::Pinned, HostMemoryKind::Ordinary] {
        let options = Device::options().host_memory(kind).host_limit(2 * UNIT);
        let bench = Arc::new(Bench::new(config(Clock::Real, 8), options));
        let settled = |buffer| {
            finish(bench.device.idle()).expect("its staging is back");
            buffer
        };
        let buffers: Arc<Vec<_>> = Arc::new((1..=6).map(|seed| settled(bench.buffer(seed))).collect());
        let (shared, served) = (buffers.clone(), Arc::new(AtomicUsize::new(0)));
        let count = served.clone();
        threads(6, move |index| {
            let buffer = &shared[index];
            for round in 0..30 {
                let spilled = if round % 3 == 0 { finish(buffer.spill()).map(drop) } else { Ok(()) };
                let read = finish(buffer.read());
                for error in [spilled.err(), read.as_ref().err().cloned()].into_iter().flatten() {
                    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
                    assert!(error.to_string().contains("host"), "{error}");
                }
                if let Ok(bytes) = read {
                    assert!(bytes == pattern(index as u8 + 1), "cross-talk");
                    count.fetch_add(1, Ordering::Relaxed);
                }
                drop(finish(buffer.ensure_resident()).expect("the device has room"));
            }
        });
        assert!(served.load(Ordering::Relaxed) > 0);
        finish(bench.device.idle()).expect("copies that no one waits for have ended");
        for (seed, buffer) in (1..).zip(buffers.iter()) {
            assert!(finish(buffer.read()).expect("a block for one") == pattern(seed));
        }
        bench.check();
    }
}

#[test]
fn two_locks_were_taken_in_both_orders_by_close_and_by_spill() {
    for round in 0..60 {
        let bench = Bench::tight(Clock::Real, 3);
        let buffers = [1, 2, 3].map(|seed| bench.buffer(seed));
        let (sim, device) = (bench.sim.clone(), bench.device.clone());
        drop(bench);
        let spiller = device.clone();
        watched(move || {
            let [a, b, c] = buffers;
            let threads = [
                thread::spawn(move || _ = finish(spiller.spill_all())),
                thread::spawn(move || _ = finish(a.spill()).map(|_| drop(a))),
                thread::spawn(move || _ = finish(b.read()).map(|_| drop(b))),
                thread::spawn(move || {
                    // A future that is left behind, and the last handle in the middle of it.
                    let mut spill = Box::pin(c.spill());
                    for _ in 0..round % 4 {
                        let _ = poll_once(spill.as_mut());
                    }
                    drop(device);
                    drop(c);
                }),
            ];
            threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
        });
        let start = std::time::Instant::now();
        while sim.live_allocations() > 0 || sim.live_host_bytes() > 0 {
            assert!(start.elapsed().as_secs() < 60, "the device closed and left memory behind");
            thread::yield_now();
        }
        assert_eq!(sim.faults(), []);
    }
}

#[test]
fn closing_took_what_its_own_thread_held() {
    // The last handle is dropped in a kernel's closure, on the thread that runs it: nothing may join itself.
    let bench = Bench::tight(Clock::Real, 2);
    let a = bench.buffer(1);
    let (sim, device) = (bench.sim.clone(), bench.device.clone());
    drop(bench);
    sim.hold(COMPUTE).expect("a queue");
    let last = (device.clone(), a.clone());
    let launch = finish(device.prepare([Use::read(&a)])).expect("resident");
    launch.submit(|run| run.host_kernel(Default::default(), move |_| drop(last))).expect("queued");
    drop((a, device));
    watched(move || {
        sim.release(COMPUTE).expect("a queue");
        while sim.live_allocations() > 0 {
            thread::yield_now();
        }
    });
}

/// A waker that asks the device what it holds.
struct Curious {
    device: Device,
    woken: AtomicUsize,
}

impl Wake for Curious {
    fn wake(self: Arc<Self>) {
        self.device.check().expect("balanced books");
        let info = self.device.memory_info();
        assert!(info.in_use <= info.budget.unwrap_or(u64::MAX));
        assert!(self.device.largest_holders(2).len() <= 2);
        self.woken.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_waker_ran_under_a_library_lock_and_called_back() {
    for end in ["well", "with the device lost"] {
        watched(move || {
            let bench = Bench::tight(Clock::Real, 3);
            let (a, b) = (bench.buffer(1), bench.buffer(2));
            let curious = Arc::new(Curious { device: bench.device.clone(), woken: AtomicUsize::new(0) });
            let waker = Waker::from(curious.clone());
            let queues = [COMPUTE, SPILL, RESTORE, READS[1]];
            bench.hold(&queues);
            let device = bench.device.clone();
            let mut waiting: Vec<Pin<Box<dyn Future<Output = bool>>>> = vec![
                Box::pin(async { a.read().await.is_ok() }),
                Box::pin(async { a.view(8, 8).expect("within").read().await.is_ok() }),
                Box::pin(async { b.spill().await.is_ok() }),
                Box::pin(async { b.read().await.is_ok() }),
                Box::pin(async { device.alloc(3 * UNIT).await.is_ok() }),
                Box::pin(async { device.idle().await.is_ok() }),
            ];
            let mut cx = Context::from_waker(&waker);
            waiting.iter_mut().for_each(|wait| assert!(wait.as_mut().poll(&mut cx).is_pending()));
            if end == "well" {
                bench.release(&queues);
            } else {
                let lost = tack_residency::driver::DriverErrorKind::Lost;
                bench.sim.lose(tack_residency::driver::DriverError::new(lost, "a_kernel", 719, "on purpose"));
                assert_eq!(finish(bench.device.idle()).unwrap_err().kind(), ErrorKind::DeviceLost);
            }
            for mut wait in waiting {
                while wait.as_mut().poll(&mut cx).is_pending() {
                    thread::yield_now();
                }
            }
            assert!(curious.woken.load(Ordering::SeqCst) > 0, "{end}: no waker was called");
        });
    }
}

#[test]
fn dropping_a_future_blocked() {
    for clock in CLOCKS {
        let bench = Bench::tight(clock, 3);
        let (a, b) = (bench.buffer(1), bench.buffer(2));
        finish(b.spill()).expect("spilled");
        bench.hold(&[COMPUTE, SPILL, RESTORE, READS[1]]);
        bench.increment(&bench.device.queue(), &a);
        let device = bench.device.clone();
        let (a, b) = watched(move || {
            // Nothing moves: whoever waits here waits for ever.
            let mut waiting: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = vec![
                Box::pin(async { _ = a.read().await }),
                Box::pin(async { _ = a.spill().await }),
                Box::pin(async { _ = a.write([1]).await }),
                Box::pin(async { _ = b.ensure_resident().await }),
                Box::pin(async { _ = b.read().await }),
                Box::pin(async { _ = b.fill(3).await }),
                Box::pin(async { _ = b.copy_to(&a).await }),
                Box::pin(async { _ = device.alloc(2 * UNIT).await }),
                Box::pin(async { _ = device.prepare([Use::read(&b)]).await }),
                Box::pin(async { _ = device.make_room(3 * UNIT).await }),
                Box::pin(async { _ = device.idle().await }),
            ];
            waiting.iter_mut().for_each(|wait| _ = poll_once(wait.as_mut()));
            drop(waiting);
            (a.clone(), b.clone())
        });
        bench.release(&[COMPUTE, SPILL, RESTORE, READS[1]]);
        finish(bench.device.idle()).expect("idle");
        drop((a, b));
        bench.check_empty();
    }
}

#[test]
fn the_facades_threads_waited_for_each_others_victims() {
    let device = blocking::Device::options().budget(3 * UNIT).open("sim").expect("a device");
    let buffers: Arc<Vec<_>> = Arc::new((0..6).map(|_| device.alloc(UNIT).expect("room")).collect());
    let (shared, handle) = (buffers.clone(), device.clone());
    threads(4, move |index| {
        let mut random = Random(index as u64 + 1);
        for _ in 0..50 {
            let [a, b] = [0; 2].map(|_| random.below(6) as usize);
            let one = [Use::read_write(&shared[a])];
            let two = [Use::read_write(&shared[a]), Use::read(&shared[b])];
            let uses: &[Use<'_>] = if a == b { &one } else { &two };
            let launch = handle.prepare(uses).expect("room for two");
            let add = |args: &mut [tack_residency::driver::Arg<'_>]| args[0].bytes_mut()[0] += 1;
            launch.submit(|run| run.host_kernel(Default::default(), add)).expect("queued");
            if random.below(4) == 0 {
                shared[b].spill().expect("spilled");
            }
        }
    });
    let sum: u64 = buffers.iter().map(|buffer| u64::from(buffer.read().expect("read")[0])).sum();
    assert_eq!(sum, 200, "each launch counts once");
    device.check().expect("balanced books");
}

#[test]
fn patience_without_end_ended_the_devices_thread() {
    for clock in CLOCKS {
        let options = Device::options().budget(UNIT).stall_after(Duration::MAX);
        let bench = Bench::new(config(clock, 4), options);
        let buffer = bench.buffer(1);
        watched(move || {
            let guard = finish(buffer.ensure_resident()).expect("resident");
            let device = bench.device.clone();
            let waiting = thread::spawn(move || device.alloc(UNIT).wait().map(drop));
            // Longer than a computed clock stands still before it is taken that no one will let go.
            thread::sleep(Duration::from_millis(400));
            drop(guard);
            waiting.join().expect("no panic").expect("room");
            drop(buffer);
            bench.check_empty();
        });
    }
}
