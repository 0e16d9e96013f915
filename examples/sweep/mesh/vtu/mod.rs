//! Reads XML `.vtu` files: inline or appended data, as text, base64 or raw bytes, compressed by zlib, by lz4 or not at all.

mod array;
mod blocks;
mod document;
mod source;

use super::{Fault, Field, Parts};
use array::{DataArray, Section};
use document::{Document, Piece};

/// Reads `bytes`, which start `skipped` bytes into the file.
pub fn read(bytes: &[u8], skipped: usize) -> Result<Parts, Fault> {
    let document = Document::parse(bytes, skipped)?;
    let mut mesh = Parts::default();
    // The first piece with points says which array is the field; the others must have it too.
    let field = document
        .pieces
        .iter()
        .find(|piece| piece.points > 0)
        .and_then(|piece| piece.arrays.iter().find(|array| array.is_scalar()))
        .map(|array| array.name.clone());
    for piece in &document.pieces {
        mesh.append(read_piece(&document, piece, field.as_deref())?)?;
    }
    Ok(mesh)
}

fn read_piece(document: &Document<'_>, piece: &Piece<'_>, field: Option<&str>) -> Result<Parts, Fault> {
    let mut parts = Parts { offsets: vec![0], ..Parts::default() };
    if piece.points > 0 {
        // The array of points is known by its section; its name is up to the writer.
        let points = piece.arrays.iter().find(|array| array.section == Section::Points);
        let points = points.ok_or_else(|| piece.missing("Points"))?;
        if points.components != 3 {
            return Err(points.fault(format!("has {} components, where 3 were expected", points.components)));
        }
        parts.points = points.floats(document, piece.points.saturating_mul(3))?;
        if let Some(name) = field {
            let array =
                piece.arrays.iter().find(|array| array.section == Section::PointData && array.name == name);
            let array = array.ok_or_else(|| piece.missing(name))?;
            parts.field =
                Some(Field { name: name.to_owned(), values: array.floats(document, piece.points)? });
        }
    }
    if piece.cells > 0 {
        parts.offsets.extend(piece.cell_array("offsets")?.indices(document, piece.cells)?);
        parts.types = piece.cell_array("types")?.indices(document, piece.cells)?;
        let links = parts.offsets.last().copied().unwrap_or(0);
        let links = usize::try_from(links).unwrap_or(usize::MAX);
        parts.connectivity = piece.cell_array("connectivity")?.indices(document, links)?;
    }
    Ok(parts)
}

impl<'a> Piece<'a> {
    fn cell_array(&self, name: &str) -> Result<&DataArray<'a>, Fault> {
        let named = |array: &&DataArray<'_>| array.section == Section::Cells && array.name == name;
        self.arrays.iter().find(named).ok_or_else(|| self.missing(name))
    }

    fn missing(&self, array: &str) -> Fault {
        Fault::part(format!("piece {}", self.number), format!("has no array \"{array}\""))
    }
}
