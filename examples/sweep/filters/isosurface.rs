//! Isosurfaces of the field at three levels: triangles, three corners each, by marching tetrahedra.
//!
//! A cell is cut into tetrahedra from its centre to its faces, and a face always at its lowest corner, so that the
//! surface fits from cell to cell. Each corner lies on an edge and is worked out from the edge's lower end on, so that it
//! is the same to the bit in all cells around.

use super::{
    Filter, Made, Pass, Sizes,
    cells::{Cell, Cells, mean, position_of},
    level,
    vector::{Vector, add, middle, scale, sub},
};
use std::cmp::Reverse;

/// Triangles of a hexahedron at most: two from each of its twelve tetrahedra.
const MOST_TRIANGLES: usize = 24;

const LEVELS: [(&str, f64); 3] = [("quarter", 0.25), ("half", 0.5), ("three-quarters", 0.75)];

type Triangle = [[f32; 3]; 3];

pub fn filter(sizes: Sizes, range: [f64; 2]) -> Filter {
    let most = sizes.cells.saturating_mul(MOST_TRIANGLES);
    let mut filter = Filter { name: "isosurface", passes: Vec::new(), outputs: Vec::new() };
    for (name, part) in LEVELS {
        let value = level(range, part);
        let (total, triangles) = (format!("isosurface/{name}/count"), format!("isosurface/{name}/triangles"));
        filter.passes.extend([
            Pass::new("isosurface/count", move |reads, writes| {
                count(value, reads.take(), reads.cells(), writes.take())
            })
            .read("mesh/field")
            .read_cells()
            .make(Made::new::<u64>(total.clone(), 1)),
            Pass::new("isosurface/fill", move |reads, writes| {
                fill(value, reads.take(), reads.take(), reads.cells(), writes.take());
            })
            .read("mesh/points")
            .read("mesh/field")
            .read_cells()
            .make(Made::counted::<[f32; 9]>(triangles.clone(), total, [most, 1, 0])),
        ]);
        filter.outputs.push(triangles.into());
    }
    filter
}

/// A corner of a tetrahedron: a point of the mesh, or the centre of a cell.
#[derive(Clone, Copy)]
struct Corner {
    /// The point's number; above all of them for a centre.
    id: u32,
    value: f64,
}

const CENTRE: u32 = u32::MAX;

/// Calls `each` with the tetrahedra of `cell` that the surface at `value` cuts.
fn for_each_cut(value: f64, field: &[f64], cell: Cell<'_>, mut each: impl FnMut([Corner; 4])) {
    let Some(shape) = cell.shape() else { return };
    let corners = cell.corners();
    let corner = |local: usize| {
        let id = corners.get(local).copied().unwrap_or(0);
        Corner { id, value: field.get(id as usize).copied().unwrap_or(0.0) }
    };
    let above = (0..corners.len()).filter(|&local| corner(local).value >= value).count();
    if above == 0 || above == corners.len() {
        return;
    }
    if corners.len() == 4 {
        each([0, 1, 2, 3].map(corner));
        return;
    }
    let centre = Corner { id: CENTRE, value: mean(field, corners) };
    for face in shape.faces {
        let mut face = face.map(corner);
        let sides = if face[2].id == face[3].id { 3 } else { 4 };
        let face = &mut face[..sides];
        let lowest = (0..sides).min_by_key(|&side| face[side].id).unwrap_or(0);
        face.rotate_left(lowest);
        for pair in face[1..].windows(2) {
            each([centre, face[0], pair[0], pair[1]]);
        }
    }
}

/// The corners at or above `value` first, and how many they are.
fn split(value: f64, mut corners: [Corner; 4]) -> ([Corner; 4], usize) {
    corners.sort_by_key(|corner| (Reverse(corner.value >= value), corner.id));
    (corners, corners.iter().filter(|corner| corner.value >= value).count())
}

fn count(value: f64, field: &[f64], cells: Cells<'_>, total: &mut [u64]) {
    let mut found = 0;
    for cell in cells.iter() {
        for_each_cut(value, field, cell, |corners| found += [0, 1, 2, 1, 0][split(value, corners).1]);
    }
    total.fill(found);
}

fn fill(value: f64, points: &[f64], field: &[f64], cells: Cells<'_>, triangles: &mut [[f32; 9]]) {
    let mut triangles = triangles.iter_mut();
    for cell in cells.iter() {
        let (positions, corners) = cell.positions(points);
        let centre = middle(&positions[..corners]);
        let position =
            |corner: Corner| if corner.id == CENTRE { centre } else { position_of(points, corner.id) };
        let crossing = |a: Corner, b: Corner| -> [f32; 3] {
            let (low, high) = if a.id <= b.id { (a, b) } else { (b, a) };
            between(position(low), position(high), (value - low.value) / (high.value - low.value))
                .map(|part| part as f32)
        };
        for_each_cut(value, field, cell, |corners| {
            let ([a, b, c, d], above) = split(value, corners);
            let cut: [Option<Triangle>; 2] = match above {
                1 => [Some([crossing(a, b), crossing(a, c), crossing(a, d)]), None],
                2 => {
                    let [ac, ad, bc, bd] = [crossing(a, c), crossing(a, d), crossing(b, c), crossing(b, d)];
                    [Some([ac, ad, bd]), Some([ac, bd, bc])]
                }
                3 => [Some([crossing(a, d), crossing(b, d), crossing(c, d)]), None],
                _ => [None, None],
            };
            for triangle in cut.into_iter().flatten() {
                if let Some(place) = triangles.next() {
                    *place = bytemuck::cast(triangle);
                }
            }
        });
    }
}

fn between(low: Vector, high: Vector, part: f64) -> Vector {
    // A value that is no number leaves the corner at the edge's end.
    let part = if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 };
    add(low, scale(sub(high, low), part))
}
