//! The mesh's cells as a kernel sees them.
//!
//! Kernels run on whatever bytes the device holds. So a cell whose entries make no sense is one without points here,
//! and a point that does not exist is at the origin: wrong bytes give wrong figures, never a panic.

use super::shape::Shape;

/// The arrays `cells/offsets`, `cells/connectivity` and `cells/types`.
#[derive(Clone, Copy, Debug)]
pub struct Cells<'a> {
    pub offsets: &'a [u32],
    pub connectivity: &'a [u32],
    pub types: &'a [u8],
}

/// One cell: its kind's shape and all of its points.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'a> {
    pub kind: u8,
    pub points: &'a [u32],
}

impl<'a> Cells<'a> {
    pub fn len(self) -> usize {
        self.types.len()
    }

    pub fn cell(self, index: usize) -> Cell<'a> {
        let span = || {
            let start = *self.offsets.get(index)? as usize;
            let end = *self.offsets.get(index + 1)? as usize;
            self.connectivity.get(start..end)
        };
        let kind = self.types.get(index).copied().unwrap_or(0);
        Cell { kind, points: span().unwrap_or_default() }
    }

    pub fn iter(self) -> impl Iterator<Item = Cell<'a>> {
        (0..self.len()).map(move |index| self.cell(index))
    }
}

impl<'a> Cell<'a> {
    /// What a cell of this kind is made of; none for kinds of fewer than three dimensions.
    pub fn shape(self) -> Option<&'static Shape> {
        Shape::of(self.kind).filter(|shape| self.points.len() >= shape.corners)
    }

    /// The points at the cell's corners: all, but for quadratic cells.
    pub fn corners(self) -> &'a [u32] {
        let corners = match self.kind {
            21 | 35 => 2,
            22 | 34 => 3,
            23 | 28 | 30 => 4,
            36 => self.points.len() / 2,
            _ => self.shape().map_or(self.points.len(), |shape| shape.corners),
        };
        self.points.get(..corners).unwrap_or(self.points)
    }

    /// Where the cell's corners are, with as many of them as a volume cell can have.
    pub fn positions(self, points: &[f64]) -> ([[f64; 3]; 8], usize) {
        let mut positions = [[0.0; 3]; 8];
        let corners = self.corners();
        for (position, &corner) in positions.iter_mut().zip(corners) {
            *position = position_of(points, corner);
        }
        (positions, corners.len().min(8))
    }

    /// Calls `each` with the two ends of each edge of the cell.
    pub fn for_each_edge(self, mut each: impl FnMut(u32, u32)) {
        let corners = self.corners();
        let mut pair = |a: usize, b: usize| {
            if let (Some(&a), Some(&b)) = (corners.get(a), corners.get(b)) {
                each(a, b);
            }
        };
        if let Some(shape) = self.shape() {
            shape.edges.iter().for_each(|&[a, b]| pair(a, b));
            return;
        }
        let count = corners.len();
        match self.kind {
            3 | 4 | 21 | 35 => (1..count).for_each(|end| pair(end - 1, end)),
            6 => {
                (1..count).for_each(|end| pair(end - 1, end));
                (2..count).for_each(|end| pair(end - 2, end));
            }
            5 | 7 | 9 | 22 | 23 | 28 | 30 | 34 | 36 => {
                (0..count).for_each(|start| pair(start, (start + 1) % count))
            }
            _ => {}
        }
    }
}

/// Where a point is.
pub fn position_of(points: &[f64], point: u32) -> [f64; 3] {
    let start = point as usize * 3;
    match points.get(start..start.saturating_add(3)) {
        Some(&[x, y, z]) => [x, y, z],
        _ => [0.0; 3],
    }
}

/// The mean of the field over the corners of a cell.
pub fn mean(field: &[f64], corners: &[u32]) -> f64 {
    let sum: f64 = corners.iter().map(|&corner| field.get(corner as usize).copied().unwrap_or(0.0)).sum();
    sum / corners.len().max(1) as f64
}
