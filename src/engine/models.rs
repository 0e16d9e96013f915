//! Models of the warm path and of every wake-up: the shipped engine, run under loom on a device that does everything
//! at once. `RUSTFLAGS="--cfg model" cargo test --release --lib models`.
//!
//! A lost wake-up shows as a deadlock, which loom reports; a lost or double count shows in the recount at the end.

use super::{
    Cell, Engine, Flags, HostTier, Owner, Settings, Spec, Wait,
    sync::{Mutex, lock},
};
use crate::{
    driver::{
        Caps, DevicePtr, Driver, DriverError, DriverErrorKind, DriverMemory, Fence, HostKind, HostMemory,
        HostRange, QueueId, QueueRole, Result, cpu::Cpu,
    },
    residency::{Ask, Bytes, Phase, Policy, Victims, Want, WordCell},
};
use loom::{
    future::block_on,
    sync::Condvar,
    thread::{self, JoinHandle},
};
use std::{any::Any, future::poll_fn, sync::Arc, time::Duration};

const SIZE: u64 = 64;

/// The host as a device, whose thread rests where loom sees it.
#[derive(Debug)]
struct Instant {
    inner: Arc<Cpu>,
    caps: Caps,
    woken: Mutex<bool>,
    bell: Condvar,
}

impl Driver for Instant {
    fn caps(&self) -> &Caps {
        &self.caps
    }
    fn description(&self) -> String {
        self.inner.description()
    }
    fn memory(&self) -> DriverMemory {
        DriverMemory::default()
    }
    fn create_queue(&self, role: QueueRole) -> Result<QueueId> {
        self.inner.create_queue(role)
    }
    fn allocate(&self, queue: QueueId, bytes: u64) -> Result<DevicePtr> {
        self.inner.allocate(queue, bytes)
    }
    fn free(&self, queue: QueueId, ptr: DevicePtr) -> Result<()> {
        self.inner.free(queue, ptr)
    }
    fn trim(&self) -> Result<u64> {
        self.inner.trim()
    }
    fn allocate_host(&self, bytes: usize) -> Result<HostMemory> {
        self.inner.allocate_host(bytes)
    }
    fn copy_out(&self, queue: QueueId, from: DevicePtr, to: &HostRange) -> Result<()> {
        self.inner.copy_out(queue, from, to)
    }
    fn copy_in(&self, queue: QueueId, from: &HostRange, to: DevicePtr) -> Result<()> {
        self.inner.copy_in(queue, from, to)
    }
    fn copy(&self, queue: QueueId, from: DevicePtr, to: DevicePtr, bytes: u64) -> Result<()> {
        self.inner.copy(queue, from, to, bytes)
    }
    fn fill(&self, queue: QueueId, to: DevicePtr, bytes: u64, value: u8) -> Result<()> {
        self.inner.fill(queue, to, bytes, value)
    }
    fn record(&self, queue: QueueId) -> Result<Fence> {
        self.inner.record(queue)
    }
    fn wait(&self, queue: QueueId, fence: Fence) -> Result<()> {
        self.inner.wait(queue, fence)
    }
    fn is_passed(&self, fence: Fence) -> Result<bool> {
        self.inner.is_passed(fence)
    }
    fn retire(&self, fence: Fence) {
        self.inner.retire(fence);
    }
    fn park(&self, _: Duration) {
        let mut woken = lock(&self.woken);
        while !*woken {
            woken = self.bell.wait(woken).expect("loom's locks are not poisoned");
        }
        *woken = false;
    }
    fn unpark(&self) {
        *lock(&self.woken) = true;
        self.bell.notify_one();
    }
    fn now(&self) -> Duration {
        Duration::ZERO
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// An engine, its owner, and its threads running the shipped loops.
struct World {
    engine: Arc<Engine>,
    owner: Arc<Owner>,
    threads: Vec<JoinHandle<()>>,
}

impl World {
    /// One whose frees take effect in a queue's order, so that they need no thread of their own, or not.
    fn new(budget: u64, stream_ordered: bool) -> World {
        let settings = Settings {
            name: "model".to_owned(),
            hook: None,
            stall_after: Duration::from_secs(3600),
            policy: Policy::Aware,
            spills: true,
            victims: Victims::default(),
            write_back: None,
            total: None,
            tag: None,
        };
        let (woken, bell) = (Mutex::new(false), Condvar::new());
        let inner = Cpu::open();
        let caps = Caps { stream_ordered, ..inner.caps().clone() };
        let driver: Arc<dyn Driver> = Arc::new(Instant { inner, caps, woken, bell });
        let host = HostTier::new(HostKind::Ordinary, u64::MAX, u64::MAX);
        let engine = Arc::new(Engine::new(driver, Bytes(budget), host, settings).expect("a model's engine"));
        let owner = Arc::new(Owner { engine: engine.clone() });
        let spawn = |tend: fn(&Engine)| {
            let engine = engine.clone();
            thread::spawn(move || tend(&engine))
        };
        let mut threads = vec![spawn(Engine::tend)];
        threads.extend((!stream_ordered).then(|| spawn(|engine| engine.tend_waits(super::RELEASE))));
        World { engine, owner, threads }
    }

    /// Drops the last handles, and the device with them: nothing is held, and the threads end.
    fn finish(self, cells: Vec<Arc<Cell>>) {
        for cell in &cells {
            self.engine.drop_handle(cell);
        }
        drop(cells);
        drop(self.owner);
        self.threads.into_iter().for_each(|thread| thread.join().expect("the device's thread"));
        self.engine.check().expect("the books balance");
        let state = lock(&self.engine.state);
        let books = state.core.books();
        assert_eq!((books.decided, books.in_use, books.spilled), (Bytes(0), Bytes(0), Bytes(0)));
        assert_eq!((books.leaving, books.reserved), (Bytes(0), Bytes(0)));
    }
}

fn fresh(owner: &Arc<Owner>) -> Wait {
    let spec = Spec { owner: owner.clone(), bytes: SIZE, cleared: false, fixed: false, tag: None };
    Wait::new(owner, Ask::Fresh(Bytes(SIZE)), owner.engine.stamp(), Some(spec))
}

fn alloc(owner: &Arc<Owner>) -> Arc<Cell> {
    let mut wait = fresh(owner);
    block_on(poll_fn(|cx| wait.poll(cx))).expect("room for a buffer");
    wait.into_buffer().expect("a buffer")
}

/// Waits for a request and drops its pin, as a launch does.
fn use_once(owner: &Arc<Owner>, cell: &Arc<Cell>) {
    let want = Want { slot: cell.slot(), writes: true, overwrites: false, kept: false };
    let mut wait = Wait::new(owner, Ask::Uses(vec![want]), owner.engine.stamp(), None);
    block_on(poll_fn(|cx| wait.poll(cx))).expect("the buffer");
    owner.engine.end_request(wait.into_id());
    assert!(cell.load().phase() != Phase::Spilled, "a pinned buffer was spilled");
    unpin(owner, cell);
}

fn unpin(owner: &Arc<Owner>, cell: &Arc<Cell>) {
    if cell.unpin() {
        owner.engine.unpinned(cell);
    }
}

/// A warm launch, if it can be one: a pin without a lock.
fn warm(owner: &Arc<Owner>, cell: &Arc<Cell>) -> bool {
    if owner.engine.flags.has(Flags::GATE) || cell.try_pin(owner.engine.stamp(), true).is_err() {
        return false;
    }
    drop(
        owner.engine.begin_submit(super::COMPUTE, std::iter::once((cell, true))).expect("the device is well"),
    );
    assert!(cell.load().phase() != Phase::Spilled, "a pinned buffer was spilled");
    unpin(owner, cell);
    true
}

fn model(check: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    // Three threads and the whole engine have too many interleavings to go through in a build: a minute of them a
    // model, in loom's order, which is the same each time. `LOOM_MAX_DURATION` (seconds) and `LOOM_MAX_PREEMPTIONS` ask
    // for more.
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.max_duration = builder.max_duration.or(Some(Duration::from_secs(60)));
    builder.max_branches = 100_000;
    builder.log = false;
    builder.check(check);
}

/// A world with room for one buffer, and that buffer.
fn full() -> (World, Arc<Cell>) {
    filled(World::new(SIZE, true))
}

fn filled(world: World) -> (World, Arc<Cell>) {
    let cell = alloc(&world.owner);
    (world, cell)
}

/// The same, with the buffer pinned: whoever needs its room waits.
fn pinned() -> (World, Arc<Cell>) {
    let (world, cell) = full();
    cell.try_pin(world.engine.stamp(), true).expect("resident");
    (world, cell)
}

/// A pin taken without a lock, against the release of the same buffer for another's room.
#[test]
fn pin_against_release() {
    model(|| {
        let (world, a) = full();
        let (owner, cell) = (world.owner.clone(), a.clone());
        let user = thread::spawn(move || warm(&owner, &cell));
        let b = alloc(&world.owner);
        user.join().expect("the launch");
        world.finish(vec![a, b]);
    });
}

/// The last handle dropped, against the release of the same buffer.
#[test]
fn drop_against_release() {
    model(|| {
        let (world, a) = full();
        let owner = world.owner.clone();
        let dropper = thread::spawn(move || owner.engine.drop_handle(&a));
        let b = alloc(&world.owner);
        dropper.join().expect("the drop");
        world.finish(vec![b]);
    });
}

/// A launch's pin dropped, against the drop of the last handle.
#[test]
fn drop_against_unpin() {
    model(|| {
        let (world, a) = pinned();
        let (owner, cell) = (world.owner.clone(), a.clone());
        let holder = thread::spawn(move || unpin(&owner, &cell));
        let b = alloc(&world.owner);
        holder.join().expect("the holder");
        world.finish(vec![b, a]);
    });
}

/// The drop of the last pin, and then a free, wake the request that waits for the room.
#[test]
fn a_dropped_pin_and_a_free_wake() {
    model(|| {
        let (world, a) = pinned();
        let owner = world.owner.clone();
        let holder = thread::spawn(move || {
            unpin(&owner, &a);
            owner.engine.drop_handle(&a);
        });
        let b = alloc(&world.owner);
        holder.join().expect("the holder");
        world.finish(vec![b]);
    });
}

/// A free on a thread of its own, for another's room: that is woken, and so is the device's thread at the end.
#[test]
fn a_free_of_another_thread_wakes() {
    model(|| {
        let (world, a) = filled(World::new(SIZE, false));
        let b = alloc(&world.owner);
        world.finish(vec![a, b]);
    });
}

/// A raised budget wakes.
#[test]
fn a_raised_budget_wakes() {
    model(|| {
        let (world, a) = pinned();
        let engine = world.engine.clone();
        let raiser = thread::spawn(move || engine.change(|core| core.set_budget(Bytes(2 * SIZE))));
        let b = alloc(&world.owner);
        raiser.join().expect("the raiser");
        unpin(&world.owner, &a);
        world.finish(vec![a, b]);
    });
}

/// The end of an export wakes. The export comes first, so that the request finds a pin and not the export alone.
#[test]
fn an_ended_export_wakes() {
    model(|| {
        let (world, a) = pinned();
        let mut wait = fresh(&world.owner);
        world.engine.begin_export(&a);
        unpin(&world.owner, &a);
        let (engine, cell) = (world.engine.clone(), a.clone());
        let ender = thread::spawn(move || engine.end_export(&cell, None));
        let ended = block_on(poll_fn(|cx| wait.poll(cx)));
        ender.join().expect("the ender");
        let made = ended.ok().and_then(|_| wait.into_buffer());
        world.finish(made.into_iter().chain([a]).collect());
    });
}

/// A cancelled request wakes the one behind it, which only the gate has stopped.
#[test]
fn a_cancelled_request_wakes_the_next() {
    model(|| {
        let (world, a) = pinned();
        let first = fresh(&world.owner);
        let canceller = thread::spawn(move || drop(first));
        use_once(&world.owner, &a);
        canceller.join().expect("the canceller");
        unpin(&world.owner, &a);
        world.finish(vec![a]);
    });
}

/// The gate and a finished restore: two who want room for one take turns.
#[test]
fn the_gate_lets_everyone_through() {
    model(|| {
        let (world, a) = full();
        let (owner, cell) = (world.owner.clone(), a.clone());
        let user = thread::spawn(move || {
            if !warm(&owner, &cell) {
                use_once(&owner, &cell);
            }
        });
        let b = alloc(&world.owner);
        user.join().expect("the user");
        world.finish(vec![a, b]);
    });
}

/// A lost device wakes every waiter, with the error.
#[test]
fn a_lost_device_wakes() {
    model(|| {
        let (world, a) = pinned();
        let mut wait = fresh(&world.owner);
        let engine = world.engine.clone();
        let loser =
            thread::spawn(move || engine.lose(DriverError::new(DriverErrorKind::Lost, "model", 1, "lost")));
        assert!(block_on(poll_fn(|cx| wait.poll(cx))).is_err());
        loser.join().expect("the loser");
        drop(wait);
        unpin(&world.owner, &a);
        world.finish(vec![a]);
    });
}
