//! Recorded programs replayed one request at a time: the victims are exactly the least recently used.

mod lru;
mod player;
mod table;
#[path = "../../examples/replay/trace.rs"]
mod trace;

use lru::{Copies, Figures, Lru, figures, half};
use player::{Player, play};
use std::{
    path::Path,
    time::{Duration, Instant},
};
use tack_residency::{
    Device, Policy,
    driver::sim::{Clock, Config, Contents, Link, Sim},
};
use trace::Trace;

const LOOK_AHEADS: [Option<usize>; 6] = [None, Some(0), Some(1), Some(4), Some(16), Some(64)];

const POLICIES: [(Policy, Copies); 2] = [(Policy::Plain, Copies::All), (Policy::Aware, Copies::Needed)];

/// Computed time, one byte of granularity, and no end of memory but the budget.
fn computed(budget: u64, policy: Policy) -> Device {
    let config = Config::profile("pcie4").expect("a profile");
    let config = config.with_capacity(1 << 40).with_contents(Contents::NotHeld);
    let driver = Sim::open(config).expect("a simulated device");
    Device::options().budget(budget).policy(policy).open_driver("sim", driver).expect("a device")
}

fn player(device: Device, look_ahead: Option<usize>) -> Player {
    match look_ahead {
        None => Player::new(device, 1.0),
        Some(launches) => Player::ahead(device, launches),
    }
}

fn small() -> Trace {
    Trace::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/replay/small.jsonl")).expect("a trace")
}

fn check(name: &str, what: &str, got: Figures, right: Figures) {
    assert_eq!(got, right, "{name}, {what}: left is what was done, right is exactly LRU");
}

/// As [`check`]. The device's memory lags behind the decisions of a program that looks ahead, and its peak with it.
fn check_ahead(name: &str, policy: Policy, look_ahead: Option<usize>, got: Figures, right: Figures) {
    let peak = if look_ahead.is_some() { got.peak } else { right.peak };
    check(name, &format!("{policy:?}, {look_ahead:?} ahead"), got, Figures { peak, ..right });
}

#[test]
fn the_small_trace_is_spilled_exactly_by_recency() {
    let trace = small();
    for fifths in [4, 5, 6] {
        let budget = half(&trace) / 5 * fifths;
        for (policy, copies) in POLICIES {
            let right = figures(&trace, budget, copies);
            assert!(right.spills > 25 && right.out <= right.spilled, "too easy: {right:?}");
            for look_ahead in LOOK_AHEADS {
                let device = computed(budget, policy);
                check_ahead("small", policy, look_ahead, play(player(device, look_ahead), &trace), right);
            }
        }
    }
}

#[test]
fn the_naive_model_agrees_with_the_stated_values() {
    let Some(folder) = table::folder() else { return };
    for row in table::rows(&folder) {
        let trace = Trace::open(&folder.join(format!("{}.jsonl.gz", row.name))).expect("a trace");
        assert_eq!(half(&trace), row.budget, "{}: the budget", row.name);
        check(&row.name, "model, plain", figures(&trace, row.budget, Copies::All), row.plain);
        check(&row.name, "model, aware", figures(&trace, row.budget, Copies::Needed), row.aware);
    }
}

fn replay_real_programs(policy: Policy, look_ahead: usize, right: impl Fn(&table::Row) -> Figures) {
    let Some(folder) = table::folder() else { return };
    for row in table::rows(&folder) {
        let trace = Trace::open(&folder.join(format!("{}.jsonl.gz", row.name))).expect("a trace");
        for look_ahead in [None, Some(look_ahead)] {
            let (start, device) = (Instant::now(), computed(row.budget, policy));
            let got = play(player(device, look_ahead), &trace);
            println!("{} {policy:?}, {look_ahead:?} ahead: {got:?} in {:.1?}", row.name, start.elapsed());
            check_ahead(&row.name, policy, look_ahead, got, right(&row));
        }
    }
}

#[test]
fn real_programs_are_spilled_exactly_by_recency() {
    replay_real_programs(Policy::Plain, 4, |row| row.plain);
}

#[test]
fn real_programs_copy_only_what_changed() {
    replay_real_programs(Policy::Aware, 64, |row| row.aware);
}

/// One event after the other on a real clock, with a look at every buffer after each.
fn follow(trace: &Trace, budget: u64, policy: (Policy, Copies), link: Link, speed: f64) {
    let config = Config::new().with_clock(Clock::Real).with_granularity(1);
    let driver = Sim::open(config.with_outward(link).with_inward(link)).expect("a simulated device");
    let device = Device::options().budget(budget).policy(policy.0);
    let device = device.open_driver("sim", driver).expect("a device");
    let (mut player, mut lru) = (Player::new(device.clone(), speed), Lru::new(budget, policy.1));
    for (index, event) in trace.events.iter().enumerate() {
        let place = || format!("{}, event {index}: {event:?}, with {link:?}", trace.name);
        player.apply(event).unwrap_or_else(|error| panic!("{}: {error}", place()));
        lru.apply(event);
        for (id, buffer) in player.buffers() {
            assert_eq!(buffer.is_spilled(), lru.is_spilled(*id), "buffer {id} is spilled: {}", place());
        }
        assert_eq!(player.figures(), lru.figures, "{}", place());
    }
    device.idle().wait().expect("an idle device");
    device.check().expect("balanced books");
}

#[test]
fn the_victims_are_the_same_at_any_speed_of_a_real_device() {
    let link = |bandwidth, call, latency| Link {
        pinned_bandwidth: bandwidth,
        pageable_bandwidth: bandwidth,
        call: Duration::from_micros(call),
        latency: Duration::from_micros(latency),
    };
    // As fast as memory is; copies far slower than kernels; kernels far slower than copies.
    let speeds = [
        (link(None, 0, 0), 0.0),
        (link(Some(400_000_000), 20, 50), 0.1),
        (link(Some(20_000_000_000), 0, 5), 5.0),
    ];
    let small = small();
    for (link, speed) in speeds {
        for policy in POLICIES {
            follow(&small, half(&small), policy, link, speed);
        }
    }
    let Some(folder) = table::folder() else { return };
    for name in ["starpu_sim_chol20", "minimalloc_A"] {
        let trace = Trace::open(&folder.join(format!("{name}.jsonl.gz"))).expect("a trace").scaled(1 << 16);
        follow(&trace, half(&trace), POLICIES[1], speeds[1].0, 1e-4);
    }
}
