//! The gradient of the field: in each cell by least squares over its corners, then at each point the mean of the cells
//! around it, weighted by their volumes. Exact for linear fields. Zero in cells without a volume.

use super::{
    Filter, Made, Pass, Sizes, buckets,
    cells::{Cell, Cells, mean},
    vector::{Vector, add, cross, dot, middle, scale, sub},
};

/// Three rows whose product is smaller than this, next to their own lengths, lie in a plane.
const FLAT: f64 = 1e-12;

pub fn filter(sizes: Sizes) -> Filter {
    Filter {
        name: "gradient",
        passes: vec![
            Pass::new("gradient/cells", |reads, writes| {
                in_cells(reads.take(), reads.take(), reads.cells(), writes.take())
            })
            .read("mesh/points")
            .read("mesh/field")
            .read_cells()
            .make(Made::new::<[f64; 3]>("gradient/cells", sizes.cells)),
            Pass::new("gradient/points", |reads, writes| {
                at_points(reads.take(), reads.take(), reads.take(), reads.take(), writes.take());
            })
            .read("links/offsets")
            .read("links/cells")
            .read("volumes")
            .read("gradient/cells")
            .make(Made::new::<[f64; 3]>("gradient/points", sizes.points)),
        ],
        outputs: vec!["gradient/cells".into(), "gradient/points".into()],
    }
}

fn in_cells(points: &[f64], field: &[f64], cells: Cells<'_>, gradients: &mut [Vector]) {
    for (gradient, cell) in gradients.iter_mut().zip(cells.iter()) {
        *gradient = in_cell(points, field, cell).unwrap_or([0.0; 3]);
    }
}

fn in_cell(points: &[f64], field: &[f64], cell: Cell<'_>) -> Option<Vector> {
    cell.shape()?;
    let corners = cell.corners();
    let (positions, count) = cell.positions(points);
    let positions = &positions[..count];
    let centre = middle(positions);
    let level = mean(field, corners);
    let mut rows = [[0.0; 3]; 3];
    let mut right = [0.0; 3];
    for (&position, &corner) in positions.iter().zip(corners) {
        let arm = sub(position, centre);
        let rise = field.get(corner as usize).copied().unwrap_or(0.0) - level;
        for (row, part) in rows.iter_mut().zip(arm) {
            *row = add(*row, scale(arm, part));
        }
        right = add(right, scale(arm, rise));
    }
    solve(rows, right)
}

/// Solves a symmetric system of three by Cramer's rule; none if its rows lie in a plane.
fn solve([a, b, c]: [Vector; 3], right: Vector) -> Option<Vector> {
    let columns = [cross(b, c), cross(c, a), cross(a, b)];
    let determinant = dot(a, columns[0]);
    let size = (dot(a, a) * dot(b, b) * dot(c, c)).sqrt();
    if determinant.abs() <= size * FLAT || !determinant.is_finite() {
        return None;
    }
    let sum = columns.iter().zip(right).fold([0.0; 3], |sum, (&column, part)| add(sum, scale(column, part)));
    Some(scale(sum, 1.0 / determinant))
}

fn at_points(offsets: &[u32], links: &[u32], volumes: &[f64], in_cells: &[Vector], gradients: &mut [Vector]) {
    for (point, gradient) in gradients.iter_mut().enumerate() {
        let (mut sum, mut weight) = ([0.0; 3], 0.0);
        for &cell in buckets::bucket(offsets, links, point) {
            if let (Some(&volume), Some(&part)) = (volumes.get(cell as usize), in_cells.get(cell as usize)) {
                sum = add(sum, scale(part, volume));
                weight += volume;
            }
        }
        *gradient = if weight > 0.0 { scale(sum, 1.0 / weight) } else { [0.0; 3] };
    }
}
