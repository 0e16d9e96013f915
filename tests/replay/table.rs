//! The right values as the folder of traces states them.

use crate::lru::Figures;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The traces of real programs, where this machine has them.
pub fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/traces");
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("SKIPPED: the traces of real programs are not at {}", folder.display());
    None
}

/// One line of the table.
#[derive(Debug)]
pub struct Row {
    pub name: String,
    pub budget: u64,
    pub plain: Figures,
    pub aware: Figures,
}

/// All lines of the table in the folder's own description.
pub fn rows(folder: &Path) -> Vec<Row> {
    let text = fs::read_to_string(folder.join("README.md")).expect("a description of the traces");
    let rows: Vec<Row> = text.lines().filter_map(row).collect();
    assert!(!rows.is_empty(), "the description of the traces has no table of right values");
    rows
}

fn row(line: &str) -> Option<Row> {
    let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
    let [name, budget, figures @ ..] = &cells[..] else { return None };
    let budget = budget.trim_end_matches('*').trim().parse().ok()?;
    let figures: Vec<u64> = figures.iter().map(|cell| cell.parse().ok()).collect::<Option<_>>()?;
    let &[spills, spilled, restores, restored, out, back, peak] = &figures[..] else { return None };
    let aware = Figures { spills, spilled, restores, restored, out, back, peak };
    Some(Row {
        name: (*name).to_owned(),
        budget,
        plain: Figures { out: spilled, back: restored, ..aware },
        aware,
    })
}
