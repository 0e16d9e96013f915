//! Each call to the driver fails once, at each place of a run that uses the whole of the API: nothing is lost, nothing
//! leaks, the books balance, nobody hangs, and what failed works when it is tried again.

mod bounded;
mod script;
mod waiters;

use bounded::{poll, threads, until, watched};
use script::{BUDGET, Script};
use std::{
    error::Error as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tack_residency::{
    Device, Error, ErrorKind, Result,
    driver::{
        DriverError, DriverErrorKind,
        fault::{Call, Effect, Fault, Step},
        sim::{Clock, Config, Pool, Sim},
    },
};

#[derive(Clone, Copy, Debug)]
struct World {
    clock: Clock,
    pool: Pool,
}

const WORLDS: [World; 4] = [
    World { clock: Clock::Computed, pool: Pool::StreamOrdered },
    World { clock: Clock::Computed, pool: Pool::None },
    World { clock: Clock::Real, pool: Pool::StreamOrdered },
    World { clock: Clock::Real, pool: Pool::None },
];

/// One device whose calls fail as `steps` say.
struct Bench {
    sim: Arc<Sim>,
    fault: Arc<Fault>,
    name: String,
}

impl Bench {
    fn new(world: World, steps: &[Step]) -> Bench {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let name = format!("bench {}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let config = Config::profile("pcie4").expect("a profile").with_granularity(512);
        let sim = Sim::open(config.with_clock(world.clock).with_pool(world.pool)).expect("a device");
        let fault = Fault::new(sim.clone(), steps.iter().copied());
        Bench { sim, fault, name }
    }

    fn open(&self) -> Result<Device> {
        Device::options().budget(BUDGET).open_driver(&self.name, self.fault.clone())
    }

    /// Nothing of the device is left: no memory on either side, and no thread.
    fn check_gone(&self, what: &str, is_lost: bool) {
        let thread = format!("tack {}", self.name);
        until(&format!("{what}: the device's thread ends"), || threads(&thread) == 0);
        until(&format!("{what}: host memory is free"), || self.sim.live_host_bytes() == 0);
        if !is_lost {
            assert_eq!(self.sim.live_allocations(), 0, "{what}: device memory leaked");
            assert_eq!(self.sim.live_bytes(), 0, "{what}: device memory leaked");
            assert_eq!(self.sim.live_fences(), 0, "{what}: fences leaked");
            assert_eq!(self.sim.faults(), [], "{what}: the device was misused");
        }
    }
}

fn finish<F: Future>(world: World, what: &str, future: F) -> F::Output {
    match world.clock {
        Clock::Computed => poll(what, future),
        Clock::Real => futures::executor::block_on(future),
    }
}

/// What must be nothing once every buffer is gone.
fn held(device: &Device) -> [u64; 6] {
    let info = device.memory_info();
    [info.in_use, info.spilled, info.leaving, info.reserved, info.pinned, info.host_pinned]
}

/// Runs the script with one failing call; what it met.
fn run(world: World, steps: Vec<Step>) -> Vec<Error> {
    let what = format!("{world:?}, {steps:?}");
    let bench = Bench::new(world, &steps);
    let mut errors = Vec::new();
    let device = bench.open().or_else(|error| {
        errors.push(error);
        bench.open()
    });
    let mut script = Script::new(device.unwrap_or_else(|error| panic!("{what}: {error}")));
    finish(world, &what, script.run()).unwrap_or_else(|error| panic!("{what}: {error}"));
    let Script { device, buffers, errors: met, .. } = script;
    device.check().unwrap_or_else(|error| panic!("{what}: {error}"));
    drop(buffers);
    finish(world, &what, device.idle()).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(held(&device), [0; 6], "{what}: {:?}", device.memory_info());
    device.check().unwrap_or_else(|error| panic!("{what}: {error}"));
    drop(device);
    bench.check_gone(&what, false);
    errors.extend(met);
    errors
}

/// How many calls of each kind the script makes when none fails.
fn calls(world: World) -> Vec<(Call, u64)> {
    let bench = Bench::new(world, &[]);
    let mut script = Script::new(bench.open().expect("a device"));
    finish(world, "a clean run", script.run()).expect("a clean run");
    assert_eq!(script.errors.len(), 0, "a clean run met errors");
    let info = script.device.memory_info();
    assert!(info.spills >= 5 && info.restores >= 3, "the script is too easy: {info:?}");
    drop(script);
    let calls: Vec<_> = Call::ALL.map(|call| (call, bench.fault.calls(call))).into();
    bench.check_gone("a clean run", false);
    calls
}

/// Every place of the run on a computed clock; on a real one, where a run is not the same twice, every few.
fn places(world: World) -> impl Iterator<Item = (Call, u64)> {
    let stride = if world.clock == Clock::Computed { 1 } else { 5 };
    calls(world).into_iter().flat_map(move |(call, count)| {
        // Waiting asks again and again whether a fence has passed.
        let most = if call == Call::IsPassed && world.clock == Clock::Real { 60 } else { count };
        (0..most.min(count)).step_by(stride).map(move |nth| (call, nth))
    })
}

#[test]
fn a_refused_call_loses_nothing_and_may_be_tried_again() {
    for world in WORLDS {
        let mut met = 0;
        for (call, nth) in places(world) {
            for kind in [DriverErrorKind::Refused, DriverErrorKind::OutOfMemory] {
                if kind == DriverErrorKind::OutOfMemory
                    && !matches!(call, Call::Allocate | Call::AllocateHost | Call::CreateQueue)
                {
                    continue;
                }
                let step = Step::new(call, nth, Effect::Refuse(kind));
                met += watched(&format!("{world:?}, {step:?}"), move || run(world, vec![step])).len();
            }
        }
        assert!(met > 10, "{world:?}: hardly any refusal was seen: {met}");
    }
}

/// The call that an error says has lost the device.
fn culprit(error: &Error) -> Option<&'static str> {
    error.source().and_then(|source| source.downcast_ref::<DriverError>()).map(|source| source.call)
}

fn lose(world: World, step: Step) {
    let what = format!("{world:?}, {step:?}");
    let bench = Bench::new(world, &[step]);
    let device = match bench.open() {
        Ok(device) => device,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::DeviceLost, "{what}: {error}");
            return;
        }
    };
    let mut script = Script::new(device);
    let met = finish(world, &what, script.run());
    let Err(error) = met else {
        assert!(
            bench.sim.faults().is_empty() || world.clock == Clock::Real,
            "{what}: the loss went unnoticed"
        );
        return;
    };
    assert_eq!(error.kind(), ErrorKind::DeviceLost, "{what}: {error}");
    assert_eq!(culprit(&error), Some(step.call.name()), "{what}: {error:?}");
    let Script { device, buffers, expected, .. } = script;
    let mut readable = 0;
    for (name, buffer) in &buffers {
        let spilled = buffer.is_spilled();
        match finish(world, &what, buffer.read()) {
            Ok(bytes) => {
                readable += u64::from(!spilled);
                assert!(bytes == expected[name], "{what}: {name} lost its bytes");
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::DeviceLost, "{what}: {error}");
                assert_eq!(culprit(&error), Some(step.call.name()), "{what}: {error:?}");
                assert!(!spilled, "{what}: {name} has a current host copy, and was not readable");
            }
        }
    }
    let info = device.memory_info();
    assert!(readable * script::UNIT >= info.clean, "{what}: a clean buffer was not readable: {info:?}");
    let refused = [
        finish(world, &what, device.alloc(512)).map(drop),
        finish(world, &what, device.make_room(512)),
        finish(world, &what, device.idle()),
    ];
    for error in refused.into_iter().map(Result::unwrap_err) {
        assert_eq!(error.kind(), ErrorKind::DeviceLost, "{what}: {error}");
    }
    device.check().unwrap_or_else(|error| panic!("{what}: {error}"));
    drop(buffers);
    device.check().unwrap_or_else(|error| panic!("{what}: {error}"));
    // The device's own thread may still be at what it had begun.
    until(&format!("{what}: nothing is held"), || held(&device) == [0; 6]);
    drop(device);
    bench.check_gone(&what, true);
}

#[test]
fn a_lost_device_keeps_every_current_host_copy_and_tells_everyone_else() {
    for world in WORLDS {
        for (call, nth) in places(world) {
            let step = Step::new(call, nth, Effect::Lose);
            watched(&format!("{world:?}, {step:?}"), move || lose(world, step));
        }
    }
}

/// Clearing fresh memory is no allocation: more room would not help it, and making some again and again would not end.
#[test]
fn a_clearing_refused_for_want_of_memory_fails_its_allocation() {
    for world in WORLDS {
        watched(&format!("{world:?}"), move || {
            let refused = |nth| Step::new(Call::Fill, nth, Effect::Refuse(DriverErrorKind::OutOfMemory));
            let bench = Bench::new(world, &(0..100).map(refused).collect::<Vec<_>>());
            let device = bench.open().expect("a device");
            let error = finish(world, "an allocation", device.alloc(4096)).expect_err("it is not cleared");
            assert_eq!((error.kind(), bench.fault.calls(Call::Fill)), (ErrorKind::Refused, 1), "{error}");
            finish(world, "rest", device.idle()).expect("not lost");
            assert_eq!(held(&device), [0; 6]);
            drop(device);
            bench.check_gone("a refused clearing", false);
        });
    }
}
