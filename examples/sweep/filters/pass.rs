//! What a filter is to whoever runs it: passes, each a kernel over arrays named before it runs.
//!
//! A pass says which arrays it reads, which it changes and which it makes, with their sizes; its kernel is given exactly
//! those, as bytes, and touches no other memory. Where a size depends on what an earlier pass found, that pass has
//! left it in an array of one number, which the runner reads to the host before it makes room.

use super::array::{Made, Reads, Writes};
use std::{borrow::Cow, fmt};

/// The name of an array, as `edges/points`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ArrayId(Cow<'static, str>);

impl ArrayId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&'static str> for ArrayId {
    fn from(name: &'static str) -> ArrayId {
        ArrayId(Cow::Borrowed(name))
    }
}

impl From<String> for ArrayId {
    fn from(name: String) -> ArrayId {
        ArrayId(Cow::Owned(name))
    }
}

impl fmt::Display for ArrayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How many elements an array will have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Length {
    /// As many as said here.
    Known(usize),
    /// `each` for everything counted in the array `count` (one `u64`), and `plus`. A count above `most` cannot be
    /// right and is taken as `most`.
    Counted { count: ArrayId, most: usize, each: usize, plus: usize },
}

impl Length {
    /// The length, given what the array of the count holds; none of it is needed where the length is known.
    pub fn elements(&self, counted: u64) -> usize {
        match self {
            Length::Known(elements) => *elements,
            Length::Counted { most, each, plus, .. } => {
                let counted = usize::try_from(counted).unwrap_or(usize::MAX).min(*most);
                counted.saturating_mul(*each).saturating_add(*plus)
            }
        }
    }

    /// The array to read the count from, if the length depends on one.
    pub fn count(&self) -> Option<&ArrayId> {
        match self {
            Length::Known(_) => None,
            Length::Counted { count, .. } => Some(count),
        }
    }
}

type Kernel = Box<dyn FnOnce(&[&[u8]], &mut [&mut [u8]]) + Send>;

/// One kernel and the arrays it is launched with.
///
/// The kernel is given `reads`, then `updates` followed by `makes`, in order. Arrays are aligned to 8 bytes or more.
pub struct Pass {
    /// The filter's name and the pass's own, as `edges/sort`.
    pub name: &'static str,
    pub reads: Vec<ArrayId>,
    /// Arrays that are read and written in place.
    pub updates: Vec<ArrayId>,
    /// Arrays that are made for this pass, which writes every byte of them.
    pub makes: Vec<Made>,
    kernel: Kernel,
}

impl Pass {
    /// A pass with no arrays yet, whose kernel takes its inputs and outputs in the order they are added.
    pub fn new(
        name: &'static str,
        kernel: impl FnOnce(&mut Reads<'_>, &mut Writes<'_>) + Send + 'static,
    ) -> Pass {
        let kernel: Kernel =
            Box::new(|reads, writes| kernel(&mut Reads::new(reads), &mut Writes::new(writes)));
        Pass { name, reads: Vec::new(), updates: Vec::new(), makes: Vec::new(), kernel }
    }

    #[must_use]
    pub fn read(mut self, array: impl Into<ArrayId>) -> Pass {
        self.reads.push(array.into());
        self
    }

    #[must_use]
    pub fn update(mut self, array: impl Into<ArrayId>) -> Pass {
        self.updates.push(array.into());
        self
    }

    #[must_use]
    pub fn make(mut self, made: Made) -> Pass {
        self.makes.push(made);
        self
    }

    /// Runs the kernel over the bytes of `reads`, and of `updates` followed by `makes`.
    pub fn run(self, reads: &[&[u8]], writes: &mut [&mut [u8]]) {
        (self.kernel)(reads, writes);
    }
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pass { name, reads, updates, makes, .. } = self;
        write!(f, "Pass {{ {name}: {reads:?}, {updates:?}, {makes:?} }}")
    }
}

/// A dataset filter: passes to run in order.
#[derive(Debug)]
pub struct Filter {
    pub name: &'static str,
    pub passes: Vec<Pass>,
    /// The arrays that stay when the filter is done. All others its passes made are dropped then.
    pub outputs: Vec<ArrayId>,
}
