//! The air around the Ahmed body, made of hexahedra: the mesh of the sweep when it is given none.
//!
//! The body is the car-like shape of Ahmed, Ramm and Faltin, "Some salient features of the time-averaged ground vehicle
//! wake", SAE paper 840300 (1984), with the slant of 25 degrees, in a wind tunnel of 1.87 m by 1.4 m. Cells are of one size
//! along the body and grow towards the tunnel's walls.

use super::{Field, Mesh, fault::Fault, parts::Parts};
use std::{collections::BTreeMap, ops::RangeInclusive};

const LENGTH: f64 = 1.044;
const WIDTH: f64 = 0.389;
const HEIGHT: f64 = 0.288;
const FRONT_RADIUS: f64 = 0.100;
const CLEARANCE: f64 = 0.050;
const SLANT_LENGTH: f64 = 0.222;
const SLANT_DEGREES: f64 = 25.0;

const TUNNEL_HALF_WIDTH: f64 = 0.935;
const TUNNEL_HEIGHT: f64 = 1.4;
const TUNNEL_START: f64 = -LENGTH;
const TUNNEL_END: f64 = 3.0 * LENGTH;

/// By how much each cell away from the body is longer than the one before.
const GROWTH: f64 = 1.1;

/// How far a point may be moved onto the body, in cells: less than half, so that no cell turns inside out.
const SNAP: f64 = 0.45;

/// The radius of the sphere whose potential flow gives the pressure.
const SPHERE: f64 = 0.2;

/// Cells along the body that a mesh can be made with.
const CELLS: RangeInclusive<usize> = 2..=256;

/// The mesh with `cells` cells along the body, and the pressure coefficient of a flow along x as its field.
///
/// # Errors
///
/// If `cells` is not from 2 to 256.
pub fn ahmed_body(cells: usize) -> Result<Mesh, Fault> {
    if !CELLS.contains(&cells) {
        let (least, most) = CELLS.into_inner();
        return Err(Fault::part(
            "--size",
            format!("is {cells}: give {least} to {most} cells along the body"),
        ));
    }
    let grid = Grid::new(cells);
    let mut parts = Parts { offsets: vec![0], ..Parts::default() };
    let mut numbers = BTreeMap::new();
    for z in 1..grid.axes[2].len() {
        for y in 1..grid.axes[1].len() {
            for x in 1..grid.axes[0].len() {
                if is_inside(grid.centre([x, y, z])) {
                    continue;
                }
                for corner in corners([x, y, z]) {
                    let number = *numbers.entry(grid.number(corner)).or_insert_with(|| {
                        parts.points.extend(grid.snapped(corner));
                        parts.points.len() as u64 / 3 - 1
                    });
                    parts.connectivity.push(number);
                }
                parts.offsets.push(parts.connectivity.len() as u64);
                parts.types.push(12);
            }
        }
    }
    let values = parts.points.chunks_exact(3).map(pressure).collect();
    parts.field = Some(Field { name: "pressure".into(), values });
    parts.into_mesh()
}

/// The corners of the hexahedron whose farthest is `last`, in VTK's order.
fn corners([x, y, z]: [usize; 3]) -> [[usize; 3]; 8] {
    let floor = |z| [[x - 1, y - 1, z], [x, y - 1, z], [x, y, z], [x - 1, y, z]];
    let ([a, b, c, d], [e, f, g, h]) = (floor(z - 1), floor(z));
    [a, b, c, d, e, f, g, h]
}

/// Lines of points along each axis, of which some lie on the body's sides.
struct Grid {
    axes: [Vec<f64>; 3],
}

impl Grid {
    fn new(cells: usize) -> Grid {
        let step = LENGTH / cells as f64;
        let half = WIDTH / 2.0;
        let top = CLEARANCE + HEIGHT;
        let mut above = vec![0.0];
        extend_evenly(&mut above, CLEARANCE, step);
        extend_evenly(&mut above, top, step);
        extend_growing(&mut above, TUNNEL_HEIGHT, step);
        Grid {
            axes: [
                around(0.0, LENGTH, [TUNNEL_START, TUNNEL_END], step),
                around(-half, half, [-TUNNEL_HALF_WIDTH, TUNNEL_HALF_WIDTH], step),
                above,
            ],
        }
    }

    fn number(&self, [x, y, z]: [usize; 3]) -> usize {
        (z * self.axes[1].len() + y) * self.axes[0].len() + x
    }

    fn at(&self, indices: [usize; 3]) -> [f64; 3] {
        [0, 1, 2].map(|axis| self.axes[axis][indices[axis]])
    }

    /// The centre of the cell whose farthest corner is `last`.
    fn centre(&self, last: [usize; 3]) -> [f64; 3] {
        [0, 1, 2].map(|axis| (self.axes[axis][last[axis] - 1] + self.axes[axis][last[axis]]) / 2.0)
    }

    /// Where the point is, moved onto the front or the slant if it is inside the body and close to it.
    fn snapped(&self, indices: [usize; 3]) -> [f64; 3] {
        let point @ [x, y, z] = self.at(indices);
        if !is_inside(point) {
            return point;
        }
        let step =
            |axis: usize| self.axes[axis][indices[axis]] - self.axes[axis][indices[axis].saturating_sub(1)];
        let (front, roof) = (front(y, z), roof(x));
        if x - front < step(0) * SNAP {
            [front, y, z]
        } else if roof - z < step(2) * SNAP {
            [x, y, roof]
        } else {
            point
        }
    }
}

/// A line of points: even from `start` to `end`, growing from there to the `walls`.
fn around(start: f64, end: f64, walls: [f64; 2], step: f64) -> Vec<f64> {
    let mut before = vec![-start];
    extend_growing(&mut before, -walls[0], step);
    let mut line: Vec<f64> = before.into_iter().rev().map(|at| -at).collect();
    extend_evenly(&mut line, end, step);
    extend_growing(&mut line, walls[1], step);
    line
}

/// Goes on to `end` in equal steps of about `step`.
fn extend_evenly(line: &mut Vec<f64>, end: f64, step: f64) {
    let start = line.last().copied().unwrap_or(0.0);
    let steps = ((end - start) / step).round().max(1.0) as usize;
    line.extend((1..steps).map(|index| start + (end - start) * index as f64 / steps as f64));
    line.push(end);
}

/// Goes on to `end` in steps that grow from about `step`.
fn extend_growing(line: &mut Vec<f64>, end: f64, step: f64) {
    let start = line.last().copied().unwrap_or(0.0);
    let steps = (1.0 + (end - start) / step * (GROWTH - 1.0)).ln() / GROWTH.ln();
    let steps = steps.round().max(1.0) as i32;
    let reach = |index: i32| (GROWTH.powi(index) - 1.0) / (GROWTH.powi(steps) - 1.0);
    line.extend((1..steps).map(|index| start + (end - start) * reach(index)));
    line.push(end);
}

/// Whether a point is inside the body, not on it.
fn is_inside([x, y, z]: [f64; 3]) -> bool {
    y.abs() < WIDTH / 2.0 && z > CLEARANCE && z < roof(x) && x > front(y, z) && x < LENGTH
}

/// Where the body starts at `y` and `z`: its front, with all four edges rounded.
fn front(y: f64, z: f64) -> f64 {
    let past = |from_middle: f64, size: f64| {
        (from_middle.abs() - (size / 2.0 - FRONT_RADIUS)).clamp(0.0, FRONT_RADIUS)
    };
    let across = past(y, WIDTH);
    let up = past(z - CLEARANCE - HEIGHT / 2.0, HEIGHT);
    let rounded = |past: f64| FRONT_RADIUS - (FRONT_RADIUS * FRONT_RADIUS - past * past).sqrt();
    rounded(across).max(rounded(up))
}

/// The height of the body's roof at `x`, which slants down at the rear.
fn roof(x: f64) -> f64 {
    let (sine, cosine) = SLANT_DEGREES.to_radians().sin_cos();
    let past = (x - (LENGTH - SLANT_LENGTH * cosine)).max(0.0);
    CLEARANCE + HEIGHT - past * sine / cosine
}

/// The pressure coefficient of potential flow along x around a sphere in the body's middle.
fn pressure(point: &[f64]) -> f64 {
    let &[x, y, z] = point else { return 0.0 };
    let [x, z] = [x - LENGTH / 2.0, z - CLEARANCE - HEIGHT / 2.0];
    let distance = (x * x + y * y + z * z).sqrt().max(SPHERE);
    let near = (SPHERE / distance).powi(3) / 2.0;
    let along = 3.0 * near * x / (distance * distance);
    let velocity = [1.0 + near - along * x, -along * y, -along * z];
    1.0 - velocity.iter().map(|part| part * part).sum::<f64>()
}
