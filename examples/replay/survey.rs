//! Every trace of a folder at half of what it holds, on two devices and in several ways: one table, in Markdown.

use crate::{
    options::{Bytes, Mode, Options, WriteBack},
    outcome::Row,
    program::Program,
    progress::Progress,
    read, run_once,
};
use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};
use tack_residency::Victims;

const DEVICES: [&str; 2] = ["sim:pcie4", "sim:pcie5"];

const HEAD: &str = "\
| trace | device | way | seconds | against unlimited | hidden | out, GB | in, GB | against the bound | stalls, s | out alone | in alone |
|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|";

/// A way to run a program: its name, and what it changes.
struct Way {
    name: &'static str,
    mode: Mode,
    look_ahead: usize,
    write_back: WriteBack,
    victims: Victims,
}

impl Way {
    const fn ahead(name: &'static str, look_ahead: usize) -> Way {
        let victims = Victims::LeastRecentlyUsed;
        Way { name, mode: Mode::Async, look_ahead, write_back: WriteBack::On, victims }
    }
}

const WAYS: [Way; 6] = [
    Way { mode: Mode::Facade, write_back: WriteBack::Off, ..Way::ahead("facade", 0) },
    Way::ahead("4 ahead", 4),
    Way::ahead("16 ahead", 16),
    Way::ahead("64 ahead", 64),
    Way { write_back: WriteBack::Off, ..Way::ahead("64 ahead, no write-back", 64) },
    Way { victims: Victims::NextUse, ..Way::ahead("64 ahead, next use", 64) },
];

/// Writes the table of all traces in `folder`.
///
/// # Errors
///
/// There is no trace, or one cannot be replayed.
pub fn write(folder: &Path, out: &mut dyn Write, progress: &mut Progress) -> Result<(), String> {
    let unwritten = |error: io::Error| format!("the table cannot be written: {error}");
    let notes = fs::read_to_string(folder.join("README.md")).unwrap_or_default();
    writeln!(out, "{HEAD}").map_err(unwritten)?;
    for path in traces(folder)? {
        let mut options = Options::default();
        (options.trace, options.bytes) = (Some(path), Some(Bytes::None));
        let program = read(&options)?;
        for device in DEVICES {
            device.clone_into(&mut options.device);
            survey(&options, &program, bound(&notes, &program.name), out, progress)?;
        }
    }
    progress.end();
    out.flush().map_err(unwritten)
}

fn survey(
    options: &Options,
    program: &Program,
    bound: Option<f64>,
    out: &mut dyn Write,
    progress: &mut Progress,
) -> Result<(), String> {
    let needs = program.needs(1);
    let budget = Some((needs.peak / 2).max(needs.largest));
    let (unlimited, _) = run_once(&options.clone().ahead(64), None, program, false, progress)?;
    for way in &WAYS {
        let mut options = options.clone().ahead(way.look_ahead);
        (options.mode, options.write_back, options.victims) = (way.mode, way.write_back, way.victims);
        let (run, _) = run_once(&options, budget, program, false, progress)?;
        let row = Row::new(&run, &unlimited);
        let gigabytes = |bytes: u64| bytes as f64 / 1e9;
        let moved = gigabytes(row.copied_out_bytes + row.copied_in_bytes);
        let or_dash = |number: Option<f64>, digits: usize| {
            number.map_or_else(|| "-".to_owned(), |number| format!("{number:.digits$}"))
        };
        let stalls = run.record.as_ref().map(|record| &record.stalls);
        writeln!(
            out,
            "| {} | {} | {} | {:.4} | {} | {} | {:.2} | {:.2} | {} | {} | {} | {} |",
            program.name,
            options.device.trim_start_matches("sim:"),
            way.name,
            row.seconds,
            or_dash(row.slowdown, 3),
            or_dash(row.hidden.map(|hidden| hidden * 100.0), 1),
            gigabytes(row.copied_out_bytes),
            gigabytes(row.copied_in_bytes),
            or_dash(bound.map(|bound| moved / bound), 2),
            or_dash(row.stall_seconds, 4),
            or_dash(stalls.map(|stalls| stalls.out_alone.as_secs_f64()), 4),
            or_dash(stalls.map(|stalls| stalls.in_alone.as_secs_f64()), 4),
        )
        .map_err(|error| format!("the table cannot be written: {error}"))?;
    }
    Ok(())
}

fn traces(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let listed = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = listed.flatten().map(|entry| entry.path()).collect();
    let is_trace = |path: &PathBuf| {
        let name = path.to_string_lossy();
        name.ends_with(".jsonl") || name.ends_with(".jsonl.gz")
    };
    paths.retain(is_trace);
    paths.sort();
    if paths.is_empty() { Err(format!("{}: there is no trace in it", folder.display())) } else { Ok(paths) }
}

/// The fewest gigabytes that any policy moves, where the folder's notes say so: `NAME 18.3 GB` or `NAME 7.7`.
fn bound(notes: &str, name: &str) -> Option<f64> {
    notes.match_indices(name).find_map(|(at, _)| {
        let word = notes[at + name.len()..].strip_prefix(' ')?.split([' ', ',', '\n']).next()?;
        word.trim_end_matches('.').parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_found_among_other_numbers() {
        let notes = "| a_b | 7 |\nthan, at 50 %: a_b 18.3 GB, c 7.7, d 9.\n";
        assert_eq!(bound(notes, "a_b"), Some(18.3));
        assert_eq!(bound(notes, "c"), Some(7.7));
        assert_eq!(bound(notes, "d"), Some(9.0));
        assert_eq!(bound(notes, "e"), None);
    }

    #[test]
    fn a_folder_of_traces_becomes_a_table_of_all_ways() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/replay");
        let mut table = Vec::new();
        write(&folder, &mut table, &mut Progress::nowhere()).expect("a table");
        let table = String::from_utf8(table).expect("text");
        assert_eq!(table.lines().count(), 2 + DEVICES.len() * WAYS.len(), "{table}");
        let seconds = |line: &str| line.split('|').nth(4).and_then(|cell| cell.trim().parse::<f64>().ok());
        let times: Vec<f64> = table.lines().skip(2).filter_map(seconds).collect();
        for device in times.chunks(WAYS.len()) {
            assert!(device[1..].iter().all(|time| *time <= device[0]), "slower than the facade: {table}");
        }
        assert!(write(&folder.join("player"), &mut Vec::new(), &mut Progress::nowhere()).is_err());
    }
}
