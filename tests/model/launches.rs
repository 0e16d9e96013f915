//! Launches and holds: kernels that mix what they read into what they write, on the device and in the model.

use crate::{
    content::mix,
    tasks::{Access, Doubt, Part, bounded, hold, note},
    world::{Mark, World},
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    rc::Rc,
    time::Duration,
};
use tack_residency::{
    Use, View,
    driver::{Arg, ArgAccess, HostKernel},
};

/// What becomes of a prepared launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    Submitted,
    Dropped,
    FailsBefore,
    FailsAfter,
    Panics,
}

/// What a kernel over parts that hold these bytes leaves in each of them.
pub fn mixed(parts: &[(Access, Vec<Option<u8>>)], salt: u8) -> Vec<Option<Vec<Option<u8>>>> {
    let sources: Vec<_> =
        parts.iter().filter(|(access, _)| *access == Access::Read).map(|(_, bytes)| bytes).collect();
    let written = |access: Access, own: &[Option<u8>]| {
        let byte = |index: usize| {
            let sources = sources.iter().filter(|source| !source.is_empty());
            let sources: Option<Vec<u8>> = sources.map(|source| source[index % source.len()]).collect();
            let own = if access == Access::ReadWrite { Some(own[index]?) } else { None };
            Some(mix(salt, index, own, sources?.into_iter()))
        };
        (0..own.len()).map(byte).collect()
    };
    parts.iter().map(|(access, own)| (*access != Access::Read).then(|| written(*access, own))).collect()
}

/// The same on the device.
pub fn body(accesses: Vec<Access>, salt: u8) -> impl FnOnce(&mut [Arg<'_>]) + Send + 'static {
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

/// The buffers of a launch, each once: which, and how many bytes.
pub fn buffers(parts: &[Part]) -> Vec<(usize, u64)> {
    let mut ids: Vec<_> = parts.iter().map(|part| (part.held.id, part.held.buffer.len())).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

pub async fn launch(world: Rc<World>, parts: Vec<Part>, plan: Plan) {
    let since = world.now.get();
    let _mark = Mark::pin(&world);
    let views: Vec<View> = parts.iter().map(Part::view).collect();
    let uses: Vec<Use<'_>> = views.iter().zip(&parts).map(|(view, part)| part.access.of(view)).collect();
    let bytes = buffers(&parts).iter().map(|(_, bytes)| world.taken(*bytes)).sum();
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
    let known: Vec<_> = parts.iter().map(|part| (part.access, part.known())).collect();
    let after = mixed(&known, plan.salt);
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
            let before = part.known();
            let after = mixed(&[(Access::ReadWrite, before.clone())], plan.salt);
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
