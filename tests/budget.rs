//! The budget: nothing is spilled below it, no more than needed above it, and it is never passed, restores included.

#[path = "common/random.rs"]
mod random;

use random::Rng;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};
use tack_residency::{
    Buffer, Device, ErrorKind, Use,
    driver::{
        DriverErrorKind,
        fault::{Call, Effect, Fault, Step},
        sim::{Clock, Config, Link, Pool, Sim},
    },
};

fn config(clock: Clock, pool: Pool, capacity: u64) -> Config {
    let link = Link {
        pinned_bandwidth: Some(2_000_000_000),
        call: Duration::from_micros(2),
        latency: Duration::from_micros(1),
        ..Link::default()
    };
    let config = Config::new().with_clock(clock).with_pool(pool).with_capacity(capacity).with_granularity(64);
    config.with_outward(link).with_inward(link)
}

fn open(config: Config, budget: u64) -> (Device, Arc<Sim>) {
    let sim = Sim::open(config).expect("the device opens");
    let device = Device::options().budget(budget).open_driver("budget", sim.clone());
    (device.expect("the device opens"), sim)
}

fn taken(bytes: u64) -> u64 {
    bytes.next_multiple_of(64)
}

#[test]
fn ten_thousand_allocations_and_frees_below_the_budget_spill_nothing() {
    const BUDGET: u64 = 1 << 20;
    for pool in [Pool::StreamOrdered, Pool::None] {
        let (device, sim) = open(config(Clock::Computed, pool, BUDGET), BUDGET);
        let (mut rng, mut live, mut held) = (Rng(28), Vec::<Buffer>::new(), 0);
        for _ in 0..10_000 {
            let bytes = rng.below(40_000) + 1;
            while held + taken(bytes) > BUDGET || rng.below(3) == 0 && !live.is_empty() {
                let gone = live.swap_remove(rng.below(live.len() as u64) as usize);
                held -= taken(gone.len());
            }
            live.push(device.alloc(bytes).wait().expect("it fits"));
            held += taken(bytes);
            assert_eq!(device.memory_info().in_use, held);
            if rng.below(4) == 0 {
                let used = &live[rng.below(live.len() as u64) as usize];
                let launch = device.prepare([Use::read_write(used)]).wait().expect("it is resident");
                let cost = Duration::from_nanos(rng.below(20_000));
                launch.submit(|run| run.host_kernel(cost, |_| {})).expect("it is queued");
            }
        }
        let info = device.memory_info();
        assert_eq!((info.spills, info.restores, info.copied_out_bytes), (0, 0, 0), "{info:?}");
        assert!(info.peak <= BUDGET && sim.peak_bytes() <= BUDGET);
    }
}

#[test]
fn no_claim_spills_more_than_the_need_and_the_largest_victim() {
    const BUDGET: u64 = 100_000;
    let (device, sim) = open(config(Clock::Computed, Pool::StreamOrdered, BUDGET), BUDGET);
    let (mut rng, mut live) = (Rng(29), Vec::<Buffer>::new());
    for _ in 0..2_000 {
        device.idle().wait().expect("the device is not lost");
        let before = device.memory_info();
        let largest =
            live.iter().filter(|buffer| !buffer.is_spilled()).map(|buffer| taken(buffer.len())).max();
        let need = match rng.below(3) {
            0 => {
                live.retain(|_| rng.below(20) > 0);
                continue;
            }
            1 => {
                let bytes = rng.below(20_000) + 1;
                live.push(device.alloc(bytes).wait().expect("room is made"));
                taken(bytes)
            }
            _ => {
                let pick = |rng: &mut Rng| rng.below(live.len().max(1) as u64) as usize;
                let mut chosen = [pick(&mut rng), pick(&mut rng), pick(&mut rng)].to_vec();
                chosen.sort_unstable();
                chosen.dedup();
                let uses: Vec<_> = chosen.iter().filter_map(|&at| live.get(at)).collect();
                let spilled = uses.iter().filter(|buffer| buffer.is_spilled());
                let need = spilled.map(|buffer| taken(buffer.len())).sum();
                let uses: Vec<_> = uses.into_iter().map(Use::read_write).collect();
                drop(device.prepare(uses).wait().expect("room is made"));
                need
            }
        };
        let spilled = device.memory_info().spilled_bytes - before.spilled_bytes;
        let short = (before.in_use + need).saturating_sub(BUDGET);
        let most = if short == 0 { 0 } else { short + largest.unwrap_or(0) };
        assert!(spilled <= most, "{spilled} spilled where {short} were short, largest {largest:?}");
    }
    let info = device.memory_info();
    assert!(info.spills > 100 && info.restores > 100, "nothing was put to the test: {info:?}");
    assert!(info.peak <= BUDGET && sim.peak_bytes() <= BUDGET);
}

#[test]
fn tasks_that_restore_side_by_side_never_pass_the_budget() {
    const BYTES: u64 = 8_000;
    const BUDGET: u64 = 4 * BYTES;
    for (pool, spare) in [(Pool::StreamOrdered, 0), (Pool::None, 0), (Pool::StreamOrdered, BUDGET)] {
        let (device, sim) = open(config(Clock::Real, pool, BUDGET + spare), BUDGET);
        let buffers: Vec<Buffer> =
            (0..12).map(|_| device.alloc(BYTES).wait().expect("room is made")).collect();
        let over = AtomicBool::new(false);
        let watched = AtomicBool::new(true);
        thread::scope(|scope| {
            scope.spawn(|| {
                while watched.load(Ordering::Acquire) {
                    let info = device.memory_info();
                    if info.in_use + info.reserved > BUDGET {
                        over.store(true, Ordering::Release);
                    }
                    thread::yield_now();
                }
            });
            let tasks: Vec<_> = (0..6)
                .map(|task| {
                    let (device, buffers) = (&device, &buffers);
                    scope.spawn(move || {
                        let mut rng = Rng(task);
                        for _ in 0..60 {
                            let first = rng.below(buffers.len() as u64) as usize;
                            let uses = [
                                Use::read(&buffers[first]),
                                Use::read_write(&buffers[(first + 1 + rng.below(11) as usize) % 12]),
                            ];
                            let launch = device.prepare(uses).wait().expect("two always fit");
                            let cost = Duration::from_nanos(rng.below(20_000));
                            launch.submit(|run| run.host_kernel(cost, |_| {})).expect("it is queued");
                            if rng.below(5) == 0 {
                                drop(device.alloc(rng.below(2 * BYTES) + 1).wait().expect("room is made"));
                            }
                        }
                    })
                })
                .collect();
            let done: Vec<_> = tasks.into_iter().map(|task| task.join()).collect();
            watched.store(false, Ordering::Release);
            assert!(done.iter().all(Result::is_ok), "a task failed");
        });
        let info = device.memory_info();
        assert!(!over.load(Ordering::Acquire), "in use beyond the budget was seen");
        assert!(info.restores > 20, "nothing was put to the test: {info:?}");
        assert!(info.peak <= BUDGET, "{info:?}");
        assert!(sim.peak_bytes() <= BUDGET, "{} bytes were held on the device: {info:?}", sim.peak_bytes());
        assert_eq!(sim.faults(), []);
    }
}

#[test]
fn more_than_the_device_has_was_refused_only_after_everything_was_spilled() {
    for clock in [Clock::Computed, Clock::Real] {
        let sim = Sim::open(config(clock, Pool::StreamOrdered, 8192)).expect("the device opens");
        let device = Device::options().open_driver("no budget", sim).expect("the device opens");
        let buffers = [2048; 3].map(|bytes| device.alloc(bytes).wait().expect("a buffer"));
        for error in [device.alloc(8193).wait().unwrap_err(), device.make_room(8193).wait().unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
        }
        let other = [2048; 2].map(|bytes| device.alloc(bytes).wait().expect("a buffer"));
        assert_eq!(device.memory_info().spills, 1, "for the last of them");
        let uses = buffers.iter().chain(&other).map(Use::read).collect::<Vec<_>>();
        let error = device.prepare(&uses[..]).wait().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
        assert_eq!(device.memory_info().spills, 1, "for none of these");
    }
}

/// Does something that must end, on a thread of its own.
#[track_caller]
fn ends<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, is_done) = std::sync::mpsc::channel();
    thread::spawn(move || done.send(what()));
    is_done.recv_timeout(Duration::from_secs(20)).expect("it ends")
}

#[test]
fn a_budget_that_nothing_could_be_spilled_for_was_tried_for_without_end() {
    for clock in [Clock::Computed, Clock::Real] {
        for (host_limit, refused, lost) in
            [(0, 0, false), (4096, 0, false), (u64::MAX, 3, false), (u64::MAX, 1, true)]
        {
            ends(move || {
                let kind = if lost { DriverErrorKind::Lost } else { DriverErrorKind::Refused };
                let refuse = |nth| Step::new(Call::CopyOut, nth, Effect::Refuse(kind));
                let sim = Sim::open(config(clock, Pool::StreamOrdered, 1 << 20)).expect("a device");
                let fault = Fault::new(sim, (0..refused).map(refuse));
                let options = Device::options().budget(3 * 4096).host_limit(host_limit);
                let device = options.open_driver("short", fault).expect("opened");
                let held = [4096; 3].map(|bytes| device.alloc(bytes).wait().expect("a buffer"));
                let guard = held[2].ensure_resident().wait().expect("there");
                device.set_budget(Some(4096));
                let _ = device.idle().wait();
                drop(guard);
                held[2].wont_use();
                let info = device.memory_info();
                assert_eq!(info.over_budget, info.in_use > 4096, "{info:?}");
                device.check().expect("balanced books");
                if lost {
                    device.set_budget(Some(0));
                    return;
                }
                // It is tried again when something is asked for, or the budget is set.
                let _ = device.alloc(4096).wait();
                for _ in 0..=refused {
                    device.set_budget(Some(4096));
                    device.idle().wait().expect("idle");
                }
                let info = device.memory_info();
                assert_eq!(
                    info.in_use,
                    if host_limit < u64::MAX { 3 * 4096 - host_limit } else { 4096 },
                    "{info:?}"
                );
            });
        }
    }
}
