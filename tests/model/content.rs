//! What the naive model knows of one buffer's bytes: each one's value, or that it is nobody's business.

use std::{cell::Cell, ops::Range, rc::Rc};

/// The bytes of one buffer.
#[derive(Clone)]
pub struct Content {
    values: Vec<Option<u8>>,
    version: u64,
    contested: Vec<Range<usize>>,
    taken_back: Vec<Range<usize>>,
    ahead: Vec<Ahead>,
}

/// A use by a launch in a queue of which it is not known yet whether it is queued.
#[derive(Clone)]
struct Ahead {
    queue: usize,
    range: Range<usize>,
    writes: bool,
    tainted: Rc<Cell<bool>>,
}

impl Content {
    pub fn zeroed(len: usize) -> Content {
        Content { values: vec![Some(0); len], ..Content::unknown(0) }
    }

    pub fn unknown(len: usize) -> Content {
        let (contested, taken_back, ahead) = (Vec::new(), Vec::new(), Vec::new());
        Content { values: vec![None; len], version: 0, contested, taken_back, ahead }
    }

    pub fn get(&self, range: Range<usize>) -> Vec<Option<u8>> {
        self.get_by(None, range)
    }

    /// As a launch of a queue sees it, behind those pushed before it.
    pub fn get_by(&self, queue: Option<usize>, range: Range<usize>) -> Vec<Option<u8>> {
        let is_contested = |at: usize| {
            let written =
                |ahead: &Ahead| Some(ahead.queue) != queue && ahead.writes && ahead.range.contains(&at);
            self.contested.iter().any(|range| range.contains(&at)) || self.ahead.iter().any(written)
        };
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
        self.set_by(None, start, values);
    }

    pub fn set_by(&mut self, queue: Option<usize>, start: usize, values: &[Option<u8>]) {
        self.taint(queue, start..start + values.len());
        self.values[start..start + values.len()].copy_from_slice(values);
        self.version += 1;
    }

    pub fn forget(&mut self, range: Range<usize>) {
        self.forget_by(None, range);
    }

    pub fn forget_by(&mut self, queue: Option<usize>, range: Range<usize>) {
        self.taint(queue, range.clone());
        self.values[range].fill(None);
        self.version += 1;
    }

    /// These bytes change at some moment before, between or after the launches that wait in queues, but for one queue.
    fn taint(&self, queue: Option<usize>, range: Range<usize>) {
        for ahead in self.ahead.iter().filter(|ahead| Some(ahead.queue) != queue) {
            if overlap(&ahead.range, &range) {
                ahead.tainted.set(true);
            }
        }
    }

    /// A launch in a queue will use these bytes, in its turn.
    pub fn begin_ahead(&mut self, queue: usize, range: Range<usize>, writes: bool, tainted: &Rc<Cell<bool>>) {
        for other in self.ahead.iter().filter(|other| other.queue != queue) {
            if (writes || other.writes) && overlap(&other.range, &range) {
                other.tainted.set(true);
                tainted.set(true);
            }
        }
        self.ahead.push(Ahead { queue, range, writes, tainted: tainted.clone() });
    }

    /// It is known whether it does.
    pub fn end_ahead(&mut self, queue: usize, range: &Range<usize>, tainted: &Rc<Cell<bool>>) {
        let is_it = |ahead: &Ahead| {
            ahead.queue == queue && ahead.range == *range && Rc::ptr_eq(&ahead.tainted, tainted)
        };
        if let Some(at) = self.ahead.iter().position(is_it) {
            self.ahead.remove(at);
        }
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

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
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
