//! A recorded program at half of its memory, beside the same with all of it: whether every byte came through, and what of the
//! copies was hidden.

use crate::{
    content::Digest,
    mixing_work::MixingWork,
    options::Extent,
    player::{Ahead, Player},
    program::{Needs, Program},
    subject::Subject,
    trace::{Event, Trace},
};
use serde::Serialize;
use std::{
    ops::Range,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};
use tack_residency::{Device, Error, MemoryInfo};

/// The trace that is replayed if none is named.
const SMALL: &str = include_str!("../replay/small.jsonl");

/// Launches that are asked for ahead of their turn.
const LOOK_AHEAD: usize = 8;

/// Buffers are cleaned from less than the first percentage free or clean, until the second is.
const MARKS: (u8, u8) = (10, 20);

/// One run of the program, from its first launch to its last, in figures. What came before, and reading what is left, is not
/// in them.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Pass {
    pub name: &'static str,
    pub seconds: f64,
    pub spills: u64,
    pub restores: u64,
    pub copied_out_bytes: u64,
    pub copied_in_bytes: u64,
    /// Of all bytes that the host read in it and at its end.
    pub digest: String,
    /// The part of the copies' time with a kernel beside it, where the device can say.
    #[serde(skip)]
    hidden: Option<f64>,
}

/// All runs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Replay {
    pub trace: String,
    pub kernels: String,
    pub buffers: usize,
    pub launches: usize,
    pub look_ahead: usize,
    pub peak_bytes: u64,
    pub budget_bytes: u64,
    pub passes: Vec<Pass>,
    /// The part of the copies' time that the last pass did not take longer for than the first.
    pub hidden: Option<f64>,
    pub hidden_told_by: &'static str,
    /// Whether every pass has the same digest.
    pub agrees: bool,
}

/// A program made as large as a device's copies need it.
pub struct Recording {
    program: Program,
    /// How long kernels run, against their recorded time.
    pace: f64,
}

impl Recording {
    /// Reads a trace; the small one, made larger, if none is named. `free` is what the device has.
    ///
    /// # Errors
    ///
    /// Why it cannot be replayed.
    pub fn new(
        path: Option<&Path>,
        extent: Extent,
        subject: &dyn Subject,
        free: Option<u64>,
    ) -> Result<Recording, String> {
        let trace = path.map_or_else(|| Trace::read("small".to_owned(), SMALL.as_bytes()), Trace::open);
        let (mut times, mut pace) = match (path, extent) {
            (Some(_), _) => (1, 1.0),
            (None, Extent::Full) if subject.is_slow() => (64, 1.0),
            (None, Extent::Full) => (512, 8.0),
            (None, Extent::Short) => (4, 0.25),
        };
        let placed = |what: String| path.map_or(what.clone(), |path| format!("{}: {what}", path.display()));
        let trace = trace.map_err(|error| placed(error.to_string()))?;
        let peak = Program::new(&trace).map_err(placed)?.needs(1).peak;
        // Half of the device is left for what its pool keeps, and to others.
        let most = free.map_or(u64::MAX, |free| free / 2);
        let mut divisor = 1;
        while peak.saturating_mul(times) / divisor > most {
            if times > 1 {
                times /= 2
            } else {
                divisor *= 2
            }
            pace /= 2.0;
        }
        let trace = trace.resized(|bytes| bytes.saturating_mul(times).div_ceil(divisor));
        let has_bytes = |event: &Event| !matches!(event, Event::Alloc { bytes: 0, .. });
        if !trace.events.iter().all(has_bytes) {
            return Err("a buffer of no bytes is in it".to_owned());
        }
        Ok(Recording { program: Program::new(&trace)?, pace })
    }

    /// Runs it: with all memory, and with half; each with its kernels' time, and without.
    ///
    /// # Errors
    ///
    /// What the device says, with the step.
    pub fn replay(self, subject: &Arc<dyn Subject>) -> Result<Replay, String> {
        let player = Passes { subject, recording: &self };
        let options = Device::options();
        let unlimited = subject.device(options);
        let granularity = unlimited.driver().caps().granularity;
        let Needs { peak, largest, .. } = self.program.needs(granularity);
        let all = player.pass("all memory", &unlimited, self.pace)?;
        let all_idle = player.pass("all memory, no kernel time", &unlimited, 0.0)?;
        drop(unlimited);
        let budget = (peak / 2).max(largest);
        let device = subject.device(Device::options().budget(budget).write_back(MARKS.0, MARKS.1));
        // The first takes longer: what is spilled is pinned.
        let first = player.pass("half of it, the first time", &device, self.pace)?;
        let half_idle = player.pass("half of it, no kernel time", &device, 0.0)?;
        let half = player.pass("half of it", &device, self.pace)?;
        let copies = half_idle.seconds - all_idle.seconds;
        let by_time = (copies > 0.0).then(|| (1.0 - (half.seconds - all.seconds) / copies).clamp(0.0, 1.0));
        let told = half.hidden.is_some();
        let hidden = if told { half.hidden } else { by_time };
        let agrees = [&all_idle, &first, &half_idle, &half].iter().all(|pass| pass.digest == all.digest);
        Ok(Replay {
            trace: self.program.name.clone(),
            kernels: subject.kernels(),
            buffers: self.program.ids.len(),
            launches: self.program.launches().count(),
            look_ahead: LOOK_AHEAD,
            peak_bytes: peak,
            budget_bytes: budget,
            passes: vec![all, all_idle, first, half_idle, half],
            hidden,
            hidden_told_by: if told { "the device" } else { "the passes' times" },
            agrees,
        })
    }
}

struct Passes<'a> {
    subject: &'a Arc<dyn Subject>,
    recording: &'a Recording,
}

impl Passes<'_> {
    fn pass(&self, name: &'static str, device: &Device, pace: f64) -> Result<Pass, String> {
        let digest = Arc::new(Digest::default());
        let work = MixingWork { subject: self.subject.clone(), digest: digest.clone(), pace };
        let mut player = Ahead::new(device, LOOK_AHEAD, true, work);
        let program = &self.recording.program;
        let first = program.launches().next().map_or(0, |(place, _)| place);
        let after = |error: Error| format!("{name}, after the last launch: {error}");
        futures::executor::block_on(async {
            play(&mut player, program, 0..first).await?;
            let (before, begun) = (device.memory_info(), Instant::now());
            play(&mut player, program, first..program.end).await?;
            let (seconds, info) = (begun.elapsed().as_secs_f64(), device.memory_info());
            player.read_left(program).await.map_err(after)?;
            let digest = format!("{:016x}", digest.value());
            play(&mut player, program, program.end..program.steps.len()).await?;
            device.check().map_err(after)?;
            Ok(Pass {
                name,
                seconds,
                spills: info.spills - before.spills,
                restores: info.restores - before.restores,
                copied_out_bytes: info.copied_out_bytes - before.copied_out_bytes,
                copied_in_bytes: info.copied_in_bytes - before.copied_in_bytes,
                digest,
                hidden: hidden(&before, &info),
            })
        })
    }
}

/// Takes steps of a program, and waits for them.
async fn play(player: &mut impl Player, program: &Program, places: Range<usize>) -> Result<(), String> {
    for place in places {
        let done = player.step(place, &program.steps[place]).await;
        done.map_err(|error| format!("line {}: {error}", place + 1))?;
    }
    player.settle().await.map_err(|error| error.to_string())
}

/// What the device says of its engines between two moments.
fn hidden(before: &MemoryInfo, after: &MemoryInfo) -> Option<f64> {
    let (before, after) = (before.busy?, after.busy?);
    let copies = after.copy.checked_sub(before.copy)?;
    let beside = after.copy_while_compute.checked_sub(before.copy_while_compute)?;
    (copies > Duration::ZERO).then(|| beside.as_secs_f64() / copies.as_secs_f64())
}
