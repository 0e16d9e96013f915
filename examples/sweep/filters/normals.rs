//! Point normals of the boundary surface: the mean of the polygons around a point, weighted by their areas. Zero at
//! points that are not on the surface.

use super::{
    Filter, Made, Pass, Sizes, buckets,
    cells::position_of,
    vector::{add, area, dot, scale},
};

pub fn filter(sizes: Sizes) -> Filter {
    Filter {
        name: "normals",
        passes: vec![
            Pass::new("normals/sum", |reads, writes| {
                sum(reads.take(), reads.take(), reads.take(), writes.take())
            })
            .read("mesh/points")
            .read("surface/offsets")
            .read("surface/connectivity")
            .make(Made::new::<[f64; 3]>("normals/points", sizes.points)),
            Pass::new("normals/scale", |_, writes| unit(writes.take())).update("normals/points"),
        ],
        outputs: vec!["normals/points".into()],
    }
}

fn sum(points: &[f64], offsets: &[u32], connectivity: &[u32], normals: &mut [[f64; 3]]) {
    normals.fill([0.0; 3]);
    for polygon in 0..offsets.len().saturating_sub(1) {
        let polygon = buckets::bucket(offsets, connectivity, polygon);
        let normal = area(polygon.iter().map(|&corner| position_of(points, corner)));
        for &corner in polygon {
            if let Some(sum) = normals.get_mut(corner as usize) {
                *sum = add(*sum, normal);
            }
        }
    }
}

fn unit(normals: &mut [[f64; 3]]) {
    for normal in normals {
        let length = dot(*normal, *normal).sqrt();
        if length > 0.0 {
            *normal = scale(*normal, 1.0 / length);
        }
    }
}
