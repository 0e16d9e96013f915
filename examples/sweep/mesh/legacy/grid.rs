//! Makes points and cells out of the sections of a legacy file; structured grids become hexahedra, quads or lines.

use super::{
    super::{Fault, Parts},
    sections::Sections,
};

/// A grid whose points are not written out may have this many even if its file is small.
const IMPLICIT_POINTS: usize = 1 << 20;

/// How the file describes its points and cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grid {
    Unstructured,
    /// Evenly spaced points: origin and spacing.
    Points,
    /// Points written out, in rows, columns and layers.
    Curved,
    /// One list of coordinates an axis.
    Rectilinear,
}

impl Grid {
    /// The points and cells that `sections` of a file of `file_bytes` describe.
    pub fn parts(self, mut sections: Sections, file_bytes: usize) -> Result<Parts, Fault> {
        let field = sections.field.take();
        if self == Grid::Unstructured {
            let points = sections.points.ok_or_else(|| missing("POINTS"))?;
            let offsets = match sections.offsets.ok_or_else(|| missing("CELLS"))? {
                empty if empty.is_empty() => vec![0],
                offsets => offsets,
            };
            let types = match sections.types {
                Some(types) => types,
                None if offsets.len() == 1 => Vec::new(),
                None => return Err(missing("CELL_TYPES")),
            };
            return Ok(Parts { points, offsets, connectivity: sections.connectivity, types, field });
        }
        let dimensions = sections.dimensions.ok_or_else(|| missing("DIMENSIONS"))?;
        if dimensions.contains(&0) {
            return Err(Fault::part("DIMENSIONS", format!("{dimensions:?} are no points at all")));
        }
        let total = dimensions.iter().try_fold(1_usize, |total, &dimension| total.checked_mul(dimension));
        let limit = file_bytes.max(IMPLICIT_POINTS);
        let Some(total) = total.filter(|&total| total <= limit) else {
            return Err(Fault::part(
                "DIMENSIONS",
                format!("{dimensions:?} are more points than a file of this size can carry"),
            ));
        };
        let points = match self {
            Grid::Curved => sections.points.ok_or_else(|| missing("POINTS"))?,
            _ => lattice(&self.axes(sections, dimensions)?, total),
        };
        if points.len() != total * 3 {
            let found = points.len() / 3;
            return Err(Fault::part(
                "DIMENSIONS",
                format!("{dimensions:?} are {total} points, but POINTS has {found}"),
            ));
        }
        let mut parts = Parts { points, field, ..Parts::default() };
        structured_cells(dimensions, &mut parts);
        Ok(parts)
    }

    /// The coordinates along each axis of a grid that does not write its points out.
    fn axes(self, sections: Sections, dimensions: [usize; 3]) -> Result<[Vec<f64>; 3], Fault> {
        if self == Grid::Rectilinear {
            for (axis, dimension) in sections.axes.iter().zip(dimensions) {
                if axis.len() != dimension {
                    let found = axis.len();
                    return Err(Fault::part(
                        "DIMENSIONS",
                        format!("asks for {dimension} coordinates along an axis that has {found}"),
                    ));
                }
            }
            return Ok(sections.axes);
        }
        let spacing = sections.spacing.ok_or_else(|| missing("SPACING"))?;
        let mut axes = [Vec::new(), Vec::new(), Vec::new()];
        for (axis, ((dimension, origin), spacing)) in
            axes.iter_mut().zip(dimensions.into_iter().zip(sections.origin).zip(spacing))
        {
            *axis = (0..dimension).map(|index| origin + spacing * index as f64).collect();
        }
        Ok(axes)
    }
}

fn missing(section: &str) -> Fault {
    Fault::file(format!("has no {section} section: it may be truncated"))
}

fn lattice([xs, ys, zs]: &[Vec<f64>; 3], total: usize) -> Vec<f64> {
    let mut points = Vec::with_capacity(total * 3);
    for z in zs {
        for y in ys {
            for x in xs {
                points.extend([x, y, z]);
            }
        }
    }
    points
}

/// The cells between the points of a grid: of as many dimensions as it has axes of more than one point.
fn structured_cells(dimensions: [usize; 3], parts: &mut Parts) {
    let steps = [1, dimensions[0], dimensions[0] * dimensions[1]];
    let wide: Vec<usize> = (0..3).filter(|&axis| dimensions[axis] > 1).collect();
    let corners: Vec<usize> = match wide.as_slice() {
        [] => vec![0],
        [a] => vec![0, steps[*a]],
        [a, b] => quad(steps[*a], steps[*b]).to_vec(),
        [a, b, c, ..] => {
            let floor = quad(steps[*a], steps[*b]);
            floor.into_iter().chain(floor.map(|corner| corner + steps[*c])).collect()
        }
    };
    let kind = [1, 3, 9, 12][wide.len().min(3)];
    let [across, along, up] =
        dimensions.map(|dimension| if dimension > 1 { dimension - 1 } else { dimension });
    parts.offsets.push(0);
    for z in 0..up {
        for y in 0..along {
            for x in 0..across {
                let first = x + y * steps[1] + z * steps[2];
                parts.connectivity.extend(corners.iter().map(|corner| (first + corner) as u64));
                parts.offsets.push(parts.connectivity.len() as u64);
                parts.types.push(kind);
            }
        }
    }
}

fn quad(a: usize, b: usize) -> [usize; 4] {
    [0, a, a + b, b]
}
