//! Reads legacy `.vtk` files, versions 2.0 to 5.1, ASCII and binary.

mod arrays;
mod cursor;
mod grid;
mod sections;

use super::{Fault, Parts};
use cursor::{Cursor, Format};
use grid::Grid;
use sections::Sections;

/// Reads `bytes`, which start `skipped` bytes into the file.
pub fn read(bytes: &[u8], skipped: usize) -> Result<Parts, Fault> {
    let mut cursor = Cursor::new(bytes, skipped);
    let version = cursor.line();
    if !version.trim_start_matches('#').trim_start().to_ascii_lowercase().starts_with("vtk datafile version")
    {
        return Err(cursor.fault_before("is not \"# vtk DataFile Version ...\": this is no legacy .vtk file"));
    }
    check_version(&cursor, &version)?;
    cursor.line(); // the title
    match cursor.word("ASCII or BINARY")?.to_ascii_uppercase().as_str() {
        "ASCII" => cursor.format = Format::Ascii,
        "BINARY" => cursor.format = Format::Binary,
        _ => return Err(cursor.fault_before("names no format: ASCII or BINARY was expected")),
    }
    cursor.expect("DATASET")?;
    let dataset = cursor.word("the kind of dataset")?.to_ascii_uppercase();
    let grid = match dataset.as_str() {
        "UNSTRUCTURED_GRID" => Grid::Unstructured,
        "STRUCTURED_POINTS" => Grid::Points,
        "STRUCTURED_GRID" => Grid::Curved,
        "RECTILINEAR_GRID" => Grid::Rectilinear,
        _ => {
            return Err(cursor.fault_before(format!(
                "holds a {dataset} dataset, which is not supported: give an UNSTRUCTURED_GRID or a structured one"
            )));
        }
    };
    let mut sections = Sections::default();
    sections.read(&mut cursor)?;
    grid.parts(sections, bytes.len())
}

/// The layouts known here are those of versions 1.0 to 5.x.
fn check_version(cursor: &Cursor<'_>, line: &str) -> Result<(), Fault> {
    let number = line.split_ascii_whitespace().next_back().unwrap_or_default();
    let major = number.split('.').next().and_then(|major| major.parse::<u32>().ok());
    match major {
        Some(1..=5) => Ok(()),
        _ => Err(cursor.fault_before("names a version that is not supported: 2.0 to 5.1 are")),
    }
}
