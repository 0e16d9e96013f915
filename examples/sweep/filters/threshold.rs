//! Threshold: the cells whose mean of the field lies in a band, as a mesh over the same points. Three bands, which
//! part the field's range into thirds.

use super::{
    Filter, Made, Pass, Sizes,
    cells::{Cell, Cells, mean},
    level,
};
use std::ops::Range;

const BANDS: [&str; 3] = ["low", "middle", "high"];

pub fn filter(sizes: Sizes, range: [f64; 2]) -> Filter {
    let (lower, upper) = (level(range, 1.0 / 3.0), level(range, 2.0 / 3.0));
    let bands = [f64::NEG_INFINITY..lower, lower..upper, upper..f64::INFINITY];
    let mut filter = Filter { name: "threshold", passes: Vec::new(), outputs: Vec::new() };
    for (name, band) in BANDS.into_iter().zip(bands) {
        let id = |array: &str| format!("threshold/{name}/{array}");
        let counted = band.clone();
        filter.passes.extend([
            Pass::new("threshold/count", |reads, writes| {
                count(counted, reads.take(), reads.cells(), writes.take(), writes.take());
            })
            .read("mesh/field")
            .read_cells()
            .make(Made::new::<u64>(id("count"), 1))
            .make(Made::new::<u64>(id("links"), 1)),
            Pass::new("threshold/fill", |reads, writes| {
                let kept = Kept { cells: writes.take(), offsets: writes.take(), connectivity: writes.take() };
                fill(band, reads.take(), reads.cells(), kept);
            })
            .read("mesh/field")
            .read_cells()
            .make(Made::counted::<u32>(id("cells"), id("count"), [sizes.cells, 1, 0]))
            .make(Made::counted::<u32>(id("offsets"), id("count"), [sizes.cells, 1, 1]))
            .make(Made::counted::<u32>(id("connectivity"), id("links"), [sizes.links, 1, 0])),
        ]);
        filter.outputs.extend(["cells", "offsets", "connectivity"].map(|array| id(array).into()));
    }
    filter
}

/// The cells kept: their numbers, and their points as a mesh has them.
struct Kept<'a> {
    cells: &'a mut [u32],
    offsets: &'a mut [u32],
    connectivity: &'a mut [u32],
}

fn kept<'a>(band: Range<f64>, field: &[f64], cells: Cells<'a>) -> impl Iterator<Item = (usize, Cell<'a>)> {
    cells.iter().enumerate().filter(move |(_, cell)| band.contains(&mean(field, cell.corners())))
}

fn count(band: Range<f64>, field: &[f64], cells: Cells<'_>, count: &mut [u64], links: &mut [u64]) {
    let (found, points) = kept(band, field, cells)
        .fold((0, 0), |(found, points), (_, cell)| (found + 1, points + cell.points.len() as u64));
    count.fill(found);
    links.fill(points);
}

fn fill(band: Range<f64>, field: &[f64], cells: Cells<'_>, to: Kept<'_>) {
    let mut offsets = to.offsets.iter_mut();
    let mut connectivity = to.connectivity.iter_mut();
    let mut end = 0_u32;
    if let Some(offset) = offsets.next() {
        *offset = end;
    }
    for (((index, cell), id), offset) in kept(band, field, cells).zip(to.cells.iter_mut()).zip(offsets) {
        cell.points.iter().zip(&mut connectivity).for_each(|(&point, place)| *place = point);
        end = end.saturating_add(cell.points.len() as u32);
        (*id, *offset) = (index as u32, end);
    }
}
