//! A trace made ready to run: checked, scaled, and with its sizes summed up.

use crate::{
    content::How,
    trace::{Event, Id, Init, Trace},
};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    time::Duration,
};

/// More than any device has.
const LARGEST: u64 = 1 << 50;

/// A new buffer's content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// The host writes it.
    Host,
    /// Zeros: it is read before it is written.
    Cleared,
    /// None: what comes first overwrites all of it.
    Nothing,
}

/// A kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct Launch {
    pub name: String,
    /// Buffers by their number, each once.
    pub uses: Vec<(usize, How)>,
    pub cost: Duration,
}

/// One thing to do. Buffers are numbered as they are made.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    Alloc { bytes: u64, content: Content },
    Launch(Launch),
    HostRead(usize),
    Free(usize),
}

/// What a program needs of a device, in bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Needs {
    /// The most that is alive at one time.
    pub peak: u64,
    /// The largest launch or buffer.
    pub largest: u64,
    /// Which that is.
    pub of: String,
}

/// What to do, in order.
#[derive(Clone, Debug, Default)]
pub struct Program {
    pub name: String,
    pub steps: Vec<Step>,
    /// The number of each buffer's trace.
    pub ids: Vec<Id>,
    /// Steps before the frees that end it.
    pub end: usize,
    /// Buffers alive there with contents.
    pub left: Vec<usize>,
    /// Of each buffer, whether it was given contents.
    written: Vec<bool>,
}

struct Alive {
    number: usize,
    alloc: usize,
}

impl Program {
    /// Checks a trace.
    ///
    /// # Errors
    ///
    /// The line that makes no sense.
    pub fn new(trace: &Trace) -> Result<Program, String> {
        let mut program = Program { name: trace.name.clone(), ..Program::default() };
        let mut alive: BTreeMap<Id, Alive> = BTreeMap::new();
        for (index, event) in trace.events.iter().enumerate() {
            program.add(event, &mut alive).map_err(|what| format!("line {}: {what}", index + 1))?;
        }
        let is_end = |step: &Step| matches!(step, Step::Free(_));
        program.end = program.steps.iter().rposition(|step| !is_end(step)).map_or(0, |last| last + 1);
        if program.launches().next().is_none() {
            return Err("no launch is in it".to_owned());
        }
        let freed = program.steps[program.end..].iter().filter_map(|step| match step {
            Step::Free(number) => Some(*number),
            _ => None,
        });
        let mut left: Vec<usize> = freed.chain(alive.values().map(|alive| alive.number)).collect();
        left.retain(|&number| program.written[number]);
        left.sort_unstable();
        program.left = left;
        Ok(program)
    }

    fn add(&mut self, event: &Event, alive: &mut BTreeMap<Id, Alive>) -> Result<(), String> {
        let missing = |id: Id| format!("buffer {id} is not alive here");
        let step = match event {
            Event::Alloc { buf, bytes, init } => {
                if *bytes > LARGEST {
                    return Err(format!("a buffer of {bytes} bytes is more than any device has"));
                }
                let (number, alloc) = (self.ids.len(), self.steps.len());
                let written = *init == Some(Init::Host);
                match alive.entry(*buf) {
                    Entry::Vacant(place) => _ = place.insert(Alive { number, alloc }),
                    Entry::Occupied(_) => return Err(format!("buffer {buf} is alive already")),
                }
                self.ids.push(*buf);
                self.written.push(written);
                let content = if written { Content::Host } else { Content::Nothing };
                Step::Alloc { bytes: *bytes, content }
            }
            Event::Launch { name, reads, writes, cost_us } => {
                let cost = Duration::try_from_secs_f64(cost_us * 1e-6)
                    .map_err(|_| format!("a kernel cannot take {cost_us} microseconds"))?;
                let mut uses: Vec<(usize, How)> = Vec::with_capacity(reads.len() + writes.len());
                for (id, how) in
                    reads.iter().map(|id| (id, How::Read)).chain(writes.iter().map(|id| (id, How::Write)))
                {
                    let used = alive.get(id).ok_or_else(|| missing(*id))?;
                    self.touch(used, how);
                    match uses.iter_mut().find(|(other, _)| *other == used.number) {
                        Some((_, before)) if *before != how => *before = How::ReadWrite,
                        Some(_) => {}
                        None => uses.push((used.number, how)),
                    }
                }
                Step::Launch(Launch { name: name.clone(), uses, cost })
            }
            Event::HostRead { buf } => {
                let used = alive.get(buf).ok_or_else(|| missing(*buf))?;
                self.touch(used, How::Read);
                Step::HostRead(used.number)
            }
            Event::Free { buf } => Step::Free(alive.remove(buf).ok_or_else(|| missing(*buf))?.number),
        };
        self.steps.push(step);
        Ok(())
    }

    /// A buffer that is read before anything was written is cleared when it is made.
    fn touch(&mut self, used: &Alive, how: How) {
        let written = std::mem::replace(&mut self.written[used.number], true);
        if let (false, How::Read, Step::Alloc { content, .. }) = (written, how, &mut self.steps[used.alloc]) {
            *content = Content::Cleared;
        }
    }

    /// The kernels, with the steps they are.
    pub fn launches(&self) -> impl Iterator<Item = (usize, &Launch)> {
        self.steps.iter().enumerate().filter_map(|(index, step)| match step {
            Step::Launch(launch) => Some((index, launch)),
            _ => None,
        })
    }

    /// What it needs of a device that rounds sizes up to multiples of `granularity`.
    pub fn needs(&self, granularity: u64) -> Needs {
        let mut sizes: Vec<u64> = Vec::new();
        let (mut held, mut needs) = (0u64, Needs::default());
        let mut note = |bytes: u64, of: &dyn Fn() -> String| {
            if bytes > needs.largest {
                (needs.largest, needs.of) = (bytes, of());
            }
        };
        let mut peak = 0;
        for (index, step) in self.steps.iter().enumerate() {
            match step {
                Step::Alloc { bytes, .. } => {
                    let bytes = bytes.next_multiple_of(granularity);
                    held = held.saturating_add(bytes);
                    peak = peak.max(held);
                    note(bytes, &|| format!("buffer {}", self.ids[sizes.len()]));
                    sizes.push(bytes);
                }
                Step::Launch(launch) => {
                    let sum =
                        launch.uses.iter().fold(0u64, |sum, (used, _)| sum.saturating_add(sizes[*used]));
                    note(sum, &|| format!("the launch of {} in line {}", launch.name, index + 1));
                }
                Step::HostRead(_) => {}
                Step::Free(number) => held -= sizes[*number],
            }
        }
        needs.peak = peak;
        needs
    }

    /// What its kernels take together.
    pub fn kernels(&self) -> Duration {
        self.launches().fold(Duration::ZERO, |sum, (_, launch)| sum.saturating_add(launch.cost))
    }
}
