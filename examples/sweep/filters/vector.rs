//! Three-dimensional vectors, as far as the filters need them.

pub type Vector = [f64; 3];

pub fn sub(a: Vector, b: Vector) -> Vector {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

pub fn add(a: Vector, b: Vector) -> Vector {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

pub fn scale(a: Vector, by: f64) -> Vector {
    [a[0] * by, a[1] * by, a[2] * by]
}

pub fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

pub fn cross(a: Vector, b: Vector) -> Vector {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

/// The mean of `points`.
pub fn middle(points: &[Vector]) -> Vector {
    let sum = points.iter().fold([0.0; 3], |sum, &point| add(sum, point));
    scale(sum, 1.0 / points.len().max(1) as f64)
}

/// A polygon's normal, as long as its area.
pub fn area(corners: impl IntoIterator<Item = Vector>) -> Vector {
    let mut corners = corners.into_iter();
    let (Some(first), Some(mut last)) = (corners.next(), corners.next()) else { return [0.0; 3] };
    let mut sum = [0.0; 3];
    for corner in corners {
        sum = add(sum, cross(sub(last, first), sub(corner, first)));
        last = corner;
    }
    scale(sum, 0.5)
}
