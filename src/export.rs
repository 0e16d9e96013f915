//! Holds on a buffer for work the crate does not queue itself: residency guards, and exports.

use crate::{
    buffer::Buffer,
    device::Device,
    driver::DevicePtr,
    engine::COMPUTE,
    error::{Error, ErrorKind, Result},
    hold::{Hold, TakeHold},
    operation::{Operation, sealed::Steps},
    queue::{Queue, not_of},
    view::View,
};
use std::{
    panic::Location,
    task::{Context, Poll, ready},
    time::Duration,
};

/// The steps of [`Buffer::ensure_resident`].
#[derive(Debug)]
pub struct EnsureResident {
    view: View,
    take: TakeHold,
}

impl EnsureResident {
    #[track_caller]
    pub(crate) fn new(view: View) -> EnsureResident {
        EnsureResident { view, take: TakeHold::writing("residency guard", Location::caller()) }
    }
}

impl Steps for EnsureResident {
    type Output = Residency;
    const NAME: &'static str = "ensure_resident";

    fn poll_steps(&mut self, cx: &mut Context<'_>, patience: Option<Duration>) -> Poll<Result<Residency>> {
        let buffer = self.view.buffer();
        let hold = ready!(self.take.poll(buffer, Self::NAME, cx, patience))?;
        let guard = Residency { view: self.view.clone(), hold, used_on: Some(COMPUTE) };
        let device = buffer.device();
        let ordered = device.engine().order_compute(buffer.cell());
        Poll::Ready(
            ordered.map(|()| guard).map_err(|failure| Error::from_failure(&device, Self::NAME, failure)),
        )
    }
}

/// A buffer kept resident. Its pointer is good for work queued on the device's compute queue while this lives.
///
/// Dropped, it counts as a use, reading and writing, at the end of that queue.
///
/// To a call that waits on a thread, it is held by the thread that took it, wherever it has been sent since: where it
/// stands in that call's way, and nothing else could help, the call fails at once as `Stalled`.
///
/// ```
/// # use tack_residency::Device;
/// let device = Device::open("sim")?;
/// let buffer = device.alloc(4096).wait()?;
/// let guard = buffer.ensure_resident().wait()?;
/// let ptr = guard.ptr(); // hand it to a library that queues on `device.queue()`
/// assert_eq!(device.memory_info().pinned, 4096);
/// drop(guard);
/// # let _ = ptr;
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the buffer may move as soon as this is dropped"]
pub struct Residency {
    view: View,
    #[allow(dead_code, reason = "it ends when this is dropped")]
    hold: Hold,
    used_on: Option<usize>,
}

impl Residency {
    /// Where the view is on the device.
    pub fn ptr(&self) -> DevicePtr {
        self.view.buffer().cell().ptr().offset(self.view.offset())
    }

    /// The view that is kept resident.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Ends the hold; the work was queued on `queue`, not on the device's own.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::open("sim")?;
    /// let second = device.add_queue()?;
    /// let buffer = device.alloc(4096).wait()?;
    /// let guard = buffer.ensure_resident().wait()?;
    /// device.driver().fill(second.id(), guard.ptr(), guard.view().len(), 7)?;
    /// guard.used_on(&second)?;
    /// assert_eq!(buffer.read().wait()?, vec![7; 4096]);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Misuse` if the queue is another device's.
    pub fn used_on(mut self, queue: &Queue) -> Result<()> {
        if !queue.device().is_of(self.view.buffer().cell()) {
            return Err(not_of(queue.device()));
        }
        self.used_on = Some(queue.index());
        Ok(())
    }
}

impl Drop for Residency {
    fn drop(&mut self) {
        // Before the hold ends.
        let cell = self.view.buffer().cell();
        if let Some(queue) = self.used_on {
            cell.engine.note_foreign_use(cell, queue);
        }
    }
}

/// The steps of [`Buffer::export`].
#[derive(Debug)]
pub struct MakeExport {
    resident: Operation<EnsureResident>,
}

impl MakeExport {
    pub(crate) fn new(resident: Operation<EnsureResident>) -> MakeExport {
        MakeExport { resident }
    }
}

impl Steps for MakeExport {
    type Output = Export;
    const NAME: &'static str = "export";

    fn poll_steps(&mut self, cx: &mut Context<'_>, patience: Option<Duration>) -> Poll<Result<Export>> {
        let guard = ready!(self.resident.poll_inner(cx, patience))?;
        let buffer = guard.view.buffer().clone();
        buffer.cell().engine.begin_export(buffer.cell());
        drop(guard);
        Poll::Ready(Ok(Export { buffer, used_on: None }))
    }
}

/// A buffer's pointer handed out: it stays where it is while this lives, and counts as written.
///
/// The address is good at once; the bytes are behind what is queued on the device's own queue by then. Work for another
/// stream is ordered behind that queue ([`Queue::raw`](crate::Queue::raw)), or the device is awaited
/// ([`Device::idle`]) first.
///
/// It is what a DLPack tensor owns until its deleter is called, what an MPI call on device memory is made under, what
/// [`share`](Export::share) hands to another process, and what a captured graph keeps of each buffer whose address is in
/// it until its last launch is over (capture on a stream of your own, never on the device's queues). What others hand in is
/// [wrapped](crate::Device::wrap).
///
/// ```
/// # use tack_residency::Device;
/// let device = Device::open("sim")?;
/// let buffer = device.alloc(4096).tag("shared").wait()?;
/// let export = buffer.export().wait()?;
/// assert_eq!(buffer.spill().wait()?, 0);
/// export.end_after(&device.queue())?;
/// assert_eq!(buffer.spill().wait()?, 4096);
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the pointer is not good any more once this is dropped"]
pub struct Export {
    buffer: Buffer,
    used_on: Option<usize>,
}

impl Export {
    /// Where the buffer is on the device.
    pub fn ptr(&self) -> DevicePtr {
        self.buffer.cell().ptr()
    }

    /// The buffer handed out.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// The vendor's handle by which another process opens the buffer's memory: CUDA's `CUipcMemHandle`, HIP's
    /// `hipIpcMemHandle_t`. It is good while this lives; the other process closes it before.
    ///
    /// ```
    /// # use tack_residency::{Device, ErrorKind};
    /// let device = Device::open("auto")?;
    /// let [pooled, fixed] = [device.alloc(4096).wait()?, device.alloc(4096).fixed().wait()?];
    /// let error = pooled.export().wait()?.share().unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Unsupported);
    /// assert!(error.to_string().contains(".fixed()"));
    /// match fixed.export().wait()?.share() {
    ///     Ok(handle) => println!("to be sent: {handle:?}"),
    ///     Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported, "a simulated device has no other process"),
    /// }
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Unsupported` unless the buffer was allocated [`fixed`](crate::Operation::fixed), since a pool's memory cannot be
    /// handed out so, and on devices that share with no other process; the driver's besides.
    pub fn share(&self) -> Result<[u8; 64]> {
        let device = self.buffer.device();
        if self.buffer.is_empty() {
            return Err(
                Error::new(ErrorKind::Unsupported, "an empty buffer has no memory to share").on(&device)
            );
        }
        if !self.buffer.cell().fixed {
            let what = "a buffer that may move or is of a pool cannot be shared with another process: allocate it with \
                        `.fixed()`";
            return Err(Error::new(ErrorKind::Unsupported, what).on(&device));
        }
        device.driver().share(self.ptr()).map_err(|error| Error::from(error).on(&device))
    }

    /// Ends it; the last work on the buffer is queued on `queue`. Without this, what uses the buffer next waits for all that
    /// is queued on the device, on whatever stream; where [`Caps::drains`](crate::driver::Caps::drains) is false, as on Level
    /// Zero, on the device's own queues alone.
    ///
    /// For work on a stream that is not the crate's, have one of the device's queues wait for it and name that: through
    /// cudarc, `device.add_queue()?.cuda_stream()?.wait(&event)`; or wait for the work, and drop this. It is to be named while
    /// a graph is captured on the device, since a wait for all of it spoils the capture.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::open("sim")?;
    /// let buffer = device.alloc(4096).wait()?;
    /// let export = buffer.export().wait()?;
    /// device.driver().fill(device.queue().id(), export.ptr(), export.buffer().len(), 7)?;
    /// export.end_after(&device.queue())?;
    /// assert_eq!(buffer.read().wait()?, vec![7; 4096]);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Misuse` if the queue is another device's.
    pub fn end_after(mut self, queue: &Queue) -> Result<()> {
        if !queue.device().is_of(self.buffer.cell()) {
            return Err(not_of(queue.device()));
        }
        self.used_on = Some(queue.index());
        Ok(())
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        let cell = self.buffer.cell();
        let device = Device::of(cell);
        device.engine().end_export(cell, self.used_on);
    }
}
