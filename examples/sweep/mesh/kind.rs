//! The kinds of cell a mesh may have, by VTK's numbers.
//!
//! Cells of three dimensions have faces and a volume. Those of fewer (vertices, lines, triangles, ...) are kept: they count as
//! cells, link to their points and have edges, but neither faces nor a volume. Quadratic cells are worked on by
//! their corners, which come first in VTK's order of points; their other points only count as links.

/// A kind of cell: VTK's name and how many points it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CellKind {
    pub name: &'static str,
    /// Points of each cell of the kind; none where that is up to each cell.
    pub points: Option<usize>,
}

/// Kinds the sweep works on, by number.
#[rustfmt::skip]
const KINDS: [(u8, &str, Option<usize>); 32] = [
    (0, "empty cell", Some(0)), (1, "vertex", Some(1)), (2, "poly-vertex", None), (3, "line", Some(2)),
    (4, "poly-line", None), (5, "triangle", Some(3)), (6, "triangle strip", None), (7, "polygon", None),
    (8, "pixel", Some(4)), (9, "quad", Some(4)), (10, "tetrahedron", Some(4)), (11, "voxel", Some(8)),
    (12, "hexahedron", Some(8)), (13, "wedge", Some(6)), (14, "pyramid", Some(5)),
    (21, "quadratic edge", Some(3)), (22, "quadratic triangle", Some(6)), (23, "quadratic quad", Some(8)),
    (24, "quadratic tetrahedron", Some(10)), (25, "quadratic hexahedron", Some(20)),
    (26, "quadratic wedge", Some(15)), (27, "quadratic pyramid", Some(13)), (28, "biquadratic quad", Some(9)),
    (29, "triquadratic hexahedron", Some(27)), (30, "linear-quadratic quad", Some(6)),
    (31, "linear-quadratic wedge", Some(12)), (32, "biquadratic-quadratic wedge", Some(18)),
    (33, "biquadratic-quadratic hexahedron", Some(24)), (34, "biquadratic triangle", Some(7)),
    (35, "cubic line", Some(4)), (36, "quadratic polygon", None), (37, "triquadratic pyramid", Some(19)),
];

/// Kinds that are refused by name.
const REFUSED: [(u8, &str); 8] = [
    (15, "pentagonal prism"),
    (16, "hexagonal prism"),
    (41, "convex point set"),
    (42, "polyhedron"),
    (71, "Lagrange tetrahedron"),
    (72, "Lagrange hexahedron"),
    (73, "Lagrange wedge"),
    (79, "Bezier cell"),
];

impl CellKind {
    /// The kind with VTK's number `kind`, or why there is none here.
    pub fn from_number(kind: u64) -> Result<CellKind, String> {
        if let Some(&(_, name, points)) = KINDS.iter().find(|known| u64::from(known.0) == kind) {
            return Ok(CellKind { name, points });
        }
        match REFUSED.iter().find(|known| u64::from(known.0) == kind) {
            Some((_, name)) => Err(format!(
                "cell type {kind} ({name}) is not supported: convert to tetrahedra, hexahedra, wedges or pyramids"
            )),
            None => Err(format!("cell type {kind} is not supported")),
        }
    }

    /// Whether a cell of this kind may have `points` points.
    pub fn allows(self, points: usize) -> bool {
        self.points.is_none_or(|wanted| wanted == points)
    }
}
