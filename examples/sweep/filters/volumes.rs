//! Cell volumes, never negative.
//!
//! A face of four corners need not be flat, so it is cut into triangles at its centre. That is the volume under the
//! bilinear face, the same from both of its cells, and what VTK's cell quality measures.

use super::{
    Filter, Made, Pass, Sizes,
    cells::{Cell, Cells},
    vector::{Vector, cross, dot, middle, sub},
};

pub fn filter(sizes: Sizes) -> Filter {
    Filter {
        name: "volumes",
        passes: vec![
            Pass::new("volumes", |reads, writes| volumes(reads.take(), reads.cells(), writes.take()))
                .read("mesh/points")
                .read_cells()
                .make(Made::new::<f64>("volumes", sizes.cells)),
        ],
        outputs: vec!["volumes".into()],
    }
}

fn volumes(points: &[f64], cells: Cells<'_>, volumes: &mut [f64]) {
    for (volume, cell) in volumes.iter_mut().zip(cells.iter()) {
        *volume = volume_of(points, cell);
    }
}

/// The volume of one cell; 0 for cells of fewer than three dimensions.
fn volume_of(points: &[f64], cell: Cell<'_>) -> f64 {
    let Some(shape) = cell.shape() else { return 0.0 };
    let (at, _) = cell.positions(points);
    let apex = at[0];
    let mut signed = 0.0;
    for &[a, b, c, d] in shape.faces {
        if c == d {
            signed += tetrahedron(apex, at[a], at[b], at[c]);
            continue;
        }
        let centre = middle(&[at[a], at[b], at[c], at[d]]);
        for [from, to] in [[a, b], [b, c], [c, d], [d, a]] {
            signed += tetrahedron(apex, centre, at[from], at[to]);
        }
    }
    signed.abs()
}

/// The volume of a tetrahedron, negative if `b`, `c` and `d` turn against the clock as seen from `a`.
fn tetrahedron(a: Vector, b: Vector, c: Vector, d: Vector) -> f64 {
    dot(sub(b, a), cross(sub(c, a), sub(d, a))) / 6.0
}
