//! The boundary surface: the faces that one cell alone uses, as polygons that face outwards.

use super::{
    Filter, Made, Pass, Sizes,
    cells::{Cells, position_of},
    faces::{NO_CORNER, face_of},
    vector::{area, dot, middle, sub},
};

pub fn filter(sizes: Sizes) -> Filter {
    let most = sizes.cells.saturating_mul(6);
    let most_links = most.saturating_mul(4);
    Filter {
        name: "surface",
        passes: vec![
            Pass::new("surface/count", |reads, writes| {
                count(reads.take(), reads.take(), writes.take(), writes.take())
            })
            .read("faces/uses")
            .read("faces/corners")
            .make(Made::new::<u64>("surface/count", 1))
            .make(Made::new::<u64>("surface/links", 1)),
            Pass::new("surface/fill", |reads, writes| {
                let surface =
                    Surface { offsets: writes.take(), connectivity: writes.take(), cells: writes.take() };
                fill(reads.take(), reads.cells(), reads.take(), reads.take(), surface);
            })
            .read("mesh/points")
            .read_cells()
            .read("faces/uses")
            .read("faces/first")
            .make(Made::counted::<u32>("surface/offsets", "surface/count", [most, 1, 1]))
            .make(Made::counted::<u32>("surface/connectivity", "surface/links", [most_links, 1, 0]))
            .make(Made::counted::<u32>("surface/cells", "surface/count", [most, 1, 0])),
        ],
        outputs: vec!["surface/offsets".into(), "surface/connectivity".into(), "surface/cells".into()],
    }
}

/// The polygons, and the cell behind each.
struct Surface<'a> {
    offsets: &'a mut [u32],
    connectivity: &'a mut [u32],
    cells: &'a mut [u32],
}

fn count(uses: &[u8], corners: &[[u32; 4]], faces: &mut [u64], links: &mut [u64]) {
    let boundary = || uses.iter().zip(corners).filter(|(uses, _)| **uses == 1);
    faces.fill(boundary().count() as u64);
    links.fill(boundary().map(|(_, corners)| if corners[3] == NO_CORNER { 3 } else { 4 }).sum());
}

fn fill(points: &[f64], cells: Cells<'_>, uses: &[u8], first: &[u32], surface: Surface<'_>) {
    let mut offsets = surface.offsets.iter_mut();
    let mut connectivity = surface.connectivity.iter_mut();
    let mut end = 0;
    if let Some(offset) = offsets.next() {
        *offset = end;
    }
    let boundary = uses.iter().zip(first).filter(|(uses, _)| **uses == 1).map(|(_, &slot)| slot);
    for ((slot, cell), offset) in boundary.zip(surface.cells.iter_mut()).zip(offsets) {
        let mut face = face_of(cells, slot).unwrap_or([0; 4]);
        let count = if face[2] == face[3] { 3 } else { 4 };
        let face = &mut face[..count];
        orient(points, cells, slot, face);
        face.iter().zip(&mut connectivity).for_each(|(&corner, place)| *place = corner);
        end += count as u32;
        (*offset, *cell) = (end, slot / 8);
    }
}

/// Turns `face` so that its normal points away from its cell: some writers number the corners of cells inside out.
fn orient(points: &[f64], cells: Cells<'_>, slot: u32, face: &mut [u32]) {
    let (positions, count) = cells.cell(slot as usize / 8).positions(points);
    let centre = middle(&positions[..count]);
    let mut corners = [[0.0; 3]; 4];
    corners.iter_mut().zip(&*face).for_each(|(position, &corner)| *position = position_of(points, corner));
    let corners = &corners[..face.len()];
    if dot(area(corners.iter().copied()), sub(middle(corners), centre)) < 0.0 {
        face.reverse();
    }
}
