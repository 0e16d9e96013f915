//! Chooses what to do next, at random, and does it.

use crate::{
    ahead::{self, Ahead},
    content::first_wrong,
    launches::{self, Fate, Plan},
    tasks::{self, Access, Part, Task},
    world::{Held, World},
};
use std::{
    ops::Range,
    rc::Rc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};
use tack_residency::{ErrorKind, driver::sim::Clock};

/// A world and what is under way in it.
pub struct Run {
    pub world: Rc<World>,
    tasks: Vec<(usize, Task)>,
    started: usize,
    opened: usize,
}

impl Run {
    pub fn new(world: Rc<World>) -> Run {
        Run { world, tasks: Vec::new(), started: 0, opened: 0 }
    }

    pub fn step(&mut self) {
        self.world.tick();
        let most = if self.world.aheads.borrow().is_empty() { 112 } else { 160 };
        let choice = self.world.rng.within(0..most);
        match choice {
            0..16 => self.alloc(),
            16..20 => self.drop_one(),
            20..23 => self.clone_one(),
            23..32 => self.read(),
            32..41 => self.change(),
            41..45 => self.copy(),
            45..60 => self.launch(),
            60..66 => self.keep(),
            66..69 => self.discard(),
            69..73 => self.spill(),
            73..75 => self.make_room(),
            75..77 => self.set_budget(),
            77..80 => self.cancel(),
            80..84 => self.let_time_pass(),
            84..97 => self.poll_some(),
            97..100 => self.poll_all(),
            100..102 => self.open_queue(),
            102..110 => self.prefetch(),
            110..112 => self.wont_use(),
            112..144 => self.push(),
            144..148 => self.alloc_ahead(),
            148..157 => self.flush(),
            _ => self.end_queue(),
        }
    }

    fn start(&mut self, what: String, task: impl Future<Output = ()> + 'static) {
        let number = self.started;
        self.started += 1;
        let later = self.world.rng.one_in(12);
        self.world.say(|| format!("task {number}{}: {what}", if later { " (later)" } else { "" }));
        self.tasks.push((number, Box::pin(task)));
        if !later {
            self.poll(self.tasks.len() - 1);
        }
    }

    /// Polls a task; true if it is over, and gone.
    fn poll(&mut self, index: usize) -> bool {
        let (number, task) = &mut self.tasks[index];
        let number = *number;
        if !self.world.closing.get() {
            self.world.say(|| format!("poll {number}"));
        }
        let over = task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        if over {
            self.world.say(|| format!("{number} is over"));
            drop(self.tasks.remove(index));
        }
        self.world.absorb();
        over
    }

    fn poll_some(&mut self) {
        let polls = self.world.rng.within(1..6);
        for _ in 0..polls {
            let Some(index) = self.world.rng.index(self.tasks.len()) else { return };
            self.poll(index);
        }
    }

    fn poll_all(&mut self) {
        for index in (0..self.tasks.len()).rev() {
            self.poll(index);
        }
    }

    fn part(&self, held: Held, access: Access) -> Part {
        let len = held.content.borrow().len();
        let range = self.range(0..len);
        Part { held, range, access }
    }

    /// A part of a range; often the whole.
    fn range(&self, of: Range<usize>) -> Range<usize> {
        let rng = &self.world.rng;
        if of.is_empty() || rng.one_in(2) {
            return of;
        }
        let start = rng.within(of.start as u64..of.end as u64) as usize;
        let end = rng.within(start as u64..of.end as u64 + 1) as usize;
        start..end
    }

    fn patience(&self) -> Option<Duration> {
        let rng = &self.world.rng;
        rng.one_in(10).then(|| Duration::from_nanos(rng.within(0..100_000)))
    }

    fn alloc(&mut self) {
        let rng = &self.world.rng;
        let bytes = match rng.within(0..20) {
            0 => 0,
            1 => rng.within(1..4000),
            _ => rng.within(1..260),
        };
        let (cleared, fixed) = (!rng.one_in(3), rng.one_in(14));
        let now = rng.one_in(10);
        if now {
            self.alloc_now(bytes);
            return;
        }
        let patience = self.patience();
        let task = tasks::alloc(self.world.clone(), bytes, cleared, fixed, patience);
        self.start(format!("alloc {bytes} cleared {cleared} fixed {fixed} within {patience:?}"), task);
    }

    fn alloc_now(&mut self, bytes: u64) {
        let (world, since) = (&self.world, self.world.now.get());
        world.say(|| format!("alloc {bytes} now"));
        match world.device().alloc(bytes).try_now() {
            Ok(buffer) => {
                world.add(buffer, crate::content::Content::zeroed(bytes as usize), false);
            }
            Err(error) => assert!(
                error.kind() == ErrorKind::WouldBlock
                    || world.permits(error.kind(), since, world.taken(bytes)),
                "{error:?}"
            ),
        }
    }

    fn drop_one(&mut self) {
        let Some(held) = self.world.any() else { return };
        self.world.say(|| format!("drop #{}", held.id));
        self.world.buffers.borrow_mut().retain(|other| other.id != held.id);
    }

    fn clone_one(&mut self) {
        let drops = self.world.rng.one_in(2);
        let mut clones = self.world.clones.borrow_mut();
        if drops && !clones.is_empty() {
            clones.swap_remove(0);
        } else if let Some(held) = self.world.any() {
            clones.push(Held { buffer: held.buffer.clone(), ..held });
        }
    }

    fn read(&mut self) {
        let Some(held) = self.world.any() else { return };
        let part = self.part(held, Access::Read);
        self.start(format!("read {part}"), tasks::read(self.world.clone(), part));
    }

    fn change(&mut self) {
        let Some(held) = self.world.any() else { return };
        let part = self.part(held, Access::Write);
        let rng = &self.world.rng;
        let data = (!rng.one_in(3)).then(|| {
            let len = if rng.one_in(4) {
                rng.within(0..part.range.len() as u64 + 1) as usize
            } else {
                part.range.len()
            };
            rng.bytes(len)
        });
        let value = rng.next() as u8;
        let what = format!("{} {part}", if data.is_some() { "write" } else { "fill" });
        self.start(what, tasks::change(self.world.clone(), part, data, value));
    }

    fn copy(&mut self) {
        let (Some(from), Some(to)) = (self.world.any(), self.world.any()) else { return };
        if from.id == to.id {
            return;
        }
        let from = self.part(from, Access::Read);
        let len = to.content.borrow().len();
        if from.range.len() > len {
            return;
        }
        let start = self.world.rng.within(0..(len - from.range.len()) as u64 + 1) as usize;
        let to = Part { held: to, range: start..start + from.range.len(), access: Access::Write };
        self.start(format!("copy {from} to {to}"), tasks::copy(self.world.clone(), from, to));
    }

    fn plan(&self) -> Plan {
        let patience = self.patience();
        let rng = &self.world.rng;
        let fate = match rng.within(0..16) {
            0 => Fate::FailsBefore,
            1 => Fate::FailsAfter,
            2 => Fate::Panics,
            3 | 4 => Fate::Dropped,
            _ => Fate::Submitted,
        };
        Plan {
            queue: rng.within(0..self.world.bench.queues.len() as u64) as usize,
            fate,
            cost: Duration::from_nanos(rng.within(0..20_000)),
            salt: rng.next() as u8,
            held: if rng.one_in(2) { 0 } else { rng.within(0..8) },
            patience,
        }
    }

    fn launch(&mut self) {
        let parts = self.parts();
        let plan = self.plan();
        let what = format!("launch {} on {} {:?} held {}", list(&parts), plan.queue, plan.fate, plan.held);
        self.start(what, launches::launch(self.world.clone(), parts, plan));
    }

    /// What a launch uses.
    fn parts(&self) -> Vec<Part> {
        let count = self.world.rng.within(1..5);
        let mut parts: Vec<Part> = Vec::new();
        for _ in 0..count {
            let Some(held) = self.world.any() else { break };
            let access = self.world.rng.pick(&[Access::Read, Access::Write, Access::ReadWrite]);
            let part = self.part(held, access);
            let clash = |other: &Part| {
                other.held.id == part.held.id
                    && (other.access != Access::Read || part.access != Access::Read)
                    && other.range.start < part.range.end
                    && part.range.start < other.range.end
            };
            if !parts.iter().any(clash) {
                parts.push(part);
            }
        }
        parts
    }

    fn open_queue(&mut self) {
        if self.world.aheads.borrow().len() < 2 {
            let look_ahead = self.world.rng.pick(&[0, 1, 4, 16]);
            self.opened += 1;
            self.world.say(|| format!("queue {} looks {look_ahead} ahead", self.opened));
            self.world.aheads.borrow_mut().push(Ahead::open(&self.world, self.opened, look_ahead));
        }
    }

    /// A queue of launches that no task has.
    fn any_queue(&self) -> Option<Rc<Ahead>> {
        let free: Vec<_> =
            self.world.aheads.borrow().iter().filter(|ahead| ahead.is_free()).cloned().collect();
        Some(free[self.world.rng.index(free.len())?].clone())
    }

    fn push(&mut self) {
        let Some(ahead) = self.any_queue() else { return };
        let parts = self.parts();
        let plan = self.plan();
        let drops = self.world.rng.one_in(8);
        let drop = if drops { ", dropped" } else { "" };
        let what = format!("push {} to queue {} {:?}{drop}", list(&parts), ahead.id, plan.fate);
        self.start(what, ahead::push(self.world.clone(), ahead, parts, plan, drops));
    }

    fn alloc_ahead(&mut self) {
        let Some(ahead) = self.any_queue() else { return };
        let (bytes, cleared) = (self.world.rng.within(0..200), !self.world.rng.one_in(3));
        self.world.say(|| format!("alloc {bytes} cleared {cleared} in queue {}", ahead.id));
        ahead::alloc(&self.world, &ahead, bytes, cleared);
    }

    fn flush(&mut self) {
        let Some(ahead) = self.any_queue() else { return };
        let of = if self.world.rng.one_in(4) { None } else { self.world.any() };
        let of = of.map(|held| self.part(held, Access::Read));
        let what = of.as_ref().map_or("all".to_owned(), |part| format!("uses of {part}"));
        let task = ahead::flush(self.world.clone(), ahead.clone(), of);
        self.start(format!("flush {what} of queue {}", ahead.id), task);
    }

    fn end_queue(&mut self) {
        let Some(ahead) = self.any_queue() else { return };
        self.world.say(|| format!("queue {} is dropped", ahead.id));
        self.world.aheads.borrow_mut().retain(|other| other.id != ahead.id);
        ahead.end(&self.world);
    }

    fn keep(&mut self) {
        let Some(held) = self.world.any() else { return };
        let part = self.part(held, Access::ReadWrite);
        let mut plan = self.plan();
        plan.held = self.world.rng.within(0..20);
        let is_export = self.world.rng.one_in(3);
        let what = if is_export { "export" } else { "guard" };
        let what = format!("{what} {part} on {} {:?} held {}", plan.queue, plan.fate, plan.held);
        self.start(what, launches::keep(self.world.clone(), part, plan, is_export));
    }

    fn discard(&mut self) {
        let Some(held) = self.world.any() else { return };
        self.world.say(|| format!("discard #{}", held.id));
        held.buffer.discard();
        let len = held.content.borrow().len();
        held.content.borrow_mut().forget(0..len);
    }

    fn spill(&mut self) {
        let part = match self.world.rng.one_in(4) {
            true => None,
            false => self.world.any().map(|held| Part { held, range: 0..0, access: Access::Read }),
        };
        let what = part.as_ref().map_or("spill all".to_owned(), |part| format!("spill #{}", part.held.id));
        self.start(what, tasks::spill(self.world.clone(), part));
    }

    fn prefetch(&mut self) {
        let count = self.world.rng.within(1..4);
        let held: Vec<_> = (0..count).filter_map(|_| self.world.any()).collect();
        let ids: Vec<_> = held.iter().map(|held| held.id).collect();
        self.start(format!("prefetch {ids:?}"), tasks::prefetch(self.world.clone(), held));
    }

    fn wont_use(&mut self) {
        let Some(held) = self.world.any() else { return };
        self.world.say(|| format!("will not use #{}", held.id));
        held.buffer.wont_use();
    }

    fn make_room(&mut self) {
        let bytes = self.world.rng.within(0..800);
        self.start(format!("make room for {bytes}"), tasks::make_room(self.world.clone(), bytes));
    }

    fn set_budget(&mut self) {
        if self.world.bench.kind.shared {
            return;
        }
        let capacity = self.world.bench.capacity;
        let rng = &self.world.rng;
        let budget = (!rng.one_in(8)).then(|| rng.within(capacity / 3..capacity + 1));
        self.world.say(|| format!("budget {budget:?}"));
        self.world.set_budget(budget);
    }

    fn cancel(&mut self) {
        let Some(index) = self.world.rng.index(self.tasks.len()) else { return };
        let (number, task) = self.tasks.swap_remove(index);
        self.world.say(|| format!("cancel {number}"));
        drop(task);
    }

    fn let_time_pass(&mut self) {
        let pause = Duration::from_nanos(self.world.rng.within(0..10_000));
        self.world.say(|| format!("{pause:?} pass"));
        self.world.device().driver().charge(pause);
    }

    /// Ends all that is under way, reads every buffer, and drops it.
    pub fn finish(&mut self) {
        self.world.closing.set(true);
        self.world.say(|| "finish".to_owned());
        self.drain();
        let aheads = self.world.aheads.borrow().clone();
        for ahead in aheads {
            if !self.world.rng.one_in(3) {
                self.start(
                    format!("flush queue {}", ahead.id),
                    ahead::flush(self.world.clone(), ahead, None),
                );
            }
        }
        self.drain();
        while !self.world.aheads.borrow().is_empty() {
            self.end_queue();
        }
        let all: Vec<Held> = std::mem::take(&mut *self.world.buffers.borrow_mut());
        for held in all {
            self.read_at_last(&held);
        }
        self.world.clones.borrow_mut().clear();
        self.world.tick();
    }

    /// Every task ends, one way or the other, once nobody holds anything any more.
    fn drain(&mut self) {
        let (began, mut rounds) = (Instant::now(), 0u32);
        while !self.tasks.is_empty() {
            self.world.tick();
            for index in (0..self.tasks.len()).rev() {
                self.poll(index);
            }
            rounds += 1;
            let real = self.world.bench.kind.clock == Clock::Real;
            let patient = if real { began.elapsed() < Duration::from_secs(20) } else { rounds < 20_000 };
            let left: Vec<usize> = self.tasks.iter().map(|(number, _)| *number).collect();
            assert!(patient, "tasks {left:?} never end: {:?}", self.world.device());
            if real {
                std::thread::yield_now();
            }
        }
    }

    fn read_at_last(&self, held: &Held) {
        let content = held.content.borrow();
        let known = content.get(0..content.len());
        for _ in 0..200 {
            let mut reading = std::pin::pin!(held.buffer.read());
            let began = Instant::now();
            let outcome = loop {
                match reading.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(outcome) => break outcome,
                    Poll::Pending => std::thread::yield_now(),
                }
                let late = began.elapsed() > Duration::from_secs(20);
                assert!(!late, "the read of #{} never ends: {:?}", held.id, self.world.device());
            };
            match outcome {
                Ok(read) => {
                    let wrong = first_wrong(&read, &known);
                    assert_eq!(wrong, None, "the end of #{}: read {read:?}\nknown {known:?}", held.id);
                    return;
                }
                Err(error) => assert!(self.world.permits(error.kind(), self.world.now.get(), 0), "{error:?}"),
            }
        }
        assert!(self.world.bench.is_host_short, "#{} can never be read", held.id);
    }
}

fn list(parts: &[Part]) -> String {
    parts.iter().map(Part::to_string).collect::<Vec<_>>().join(", ")
}
