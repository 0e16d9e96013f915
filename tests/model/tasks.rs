//! The asynchronous steps: each a future of its own, polled by hand, that checks what it gets against the model.

use crate::{
    content::{Content, first_wrong, mix},
    world::{Held, Mark, World},
};
use std::{
    cell::RefCell,
    future::{Future, poll_fn},
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::{Pin, pin},
    rc::Rc,
    task::Poll,
    time::Duration,
};
use tack_residency::{
    Error, ErrorKind, Operation, Steps, Use, View,
    driver::{Arg, ArgAccess, HostKernel},
};

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

/// What becomes of a prepared launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    Submitted,
    Dropped,
    FailsBefore,
    FailsAfter,
    Panics,
}

impl Part {
    pub fn view(&self) -> View {
        let bytes = self.range.len() as u64;
        self.held.buffer.view(self.range.start as u64, bytes).expect("a part is within its buffer")
    }

    fn known(&self) -> Vec<Option<u8>> {
        self.held.content.borrow().get(self.range.clone())
    }

    fn set(&self, values: &[Option<u8>]) {
        self.held.content.borrow_mut().set(self.range.start, values);
    }

    fn forget(&self) {
        self.held.content.borrow_mut().forget(self.range.clone());
    }

    fn is_whole(&self) -> bool {
        self.range.len() == self.held.content.borrow().len()
    }
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "#{}[{}..{}] {:?}", self.held.id, self.range.start, self.range.end, self.access)
    }
}

/// Lets others run `polls` times, or until the end is near.
async fn hold(world: &World, polls: u64) {
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
fn note(world: &World, what: &str, since: u64, bytes: u64, error: &Error) {
    world.say(|| format!("  {what} failed: {error}"));
    let by_time = matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock);
    let permitted = by_time || world.permits(error.kind(), since, bytes);
    assert!(permitted, "{what} may not fail so: {error:?}");
}

/// Bounds an operation in time, now and then.
fn bounded<S: Steps>(operation: Operation<S>, patience: Option<Duration>) -> Operation<S> {
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
    let known = part.known();
    match part.view().read().await {
        Ok(read) => {
            if let Some(at) = first_wrong(&read, &known) {
                let around = at.saturating_sub(4)..(at + 8).min(read.len());
                let (read, known) = (&read[around.clone()], &known[around]);
                panic!("read of {part} is wrong at {at}: {read:?} instead of {known:?}");
            }
            world.say(|| format!("  read of {part} is right"));
        }
        Err(error) => note(&world, "read", since, 0, &error),
    }
}

/// A change whose future is pending: it takes its place in the order, and may yet fail or be cancelled.
struct Doubt {
    content: Rc<RefCell<Content>>,
    start: usize,
    before: Vec<Option<u8>>,
    version: u64,
}

impl Doubt {
    /// Nothing has changed since: what is known now is `values`; else the bytes are anybody's guess.
    fn settle(&self, values: &[Option<u8>]) {
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
            if world.bench.kind.refusals {
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
                        self.0.forget();
                    }
                }
            }
            let mut cancelled = Cancelled(&part, false);
            let outcome = operation.as_mut().await;
            cancelled.1 = true;
            if world.bench.kind.refusals {
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

/// What a kernel over `parts` leaves in each of them.
fn mixed(parts: &[Part], salt: u8) -> Vec<Option<Vec<Option<u8>>>> {
    let sources: Vec<_> = parts.iter().filter(|part| part.access == Access::Read).map(Part::known).collect();
    let written = |part: &Part| {
        let own = part.known();
        let byte = |index: usize| {
            let sources = sources.iter().filter(|source| !source.is_empty());
            let sources: Option<Vec<u8>> = sources.map(|source| source[index % source.len()]).collect();
            let own = if part.access == Access::ReadWrite { Some(own[index]?) } else { None };
            Some(mix(salt, index, own, sources?.into_iter()))
        };
        (0..own.len()).map(byte).collect()
    };
    parts.iter().map(|part| (part.access != Access::Read).then(|| written(part))).collect()
}

/// The same on the device.
fn body(accesses: Vec<Access>, salt: u8) -> impl FnOnce(&mut [Arg<'_>]) + Send + 'static {
    move |args| {
        let sources: Vec<Vec<u8>> = args
            .iter()
            .zip(&accesses)
            .filter(|(arg, access)| **access == Access::Read && !arg.bytes().is_empty())
            .map(|(arg, _)| arg.bytes().to_vec())
            .collect();
        for (arg, access) in args.iter_mut().zip(&accesses).filter(|(_, access)| **access != Access::Read) {
            for (index, byte) in arg.bytes_mut().iter_mut().enumerate() {
                let sources = sources.iter().map(|source| source[index % source.len()]);
                *byte = mix(salt, index, (*access == Access::ReadWrite).then_some(*byte), sources);
            }
        }
    }
}

/// How a launch goes.
pub struct Plan {
    pub queue: usize,
    pub fate: Fate,
    pub cost: Duration,
    pub salt: u8,
    pub held: u64,
    pub patience: Option<Duration>,
}

pub async fn launch(world: Rc<World>, parts: Vec<Part>, plan: Plan) {
    let since = world.now.get();
    let _mark = Mark::pin(&world);
    let views: Vec<View> = parts.iter().map(Part::view).collect();
    let uses: Vec<Use<'_>> = views
        .iter()
        .zip(&parts)
        .map(|(view, part)| match part.access {
            Access::Read => Use::read(view),
            Access::Write => Use::write(view),
            Access::ReadWrite => Use::read_write(view),
        })
        .collect();
    let mut ids: Vec<_> = parts.iter().map(|part| (part.held.id, part.held.buffer.len())).collect();
    ids.sort_unstable();
    ids.dedup();
    let bytes = ids.iter().map(|(_, bytes)| world.taken(*bytes)).sum();
    let launch = match bounded(world.device().prepare(uses), plan.patience).await {
        Ok(launch) => launch,
        Err(error) => return note(&world, "prepare", since, bytes, &error),
    };
    world.say(|| "  prepared".to_owned());
    hold(&world, plan.held).await;
    if plan.fate == Fate::Dropped {
        world.say(|| "  launch dropped".to_owned());
        return;
    }
    let launch = launch.on(&world.bench.queues[plan.queue]).expect("the queue is this device's");
    let accesses = parts.iter().map(|part| part.access).collect();
    let mut is_queued = false;
    let result = catch_unwind(AssertUnwindSafe(|| {
        launch.submit(|run| {
            match plan.fate {
                Fate::FailsBefore => return Err(None),
                // Past the hook that prints: nothing is wrong.
                Fate::Panics => resume_unwind(Box::new("on purpose")),
                _ => {}
            }
            run.host_kernel(plan.cost, body(accesses, plan.salt)).map_err(Some)?;
            is_queued = true;
            if plan.fate == Fate::FailsAfter { Err(None) } else { Ok(()) }
        })
    }));
    let after = mixed(&parts, plan.salt);
    if is_queued {
        for (part, after) in parts.iter().zip(after).filter_map(|(part, after)| Some((part, after?))) {
            part.set(&after);
            if plan.fate == Fate::FailsAfter && part.access == Access::Write && part.is_whole() {
                // Kept if it was spilled, overwritten if not: the caller cannot know.
                part.forget();
            }
        }
    }
    world.say(|| {
        format!("  launch over: {:?} {}", plan.fate, if is_queued { "queued" } else { "not queued" })
    });
    match result {
        Ok(Ok(())) => assert_eq!(plan.fate, Fate::Submitted),
        Ok(Err(None)) | Err(_) => {}
        Ok(Err(Some(error))) => note(&world, "submit", since, bytes, &error),
    }
}

/// Holds a buffer where it is, perhaps has another library's kernel on it, and lets go.
pub async fn keep(world: Rc<World>, part: Part, plan: Plan, is_export: bool) {
    let since = world.now.get();
    let bytes = world.taken(part.held.buffer.len());
    let _mark = Mark::pin(&world);
    let queue = &world.bench.queues[plan.queue];
    let (guard, export) = if is_export {
        match bounded(part.held.buffer.export(), plan.patience).await {
            Ok(export) => (None, Some((export, Mark::export(&world)))),
            Err(error) => return note(&world, "export", since, bytes, &error),
        }
    } else {
        match bounded(part.view().ensure_resident(), plan.patience).await {
            Ok(guard) => (Some(guard), None),
            Err(error) => return note(&world, "ensure_resident", since, bytes, &error),
        }
    };
    world.say(|| format!("  holds {part}"));
    let ptr = match (&guard, &export) {
        (Some(guard), _) => guard.ptr(),
        (_, Some((export, _))) => export.ptr().offset(part.range.start as u64),
        _ => unreachable!(),
    };
    let mut doubt = None;
    if plan.fate == Fate::Submitted {
        let kernel = HostKernel::new(plan.cost, body(vec![Access::ReadWrite], plan.salt)).arg(
            ptr,
            part.range.len() as u64,
            ArgAccess::Write,
        );
        if world.device().driver().launch_host(queue.id(), kernel).is_ok() {
            world.say(|| "  another's kernel is queued".to_owned());
            let after =
                mixed(std::slice::from_ref(&Part { access: Access::ReadWrite, ..part.clone() }), plan.salt);
            let before = part.known();
            // What others see of it before the hold has ended is theirs to order.
            let content = part.held.content.clone();
            content.borrow_mut().contest(part.range.clone());
            let version = content.borrow().version();
            doubt = Some((Doubt { content, start: part.range.start, before, version }, after));
        }
    }
    struct Let(Option<Box<dyn FnOnce()>>);
    impl Drop for Let {
        fn drop(&mut self) {
            if let Some(end) = self.0.take() {
                end();
            }
        }
    }
    // Also when the task is dropped: the hold's end is what puts the kernel in order.
    let (queue, range, ends) =
        (queue.clone(), part.range.clone(), plan.salt.is_multiple_of(2) || plan.queue > 0);
    let _let = Let(Some(Box::new(move || {
        if let Some(guard) = guard {
            if ends { guard.used_on(&queue).expect("this device's") } else { drop(guard) }
        }
        if let Some((export, mark)) = export {
            if ends {
                export.end_after(&queue).expect("this device's")
            } else {
                drop(export)
            }
            drop(mark);
        }
        if let Some((doubt, mut after)) = doubt
            && let Some(Some(after)) = after.pop()
        {
            doubt.content.borrow_mut().concede(&range);
            doubt.settle(&after);
        }
    })));
    hold(&world, plan.held).await;
    world.say(|| format!("  lets go of {part}"));
}

pub async fn make_room(world: Rc<World>, bytes: u64) {
    let since = world.now.get();
    if let Err(error) = world.device().make_room(bytes).await {
        note(&world, "make_room", since, world.taken(bytes), &error);
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
