//! Arrays as the passes and their kernels see them: how one is made, and its bytes as a slice of its elements.

use super::{
    cells::Cells,
    pass::{ArrayId, Length},
};
use bytemuck::Pod;

/// An array that a pass makes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Made {
    pub id: ArrayId,
    pub element_bytes: usize,
    pub length: Length,
}

impl Made {
    /// An array of `elements` elements of type `T`.
    pub fn new<T: Pod>(id: impl Into<ArrayId>, elements: usize) -> Made {
        Made { id: id.into(), element_bytes: size_of::<T>(), length: Length::Known(elements) }
    }

    /// An array whose length is found by an earlier pass: see [`Length::Counted`].
    pub fn counted<T: Pod>(
        id: impl Into<ArrayId>,
        count: impl Into<ArrayId>,
        [most, each, plus]: [usize; 3],
    ) -> Made {
        let length = Length::Counted { count: count.into(), most, each, plus };
        Made { id: id.into(), element_bytes: size_of::<T>(), length }
    }
}

/// What a kernel reads, taken from the front.
#[derive(Debug)]
pub struct Reads<'a> {
    arrays: std::slice::Iter<'a, &'a [u8]>,
}

impl<'a> Reads<'a> {
    pub fn new(arrays: &'a [&'a [u8]]) -> Reads<'a> {
        Reads { arrays: arrays.iter() }
    }

    /// The next array's elements.
    ///
    /// # Panics
    ///
    /// If the pass was not given as many arrays to read as its kernel takes.
    pub fn take<T: Pod>(&mut self) -> &'a [T] {
        let Some(bytes) = self.arrays.next() else {
            panic!("the kernel takes more arrays than its pass reads: add them")
        };
        whole(bytes)
    }

    /// The next three arrays as the mesh's cells.
    pub fn cells(&mut self) -> Cells<'a> {
        Cells { offsets: self.take(), connectivity: self.take(), types: self.take() }
    }
}

/// What a kernel writes, taken from the front.
#[derive(Debug)]
pub struct Writes<'a> {
    arrays: std::vec::IntoIter<&'a mut [u8]>,
}

impl<'a> Writes<'a> {
    pub fn new(arrays: &'a mut [&mut [u8]]) -> Writes<'a> {
        let arrays: Vec<&mut [u8]> = arrays.iter_mut().map(|array| &mut **array).collect();
        Writes { arrays: arrays.into_iter() }
    }

    /// The next array's elements.
    ///
    /// # Panics
    ///
    /// If the pass was not given as many arrays to write as its kernel takes.
    pub fn take<T: Pod>(&mut self) -> &'a mut [T] {
        let Some(bytes) = self.arrays.next() else {
            panic!("the kernel takes more arrays than its pass writes: add them")
        };
        let length = bytes.len() / size_of::<T>() * size_of::<T>();
        bytemuck::cast_slice_mut(&mut bytes[..length])
    }
}

/// The bytes as elements. Device memory may be longer than the array in it, so a rest is left out.
fn whole<T: Pod>(bytes: &[u8]) -> &[T] {
    bytemuck::cast_slice(&bytes[..bytes.len() / size_of::<T>() * size_of::<T>()])
}
