//! Runs everything, one after the other, and says on the standard error how far it is.

use crate::{
    checks,
    figures::{Bed, GROUPS},
    job::{Ended, Outcome, run, run_job},
    options::Options,
    replay::Recording,
    report::Report,
    subject::Opened,
    table,
};
use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

/// Whether anything failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Well,
    Failed,
}

impl Verdict {
    pub fn of(report: &Report) -> Verdict {
        if report.failed.is_empty() { Verdict::Well } else { Verdict::Failed }
    }
}

/// How long a check may take. The longest takes some seconds on a slow machine.
const PATIENCE: Duration = Duration::from_secs(100);

/// How long a recorded program may take that the caller names.
const LONG: Duration = Duration::from_secs(3600);

/// How long the small one may take, with its bytes made and summed up on the host.
const REPLAYED: Duration = Duration::from_secs(200);

const REPLAY: &str = "replay: a recorded program at half of its memory";

/// Opens the device and runs what is asked for, until something hangs.
///
/// # Errors
///
/// Why no device opens, or the trace cannot be replayed.
pub fn all(options: &Options) -> Result<Report, String> {
    let begun = Instant::now();
    let mut opened = Opened::new(options.device.as_deref(), options.extent)?;
    let free = opened.subject.open().memory().free;
    let recording = Recording::new(options.trace.as_deref(), options.extent, &*opened.subject, free)?;
    let mut report = Report {
        device: opened.name.clone(),
        description: opened.description.clone(),
        kernels: opened.subject.kernels(),
        short: options.is_short(),
        seconds: 0.0,
        failed: Vec::new(),
        checks: Vec::new(),
        replay: None,
        figures: Vec::new(),
    };
    // What hangs holds the device, and whatever it has locked: nothing can be told after it.
    let _ = run_all(options, &mut opened, recording, &mut report);
    report.seconds = begun.elapsed().as_secs_f64();
    Ok(report)
}

fn run_all(
    options: &Options,
    opened: &mut Opened,
    recording: Recording,
    report: &mut Report,
) -> Result<(), Hung> {
    let chosen = |name: &str| options.only.as_ref().is_none_or(|part| name.contains(part.as_str()));
    for job in checks::jobs(opened).into_iter().filter(|job| chosen(job.name)) {
        note(report, run_job(job, PATIENCE))?;
    }
    if chosen(REPLAY) {
        let subject = opened.subject.clone();
        let patience = if options.trace.is_some() { LONG } else { REPLAYED };
        let (ended, found) = run(REPLAY, patience, move || {
            let replay = recording.replay(&subject).unwrap_or_else(|problem| panic!("{problem}"));
            let differs = (!replay.agrees).then(|| "a byte was lost: the digests differ".to_owned());
            (differs, replay)
        });
        let (differs, replay) = found.map_or((None, None), |(differs, replay)| (differs, Some(replay)));
        report.replay = replay;
        note(
            report,
            match differs {
                Some(said) => Ended { outcome: Outcome::Failed, said, ..ended },
                None => ended,
            },
        )?;
    }
    let bed = Bed { subject: opened.subject.clone(), extent: options.extent };
    for (name, measure) in GROUPS.iter().filter(|(name, _)| chosen(name)) {
        let bed = bed.clone();
        let (ended, figures) = run(name, PATIENCE, move || measure(&bed));
        report.figures.extend(figures.unwrap_or_default());
        note(report, ended)?;
    }
    Ok(())
}

/// Something has not ended.
struct Hung;

/// Says what became of a check, and keeps it.
fn note(report: &mut Report, ended: Ended) -> Result<(), Hung> {
    // With the standard error closed, the report tells it.
    let _ = writeln!(io::stderr(), "{}", table::line(&ended));
    let is_hung = ended.outcome == Outcome::Hung;
    report.add(ended);
    if is_hung { Err(Hung) } else { Ok(()) }
}
