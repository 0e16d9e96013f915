//! What cells of three dimensions are made of: corners, faces and edges, in VTK's order of points.

/// The make-up of one kind of cell.
#[derive(Debug)]
pub struct Shape {
    pub corners: usize,
    /// Corners of each face, seen from outside against the clock; a triangle repeats its last corner.
    pub faces: &'static [[usize; 4]],
    pub edges: &'static [[usize; 2]],
}

const TETRAHEDRON: Shape = Shape {
    corners: 4,
    faces: &[[0, 1, 3, 3], [1, 2, 3, 3], [2, 0, 3, 3], [0, 2, 1, 1]],
    edges: &[[0, 1], [1, 2], [2, 0], [0, 3], [1, 3], [2, 3]],
};

const HEXAHEDRON: Shape = Shape {
    corners: 8,
    faces: &[[0, 4, 7, 3], [1, 2, 6, 5], [0, 1, 5, 4], [3, 7, 6, 2], [0, 3, 2, 1], [4, 5, 6, 7]],
    edges: &[[0, 1], [1, 2], [3, 2], [0, 3], [4, 5], [5, 6], [7, 6], [4, 7], [0, 4], [1, 5], [3, 7], [2, 6]],
};

const WEDGE: Shape = Shape {
    corners: 6,
    faces: &[[0, 1, 2, 2], [3, 5, 4, 4], [0, 3, 4, 1], [1, 4, 5, 2], [2, 5, 3, 0]],
    edges: &[[0, 1], [1, 2], [2, 0], [3, 4], [4, 5], [5, 3], [0, 3], [1, 4], [2, 5]],
};

const PYRAMID: Shape = Shape {
    corners: 5,
    faces: &[[0, 3, 2, 1], [0, 1, 4, 4], [1, 2, 4, 4], [2, 3, 4, 4], [3, 0, 4, 4]],
    edges: &[[0, 1], [1, 2], [2, 3], [3, 0], [0, 4], [1, 4], [2, 4], [3, 4]],
};

impl Shape {
    /// The shape of cells with VTK's number `kind`, if they have a volume.
    pub fn of(kind: u8) -> Option<&'static Shape> {
        match kind {
            10 | 24 => Some(&TETRAHEDRON),
            12 | 25 | 29 | 33 => Some(&HEXAHEDRON),
            13 | 26 | 31 | 32 => Some(&WEDGE),
            14 | 27 | 37 => Some(&PYRAMID),
            _ => None,
        }
    }
}
