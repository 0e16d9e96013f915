//! What the naive model knows of one buffer's bytes: each one's value, or that it is nobody's business.

use std::ops::Range;

/// The bytes of one buffer.
#[derive(Clone)]
pub struct Content {
    values: Vec<Option<u8>>,
    version: u64,
    contested: Vec<Range<usize>>,
    taken_back: Vec<Range<usize>>,
}

impl Content {
    pub fn zeroed(len: usize) -> Content {
        Content { values: vec![Some(0); len], version: 0, contested: Vec::new(), taken_back: Vec::new() }
    }

    pub fn unknown(len: usize) -> Content {
        Content { values: vec![None; len], version: 0, contested: Vec::new(), taken_back: Vec::new() }
    }

    pub fn get(&self, range: Range<usize>) -> Vec<Option<u8>> {
        let is_contested = |at: usize| self.contested.iter().any(|range| range.contains(&at));
        let known = |at: usize| self.values[at].filter(|_| !is_contested(at));
        range.map(known).collect()
    }

    /// Until [`concede`](Content::concede), someone else uses these bytes without telling: nothing is known of them.
    pub fn contest(&mut self, range: Range<usize>) {
        self.forget(range.clone());
        self.contested.push(range);
    }

    pub fn concede(&mut self, range: &Range<usize>) {
        if let Some(at) = self.contested.iter().position(|contested| contested == range) {
            self.contested.remove(at);
        }
    }

    pub fn set(&mut self, start: usize, values: &[Option<u8>]) {
        self.values[start..start + values.len()].copy_from_slice(values);
        self.version += 1;
    }

    pub fn forget(&mut self, range: Range<usize>) {
        self.values[range].fill(None);
        self.version += 1;
    }

    /// A change that waited was cancelled: whether it was made is not known, nor what reads behind it give.
    pub fn take_back(&mut self, range: Range<usize>) {
        self.forget(range.clone());
        self.taken_back.push(range);
    }

    /// How many changes were cancelled so far.
    pub fn cancelled(&self) -> usize {
        self.taken_back.len()
    }

    /// Takes out of `known`, the bytes from `start` on at an earlier time, what changes cancelled since then made
    /// doubtful.
    pub fn doubt(&self, since: usize, start: usize, known: &mut [Option<u8>]) {
        for range in &self.taken_back[since..] {
            for (at, known) in (start..).zip(known.iter_mut()) {
                *known = known.filter(|_| !range.contains(&at));
            }
        }
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Counts the changes, so that a change in doubt can be told from one that others came after.
    pub fn version(&self) -> u64 {
        self.version
    }
}

/// The first place where bytes that were read are not those the model knows.
pub fn first_wrong(read: &[u8], known: &[Option<u8>]) -> Option<usize> {
    assert_eq!(read.len(), known.len(), "a read gave another length");
    read.iter().zip(known).position(|(read, known)| known.is_some_and(|known| known != *read))
}

/// What a kernel writes at `index`: mixed from the byte that was there, if it is read, and one of each source.
pub fn mix(salt: u8, index: usize, own: Option<u8>, sources: impl Iterator<Item = u8>) -> u8 {
    let mixed = salt.wrapping_add(index as u8).wrapping_add(own.unwrap_or(0).wrapping_mul(3));
    sources.fold(mixed, |mixed, source| mixed.rotate_left(1) ^ source)
}
