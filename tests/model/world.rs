//! One seed's device, its buffers, and what the model remembers of it to judge errors and figures.

use crate::{ahead::Ahead, content::Content, rng::Rng};
use std::{
    cell::{Cell, RefCell},
    rc::{Rc, Weak},
    sync::Arc,
    time::Duration,
};
use tack_residency::{
    Buffer, Device, ErrorKind, HostMemoryKind, Policy, Queue, Victims,
    driver::{
        Driver,
        fault::{Call, Fault},
        sim::{Clock, Config, Link, Pool, Sim},
    },
};

/// What kind of device a seed gets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    pub clock: Clock,
    pub refusals: bool,
    /// Other threads have buffers on the same device.
    pub shared: bool,
}

/// A device that threads may share.
pub struct Bench {
    pub device: Device,
    pub driver: Arc<dyn Driver>,
    /// The driver, if it is simulated: it knows more of what it holds.
    pub sim: Option<Arc<Sim>>,
    pub queues: Vec<Queue>,
    pub kind: Kind,
    pub capacity: u64,
    pub granularity: u64,
    pub budget: Option<u64>,
    /// There may be no host memory for a copy.
    pub is_host_short: bool,
}

/// The device of a vendor's, by its name.
fn vendors(name: &str) -> Arc<dyn Driver> {
    let opened: Option<tack_residency::driver::Result<Arc<dyn Driver>>> = match name {
        #[cfg(feature = "cuda")]
        "cuda" => Some(tack_residency::driver::cuda::Cuda::open(0).map(|driver| driver as _)),
        #[cfg(feature = "hip")]
        "hip" => Some(tack_residency::driver::hip::Hip::open(0).map(|driver| driver as _)),
        #[cfg(feature = "level-zero")]
        "level_zero" => {
            Some(tack_residency::driver::level_zero::LevelZero::open(0).map(|driver| driver as _))
        }
        _ => None,
    };
    let opened = opened.unwrap_or_else(|| panic!("TACK_DEVICE={name}: there is no such device"));
    opened.expect("the device opens")
}

fn simulated(clock: Clock, granularity: u64, capacity: u64, rng: &Rng) -> Arc<Sim> {
    let real = clock == Clock::Real;
    let link = |rng: &Rng| Link {
        pinned_bandwidth: Some(rng.within(1..200) * if real { 10_000_000 } else { 1_000_000 }),
        pageable_bandwidth: None,
        call: Duration::from_nanos(rng.within(0..2000)),
        latency: Duration::from_nanos(rng.within(0..2000)),
    };
    let config = Config::new()
        .with_clock(clock)
        .with_capacity(capacity)
        .with_granularity(granularity)
        .with_pool(rng.pick(&[Pool::StreamOrdered, Pool::None]))
        .with_copy_cuts(rng.within(1..9) as u32)
        .with_outward(link(rng))
        .with_inward(link(rng))
        .with_submit(Duration::from_nanos(rng.within(0..300)))
        .with_reaction(Duration::from_nanos(rng.within(0..3000)))
        .with_poison(Some(rng.next() | 1));
    Sim::open(config).expect("the device opens")
}

impl Bench {
    pub fn open(kind: Kind, rng: &Rng) -> Bench {
        let (driver, sim, granularity, budget, capacity) = match std::env::var("TACK_DEVICE") {
            Ok(name) => {
                let driver = vendors(&name);
                let granularity = driver.caps().granularity;
                let budget = rng.within(2..16) * granularity;
                (driver, None, granularity, budget, budget + 4 * granularity)
            }
            Err(_) => {
                let granularity = rng.pick(&[1, 16]);
                let budget = rng.within(300..1500) / granularity * granularity;
                let capacity = budget + rng.pick(&[0, 0, 64, 1024]);
                let sim = simulated(kind.clock, granularity, capacity, rng);
                (sim.clone() as Arc<dyn Driver>, Some(sim), granularity, budget, capacity)
            }
        };
        // Nothing but a budget makes memory short on a device that has much of it.
        let limited = sim.is_none() || !rng.one_in(8);
        let real = kind.clock == Clock::Real;
        let mut driver = driver;
        if kind.refusals {
            let all = [
                Call::Allocate,
                Call::AllocateHost,
                Call::CopyOut,
                Call::CopyIn,
                Call::Copy,
                Call::Fill,
                Call::LaunchHost,
                Call::Record,
                Call::Wait,
                Call::Free,
                Call::Trim,
            ];
            let calls: Vec<Call> = all.into_iter().filter(|_| !rng.one_in(3)).collect();
            driver = Fault::random(driver, rng.next(), rng.within(6..60), &calls);
        }
        let budget = limited.then_some(budget);
        let is_host_short = rng.one_in(6);
        let host_limit = if is_host_short { rng.within(0..3) * rng.within(64..600) } else { u64::MAX };
        let options =
            if rng.one_in(4) { Device::options().on_memory_pressure(|_| {}) } else { Device::options() };
        let options =
            if rng.one_in(3) { options.pinned_limit(rng.pick(&[0, 200, 400, 700, 1000])) } else { options };
        let device = options
            .maybe_budget(budget)
            .stall_after(if real { Duration::from_millis(20) } else { Duration::from_secs(1) })
            .policy(if rng.one_in(6) { Policy::Plain } else { Policy::Aware })
            .victims(if rng.one_in(3) { Victims::NextUse } else { Victims::LeastRecentlyUsed })
            .write_back(if rng.one_in(2) { 0 } else { 20 }, 50)
            .host_limit(host_limit)
            .host_memory(if rng.one_in(5) { HostMemoryKind::Ordinary } else { HostMemoryKind::Pinned })
            .open_driver("model", driver.clone())
            .expect("the device opens");
        let mut queues = vec![device.queue()];
        if !rng.one_in(3) {
            queues.push(device.add_queue().expect("a second queue"));
        }
        Bench { device, driver, sim, queues, kind, capacity, granularity, budget, is_host_short }
    }
}

impl Bench {
    /// What was begun may come to nothing.
    pub fn may_refuse(&self) -> bool {
        self.kind.refusals || self.is_host_short
    }
}

/// One live buffer and the model of its bytes.
#[derive(Clone)]
pub struct Held {
    pub id: usize,
    pub buffer: Buffer,
    pub content: Rc<RefCell<Content>>,
}

/// One thread's part of a device.
pub struct World {
    pub bench: Arc<Bench>,
    pub rng: Rng,
    pub buffers: RefCell<Vec<Held>>,
    pub clones: RefCell<Vec<Held>>,
    /// The queues of launches.
    pub aheads: RefCell<Vec<Rc<Ahead>>>,
    pub log: RefCell<Vec<String>>,
    /// Holds are let go as soon as their task is polled.
    pub closing: Cell<bool>,
    pub budget: Cell<Option<u64>>,
    /// The most the device may hold at this moment: the budget, or what it held when that was lowered.
    pub allowed: Cell<u64>,
    pub most_allowed: Cell<u64>,
    pub now: Cell<u64>,
    next_id: Cell<usize>,
    /// The last moment at which there was one.
    pub pinned_at: Cell<u64>,
    pub unmovable_at: Cell<u64>,
    lowest: RefCell<Vec<(u64, u64)>>,
    pins: Cell<usize>,
    exports: Cell<usize>,
    /// The fixed buffers, as long as anything knows of them.
    fixed: RefCell<Vec<Weak<RefCell<Content>>>>,
}

impl World {
    pub fn new(bench: Arc<Bench>, rng: Rng) -> Rc<World> {
        let budget = bench.budget;
        Rc::new(World {
            allowed: Cell::new(budget.unwrap_or(u64::MAX)),
            most_allowed: Cell::new(budget.unwrap_or(u64::MAX)),
            budget: Cell::new(budget),
            lowest: RefCell::new(vec![(0, budget.unwrap_or(u64::MAX))]),
            bench,
            rng,
            buffers: RefCell::default(),
            clones: RefCell::default(),
            aheads: RefCell::default(),
            log: RefCell::default(),
            closing: Cell::new(false),
            now: Cell::new(1),
            next_id: Cell::new(0),
            pinned_at: Cell::new(0),
            unmovable_at: Cell::new(0),
            pins: Cell::new(0),
            exports: Cell::new(0),
            fixed: RefCell::default(),
        })
    }

    pub fn device(&self) -> &Device {
        &self.bench.device
    }

    pub fn say(&self, what: impl FnOnce() -> String) {
        let line = format!("{:5} {}", self.now.get(), what());
        if std::env::var_os("TACK_LOG").is_some() {
            eprintln!("{line}");
        }
        self.log.borrow_mut().push(line);
    }

    pub fn add(&self, buffer: Buffer, content: Content, fixed: bool) -> usize {
        let id = self.next_id.replace(self.next_id.get() + 1);
        let content = Rc::new(RefCell::new(content));
        if fixed {
            self.fixed.borrow_mut().push(Rc::downgrade(&content));
        }
        self.buffers.borrow_mut().push(Held { id, buffer, content });
        id
    }

    pub fn any(&self) -> Option<Held> {
        let buffers = self.buffers.borrow();
        let index = self.rng.index(buffers.len())?;
        Some(buffers[index].clone())
    }

    pub fn set_budget(&self, budget: Option<u64>) {
        self.budget.set(budget);
        let limit = budget.unwrap_or(u64::MAX);
        self.lowest.borrow_mut().push((self.now.get(), limit));
        let held = || {
            let info = self.device().memory_info();
            info.in_use + info.leaving + info.reserved
        };
        let before = held();
        self.device().set_budget(budget);
        self.allowed.set(limit.max(before).max(held()));
        self.most_allowed.set(self.most_allowed.get().max(self.allowed.get()));
    }

    /// What a size takes on the device.
    pub fn taken(&self, bytes: u64) -> u64 {
        bytes.next_multiple_of(self.bench.granularity)
    }

    /// Whether an error of this kind may come of a call begun at `since` that asks for `bytes`.
    pub fn permits(&self, kind: ErrorKind, since: u64, bytes: u64) -> bool {
        let shared = self.bench.kind.shared;
        let lowest = self.lowest.borrow();
        // The budget in force when the call began, and every one since.
        let first = lowest.partition_point(|&(at, _)| at <= since).saturating_sub(1);
        let (least, most) = lowest[first..]
            .iter()
            .fold((u64::MAX, 0), |(least, most), &(_, limit)| (limit.min(least), limit.max(most)));
        match kind {
            ErrorKind::TooLarge => bytes > least.min(self.bench.capacity),
            ErrorKind::Blocked => shared || self.unmovable() || self.unmovable_at.get() >= since,
            ErrorKind::Stalled => shared || self.pins.get() > 0 || self.pinned_at.get() >= since,
            ErrorKind::OutOfMemory => self.bench.may_refuse() || most > self.bench.capacity,
            ErrorKind::Refused => self.bench.kind.refusals,
            _ => false,
        }
    }

    fn unmovable(&self) -> bool {
        self.exports.get() > 0 || self.fixed.borrow().iter().any(|fixed| fixed.strong_count() > 0)
    }

    /// Learns which launches in queues have been queued.
    pub fn absorb(&self) {
        self.aheads.borrow().iter().for_each(|ahead| ahead.absorb(self));
    }

    /// Called as each step begins.
    pub fn tick(&self) {
        self.absorb();
        self.now.set(self.now.get() + 1);
        if self.pins.get() > 0 {
            self.pinned_at.set(self.now.get());
        }
        if self.unmovable() {
            self.unmovable_at.set(self.now.get());
        }
    }
}

/// A pin or an export that the model knows of, while it lives.
pub struct Mark {
    world: Rc<World>,
    is_export: bool,
}

impl Mark {
    pub fn pin(world: &Rc<World>) -> Mark {
        world.pins.set(world.pins.get() + 1);
        world.pinned_at.set(world.now.get());
        Mark { world: world.clone(), is_export: false }
    }

    pub fn export(world: &Rc<World>) -> Mark {
        world.exports.set(world.exports.get() + 1);
        world.unmovable_at.set(world.now.get());
        Mark { world: world.clone(), is_export: true }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        let (count, at) = match self.is_export {
            true => (&self.world.exports, &self.world.unmovable_at),
            false => (&self.world.pins, &self.world.pinned_at),
        };
        count.set(count.get() - 1);
        at.set(self.world.now.get());
    }
}
