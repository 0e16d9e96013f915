//! A buffer: one owned device allocation, the unit that moves.

use crate::{
    access::{Fill, Read, Write},
    alloc::taken,
    copy::CopyTo,
    device::Device,
    driver::DevicePtr,
    engine::Cell,
    error::{Error, Result},
    export::{EnsureResident, MakeExport},
    operation::Operation,
    residency::{Bytes, Failure, Phase, WordCell},
    spill::Spill,
    view::View,
};
use std::{fmt, sync::Arc};

/// One device allocation, resident or spilled. Cloning gives another handle; the last one dropped frees it, once the
/// device has done with it.
///
/// ```
/// # use tack_residency::Device;
/// let device = Device::open("sim")?;
/// let buffer = device.alloc(8).tag("weights").wait()?;
/// buffer.write([1, 2, 3, 4, 5, 6, 7, 8]).wait()?;
/// buffer.spill().wait()?;
/// assert!(buffer.is_spilled());
/// buffer.view(2, 3)?.fill(0).wait()?; // where it is
/// assert_eq!(buffer.read().wait()?, [1, 2, 0, 0, 0, 6, 7, 8]);
/// assert_eq!((buffer.len(), buffer.is_empty(), buffer.tag()), (8, false, Some("weights")));
/// assert_eq!(buffer.device().name(), "sim");
/// # Ok::<(), tack_residency::Error>(())
/// ```
pub struct Buffer {
    cell: Arc<Cell>,
}

impl Buffer {
    pub(crate) fn from_cell(cell: Arc<Cell>) -> Buffer {
        Buffer { cell }
    }

    /// Another handle of a buffer that has one.
    pub(crate) fn another(cell: &Arc<Cell>) -> Buffer {
        cell.add_handle();
        Buffer { cell: cell.clone() }
    }

    #[inline]
    pub(crate) fn cell(&self) -> &Arc<Cell> {
        &self.cell
    }

    /// Its length in bytes, as asked for.
    pub fn len(&self) -> u64 {
        self.cell.bytes
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its device.
    pub fn device(&self) -> Device {
        Device::of(&self.cell)
    }

    /// Its tag, if it or its device has one.
    pub fn tag(&self) -> Option<&str> {
        self.cell.tag.as_deref()
    }

    /// Whether its bytes are in host memory alone, at this moment.
    pub fn is_spilled(&self) -> bool {
        self.cell.load().phase() == Phase::Spilled
    }

    /// A part of it: `bytes` bytes from `offset` on. It shares the buffer and its residency.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::open("sim")?;
    /// let buffer = device.alloc(16).wait()?;
    /// assert_eq!(buffer.view(12, 4)?.offset(), 12);
    /// assert!(buffer.view(12, 5).is_err());
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Misuse` if the part is not within the buffer.
    pub fn view(&self, offset: u64, bytes: u64) -> Result<View> {
        View::new(self.clone(), offset, bytes)
    }

    fn whole(&self) -> View {
        View::whole(self.clone())
    }

    /// Reads it to the host, wherever it is, behind the last write.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// # futures::executor::block_on(async {
    /// let device = Device::open("sim")?;
    /// let buffer = device.alloc(4).await?;
    /// assert_eq!(buffer.read().await?, [0; 4]);
    /// # Ok::<(), tack_residency::Error>(())
    /// # })?;
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `OutOfMemory` if the host tier has no staging; `DeviceLost` if no current host copy is left.
    pub fn read(&self) -> Operation<Read> {
        self.whole().read()
    }

    /// Writes the host's bytes into it from the start, wherever it is. `data` must fit.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// # futures::executor::block_on(async {
    /// let device = Device::open("sim")?;
    /// let buffer = device.alloc(8).await?;
    /// let numbers = [1.0_f32, 2.0];
    /// buffer.write(numbers.map(f32::to_ne_bytes).as_flattened()).await?; // or `bytemuck::cast_slice`
    /// assert_eq!(buffer.view(4, 4)?.read().await?, 2.0_f32.to_ne_bytes());
    /// # Ok::<(), tack_residency::Error>(())
    /// # })?;
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Misuse` if `data` is longer than the buffer; as [`read`](Buffer::read) besides.
    pub fn write<D: AsRef<[u8]> + Unpin>(&self, data: D) -> Operation<Write<D>> {
        self.whole().write(data)
    }

    /// Sets every byte to `value`, wherever it is.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::open("sim")?;
    /// let buffer = device.alloc(4).wait()?;
    /// buffer.fill(7).wait()?;
    /// assert_eq!(buffer.read().wait()?, [7; 4]);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`write`](Buffer::write).
    pub fn fill(&self, value: u8) -> Operation<Fill> {
        self.whole().fill(value)
    }

    /// Copies all of it into `to`, from its start: on the device; where `to` is another device's, by its driver, if that
    /// [copies to it](crate::driver::Driver::is_peer), else through the host.
    ///
    /// To another device it is done when the bytes are there. By the driver, both buffers are brought to their devices and
    /// held there until it is queued, behind what `to` was used for; from then on it goes on though this is dropped or its time
    /// is over, and what is done to `to` next comes behind it: a launch that was prepared before waits in
    /// [`submit`](crate::Launch::submit). Through the host, it takes its place among what is done to `to` once its bytes have
    /// come there.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::open("sim")?;
    /// let (from, to) = (device.alloc(2).wait()?, device.alloc(4).wait()?);
    /// from.fill(7).wait()?;
    /// from.copy_to(&to).wait()?;
    /// assert_eq!(to.read().wait()?, [7, 7, 0, 0]);
    ///
    /// let other = Device::open("sim")?;
    /// let there = other.alloc(4).wait()?;
    /// to.copy_to(&there).wait()?;
    /// assert_eq!(there.read().wait()?, [7, 7, 0, 0]);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Misuse` if `to` is shorter, or the same buffer; as [`Device::prepare`] besides, on either device, and through the host
    /// as [`read`](Buffer::read) and [`write`](Buffer::write). If a device is lost on the way, what is in `to` is nobody's.
    #[track_caller]
    pub fn copy_to(&self, to: &Buffer) -> Operation<CopyTo> {
        let to = View::prefix(to.clone(), self.len());
        Operation::new(CopyTo::new(self.whole(), to))
    }

    /// Makes it resident, and keeps it so while the guard lives, for work the crate does not queue itself.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::open("sim")?;
    /// let buffer = device.alloc(4096).wait()?;
    /// buffer.spill().wait()?;
    /// let guard = buffer.ensure_resident().wait()?;
    /// assert!(!buffer.is_spilled());
    /// println!("{:?} is good until the guard is dropped", guard.ptr());
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Device::alloc`].
    #[track_caller]
    pub fn ensure_resident(&self) -> Operation<EnsureResident> {
        self.whole().ensure_resident()
    }

    /// Hands its pointer out: it does not move while the export lives.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::open("sim")?;
    /// let buffer = device.alloc(4096).wait()?;
    /// let export = buffer.export().wait()?;
    /// assert_eq!(device.memory_info().exported, 4096);
    /// drop(export);
    /// assert_eq!(device.memory_info().exported, 0);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Device::alloc`].
    #[track_caller]
    pub fn export(&self) -> Operation<MakeExport> {
        Operation::new(MakeExport::new(self.ensure_resident()))
    }

    /// Spills it now, if it may be spilled; how many bytes of device memory that was: its length, rounded up as the
    /// driver does. Fixed, exported and pinned buffers stay.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::open("sim")?;
    /// let buffer = device.alloc(4096).wait()?;
    /// assert_eq!(buffer.spill().wait()?, 4096);
    /// assert_eq!(buffer.spill().wait()?, 0); // it is there already
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Device::spill_all`].
    pub fn spill(&self) -> Operation<Spill> {
        Operation::new(Spill::of(&self.cell))
    }

    /// Says that its contents are not needed any more: until they are written again, neither spilling nor restoring
    /// it copies anything, and what a read gives is not specified.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::open("sim")?;
    /// let scratch = device.alloc(4096).wait()?;
    /// scratch.discard();
    /// scratch.spill().wait()?;
    /// assert_eq!(device.memory_info().copied_out_bytes, 0);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn discard(&self) {
        self.cell.engine.change(|core| {
            if core.discard(self.cell.slot()) {
                self.cell.set_zeroed(false);
            }
        });
    }

    /// Says that it will not be used soon: it is the next to be spilled when memory is short, and the first that
    /// [write-back](crate::Options::write_back) cleans. No byte is lost, and its next use makes it recent again.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::options().budget(8192).open("sim")?;
    /// let (old, new) = (device.alloc(4096).wait()?, device.alloc(4096).wait()?);
    /// new.wont_use();
    /// let third = device.alloc(4096).wait()?;
    /// assert!(new.is_spilled() && !old.is_spilled());
    /// # drop(third);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn wont_use(&self) {
        self.cell.engine.change(|core| core.wont_use(self.cell.slot()));
    }

    pub(crate) fn empty(device: &Device, tag: Option<Arc<str>>) -> Buffer {
        let mut cell = Cell::new(device.owner().clone(), DevicePtr::NULL, 0, device.engine().stamp());
        cell.tag = tag;
        let cell = Arc::new(cell);
        device.engine().add_foreign(&cell, |_| false);
        Buffer::from_cell(cell)
    }

    /// A buffer that has no device memory yet; cleared when it gets some, or not.
    pub(crate) fn unborn(device: &Device, bytes: u64, cleared: bool) -> Result<Buffer> {
        let (engine, tag) = (device.engine(), device.engine().settings.tag.clone());
        let taken = taken(device, bytes)?;
        if taken == Bytes::ZERO {
            return Ok(Buffer::empty(device, tag));
        }
        let most = engine.with_state(|state| state.core.most());
        if taken > most {
            let failure = Failure::TooLarge { bytes: taken, most };
            return Err(Error::from_failure(device, "alloc", failure));
        }
        let mut cell = Cell::new(device.owner().clone(), DevicePtr::NULL, bytes, engine.stamp());
        cell.tag = tag;
        cell.set_zeroed(cleared);
        let cell = Arc::new(cell);
        engine.add_unborn(&cell, taken);
        Ok(Buffer::from_cell(cell))
    }

    pub(crate) fn wrap(device: &Device, ptr: DevicePtr, bytes: u64) -> Result<Buffer> {
        let end = ptr.as_raw().checked_add(bytes);
        let Some(end) = end.filter(|_| bytes == 0 || ptr != DevicePtr::NULL) else {
            return Err(Error::misuse("the memory to wrap is null, or ends beyond all addresses").on(device));
        };
        let engine = device.engine();
        let mut cell = Cell::new(device.owner().clone(), ptr, bytes, engine.stamp());
        cell.foreign = true;
        let cell = Arc::new(cell);
        let added = engine.add_foreign(&cell, |other| {
            let start = other.ptr().as_raw();
            // What has no bytes touches nothing.
            bytes.min(other.bytes) > 0 && start < end && ptr.as_raw() < start.saturating_add(other.bytes)
        });
        if !added {
            let what =
                "the memory to wrap touches a live buffer of this device: use that buffer, or a view of it";
            return Err(Error::misuse(what).on(device));
        }
        Ok(Buffer::from_cell(cell))
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Buffer {
        Buffer::another(&self.cell)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let engine = &self.cell.engine;
        engine.drop_handle(&self.cell);
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("bytes", &self.len())
            .field("tag", &self.tag())
            .field("word", &self.cell.load())
            .finish()
    }
}
