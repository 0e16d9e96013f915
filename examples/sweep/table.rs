//! The report for people, and the table of steps for programs.

use crate::outcome::{Report, Run, Step};
use std::{
    fmt::{self, Display},
    io::{self, Write},
};

/// Bytes in binary units, in at most eight characters.
#[derive(Clone, Copy, Debug)]
pub struct Size(pub u64);

impl Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let mut size = self.0 as f64;
        let mut unit = "B";
        for larger in UNITS {
            if size < 999.5 {
                break;
            }
            (size, unit) = (size / 1024.0, larger);
        }
        let digits = if unit == "B" || size >= 99.95 { 0 } else { 1 };
        f.pad(&format!("{size:.digits$} {unit}"))
    }
}

/// Seconds, in at most eight characters.
#[derive(Clone, Copy, Debug)]
pub struct Seconds(pub f64);

impl Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&if self.0 < 0.9995 { format!("{:.2} ms", self.0 * 1e3) } else { format!("{:.3} s", self.0) })
    }
}

/// Writes the report: the mesh, the two runs, the steps of the second, and whether the outputs are identical.
pub fn write_report(out: &mut dyn Write, report: &Report, source: &str, budgeted: &Run) -> io::Result<()> {
    let mesh = &report.mesh;
    writeln!(out, "mesh       {source}")?;
    writeln!(
        out,
        "           {} points, {} cells, {} point links, {} boundary faces, {} edges, volume {}",
        mesh.points, mesh.cells, mesh.point_links, mesh.boundary_faces, mesh.edges, mesh.volume
    )?;
    let api = if report.facade { "blocking facade" } else { "asynchronous API" };
    writeln!(out, "device     {}, through the {api}", report.device)?;
    let (unlimited, budget) = (&report.unlimited, &report.budget);
    writeln!(out, "unlimited  {}, peak {}", Seconds(unlimited.seconds), Size(unlimited.peak_bytes))?;
    match budget.bytes {
        Some(bytes) => write!(out, "budget     {}: ", Size(bytes))?,
        None => write!(out, "no budget  ")?,
    }
    writeln!(out, "{}, peak {}\n", Seconds(budget.seconds), Size(budget.peak_bytes))?;
    writeln!(
        out,
        "{:12} {:>10} {:>10} {:>7} {:>9} {:>10} {:>10}",
        "step", "time", "peak", "spills", "restores", "spilled", "restored"
    )?;
    for step in &report.steps {
        write_step(out, step)?;
    }
    let total = Step {
        name: "total",
        seconds: budget.seconds,
        peak_bytes: budget.peak_bytes,
        spills: budget.spills,
        restores: budget.restores,
        spilled_bytes: budget.spilled_bytes,
        restored_bytes: budget.restored_bytes,
    };
    write_step(out, &total)?;
    let memory = &budgeted.memory;
    writeln!(
        out,
        "\ncopies     {} out and {} in; {} were not needed",
        Size(memory.copied_out_bytes),
        Size(memory.copied_in_bytes),
        memory.copies_avoided
    )?;
    writeln!(out, "ledger     {memory}")?;
    for (index, holder) in budgeted.holders.iter().enumerate() {
        writeln!(out, "{:10} {holder}", if index == 0 { "on device" } else { "" })?;
    }
    let arrays = report.budget.outputs.len();
    if report.identical {
        writeln!(out, "outputs    identical: all {arrays} arrays, byte for byte")
    } else {
        writeln!(out, "outputs    NOT identical: {}", report.differing().join(", "))
    }
}

fn write_step(out: &mut dyn Write, step: &Step) -> io::Result<()> {
    writeln!(
        out,
        "{:12} {:>10} {:>10} {:>7} {:>9} {:>10} {:>10}",
        step.name,
        Seconds(step.seconds),
        Size(step.peak_bytes),
        step.spills,
        step.restores,
        Size(step.spilled_bytes),
        Size(step.restored_bytes)
    )
}

/// Writes the steps as comma-separated values. No name has a comma in it.
pub fn write_csv(out: &mut dyn Write, steps: &[Step]) -> io::Result<()> {
    writeln!(out, "step,seconds,peak_bytes,spills,restores,spilled_bytes,restored_bytes")?;
    for step in steps {
        let Step { name, seconds, peak_bytes, spills, restores, spilled_bytes, restored_bytes } = step;
        writeln!(out, "{name},{seconds},{peak_bytes},{spills},{restores},{spilled_bytes},{restored_bytes}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_seconds_keep_to_their_columns() {
        for (bytes, wanted) in [
            (0, "0 B"),
            (999, "999 B"),
            (1023, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (102_300, "99.9 KiB"),
            (102_400, "100 KiB"),
            (1_048_575, "1.0 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(Size(bytes).to_string(), wanted, "{bytes}");
        }
        assert_eq!(Seconds(0.0123456).to_string(), "12.35 ms");
        assert_eq!(Seconds(0.9996).to_string(), "1.000 s");
        assert_eq!(format!("{:>10}", Size(512)), "     512 B");
    }
}
