//! The sweep: dataset filters over a mesh whose arrays do not fit on the device.
//!
//! `sweep [MESH]` runs with unlimited memory first, then under a budget, and compares every output byte for byte.
//! `sweep --help` tells the options.

mod api;
mod budget;
mod corrupt;
mod cost;
mod figures;
mod filters;
mod mesh;
mod options;
mod outcome;
mod progress;
#[cfg(test)]
mod random;
mod run;
mod table;
#[cfg(test)]
mod tests;
mod units;

use api::{Async, Facade};
use futures::FutureExt;
use mesh::Mesh;
use options::{Options, Request};
use outcome::{Report, Run};
use progress::Progress;
use std::{
    ffi::OsString,
    fs::File,
    io::{self, Write},
    process::ExitCode,
};
use units::Size;

/// What a sweep that came to its end found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Identical,
    Different,
}

fn main() -> ExitCode {
    let mut progress = Progress::on_stderr();
    match perform(std::env::args_os().skip(1), &mut io::stdout().lock(), &mut progress) {
        Ok(Verdict::Identical) => ExitCode::SUCCESS,
        Ok(Verdict::Different) => ExitCode::FAILURE,
        Err(problem) => {
            progress.end();
            // With the standard error closed, the status is all there is to tell.
            let _ = writeln!(io::stderr(), "sweep: {problem}");
            ExitCode::from(2)
        }
    }
}

/// Does what a command line asks for.
///
/// # Errors
///
/// Why there is nothing to compare.
fn perform(
    words: impl IntoIterator<Item = OsString>,
    out: &mut dyn Write,
    progress: &mut Progress,
) -> Result<Verdict, String> {
    let unwritten = |error| format!("the report cannot be written: {error}");
    let options = match Request::parse(words)? {
        Request::Sweep(options) => options,
        Request::Help => {
            write!(out, "{}", options::HELP).map_err(unwritten)?;
            return Ok(Verdict::Identical);
        }
    };
    check_device(&options)?;
    let csv = options.csv.as_ref().map(|path| match File::create(path) {
        Ok(file) => Ok((file, path)),
        Err(error) => Err(format!("{}: cannot be written: {error}", path.display())),
    });
    let csv = csv.transpose()?;
    let mesh = match &options.mesh {
        Some(path) => Mesh::read(path).map_err(|error| error.to_string())?,
        None => mesh::ahmed_body(options.cells).map_err(|fault| fault.to_string())?,
    };

    progress.begin("unlimited", steps(&mesh));
    let unlimited = run_once(&Options { self_test: None, ..options.clone() }, None, &mesh, progress)?;
    let budget = budget(&options, &unlimited)?;
    progress.begin(budget.map_or("unlimited".to_owned(), |bytes| Size(bytes).to_string()), steps(&mesh));
    let budgeted = run_once(&options, budget, &mesh, progress)?;
    progress.end();

    let report = Report::new(&options.device, options.facade, unlimited, budgeted.clone());
    if let Some((mut file, path)) = csv {
        table::write_csv(&mut file, &report.steps)
            .map_err(|error| format!("{}: cannot be written: {error}", path.display()))?;
    }
    if options.json {
        serde_json::to_writer(&mut *out, &report).map_err(io::Error::from).and_then(|()| writeln!(out))
    } else {
        table::write_report(out, &report, &source(&options), &budgeted)
    }
    .and_then(|()| out.flush())
    .map_err(unwritten)?;
    Ok(if report.identical { Verdict::Identical } else { Verdict::Different })
}

/// Finds out early whether the device opens, and can do what is asked of it.
fn check_device(options: &Options) -> Result<(), String> {
    let device = Async::open(&options.device, None).map_err(|error| error.to_string())?.0;
    match options.self_test {
        Some(_) if corrupt::corruptible(&device).is_none() => Err(format!(
            "--self-test corrupt: {} cannot be made to give wrong bytes: take sim",
            options.device
        )),
        _ => Ok(()),
    }
}

/// How many steps a run shows: the inputs, the filters, and reading back.
fn steps(mesh: &Mesh) -> usize {
    filters::plan(mesh).len() + 2
}

/// The budget in bytes, none if the second run is unlimited too.
///
/// # Errors
///
/// The budget is less than the arrays of one launch take.
fn budget(options: &Options, unlimited: &Run) -> Result<Option<u64>, String> {
    let (peak, largest) = (unlimited.memory.peak, unlimited.largest);
    let Some(bytes) = options.budget.bytes(peak) else { return Ok(None) };
    if bytes < largest.bytes {
        return Err(format!(
            "a budget of {bytes} bytes ({}) is too small: one launch, {}, needs {} bytes ({}) at least",
            Size(bytes),
            largest.name,
            largest.bytes,
            Size(largest.bytes)
        ));
    }
    Ok(Some(bytes))
}

fn run_once(
    options: &Options,
    budget: Option<u64>,
    mesh: &Mesh,
    progress: &mut Progress,
) -> Result<Run, String> {
    let run = if options.facade {
        let device = Facade::open(&options.device, budget).map_err(|error| error.to_string())?;
        run::run(&device, mesh, options.self_test, progress)
            .now_or_never()
            .ok_or("a call of the facade returned before it had ended")?
    } else {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.map_err(|error| format!("no runtime could be started: {error}"))?;
        let device = Async::open(&options.device, budget).map_err(|error| error.to_string())?;
        runtime.block_on(run::run(&device, mesh, options.self_test, progress))
    };
    run.map_err(|error| error.to_string())
}

fn source(options: &Options) -> String {
    match &options.mesh {
        Some(path) => path.display().to_string(),
        None => format!("the air around the Ahmed body, {} cells along it", options.cells),
    }
}
