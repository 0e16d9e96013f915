//! A point locator: the box around all points cut into equal bins, and the points in each.

use super::{Filter, Made, Pass, Sizes, buckets};

/// Points a bin has if they are spread evenly.
const POINTS_PER_BIN: f64 = 4.0;

pub fn filter(sizes: Sizes) -> Filter {
    let divisions = (sizes.points as f64 / POINTS_PER_BIN).cbrt().clamp(1.0, 512.0) as usize;
    let bins = divisions * divisions * divisions;
    Filter {
        name: "locator",
        passes: vec![
            Pass::new("locator/bounds", |reads, writes| bounds(reads.take(), writes.take()))
                .read("mesh/points")
                .make(Made::new::<[f64; 3]>("locator/bounds", 2)),
            Pass::new("locator/count", move |reads, writes| {
                count(divisions, reads.take(), reads.take(), writes.take())
            })
            .read("mesh/points")
            .read("locator/bounds")
            .make(Made::new::<u32>("locator/offsets", bins + 1)),
            Pass::new("locator/fill", move |reads, writes| {
                fill(divisions, reads.take(), reads.take(), writes.take(), writes.take());
            })
            .read("mesh/points")
            .read("locator/bounds")
            .update("locator/offsets")
            .make(Made::new::<u32>("locator/points", sizes.points)),
        ],
        outputs: vec!["locator/bounds".into(), "locator/offsets".into(), "locator/points".into()],
    }
}

fn bounds(points: &[[f64; 3]], bounds: &mut [[f64; 3]]) {
    let (mut least, mut most) = ([f64::INFINITY; 3], [f64::NEG_INFINITY; 3]);
    for point in points {
        for axis in 0..3 {
            least[axis] = least[axis].min(point[axis]);
            most[axis] = most[axis].max(point[axis]);
        }
    }
    bounds.iter_mut().zip([least, most]).for_each(|(bound, value)| *bound = value);
}

/// The bin that `point` is in. Whatever is outside of the bounds goes to the nearest.
fn bin(divisions: usize, bounds: &[[f64; 3]], point: &[f64; 3]) -> u32 {
    let &[least, most] = bounds else { return 0 };
    let mut bin = 0;
    for axis in (0..3).rev() {
        let part = (point[axis] - least[axis]) / (most[axis] - least[axis]);
        // A box without extent gives NaN, which becomes 0.
        bin = bin * divisions + ((part * divisions as f64) as usize).min(divisions - 1);
    }
    bin as u32
}

fn count(divisions: usize, points: &[[f64; 3]], bounds: &[[f64; 3]], offsets: &mut [u32]) {
    offsets.fill(0);
    points.iter().for_each(|point| buckets::count(offsets, bin(divisions, bounds, point)));
    buckets::ends(offsets);
}

fn fill(divisions: usize, points: &[[f64; 3]], bounds: &[[f64; 3]], offsets: &mut [u32], ids: &mut [u32]) {
    // Backwards, as each bin fills from its end.
    for (index, point) in points.iter().enumerate().rev() {
        buckets::place(offsets, ids, bin(divisions, bounds, point), index as u32);
    }
}
