//! Runs filters on arrays in this process's own memory, one pass at a time: what the other ways to run them must agree with.

use super::{ArrayId, Filter, Pass};
use std::collections::BTreeMap;

/// Bytes aligned as device memory is, to a word at least.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bytes {
    words: Vec<u64>,
    length: usize,
}

impl Bytes {
    /// `length` bytes of a pattern that no kernel may rely on.
    pub fn poisoned(length: usize) -> Bytes {
        Bytes { words: vec![0xa5a5_a5a5_a5a5_a5a5; length.div_ceil(8)], length }
    }

    pub fn from_slice(bytes: &[u8]) -> Bytes {
        let mut copy = Bytes::poisoned(bytes.len());
        copy.as_mut_slice().copy_from_slice(bytes);
        copy
    }

    pub fn as_slice(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.length]
    }

    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.length]
    }
}

/// The arrays there are, and how large they grew.
#[derive(Debug, Default)]
pub struct Host {
    pub arrays: BTreeMap<ArrayId, Bytes>,
    pub peak_bytes: usize,
    /// The bytes of all arrays of the largest launch, and its name.
    pub largest_launch: (usize, &'static str),
}

impl Host {
    pub fn add(&mut self, id: ArrayId, bytes: &[u8]) {
        self.arrays.insert(id, Bytes::from_slice(bytes));
    }

    pub fn array(&self, id: &ArrayId) -> &[u8] {
        self.arrays.get(id).unwrap_or_else(|| panic!("there is no array {id}")).as_slice()
    }

    /// Runs a filter, then drops what it made but does not keep.
    pub fn run(&mut self, filter: Filter) {
        let mut made = Vec::new();
        for pass in filter.passes {
            made.extend(pass.makes.iter().map(|made| made.id.clone()));
            self.launch(pass);
        }
        made.retain(|id| !filter.outputs.contains(id));
        made.iter().for_each(|id| drop(self.arrays.remove(id)));
    }

    /// Runs one pass.
    pub fn launch(&mut self, pass: Pass) {
        let name = pass.name;
        let written =
            pass.updates.iter().chain(pass.makes.iter().map(|made| &made.id)).cloned().collect::<Vec<_>>();
        let mut writes: Vec<Bytes> = pass
            .updates
            .iter()
            .map(|id| self.arrays.remove(id).unwrap_or_else(|| panic!("there is no array {id}")))
            .collect();
        for made in &pass.makes {
            let counted = made.length.count().map_or(0, |id| bytemuck::pod_read_unaligned(self.array(id)));
            writes.push(Bytes::poisoned(made.length.elements(counted) * made.element_bytes));
        }
        let read = pass.reads.clone();
        let reads: Vec<&[u8]> = read.iter().map(|id| self.array(id)).collect();
        let launch_bytes = reads.iter().map(|array| array.len()).sum::<usize>()
            + writes.iter().map(|array| array.length).sum::<usize>();
        let mut slices: Vec<&mut [u8]> = writes.iter_mut().map(Bytes::as_mut_slice).collect();
        pass.run(&reads, &mut slices);
        self.largest_launch = self.largest_launch.max((launch_bytes, name));
        self.arrays.extend(written.into_iter().zip(writes));
        self.peak_bytes = self.peak_bytes.max(self.arrays.values().map(|array| array.length).sum());
    }
}
