//! Queues of launches: each launch is evaluated once it is known to be queued, or known never to be.

use crate::{
    content::Content,
    launches::{Fate, Plan, body, buffers, mixed},
    tasks::{Access, Part, note},
    world::{Held, World},
};
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    ops::Range,
    panic::resume_unwind,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::Poll,
};
use tack_residency::{Device, Error, ErrorKind, LaunchQueue, Run, Use, View};

const WAITS: u8 = 0;
const QUEUED: u8 = 1;
const GONE: u8 = 2;

/// Goes with a launch's work, and says what became of it.
struct Token(Arc<AtomicU8>);

impl Drop for Token {
    fn drop(&mut self) {
        let _ = self.0.compare_exchange(WAITS, GONE, Ordering::SeqCst, Ordering::SeqCst);
    }
}

/// A part of a buffer that a launch uses, without a handle of that buffer.
struct Used {
    content: Rc<RefCell<Content>>,
    range: Range<usize>,
    access: Access,
}

enum What {
    Launch {
        fate: Fate,
        salt: u8,
        state: Arc<AtomicU8>,
    },
    /// A new buffer, whose memory comes in its turn.
    Alloc,
}

/// What was pushed and is not evaluated yet.
struct Entry {
    what: What,
    uses: Vec<Used>,
    /// Something else came between, at nobody knows which moment.
    tainted: Rc<Cell<bool>>,
}

/// One queue of launches and what the model knows of it.
pub struct Ahead {
    pub id: usize,
    /// Not there while a task has it.
    queue: RefCell<Option<LaunchQueue>>,
    entries: RefCell<VecDeque<Entry>>,
    /// Of those evaluated, for errors that come late.
    earliest: Cell<u64>,
    largest: Cell<u64>,
}

impl Ahead {
    pub fn open(world: &World, id: usize, look_ahead: usize) -> Rc<Ahead> {
        Rc::new(Ahead {
            id,
            queue: RefCell::new(Some(world.device().launch_queue(look_ahead))),
            entries: RefCell::default(),
            earliest: Cell::new(u64::MAX),
            largest: Cell::new(0),
        })
    }

    pub fn is_free(&self) -> bool {
        self.queue.borrow().is_some()
    }

    fn add(&self, what: What, uses: Vec<Used>, since: u64, bytes: u64) {
        let tainted = Rc::new(Cell::new(false));
        for used in &uses {
            let writes = used.access != Access::Read;
            used.content.borrow_mut().begin_ahead(self.id, used.range.clone(), writes, &tainted);
        }
        self.earliest.set(self.earliest.get().min(since));
        self.largest.set(self.largest.get().max(bytes));
        self.entries.borrow_mut().push_back(Entry { what, uses, tainted });
    }

    /// Evaluates what is known to be over.
    pub fn absorb(&self, world: &World) {
        let over = |entry: &Entry| match &entry.what {
            What::Launch { state, .. } => state.load(Ordering::SeqCst) != WAITS,
            What::Alloc => false,
        };
        let count = self.entries.borrow().iter().rposition(over).map_or(0, |last| last + 1);
        self.evaluate(world, count);
    }

    fn absorb_all(&self, world: &World) {
        let count = self.entries.borrow().len();
        self.evaluate(world, count);
    }

    /// The uses of a buffer are known to be queued.
    fn absorb_uses(&self, world: &World, of: &Rc<RefCell<Content>>) {
        let uses = |entry: &Entry| entry.uses.iter().any(|used| Rc::ptr_eq(&used.content, of));
        let count = self.entries.borrow().iter().rposition(uses).map_or(0, |last| last + 1);
        self.evaluate(world, count);
    }

    fn evaluate(&self, world: &World, count: usize) {
        let entries: Vec<Entry> = self.entries.borrow_mut().drain(..count).collect();
        for entry in entries {
            for used in &entry.uses {
                used.content.borrow_mut().end_ahead(self.id, &used.range, &entry.tainted);
            }
            self.evaluate_one(world, &entry);
        }
    }

    fn evaluate_one(&self, world: &World, entry: &Entry) {
        let forget = |used: &Used| used.content.borrow_mut().forget_by(Some(self.id), used.range.clone());
        match &entry.what {
            What::Alloc => {}
            What::Launch { state, .. } if state.load(Ordering::SeqCst) == GONE => {
                world.say(|| format!("  a launch of queue {} was not queued", self.id));
            }
            What::Launch { fate, salt, .. } => {
                let known = |used: &Used| used.content.borrow().get_by(Some(self.id), used.range.clone());
                let parts: Vec<_> = entry.uses.iter().map(|used| (used.access, known(used))).collect();
                let after = mixed(&parts, *salt);
                let changed = entry.uses.iter().zip(after).filter_map(|(used, after)| Some((used, after?)));
                for (used, after) in changed {
                    let whole = used.range.len() == used.content.borrow().len();
                    let either = *fate == Fate::FailsAfter && used.access == Access::Write && whole;
                    if entry.tainted.get() || either {
                        forget(used);
                    } else {
                        used.content.borrow_mut().set_by(Some(self.id), used.range.start, &after);
                    }
                }
                world.say(|| format!("  a launch of queue {} was queued", self.id));
            }
        }
    }

    fn note(&self, world: &World, what: &str, error: &Error) {
        let own = match error.kind() {
            ErrorKind::Unavailable => true,
            ErrorKind::Misuse => error.to_string().contains("panicked"),
            _ => false,
        };
        if own {
            return world.say(|| format!("  {what} of queue {} failed on purpose", self.id));
        }
        note(world, what, self.earliest.get(), self.largest.get(), error);
    }

    /// Launches that wait are not queued at all.
    pub fn end(&self, world: &World) {
        drop(self.queue.borrow_mut().take().expect("no task has the queue"));
        let mut entries = self.entries.borrow_mut();
        // One may be on its way on the device's thread.
        let waits = |entry: &Entry| matches!(&entry.what, What::Launch { state, .. } if state.load(Ordering::SeqCst) == WAITS);
        let began = std::time::Instant::now();
        while entries.iter().any(waits) {
            assert!(began.elapsed().as_secs() < 20, "the work of a queue that was dropped is kept");
            std::thread::yield_now();
        }
        let lasts: Vec<Entry> = entries.drain(..).collect();
        drop(entries);
        for entry in lasts {
            for used in &entry.uses {
                used.content.borrow_mut().end_ahead(self.id, &used.range, &entry.tainted);
            }
            self.evaluate_one(world, &entry);
        }
    }
}

/// A queue that a task has, until it is dropped.
struct Taken {
    world: Rc<World>,
    ahead: Rc<Ahead>,
    queue: Option<LaunchQueue>,
}

impl Taken {
    fn take(world: &Rc<World>, ahead: &Rc<Ahead>) -> Option<Taken> {
        let queue = Some(ahead.queue.borrow_mut().take()?);
        Some(Taken { world: world.clone(), ahead: ahead.clone(), queue })
    }

    fn queue(&mut self) -> &mut LaunchQueue {
        self.queue.as_mut().expect("it is given back when this is dropped")
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.ahead.queue.replace(self.queue.take());
        if !std::thread::panicking() {
            self.ahead.absorb(&self.world);
        }
    }
}

pub async fn push(world: Rc<World>, ahead: Rc<Ahead>, parts: Vec<Part>, plan: Plan, drops: bool) {
    let Some(mut taken) = Taken::take(&world, &ahead) else { return };
    let views: Vec<View> = parts.iter().map(Part::view).collect();
    let uses: Vec<Use<'_>> = views.iter().zip(&parts).map(|(view, part)| part.access.of(view)).collect();
    let ids = buffers(&parts);
    let bytes = ids.iter().map(|(_, bytes)| world.taken(*bytes)).sum();
    let state = Arc::new(AtomicU8::new(WAITS));
    let token = Token(state.clone());
    let accesses = parts.iter().map(|part| part.access).collect();
    let (fate, salt, cost) = (plan.fate, plan.salt, plan.cost);
    let on_purpose = || Err(Device::open("no such device").expect_err("there is none"));
    let work = move |run: &Run<'_>| {
        let token = token;
        match fate {
            Fate::FailsBefore => return on_purpose(),
            Fate::Panics => resume_unwind(Box::new("on purpose")),
            _ => {}
        }
        run.host_kernel(cost, body(accesses, salt))?;
        token.0.store(QUEUED, Ordering::SeqCst);
        if fate == Fate::FailsAfter { on_purpose() } else { Ok(()) }
    };
    let used = |part: &Part| {
        let (content, range, access) = (part.held.content.clone(), part.range.clone(), part.access);
        Used { content, range, access }
    };
    let used = parts.iter().map(used).collect();
    ahead.add(What::Launch { fate, salt, state }, used, world.now.get(), bytes);
    let mut operation = taken.queue().push(uses, work);
    if drops {
        world.buffers.borrow_mut().retain(|held| !ids.iter().any(|&(id, _)| id == held.id));
        world.clones.borrow_mut().retain(|held| !ids.iter().any(|&(id, _)| id == held.id));
    }
    // The launch is asked for at the first poll; before or after the handles are gone.
    if drops && plan.salt.is_multiple_of(2) {
        let first = std::future::poll_fn(|cx| Poll::Ready(std::pin::Pin::new(&mut operation).poll(cx))).await;
        drop((views, parts));
        match first {
            Poll::Ready(outcome) => over(&world, &ahead, outcome),
            Poll::Pending => over(&world, &ahead, operation.await),
        }
    } else {
        drop((views, parts));
        over(&world, &ahead, operation.await);
    }
}

fn over(world: &World, ahead: &Ahead, outcome: Result<(), Error>) {
    if let Err(error) = outcome {
        ahead.note(world, "push", &error);
    }
}

/// Waits for all launches, or for those that use a buffer; then reads that.
pub async fn flush(world: Rc<World>, ahead: Rc<Ahead>, of: Option<Part>) {
    let Some(mut taken) = Taken::take(&world, &ahead) else { return };
    loop {
        let flushed = match &of {
            Some(part) => taken.queue().flush_uses(&part.held.buffer).await,
            None => taken.queue().flush().await,
        };
        match flushed {
            Ok(()) => break,
            Err(error) => ahead.note(&world, "flush", &error),
        }
    }
    drop(taken);
    match of {
        Some(part) => {
            ahead.absorb_uses(&world, &part.held.content);
            crate::tasks::read(world, part).await;
        }
        None => ahead.absorb_all(&world),
    }
}

/// A new buffer, whose memory comes in its turn.
pub fn alloc(world: &Rc<World>, ahead: &Rc<Ahead>, bytes: u64, cleared: bool) {
    let Some(mut taken) = Taken::take(world, ahead) else { return };
    let made = if cleared { taken.queue().alloc(bytes) } else { taken.queue().alloc_uninitialised(bytes) };
    let buffer = match made {
        Ok(buffer) => buffer,
        Err(error) => return note(world, "alloc", world.now.get(), world.taken(bytes), &error),
    };
    let content = if cleared { Content::zeroed(bytes as usize) } else { Content::unknown(bytes as usize) };
    let id = world.add(buffer, content, false);
    let held: Held = world.buffers.borrow().last().expect("just added").clone();
    world.say(|| format!("  alloc of queue {} gave #{id}", ahead.id));
    if bytes > 0 {
        let used = Used { content: held.content.clone(), range: 0..bytes as usize, access: Access::Read };
        ahead.add(What::Alloc, vec![used], world.now.get(), world.taken(bytes));
    }
}
