//! The edges of all cells, each once: its two ends, the lower first, in order.

use super::{Filter, Made, Pass, Sizes, buckets, cells::Cells};

pub fn filter(sizes: Sizes) -> Filter {
    // A triangle strip has most edges for its points: two each.
    let most = sizes.links.saturating_mul(2);
    Filter {
        name: "edges",
        passes: vec![
            Pass::new("edges/count", |reads, writes| count(reads.cells(), writes.take(), writes.take()))
                .read_cells()
                .make(Made::new::<u32>("edges/buckets", sizes.points + 1))
                .make(Made::new::<u64>("edges/count", 1)),
            Pass::new("edges/fill", |reads, writes| fill(reads.cells(), writes.take(), writes.take()))
                .read_cells()
                .update("edges/buckets")
                .make(Made::counted::<u32>("edges/ends", "edges/count", [most, 1, 0])),
            Pass::new("edges/sort", |reads, writes| sort(reads.take(), writes.take(), writes.take()))
                .read("edges/buckets")
                .update("edges/ends")
                .make(Made::new::<u64>("edges/unique", 1)),
            Pass::new("edges/merge", |reads, writes| merge(reads.take(), reads.take(), writes.take()))
                .read("edges/buckets")
                .read("edges/ends")
                .make(Made::counted::<[u32; 2]>("edges/points", "edges/unique", [most, 1, 0])),
        ],
        outputs: vec!["edges/points".into()],
    }
}

fn count(cells: Cells<'_>, offsets: &mut [u32], total: &mut [u64]) {
    offsets.fill(0);
    for cell in cells.iter() {
        cell.for_each_edge(|a, b| {
            if a != b {
                buckets::count(offsets, a.min(b));
            }
        });
    }
    total.fill(buckets::ends(offsets));
}

fn fill(cells: Cells<'_>, offsets: &mut [u32], ends: &mut [u32]) {
    for cell in cells.iter() {
        cell.for_each_edge(|a, b| {
            // A cell that has collapsed may have an edge from a point to itself: that is none.
            if a != b {
                buckets::place(offsets, ends, a.min(b), a.max(b));
            }
        });
    }
}

fn sort(offsets: &[u32], ends: &mut [u32], unique: &mut [u64]) {
    let mut found = 0;
    for bucket in buckets::each_mut(offsets, ends) {
        bucket.sort_unstable();
        found += bucket.chunk_by(|a, b| a == b).count() as u64;
    }
    unique.fill(found);
}

fn merge(offsets: &[u32], ends: &[u32], edges: &mut [[u32; 2]]) {
    let mut edges = edges.iter_mut();
    for start in 0..offsets.len().saturating_sub(1) {
        for run in buckets::bucket(offsets, ends, start).chunk_by(|a, b| a == b) {
            if let Some(edge) = edges.next() {
                *edge = [start as u32, run[0]];
            }
        }
    }
}
