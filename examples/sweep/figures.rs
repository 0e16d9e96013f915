//! The figures of a mesh, reduced from arrays that the filters left.

use serde::Serialize;

#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Figures {
    pub points: usize,
    pub cells: usize,
    pub point_links: u64,
    pub boundary_faces: usize,
    pub edges: usize,
    /// The sum of all cells' volumes.
    pub volume: f64,
}

impl Figures {
    /// The arrays the figures are reduced from.
    pub const ARRAYS: [&str; 6] =
        ["normals/points", "centres", "links/offsets", "surface/offsets", "edges/points", "volumes"];

    /// The figures, given the bytes of [`Figures::ARRAYS`] in their order.
    pub fn reduce([normals, centres, links, surface, edges, volumes]: [&[u8]; 6]) -> Figures {
        Figures {
            points: normals.len() / size_of::<[f64; 3]>(),
            cells: centres.len() / size_of::<[f64; 3]>(),
            point_links: links.last_chunk().map_or(0, |last| u32::from_ne_bytes(*last).into()),
            boundary_faces: (surface.len() / size_of::<u32>()).saturating_sub(1),
            edges: edges.len() / size_of::<[u32; 2]>(),
            volume: volumes.as_chunks().0.iter().map(|volume| f64::from_ne_bytes(*volume)).sum(),
        }
    }
}
