//! The allocation of a buffer.

use crate::{
    buffer::Buffer,
    device::Device,
    engine::{Spec, Wait},
    error::{Error, ErrorKind, Result},
    operation::{Operation, poll_request, sealed::Steps},
    residency::{Ask, Bytes},
};
use std::{
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

/// What a buffer of `bytes` bytes takes on the device, if one allocation may be as large.
pub(crate) fn taken(device: &Device, bytes: u64) -> Result<Bytes> {
    let caps = device.driver().caps();
    let bytes = Bytes(bytes).round_up(caps.granularity);
    let most = caps.max_allocation.unwrap_or(u64::MAX);
    if bytes.0 > most {
        let what = format!("alloc needs {bytes}, and one allocation may be at most {}", Bytes(most));
        return Err(Error::new(ErrorKind::TooLarge, what).on(device));
    }
    Ok(bytes)
}

/// The steps of [`Device::alloc`].
#[derive(Debug)]
pub struct Alloc {
    device: Device,
    bytes: u64,
    cleared: bool,
    fixed: bool,
    tag: Option<Arc<str>>,
    wait: Option<Box<Wait>>,
}

impl Alloc {
    pub(crate) fn new(device: Device, bytes: u64) -> Alloc {
        let tag = device.engine().settings.tag.clone();
        Alloc { device, bytes, cleared: true, fixed: false, tag, wait: None }
    }
}

impl Operation<Alloc> {
    /// Does not clear it: the contents are not specified until they are written.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::open("sim")?;
    /// let buffer = device.alloc(4).uninitialised().wait()?;
    /// buffer.fill(7).wait()?;
    /// assert_eq!(buffer.read().wait()?, [7; 4]);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn uninitialised(self) -> Operation<Alloc> {
        self.map(|steps| steps.cleared = false)
    }

    /// Never to move: for texture images, scalar packs, memory for IPC and MPI.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::open("sim")?;
    /// let image = device.alloc(4096).fixed().wait()?;
    /// assert_eq!(image.spill().wait()?, 0);
    /// assert_eq!(device.memory_info().fixed, 4096);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn fixed(self) -> Operation<Alloc> {
        self.map(|steps| steps.fixed = true)
    }

    /// Says where it comes from, for reports.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::open("sim")?;
    /// let buffer = device.alloc(4096).tag("weights").wait()?;
    /// assert_eq!(buffer.tag(), Some("weights"));
    /// assert_eq!(device.largest_holders(1)[0].tag, "weights");
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn tag(self, tag: impl Into<Arc<str>>) -> Operation<Alloc> {
        self.map(|steps| steps.tag = Some(tag.into()))
    }
}

impl Steps for Alloc {
    type Output = Buffer;
    const NAME: &'static str = "alloc";

    fn poll_steps(&mut self, cx: &mut Context<'_>, patience: Option<Duration>) -> Poll<Result<Buffer>> {
        let device = self.device.clone();
        let engine = device.engine();
        let bytes = match taken(&device, self.bytes) {
            Ok(Bytes::ZERO) => return Poll::Ready(Ok(Buffer::empty(&device, self.tag.clone()))),
            Ok(bytes) => bytes,
            Err(error) => return Poll::Ready(Err(error)),
        };
        let (length, cleared, fixed, tag) = (self.bytes, self.cleared, self.fixed, &self.tag);
        let ask = || {
            let owner = device.owner().clone();
            let spec = Spec { owner, bytes: length, cleared, fixed, tag: tag.clone() };
            Wait::new(device.owner(), Ask::Fresh(bytes), engine.stamp(), Some(spec))
        };
        let done = ready!(poll_request(&mut self.wait, ask, &device, Self::NAME, cx, patience));
        Poll::Ready(done.and_then(|wait| {
            let taken = wait.into_buffer().map(Buffer::from_cell);
            taken.ok_or_else(|| {
                Error::new(ErrorKind::DeviceLost, "the device was lost before the buffer was taken")
            })
        }))
    }
}
