//! The replay: a recorded program, run under budgets that it does not fit into, on any device.
//!
//! `replay [TRACE]` runs it with unlimited memory first, then under each budget, and compares what its buffers held.
//! `replay --help` tells the options.

#[path = "../sweep/budget.rs"]
mod budget;
mod content;
mod history;
mod options;
mod outcome;
mod perfetto;
mod player;
mod program;
#[path = "../sweep/progress.rs"]
mod progress;
mod run;
mod stalls;
mod survey;
mod table;
mod target;
#[cfg(test)]
mod tests;
mod timeline;
mod trace;
#[path = "../sweep/units.rs"]
mod units;

use history::{History, Sample};
use options::{Options, Request};
use outcome::Report;
use program::{Program, Step};
use progress::Progress;
use run::Run;
use std::{
    ffi::OsString,
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};
use target::Target;
use trace::Trace;
use units::Size;

/// The trace that is replayed if none is named.
const SMALL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/replay/small.jsonl");

/// How often a run shows how far it is.
const SHOWN: usize = 200;

/// What replays that came to their end found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Agree,
    Differ,
}

fn main() -> ExitCode {
    let mut progress = Progress::on_stderr();
    let words = std::env::args_os().skip(1);
    match perform(words, &mut io::stdout().lock(), &mut io::stderr(), &mut progress) {
        Ok(Verdict::Agree) => ExitCode::SUCCESS,
        Ok(Verdict::Differ) => ExitCode::FAILURE,
        Err(problem) => {
            progress.end();
            // With the standard error closed, the status is all there is to tell.
            let _ = writeln!(io::stderr(), "replay: {problem}");
            ExitCode::from(2)
        }
    }
}

/// Does what a command line asks for. `notes` is told what was not done as asked.
///
/// # Errors
///
/// Why nothing could be replayed.
fn perform(
    words: impl IntoIterator<Item = OsString>,
    out: &mut dyn Write,
    notes: &mut dyn Write,
    progress: &mut Progress,
) -> Result<Verdict, String> {
    let unwritten = |error| format!("the report cannot be written: {error}");
    let mut options = match Request::parse(words)? {
        Request::Replay(options) => options,
        Request::Survey(folder) => {
            survey::write(&folder, out, progress)?;
            return Ok(Verdict::Agree);
        }
        Request::Help => {
            write!(out, "{}", options::HELP).map_err(unwritten)?;
            return Ok(Verdict::Agree);
        }
    };
    let program = read(&options)?;
    let mut note = |text: String| {
        // A note that cannot be written is not worth failing for.
        let _ = writeln!(notes, "replay: {text}");
    };
    if options.settle(program.needs(1).peak) {
        note(
            "no bytes are held, since they are many: --bytes held to hold them, --scale 1/256 to have fewer"
                .into(),
        );
    }
    let pages = [&options.timeline, &options.trace_events].map(|path| path.as_ref().map(create).transpose());
    let [timeline, trace_events] = pages;
    let (timeline, trace_events) = (timeline?, trace_events?);

    let device = Target::open(&options, None)?.device().clone();
    let needs = program.needs(device.driver().caps().granularity);
    let clock = if device.driver().caps().computed_clock { "a computed" } else { "a real" };
    drop(device);
    let draws = timeline.is_some() || trace_events.is_some();
    let mut runs = vec![run_once(&options, None, &program, draws, progress)?];
    for budget in &options.budgets {
        let asked = budget.bytes(needs.peak);
        let budget = asked.map(|bytes| bytes.max(needs.largest));
        if budget != asked {
            let (asked, raised) = (asked.unwrap_or_default(), budget.unwrap_or_default());
            let of = &needs.of;
            note(format!("a budget of {asked} bytes is raised to {raised}, which {of} needs"));
        }
        let (run, samples) = run_once(&options, budget, &program, draws, progress)?;
        runs.push((Run { raised: budget != asked, ..run }, samples));
    }
    progress.end();

    let histories: Vec<_> = runs.iter().map(|(run, samples)| History { run, samples }).collect();
    if let Some((mut file, path)) = timeline {
        let written = timeline::write(&mut file, &program, &histories).and_then(|()| file.flush());
        written.map_err(|error| format!("{}: cannot be written: {error}", path.display()))?;
    }
    if let Some((mut file, path)) = trace_events {
        let written = perfetto::write(&mut file, &program, &histories).and_then(|()| file.flush());
        written.map_err(|error| format!("{}: cannot be written: {error}", path.display()))?;
    }
    let mut runs: Vec<Run> = runs.into_iter().map(|(run, _)| run).collect();
    let unlimited = runs.remove(0);
    let report = Report::new(&options, &program.name, &unlimited, &runs);
    if options.json {
        serde_json::to_writer(&mut *out, &report).map_err(io::Error::from).and_then(|()| writeln!(out))
    } else {
        table::write(out, (&options, clock), (&program, &needs), &report, &runs)
    }
    .and_then(|()| out.flush())
    .map_err(unwritten)?;
    Ok(if report.agrees() { Verdict::Agree } else { Verdict::Differ })
}

fn read(options: &Options) -> Result<Program, String> {
    let path = options.trace.as_deref().unwrap_or(Path::new(SMALL));
    let placed = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
    let trace = Trace::open(path).map_err(|error| placed(&error))?;
    let trace = if options.divisor == 1 { trace } else { trace.scaled(options.divisor) };
    Program::new(&trace).map_err(|what| placed(&what))
}

fn create(path: &PathBuf) -> Result<(BufWriter<File>, &PathBuf), String> {
    match File::create(path) {
        Ok(file) => Ok((BufWriter::new(file), path)),
        Err(error) => Err(format!("{}: cannot be written: {error}", path.display())),
    }
}

/// Runs the program once. Memory in use is looked at after each step only if it will be drawn.
fn run_once(
    options: &Options,
    budget: Option<u64>,
    program: &Program,
    draws: bool,
    progress: &mut Progress,
) -> Result<(Run, Vec<Sample>), String> {
    let every = program.end.div_ceil(SHOWN).max(1);
    let title = budget.map_or_else(|| "unlimited".to_owned(), |bytes| Size(bytes).to_string());
    progress.begin(title, program.end.div_ceil(every));
    let mut samples = Vec::new();
    let run = run::run(options, budget, program, &mut |device, place| {
        let shows = place % every == 0;
        if !shows && !draws {
            return;
        }
        let in_use = device.memory_info().in_use;
        if draws {
            samples.push((device.driver().now(), in_use));
        }
        if let (true, Step::Launch(launch)) = (shows, &program.steps[place]) {
            progress.show(&launch.name, in_use);
        } else if shows {
            progress.show("host", in_use);
        }
    })?;
    Ok((run, samples))
}
