//! The dataset filters of the sweep, each a list of passes over arrays that are named and sized before they run.

mod array;
mod buckets;
mod cells;
mod centres;
mod edges;
mod faces;
mod gradient;
#[cfg(test)]
pub mod host;
mod isosurface;
mod links;
mod locator;
mod normals;
mod pass;
mod shape;
mod surface;
#[cfg(test)]
pub mod tests;
mod threshold;
mod vector;
mod volumes;

pub use array::Made;
pub use pass::{ArrayId, Filter, Pass};

use crate::mesh::Mesh;

/// How many of everything a mesh has: what the sizes of the filters' arrays follow from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    pub points: usize,
    pub cells: usize,
    /// Entries of the connectivity.
    pub links: usize,
}

/// The mesh's own arrays as bytes: what must be in buffers before the first filter runs.
pub fn inputs(mesh: &Mesh) -> Vec<(ArrayId, &[u8])> {
    vec![
        ("mesh/points".into(), bytemuck::cast_slice(&mesh.points)),
        ("mesh/offsets".into(), bytemuck::cast_slice(&mesh.offsets)),
        ("mesh/connectivity".into(), bytemuck::cast_slice(&mesh.connectivity)),
        ("mesh/types".into(), &mesh.types),
        ("mesh/field".into(), bytemuck::cast_slice(&mesh.field.values)),
    ]
}

/// Every filter, in an order in which each finds what it reads.
pub fn plan(mesh: &Mesh) -> Vec<Filter> {
    let sizes =
        Sizes { points: mesh.point_count(), cells: mesh.cell_count(), links: mesh.connectivity.len() };
    let range = range(&mesh.field.values);
    vec![
        links::filter(sizes),
        edges::filter(sizes),
        faces::filter(sizes),
        surface::filter(sizes),
        normals::filter(sizes),
        centres::filter(sizes),
        volumes::filter(sizes),
        locator::filter(sizes),
        gradient::filter(sizes),
        threshold::filter(sizes, range),
        isosurface::filter(sizes, range),
    ]
}

/// The least and the greatest of the finite values.
fn range(values: &[f64]) -> [f64; 2] {
    let finite = values.iter().copied().filter(|value| value.is_finite());
    finite
        .fold([f64::INFINITY, f64::NEG_INFINITY], |[least, most], value| [least.min(value), most.max(value)])
}

/// Where a level lies that is `part` of the way through the range.
fn level([least, most]: [f64; 2], part: f64) -> f64 {
    least * (1.0 - part) + most * part
}

impl Pass {
    /// Reads the mesh's cells: three arrays, taken by [`array::Reads::cells`].
    fn read_cells(self) -> Pass {
        self.read("mesh/offsets").read("mesh/connectivity").read("mesh/types")
    }
}
