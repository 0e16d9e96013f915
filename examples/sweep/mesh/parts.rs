//! A mesh as its file gives it, on the way to one that has been checked: the only maker of a [`Mesh`].

use super::{CellKind, Fault, Field, Mesh};

/// Cells above this are refused: a face is known by its cell and side in 32 bits.
const MOST_CELLS: usize = 1 << 29;

/// More entries of connectivity are refused: the edges of their cells are counted in 32 bits.
const MOST_LINKS: usize = 1 << 31;

const PIXEL: u64 = 8;
const QUAD: u8 = 9;
const VOXEL: u64 = 11;
const HEXAHEDRON: u8 = 12;

/// What a file holds. Nothing in it is checked yet.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    pub points: Vec<f64>,
    /// One more than there are cells; starts at 0.
    pub offsets: Vec<u64>,
    pub connectivity: Vec<u64>,
    pub types: Vec<u64>,
    pub field: Option<Field>,
}

impl Parts {
    /// Appends the points and cells of another piece of the same mesh.
    pub fn append(&mut self, piece: Parts) -> Result<(), Fault> {
        // Checked here too: an index outside its own piece would become one into another's points.
        piece.check_indices()?;
        if self.points.is_empty() && self.types.is_empty() {
            *self = piece;
            return Ok(());
        }
        if piece.points.is_empty() && piece.types.is_empty() {
            return Ok(());
        }
        let first_point = self.points.len() as u64 / 3;
        let last = self.offsets.last().copied().unwrap_or(0);
        match (&mut self.field, piece.field) {
            (Some(field), Some(more)) if field.name == more.name => field.values.extend(more.values),
            (None, None) => {}
            (Some(field), _) => {
                let name = field.name.clone();
                return Err(Fault::part(
                    format!("point array \"{name}\""),
                    "is not in every piece: give it to all",
                ));
            }
            (None, Some(more)) => {
                let name = more.name;
                return Err(Fault::part(
                    format!("point array \"{name}\""),
                    "is not in every piece: give it to all",
                ));
            }
        }
        self.points.extend(piece.points);
        self.types.extend(piece.types);
        self.offsets.extend(piece.offsets.iter().skip(1).map(|offset| offset.saturating_add(last)));
        self.connectivity.extend(piece.connectivity.iter().map(|point| point + first_point));
        Ok(())
    }

    /// The mesh, once every count, offset, index and coordinate has been checked.
    pub fn into_mesh(self) -> Result<Mesh, Fault> {
        let points = self.points.len() / 3;
        if points == 0 {
            return Err(Fault::file("has no points: there is nothing to work on"));
        }
        if self.types.is_empty() {
            return Err(Fault::file("has no cells: there is nothing to work on"));
        }
        if points >= u32::MAX as usize
            || self.connectivity.len() > MOST_LINKS
            || self.types.len() > MOST_CELLS
        {
            return Err(Fault::file(
                "is too large: at most 2^32 points, 2^31 entries of connectivity and 2^29 cells can be worked on",
            ));
        }
        if let Some(index) = self.points.iter().position(|coordinate| !coordinate.is_finite()) {
            return Err(Fault::part(format!("point {}", index / 3), "has a coordinate that is not finite"));
        }
        let (offsets, mut types) = self.check_cells()?;
        self.check_indices()?;
        let mut connectivity: Vec<u32> = self.connectivity.iter().map(|&point| point as u32).collect();
        unify(&offsets, &mut connectivity, &mut types);
        let field = match self.field {
            Some(field) if field.values.len() == points => field,
            Some(field) => {
                return Err(Fault::part(
                    format!("point array \"{}\"", field.name),
                    format!("has {} values for {points} points", field.values.len()),
                ));
            }
            None => distance(&self.points),
        };
        Ok(Mesh { points: self.points, offsets, connectivity, types, field })
    }

    fn check_indices(&self) -> Result<(), Fault> {
        let points = self.points.len() as u64 / 3;
        let Some(position) = self.connectivity.iter().position(|&point| point >= points) else {
            return Ok(());
        };
        let point = self.connectivity.get(position).copied().unwrap_or(0);
        let cell = self.offsets.partition_point(|&offset| offset <= position as u64).saturating_sub(1);
        Err(Fault::part(
            format!("cell {cell}"),
            format!("uses point {point}, which does not exist: there are {points} points"),
        ))
    }

    fn check_cells(&self) -> Result<(Vec<u32>, Vec<u8>), Fault> {
        let cells = self.types.len();
        if self.offsets.len() != cells + 1 {
            let found = self.offsets.len().saturating_sub(1);
            return Err(Fault::part("cell types", format!("number {cells}, but there are {found} cells")));
        }
        let mut offsets = Vec::with_capacity(cells + 1);
        let mut types = Vec::with_capacity(cells);
        for (cell, (span, &kind)) in self.offsets.windows(2).zip(&self.types).enumerate() {
            let fault = |problem: String| Fault::part(format!("cell {cell}"), problem);
            let (Some(&start), Some(&end)) = (span.first(), span.last()) else { continue };
            if cell == 0 && start != 0 {
                return Err(fault(format!("starts at offset {start}, where 0 was expected")));
            }
            if end < start || end > self.connectivity.len() as u64 {
                let links = self.connectivity.len();
                return Err(fault(format!(
                    "ends at offset {end}, which is below its start at {start} or past the {links} entries of connectivity"
                )));
            }
            let known = CellKind::from_number(kind).map_err(fault)?;
            let count = (end - start) as usize;
            if !known.allows(count) {
                let wanted = known.points.unwrap_or(0);
                return Err(fault(format!(
                    "is a {} of {count} points, where {wanted} were expected",
                    known.name
                )));
            }
            offsets.push(start as u32);
            types.push(kind as u8);
        }
        let end = self.offsets.last().copied().unwrap_or(0);
        if end != self.connectivity.len() as u64 {
            let links = self.connectivity.len();
            return Err(Fault::part(
                "cell offsets",
                format!("end at {end}, but connectivity has {links} entries"),
            ));
        }
        offsets.push(end as u32);
        Ok((offsets, types))
    }
}

/// Turns voxels into hexahedra and pixels into quads, so that every kind has one order of points.
fn unify(offsets: &[u32], connectivity: &mut [u32], types: &mut [u8]) {
    for (kind, &start) in types.iter_mut().zip(offsets) {
        let Some(points) = connectivity.get_mut(start as usize..) else { continue };
        if u64::from(*kind) == VOXEL && points.len() >= 8 {
            points.swap(2, 3);
            points.swap(6, 7);
            *kind = HEXAHEDRON;
        } else if u64::from(*kind) == PIXEL && points.len() >= 4 {
            points.swap(2, 3);
            *kind = QUAD;
        }
    }
}

/// The field of a mesh that brings none: how far each point is from the middle of all.
fn distance(points: &[f64]) -> Field {
    let count = (points.len() / 3).max(1) as f64;
    let mut middle = [0.0; 3];
    for (index, coordinate) in points.iter().enumerate() {
        middle[index % 3] += coordinate / count;
    }
    let values = points
        .chunks_exact(3)
        .map(|point| {
            point.iter().zip(middle).map(|(at, middle)| (at - middle) * (at - middle)).sum::<f64>().sqrt()
        })
        .collect();
    Field { name: "distance".into(), values }
}
