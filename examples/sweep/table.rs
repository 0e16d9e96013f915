//! The report for people, and the table of steps for programs.

use crate::{
    outcome::{Report, Run, Step},
    units::{Seconds, Size},
};
use std::io::{self, Write};

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
