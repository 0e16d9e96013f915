//! Random steps against a naive model that keeps every buffer's bytes.
//!
//! `TACK_SEEDS=n` runs more or fewer seeds, `TACK_SEED=n` replays one. A failing seed prints its steps. `TACK_DEVICE=cuda`
//! has those whose time is real on that device.

mod ahead;
mod audit;
mod content;
mod launches;
mod rng;
mod steps;
mod tasks;
mod world;

use rng::Rng;
use std::{
    rc::Rc,
    sync::{Arc, Mutex},
    thread,
};
use steps::Run;
use tack_residency::driver::sim::Clock;
use world::{Bench, Kind, World};

const STEPS: usize = 60;

#[test]
fn no_order_of_steps_loses_a_byte_or_leaks_one() {
    on_a_computed_clock("no_order", |seed| alone(seed, Clock::Computed, false));
}

#[test]
fn no_refused_call_loses_a_byte_or_leaks_one() {
    on_a_computed_clock("no_refused", |seed| alone(seed, Clock::Computed, true));
}

#[test]
fn real_time_loses_no_byte_and_leaks_none() {
    each_seed("real_time", 150, |seed| alone(seed, Clock::Real, seed.is_multiple_of(2)));
}

#[test]
fn threads_that_share_a_device_lose_no_byte_and_leak_none() {
    each_seed("threads", 150, |seed| together(seed, seed.is_multiple_of(2)));
}

static TURN: Mutex<()> = Mutex::new(());

fn on_a_computed_clock(test: &str, run: impl Fn(u64)) {
    match std::env::var("TACK_DEVICE") {
        Ok(name) => println!("SKIPPED: {test}: {name} has no computed clock"),
        Err(_) => each_seed(test, 3000, run),
    }
}

fn each_seed(test: &str, seeds: u64, run: impl Fn(u64)) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let range = match (number("TACK_SEED"), number("TACK_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, Some(seeds)) => 0..seeds,
        (None, None) => 0..seeds,
    };
    // A vendor's device has one manager at a time.
    let _turn = std::env::var_os("TACK_DEVICE").map(|_| TURN.lock());
    for seed in range {
        if std::env::var_os("TACK_LOG").is_some() {
            eprintln!("{test}: seed {seed}");
        }
        let _failing = Failing(format!("{test}: replay with TACK_SEED={seed}"));
        run(seed);
    }
}

/// Says what failed, if it did.
struct Failing(String);

impl Drop for Failing {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{}", self.0);
        }
    }
}

/// Prints a world's steps, if the test has failed.
struct Steps(Rc<World>);

impl Drop for Steps {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("steps:\n{}", self.0.log.borrow().join("\n"));
        }
    }
}

fn alone(seed: u64, clock: Clock, refusals: bool) {
    let rng = Rng::new(seed);
    let bench = Arc::new(Bench::open(Kind { clock, refusals, shared: false }, &rng));
    let (driver, sim) = (bench.driver.clone(), bench.sim.clone());
    {
        let world = World::new(bench, rng);
        let _steps = Steps(world.clone());
        go(&world, true);
    }
    audit::audit_closed(&driver, sim);
}

/// Steps, and the end of them.
fn go(world: &Rc<World>, last: bool) {
    let mut run = Run::new(world.clone());
    for _ in 0..STEPS {
        run.step();
        world.audit();
    }
    run.finish();
    if last {
        world.audit_end();
    }
}

fn together(seed: u64, refusals: bool) {
    let rng = Rng::new(seed);
    let kind = Kind { clock: Clock::Real, refusals, shared: true };
    let bench = Arc::new(Bench::open(kind, &rng));
    let (driver, sim) = (bench.driver.clone(), bench.sim.clone());
    thread::scope(|scope| {
        for part in 1..4 {
            let (bench, rng) = (bench.clone(), Rng::new(seed ^ part << 32));
            scope.spawn(move || {
                let world = World::new(bench, rng);
                let _steps = Steps(world.clone());
                go(&world, false);
            });
        }
    });
    World::new(bench, rng).audit_end();
    audit::audit_closed(&driver, sim);
}
