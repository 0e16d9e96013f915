//! Cell centres: the mean of each cell's corners.

use super::{
    Filter, Made, Pass, Sizes,
    cells::{Cells, position_of},
    vector::{add, scale},
};

pub fn filter(sizes: Sizes) -> Filter {
    Filter {
        name: "centres",
        passes: vec![
            Pass::new("centres", |reads, writes| centres(reads.take(), reads.cells(), writes.take()))
                .read("mesh/points")
                .read_cells()
                .make(Made::new::<[f64; 3]>("centres", sizes.cells)),
        ],
        outputs: vec!["centres".into()],
    }
}

fn centres(points: &[f64], cells: Cells<'_>, centres: &mut [[f64; 3]]) {
    for (centre, cell) in centres.iter_mut().zip(cells.iter()) {
        let corners = cell.corners();
        let sum = corners.iter().fold([0.0; 3], |sum, &corner| add(sum, position_of(points, corner)));
        *centre = scale(sum, 1.0 / corners.len().max(1) as f64);
    }
}
