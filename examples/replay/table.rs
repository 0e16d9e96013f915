//! The report for people.

use crate::{
    options::{Mode, Options},
    outcome::{Report, Row},
    program::{Needs, Program},
    run::Run,
    units::{Seconds, Size},
};
use std::{
    io::{self, Write},
    time::Duration,
};

/// Writes what was replayed, a line for each budget, the worst stalls, and whether the digests agree.
pub fn write(
    out: &mut dyn Write,
    (options, clock): (&Options, &str),
    (program, needs): (&Program, &Needs),
    report: &Report,
    runs: &[Run],
) -> io::Result<()> {
    let launches = program.launches().count();
    writeln!(
        out,
        "trace      {}: {} buffers, {launches} launches, kernels {}, peak {}, largest {} ({})",
        report.trace,
        program.ids.len(),
        Seconds(program.kernels().as_secs_f64()),
        Size(needs.peak),
        Size(needs.largest),
        needs.of
    )?;
    writeln!(out, "device     {}, on {clock} clock", report.device)?;
    match options.mode {
        Mode::Async => writeln!(out, "through    the asynchronous API, look-ahead {}", report.look_ahead)?,
        Mode::Facade => writeln!(out, "through    the blocking facade")?,
    }
    writeln!(out, "copies     {}\n", report.policy)?;
    writeln!(
        out,
        "{:>10} {:>10} {:>8} {:>7} {:>8} {:>9} {:>9} {:>9} {:>9} {:>7} {:>10}",
        "budget",
        "time",
        "slowdown",
        "spills",
        "restores",
        "spilled",
        "restored",
        "out",
        "in",
        "hidden",
        "stalls"
    )?;
    write_row(out, &report.unlimited, "")?;
    for (row, run) in report.rows.iter().zip(runs) {
        write_row(out, row, if run.raised { " *" } else { "" })?;
    }
    if runs.iter().any(|run| run.raised) {
        writeln!(out, "* raised to the largest launch or buffer")?;
    }
    for run in runs {
        write_stalls(out, run, program)?;
    }
    match (&report.unlimited.digest, report.agrees()) {
        (None, _) => writeln!(out, "\ndigest     none: no bytes were held"),
        (Some(digest), true) => writeln!(out, "\ndigest     {digest} at every budget"),
        (Some(digest), false) => {
            writeln!(out, "\ndigest     DIFFERS: {digest} unlimited")?;
            for row in &report.rows {
                let digest = row.digest.as_deref().unwrap_or("none");
                writeln!(out, "           {digest} at {}", Budget(row.budget_bytes))?;
            }
            Ok(())
        }
    }
}

fn write_row(out: &mut dyn Write, row: &Row, mark: &str) -> io::Result<()> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    writeln!(
        out,
        "{:>10} {:>10} {:>8} {:>7} {:>8} {:>9} {:>9} {:>9} {:>9} {:>7} {:>10}{mark}",
        Budget(row.budget_bytes),
        Seconds(row.seconds),
        or_dash(row.slowdown.map(|slowdown| format!("{slowdown:.3}"))),
        row.spills,
        row.restores,
        Size(row.spilled_bytes),
        Size(row.restored_bytes),
        Size(row.copied_out_bytes),
        Size(row.copied_in_bytes),
        or_dash(row.hidden.map(|hidden| format!("{:.1}%", hidden * 100.0))),
        or_dash(row.stall_seconds.map(|seconds| Seconds(seconds).to_string())),
    )
}

/// A budget in at most eight characters.
struct Budget(Option<u64>);

impl std::fmt::Display for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(bytes) => Size(bytes).fmt(f),
            None => f.pad("unlimited"),
        }
    }
}

fn write_stalls(out: &mut dyn Write, run: &Run, program: &Program) -> io::Result<()> {
    let Some(record) = run.record.as_ref().filter(|record| !record.stalls.gaps.is_empty()) else {
        return Ok(());
    };
    let stalls = &record.stalls;
    let seconds = |time: Duration| Seconds(time.as_secs_f64());
    writeln!(
        out,
        "\nstalls at {}: {} in {} gaps; copies ran out alone {}, in alone {}, both ways {}; idle otherwise {}",
        Budget(run.budget),
        seconds(stalls.total),
        stalls.gaps.len(),
        seconds(stalls.out_alone),
        seconds(stalls.in_alone),
        seconds(stalls.both_ways),
        seconds(stalls.idle)
    )?;
    for stall in stalls.worst() {
        writeln!(out, "{:>10}  {}", seconds(stall.copying), stall.describe(program))?;
    }
    Ok(())
}
