//! The asynchronous steps but launches: each a future of its own, polled by hand, that checks what it gets against the
//! model.

use crate::{
    content::{Content, first_wrong},
    world::{Held, Mark, World},
};
use std::{
    cell::RefCell,
    future::{Future, poll_fn},
    ops::Range,
    pin::{Pin, pin},
    rc::Rc,
    task::Poll,
    time::Duration,
};
use tack_residency::{Error, ErrorKind, Operation, Steps, Use, View};

pub type Task = Pin<Box<dyn Future<Output = ()>>>;

/// A part of a buffer.
#[derive(Clone)]
pub struct Part {
    pub held: Held,
    pub range: Range<usize>,
    pub access: Access,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    Read,
    Write,
    ReadWrite,
}

impl Access {
    pub fn of(self, view: &View) -> Use<'_> {
        match self {
            Access::Read => Use::read(view),
            Access::Write => Use::write(view),
            Access::ReadWrite => Use::read_write(view),
        }
    }
}

impl Part {
    pub fn view(&self) -> View {
        let bytes = self.range.len() as u64;
        self.held.buffer.view(self.range.start as u64, bytes).expect("a part is within its buffer")
    }

    pub fn known(&self) -> Vec<Option<u8>> {
        self.held.content.borrow().get(self.range.clone())
    }

    pub fn set(&self, values: &[Option<u8>]) {
        self.held.content.borrow_mut().set(self.range.start, values);
    }

    pub fn forget(&self) {
        self.held.content.borrow_mut().forget(self.range.clone());
    }

    pub fn is_whole(&self) -> bool {
        self.range.len() == self.held.content.borrow().len()
    }
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "#{}[{}..{}] {:?}", self.held.id, self.range.start, self.range.end, self.access)
    }
}

/// Lets others run `polls` times, or until the end is near.
pub async fn hold(world: &World, polls: u64) {
    let mut left = polls;
    poll_fn(|_| {
        if left == 0 || world.closing.get() {
            return Poll::Ready(());
        }
        left -= 1;
        Poll::Pending
    })
    .await;
}

/// Notes an error, and fails the test if it may not come.
pub fn note(world: &World, what: &str, since: u64, bytes: u64, error: &Error) {
    world.say(|| format!("  {what} failed: {error}"));
    let by_time = matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock);
    let permitted = by_time || world.permits(error.kind(), since, bytes);
    assert!(permitted, "{what} may not fail so: {error:?}");
}

/// Bounds an operation in time, now and then.
pub fn bounded<S: Steps>(operation: Operation<S>, patience: Option<Duration>) -> Operation<S> {
    match patience {
        Some(patience) => operation.within(patience),
        None => operation,
    }
}

pub async fn alloc(world: Rc<World>, bytes: u64, cleared: bool, fixed: bool, patience: Option<Duration>) {
    let since = world.now.get();
    let _mark = fixed.then(|| Mark::export(&world));
    let mut operation = bounded(world.device().alloc(bytes), patience);
    if !cleared {
        operation = operation.uninitialised();
    }
    if fixed {
        operation = operation.fixed();
    }
    match operation.await {
        Ok(buffer) => {
            assert_eq!(buffer.len(), bytes);
            let content =
                if cleared { Content::zeroed(bytes as usize) } else { Content::unknown(bytes as usize) };
            let id = world.add(buffer, content, fixed);
            world.say(|| format!("  alloc gave #{id}"));
        }
        Err(error) => note(&world, "alloc", since, world.taken(bytes), &error),
    }
}

pub async fn read(world: Rc<World>, part: Part) {
    let since = world.now.get();
    let mut known = part.known();
    let (content, name, start) = (part.held.content.clone(), part.to_string(), part.range.start);
    let cancelled = content.borrow().cancelled();
    let reading = part.view().read();
    // The buffer may be dropped while it is read.
    drop(part);
    match reading.await {
        Ok(read) => {
            content.borrow().doubt(cancelled, start, &mut known);
            if let Some(at) = first_wrong(&read, &known) {
                let around = at.saturating_sub(4)..(at + 8).min(read.len());
                let (read, known) = (&read[around.clone()], &known[around]);
                panic!("read of {name} is wrong at {at}: {read:?} instead of {known:?}");
            }
            world.say(|| format!("  read of {name} is right"));
        }
        Err(error) => note(&world, "read", since, 0, &error),
    }
}

/// A change whose future is pending: it takes its place in the order, and may yet fail or be cancelled.
pub struct Doubt {
    pub content: Rc<RefCell<Content>>,
    pub start: usize,
    pub before: Vec<Option<u8>>,
    pub version: u64,
}

impl Doubt {
    /// Nothing has changed since: what is known now is `values`; else the bytes are anybody's guess.
    pub fn settle(&self, values: &[Option<u8>]) {
        let mut content = self.content.borrow_mut();
        if content.version() == self.version {
            content.set(self.start, values);
        } else {
            let end = self.start + values.len();
            content.forget(self.start..end);
        }
    }
}

pub async fn change(world: Rc<World>, part: Part, data: Option<Vec<u8>>, value: u8) {
    let since = world.now.get();
    let len = data.as_ref().map_or(part.range.len(), Vec::len);
    let part = Part { range: part.range.start..part.range.start + len, ..part };
    let after: Vec<_> = match &data {
        Some(data) => data.iter().copied().map(Some).collect(),
        None => vec![Some(value); len],
    };
    let view = part.view();
    let mut operation: Pin<Box<dyn Future<Output = Result<(), Error>>>> = match data {
        Some(data) => Box::pin(view.write(data)),
        None => Box::pin(view.fill(value)),
    };
    let first = poll_fn(|cx| Poll::Ready(operation.as_mut().poll(cx))).await;
    let outcome = match first {
        Poll::Ready(outcome) => {
            if outcome.is_ok() {
                part.set(&after);
            }
            outcome
        }
        Poll::Pending => {
            world.say(|| format!("  change of {part} waits"));
            let before = part.known();
            // Calls made from now on come behind it. A refusal may still undo it.
            if world.bench.may_refuse() {
                part.forget();
            } else {
                part.set(&after);
            }
            let content = part.held.content.clone();
            let version = content.borrow().version();
            let doubt = Doubt { content, start: part.range.start, before, version };
            struct Cancelled<'a>(&'a Part, bool);
            impl Drop for Cancelled<'_> {
                fn drop(&mut self) {
                    if !self.1 {
                        self.0.held.content.borrow_mut().take_back(self.0.range.clone());
                    }
                }
            }
            let mut cancelled = Cancelled(&part, false);
            let outcome = operation.as_mut().await;
            cancelled.1 = true;
            if world.bench.may_refuse() {
                doubt.settle(if outcome.is_ok() { &after } else { &doubt.before });
            }
            outcome
        }
    };
    match outcome {
        Ok(()) => world.say(|| format!("  changed {part}")),
        Err(error) => note(&world, "write", since, 0, &error),
    }
}

pub async fn copy(world: Rc<World>, from: Part, to: Part) {
    let since = world.now.get();
    let bytes = world.taken(from.held.buffer.len()) + world.taken(to.held.buffer.len());
    match from.view().copy_to(&to.view()).await {
        Ok(()) => {
            world.say(|| format!("  copied {from} to {to}"));
            to.set(&from.known());
        }
        Err(error) => note(&world, "copy", since, bytes, &error),
    }
}

pub async fn make_room(world: Rc<World>, bytes: u64) {
    let since = world.now.get();
    if let Err(error) = world.device().make_room(bytes).await {
        note(&world, "make_room", since, world.taken(bytes), &error);
    }
}

pub async fn prefetch(world: Rc<World>, held: Vec<Held>) {
    let since = world.now.get();
    let buffers: Vec<_> = held.into_iter().map(|held| held.buffer).collect();
    let uses: Vec<Use<'_>> = buffers.iter().map(Use::read_write).collect();
    let prefetch = world.device().prefetch(uses);
    drop(buffers); // it keeps none
    match prefetch.await {
        Ok(bytes) => world.say(|| format!("  {bytes} are there")),
        Err(error) => panic!("prefetch since {since}: {error}"),
    }
}

pub async fn spill(world: Rc<World>, part: Option<Part>) {
    let since = world.now.get();
    let operation = match &part {
        Some(part) => part.held.buffer.spill(),
        None => world.device().spill_all(),
    };
    let mut operation = pin!(operation);
    match operation.as_mut().await {
        Ok(bytes) => world.say(|| format!("  spilled {bytes}")),
        Err(error) => note(&world, "spill", since, 0, &error),
    }
}
