//! A view: a part of a buffer, which shares the buffer and its residency.

use crate::{
    access::{Fill, Read, Write},
    buffer::Buffer,
    copy::CopyTo,
    error::{Error, Result},
    export::EnsureResident,
    operation::Operation,
};

/// A part of a buffer. Its pointer comes from the buffer's at each launch.
///
/// ```
/// # use tack_residency::Device;
/// let device = Device::open("sim")?;
/// let buffer = device.alloc(1024).wait()?;
/// let view = buffer.view(256, 4)?;
/// view.write([1, 2, 3, 4]).wait()?;
/// assert_eq!(view.view(1, 2)?.read().wait()?, [2, 3]);
/// assert_eq!((view.offset(), view.len(), view.is_empty()), (256, 4, false));
/// assert_eq!(view.buffer().len(), 1024);
///
/// let other = device.alloc(4).wait()?;
/// view.copy_to(&other.view(0, 4)?).wait()?;
/// view.fill(7).wait()?;
/// assert_eq!((view.read().wait()?, other.read().wait()?), (vec![7; 4], vec![1, 2, 3, 4]));
///
/// let whole = buffer.ensure_resident().wait()?;
/// assert_eq!(view.ensure_resident().wait()?.ptr(), whole.ptr().offset(256));
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct View {
    buffer: Buffer,
    offset: u64,
    bytes: u64,
}

impl View {
    pub(crate) fn new(buffer: Buffer, offset: u64, bytes: u64) -> Result<View> {
        if offset.checked_add(bytes).is_none_or(|end| end > buffer.len()) {
            let what = format!(
                "{bytes} bytes at {offset} are not within a buffer of {} bytes: ask for less",
                buffer.len()
            );
            return Err(Error::misuse(what));
        }
        Ok(View { buffer, offset, bytes })
    }

    pub(crate) fn whole(buffer: Buffer) -> View {
        let bytes = buffer.len();
        View { buffer, offset: 0, bytes }
    }

    /// The first bytes of a buffer; more than it has is found by whoever uses it.
    pub(crate) fn prefix(buffer: Buffer, bytes: u64) -> View {
        View { buffer, offset: 0, bytes }
    }

    pub(crate) fn is_within(&self) -> bool {
        self.offset.checked_add(self.bytes).is_some_and(|end| end <= self.buffer.len())
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.bytes == self.buffer.len()
    }

    /// The buffer it is a part of.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Where it starts in its buffer, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// A part of this part.
    ///
    /// # Errors
    ///
    /// `Misuse` if the part is not within this one.
    pub fn view(&self, offset: u64, bytes: u64) -> Result<View> {
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            let what = format!("{bytes} bytes at {offset} are not within a view of {} bytes", self.bytes);
            return Err(Error::misuse(what));
        }
        View::new(self.buffer.clone(), self.offset + offset, bytes)
    }

    /// Reads it to the host; see [`Buffer::read`].
    pub fn read(&self) -> Operation<Read> {
        Operation::new(Read::new(self.clone()))
    }

    /// Writes the host's bytes into it from its start; see [`Buffer::write`].
    pub fn write<D: AsRef<[u8]> + Unpin>(&self, data: D) -> Operation<Write<D>> {
        Operation::new(Write::new(self.clone(), data))
    }

    /// Sets every byte of it; see [`Buffer::fill`].
    pub fn fill(&self, value: u8) -> Operation<Fill> {
        Operation::new(Fill::new(self.clone(), value))
    }

    /// Copies it into `to`, which is as long, on the device or to another; see [`Buffer::copy_to`].
    #[track_caller]
    pub fn copy_to(&self, to: &View) -> Operation<CopyTo> {
        Operation::new(CopyTo::new(self.clone(), to.clone()))
    }

    /// Makes its buffer resident; the guard's pointer is that of this part. See [`Buffer::ensure_resident`].
    #[track_caller]
    pub fn ensure_resident(&self) -> Operation<EnsureResident> {
        Operation::new(EnsureResident::new(self.clone()))
    }
}
