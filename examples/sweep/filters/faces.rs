//! The faces of all cells, each once: who uses it first, how many cells do, and its corners in rising order.
//!
//! A cell's face is known by a slot: eight times the cell's number, and its side. Slots are put in buckets by the lowest
//! corner of their faces, so that each bucket sorts on its own and equal faces meet.

use super::{Filter, Made, Pass, Sizes, buckets, cells::Cells};

/// Stands for the fourth corner of a triangle.
pub const NO_CORNER: u32 = u32::MAX;

pub fn filter(sizes: Sizes) -> Filter {
    let most = sizes.cells.saturating_mul(6);
    Filter {
        name: "faces",
        passes: vec![
            Pass::new("faces/count", |reads, writes| count(reads.cells(), writes.take(), writes.take()))
                .read_cells()
                .make(Made::new::<u32>("faces/buckets", sizes.points + 1))
                .make(Made::new::<u64>("faces/count", 1)),
            Pass::new("faces/fill", |reads, writes| fill(reads.cells(), writes.take(), writes.take()))
                .read_cells()
                .update("faces/buckets")
                .make(Made::counted::<u32>("faces/slots", "faces/count", [most, 1, 0])),
            Pass::new("faces/sort", |reads, writes| {
                sort(reads.cells(), reads.take(), writes.take(), writes.take())
            })
            .read_cells()
            .read("faces/buckets")
            .update("faces/slots")
            .make(Made::new::<u64>("faces/unique", 1)),
            Pass::new("faces/merge", |reads, writes| {
                merge(reads.cells(), reads.take(), writes.take(), writes.take())
            })
            .read_cells()
            .read("faces/slots")
            .make(Made::counted::<u32>("faces/first", "faces/unique", [most, 1, 0]))
            .make(Made::counted::<u8>("faces/uses", "faces/unique", [most, 1, 0])),
            Pass::new("faces/corners", |reads, writes| corners(reads.cells(), reads.take(), writes.take()))
                .read_cells()
                .read("faces/first")
                .make(Made::counted::<[u32; 4]>("faces/corners", "faces/unique", [most, 1, 0])),
        ],
        outputs: vec!["faces/first".into(), "faces/uses".into(), "faces/corners".into()],
    }
}

/// The corners of the face in `slot` as the cell has them; a triangle repeats its last.
pub fn face_of(cells: Cells<'_>, slot: u32) -> Option<[u32; 4]> {
    let cell = cells.cell(slot as usize / 8);
    let side = cell.shape()?.faces.get(slot as usize % 8)?;
    let mut face = [0; 4];
    for (corner, &local) in face.iter_mut().zip(side) {
        *corner = *cell.points.get(local)?;
    }
    Some(face)
}

/// The corners of a face in rising order: the same from both of its cells.
fn sorted(mut face: [u32; 4]) -> [u32; 4] {
    if face[2] == face[3] {
        face[3] = NO_CORNER;
    }
    face.sort_unstable();
    face
}

/// The corners of the face in `slot` as one number, to compare.
fn key(cells: Cells<'_>, slot: u32) -> u128 {
    let face = face_of(cells, slot).map_or([NO_CORNER; 4], sorted);
    face.into_iter().fold(0, |key, corner| key << 32 | u128::from(corner))
}

fn for_each_face(cells: Cells<'_>, mut each: impl FnMut(u32, u32)) {
    // Backwards, as each bucket fills from its end.
    for index in (0..cells.len()).rev() {
        let sides = cells.cell(index).shape().map_or(0, |shape| shape.faces.len());
        for side in (0..sides).rev() {
            let slot = (index * 8 + side) as u32;
            if let Some(face) = face_of(cells, slot) {
                each(sorted(face)[0], slot);
            }
        }
    }
}

fn count(cells: Cells<'_>, offsets: &mut [u32], total: &mut [u64]) {
    offsets.fill(0);
    for_each_face(cells, |lowest, _| buckets::count(offsets, lowest));
    total.fill(buckets::ends(offsets));
}

fn fill(cells: Cells<'_>, offsets: &mut [u32], slots: &mut [u32]) {
    for_each_face(cells, |lowest, slot| buckets::place(offsets, slots, lowest, slot));
}

fn sort(cells: Cells<'_>, offsets: &[u32], slots: &mut [u32], unique: &mut [u64]) {
    let mut found = 0;
    let mut keyed = [(0_u128, 0_u32); 64];
    for bucket in buckets::each_mut(offsets, slots) {
        if let Some(keyed) = keyed.get_mut(..bucket.len()) {
            for (keyed, &slot) in keyed.iter_mut().zip(&*bucket) {
                *keyed = (key(cells, slot), slot);
            }
            keyed.sort_unstable();
            bucket.iter_mut().zip(&*keyed).for_each(|(slot, keyed)| *slot = keyed.1);
            found += keyed.chunk_by(|a, b| a.0 == b.0).count() as u64;
        } else {
            bucket.sort_unstable_by_key(|&slot| (key(cells, slot), slot));
            found += bucket.chunk_by(|&a, &b| key(cells, a) == key(cells, b)).count() as u64;
        }
    }
    unique.fill(found);
}

fn merge(cells: Cells<'_>, slots: &[u32], first: &mut [u32], uses: &mut [u8]) {
    let mut faces = first.iter_mut().zip(uses);
    let mut rest = slots.iter().map(|&slot| (key(cells, slot), slot)).peekable();
    while let Some((face, slot)) = rest.next() {
        let mut count = 1_u8;
        while rest.next_if(|next| next.0 == face).is_some() {
            count = count.saturating_add(1);
        }
        if let Some((first, uses)) = faces.next() {
            (*first, *uses) = (slot, count);
        }
    }
}

fn corners(cells: Cells<'_>, first: &[u32], corners: &mut [[u32; 4]]) {
    for (corners, &slot) in corners.iter_mut().zip(first) {
        *corners = face_of(cells, slot).map_or([NO_CORNER; 4], sorted);
    }
}
