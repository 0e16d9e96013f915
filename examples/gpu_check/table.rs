//! The report for people.

use crate::{
    figures::{Figure, Unit},
    job::{Ended, Outcome},
    replay::Replay,
    report::Report,
    units::{Seconds, Size},
};
use std::io::{self, Write};

/// Writes everything.
pub fn write(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    writeln!(out, "device     {}: {}", report.device, report.description)?;
    writeln!(out, "kernels    {}\n", report.kernels)?;
    for ended in &report.checks {
        writeln!(out, "{}", line(ended))?;
    }
    if let Some(replay) = &report.replay {
        write_replay(out, replay)?;
    }
    if !report.figures.is_empty() {
        writeln!(out, "\n{:<36} {:>12} {:>14} {:>7}", "figure", "the crate", "its driver", "share")?;
        report.figures.iter().try_for_each(|figure| write_figure(out, figure))?;
    }
    let (failed, seconds) = (&report.failed, Seconds(report.seconds));
    writeln!(out, "\n{} checks in {seconds}, {} failed", report.checks.len(), failed.len())?;
    failed.iter().try_for_each(|name| writeln!(out, "FAILED  {name}"))
}

/// One check.
pub fn line(ended: &Ended) -> String {
    let word = match ended.outcome {
        Outcome::Ok => "ok",
        Outcome::Skipped => "SKIPPED",
        Outcome::Failed => "FAILED",
        Outcome::Hung => "HUNG",
    };
    format!("{word:<7} {:<50} {:>9}  {}", ended.name, Seconds(ended.seconds), ended.said)
}

fn write_replay(out: &mut dyn Write, replay: &Replay) -> io::Result<()> {
    writeln!(
        out,
        "\nreplay     {}: {} buffers, {} launches, peak {}, budget {}, look-ahead {}",
        replay.trace,
        replay.buffers,
        replay.launches,
        Size(replay.peak_bytes),
        Size(replay.budget_bytes),
        replay.look_ahead
    )?;
    writeln!(
        out,
        "{:<28} {:>10} {:>7} {:>8} {:>9} {:>9}  digest",
        "", "time", "spills", "restores", "out", "in"
    )?;
    for pass in &replay.passes {
        writeln!(
            out,
            "{:<28} {:>10} {:>7} {:>8} {:>9} {:>9}  {}",
            pass.name,
            Seconds(pass.seconds),
            pass.spills,
            pass.restores,
            Size(pass.copied_out_bytes),
            Size(pass.copied_in_bytes),
            pass.digest
        )?;
    }
    let hidden = replay.hidden.map_or_else(|| "-".to_owned(), |hidden| format!("{:.1}%", hidden * 100.0));
    writeln!(out, "hidden     {hidden} of the copies, by {}", replay.hidden_told_by)?;
    writeln!(out, "digests    {}", if replay.agrees { "agree" } else { "DIFFER" })
}

fn write_figure(out: &mut dyn Write, figure: &Figure) -> io::Result<()> {
    let written = |value: f64| match figure.unit {
        Unit::GigabytesPerSecond => format!("{value:.2} GB/s"),
        Unit::Nanoseconds if value < 9_999.5 => format!("{value:.0} ns"),
        Unit::Nanoseconds => format!("{:.1} µs", value / 1e3),
    };
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let (raw, share) = (figure.raw.map(written), figure.share.map(|share| format!("{share:.3}")));
    writeln!(
        out,
        "{:<36} {:>12} {:>14} {:>7}",
        figure.name,
        written(figure.value),
        or_dash(raw),
        or_dash(share)
    )
}
