//! The mesh the sweep works on, and the way in from a file: points, cells of any kind, and one field on the points.
//!
//! No reader here trusts a byte of its input: whatever a file holds, the answer is a mesh whose indices are all in
//! range, or an error that names the file, the place and what is wrong.

mod ahmed;
mod fault;
mod kind;
mod legacy;
mod number;
mod parts;
mod vtu;

pub use ahmed::ahmed_body;
pub use fault::{Fault, MeshError, Place};
pub use kind::CellKind;
pub use parts::Parts;

use std::path::Path;

/// An unstructured mesh whose indices have been checked.
#[derive(Clone, Debug, Default)]
pub struct Mesh {
    /// x, y and z of each point.
    pub points: Vec<f64>,
    /// Where each cell's points start in `connectivity`, and one more: where the last ends.
    pub offsets: Vec<u32>,
    /// The points of all cells, one cell after the other.
    pub connectivity: Vec<u32>,
    /// VTK's number for the kind of each cell.
    pub types: Vec<u8>,
    /// One value a point, to take gradients, thresholds and isosurfaces of.
    pub field: Field,
}

/// A value at each point.
#[derive(Clone, Debug, Default)]
pub struct Field {
    pub name: String,
    pub values: Vec<f64>,
}

impl Mesh {
    /// Reads a legacy `.vtk` or XML `.vtu` file; which of them it is, its first bytes tell.
    pub fn read(path: &Path) -> Result<Mesh, MeshError> {
        std::fs::read(path)
            .map_err(|error| Fault::file(format!("cannot be read: {error}")))
            .and_then(|bytes| Mesh::parse(&bytes))
            .map_err(|fault| fault.in_file(path.to_owned()))
    }

    /// Reads the bytes of a legacy `.vtk` or XML `.vtu` file.
    pub fn parse(bytes: &[u8]) -> Result<Mesh, Fault> {
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
        if text.is_empty() {
            return Err(Fault::file("is empty: give a legacy .vtk or an XML .vtu file"));
        }
        let parts = match text {
            [b'#', ..] => legacy::read(text, bytes.len() - text.len())?,
            [b'<', ..] => vtu::read(text, bytes.len() - text.len())?,
            _ => {
                return Err(Fault::at(
                    Place::Byte(bytes.len() - text.len()),
                    "starts neither as a legacy .vtk file (# vtk DataFile) nor as an XML .vtu file (<VTKFile)",
                ));
            }
        };
        parts.into_mesh()
    }

    pub fn point_count(&self) -> usize {
        self.points.len() / 3
    }

    pub fn cell_count(&self) -> usize {
        self.types.len()
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

/// A small file with cells of every kind, for the tests of the filters.
#[cfg(test)]
pub fn mixed_sample() -> Vec<u8> {
    samples::all().swap_remove(0).bytes
}
