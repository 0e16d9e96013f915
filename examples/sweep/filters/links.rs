//! Point-to-cell links: for each point, the cells that use it, in order.

use super::{Filter, Made, Pass, Sizes, buckets, cells::Cells};

pub fn filter(sizes: Sizes) -> Filter {
    Filter {
        name: "links",
        passes: vec![
            Pass::new("links/count", |reads, writes| count(reads.cells(), writes.take()))
                .read_cells()
                .make(Made::new::<u32>("links/offsets", sizes.points + 1)),
            Pass::new("links/fill", |reads, writes| fill(reads.cells(), writes.take(), writes.take()))
                .read_cells()
                .update("links/offsets")
                .make(Made::new::<u32>("links/cells", sizes.links)),
        ],
        outputs: vec!["links/offsets".into(), "links/cells".into()],
    }
}

fn count(cells: Cells<'_>, offsets: &mut [u32]) {
    offsets.fill(0);
    for cell in cells.iter() {
        cell.points.iter().for_each(|&point| buckets::count(offsets, point));
    }
    buckets::ends(offsets);
}

fn fill(cells: Cells<'_>, offsets: &mut [u32], links: &mut [u32]) {
    // Backwards, as each bucket fills from its end.
    for index in (0..cells.len()).rev() {
        for &point in cells.cell(index).points {
            buckets::place(offsets, links, point, index as u32);
        }
    }
}
