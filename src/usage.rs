//! How a launch uses its buffers.

use crate::{buffer::Buffer, driver::DevicePtr, engine::Cell, residency::Want, view::View};
use std::sync::Arc;

/// How a launch uses a buffer, or a view of one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Access {
    Read,
    Write,
    ReadWrite,
}

/// One buffer or view of a launch, and how the launch uses it. Two words, since a launch moves them about.
///
/// ```
/// use std::time::Duration;
/// use tack_residency::{Device, Use};
///
/// let device = Device::open("sim")?;
/// let (weights, sums, log) = (device.alloc(4).wait()?, device.alloc(4).wait()?, device.alloc(64).wait()?);
/// weights.fill(2).wait()?;
/// let first_line = log.view(0, 16)?;
/// let uses = [Use::read(&weights), Use::write(&sums), Use::read_write(&first_line)];
/// device.prepare(uses).wait()?.submit(|run| {
///     run.host_kernel(Duration::ZERO, |args| {
///         let [weights, sums, line] = args else { unreachable!() };
///         sums.bytes_mut().copy_from_slice(weights.bytes());
///         line.bytes_mut()[0] += 1;
///     })
/// })?;
/// assert_eq!(sums.read().wait()?, [2; 4]);
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Use<'a>(Target<'a>);

#[derive(Clone, Copy, Debug)]
enum Target<'a> {
    Buffer(&'a Buffer, Access),
    View(&'a View, Access),
    Kept(&'a Kept),
}

impl<'a> Use<'a> {
    /// It is only read.
    #[inline]
    pub fn read(target: impl Into<Use<'a>>) -> Use<'a> {
        target.into().with(Access::Read)
    }

    /// All of it is overwritten, and nothing read before: a spilled buffer then comes back without a copy.
    #[inline]
    pub fn write(target: impl Into<Use<'a>>) -> Use<'a> {
        target.into().with(Access::Write)
    }

    /// It is read and written, or written in part: the default.
    #[inline]
    pub fn read_write(target: impl Into<Use<'a>>) -> Use<'a> {
        target.into()
    }

    #[inline]
    fn with(self, access: Access) -> Use<'a> {
        match self.0 {
            Target::Buffer(buffer, _) => Use(Target::Buffer(buffer, access)),
            Target::View(view, _) => Use(Target::View(view, access)),
            Target::Kept(_) => self,
        }
    }

    #[inline]
    fn access(&self) -> Access {
        match self.0 {
            Target::Buffer(_, access) | Target::View(_, access) => access,
            Target::Kept(kept) => kept.access,
        }
    }

    #[inline]
    pub(crate) fn cell(&self) -> &'a Arc<Cell> {
        match self.0 {
            Target::Buffer(buffer, _) => buffer.cell(),
            Target::View(view, _) => view.buffer().cell(),
            Target::Kept(kept) => &kept.cell,
        }
    }

    #[inline]
    pub(crate) fn writes(&self) -> bool {
        self.access() != Access::Read
    }

    /// All of the buffer is overwritten.
    pub(crate) fn overwrites(&self) -> bool {
        let whole = match self.0 {
            Target::Buffer(..) => true,
            Target::View(view, _) => view.is_whole(),
            Target::Kept(kept) => kept.whole,
        };
        whole && self.access() == Access::Write
    }

    pub(crate) fn bytes(&self) -> u64 {
        match self.0 {
            Target::Buffer(buffer, _) => buffer.len(),
            Target::View(view, _) => view.len(),
            Target::Kept(kept) => kept.bytes,
        }
    }

    #[inline]
    pub(crate) fn ptr(&self) -> DevicePtr {
        match self.0 {
            Target::Buffer(buffer, _) => buffer.cell().ptr(),
            Target::View(view, _) => view.buffer().cell().ptr().offset(view.offset()),
            Target::Kept(kept) => kept.cell.ptr().offset(kept.offset),
        }
    }
}

impl<'a> From<&'a Buffer> for Use<'a> {
    #[inline]
    fn from(buffer: &'a Buffer) -> Use<'a> {
        Use(Target::Buffer(buffer, Access::ReadWrite))
    }
}

impl<'a> From<&'a View> for Use<'a> {
    #[inline]
    fn from(view: &'a View) -> Use<'a> {
        Use(Target::View(view, Access::ReadWrite))
    }
}

/// A use whose buffer is kept by the launch itself: it holds no handle once that has been asked for, so that a program
/// may drop its own.
#[derive(Debug)]
pub(crate) struct Kept {
    cell: Arc<Cell>,
    handle: Option<Buffer>,
    access: Access,
    whole: bool,
    offset: u64,
    bytes: u64,
}

impl Kept {
    pub(crate) fn of(used: &Use<'_>) -> Kept {
        let offset = match used.0 {
            Target::Buffer(..) => 0,
            Target::View(view, _) => view.offset(),
            Target::Kept(kept) => kept.offset,
        };
        let (cell, access, bytes) = (used.cell().clone(), used.access(), used.bytes());
        let handle = Some(Buffer::another(&cell));
        let whole = bytes == cell.bytes;
        Kept { cell, handle, access, whole, offset, bytes }
    }

    /// A use of all of a buffer, that need not overwrite all of it.
    pub(crate) fn whole(cell: Arc<Cell>) -> Kept {
        let bytes = cell.bytes;
        Kept { cell, handle: None, access: Access::ReadWrite, whole: true, offset: 0, bytes }
    }

    pub(crate) fn cell(&self) -> &Arc<Cell> {
        &self.cell
    }

    /// Gives up its handle, if it has one.
    pub(crate) fn let_go(&mut self) -> Option<Buffer> {
        self.handle.take()
    }
}

impl<'a> From<&'a Kept> for Use<'a> {
    fn from(kept: &'a Kept) -> Use<'a> {
        Use(Target::Kept(kept))
    }
}

/// The uses of each buffer joined: all of it is overwritten only if one use says so and there is no other.
pub(crate) fn wants(uses: &[Use<'_>], kept: bool) -> Vec<Want> {
    let mut wants: Vec<Want> = Vec::with_capacity(uses.len());
    for used in uses {
        let slot = used.cell().slot();
        let overwrites = used.overwrites();
        match wants.iter_mut().find(|want| want.slot == slot) {
            Some(want) => {
                want.writes |= used.writes();
                want.overwrites = false;
            }
            None => wants.push(Want { slot, writes: used.writes(), overwrites, kept }),
        }
    }
    wants
}
