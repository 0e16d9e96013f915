//! Hints that buffers will be used soon.

use crate::{
    buffer::Buffer,
    device::Device,
    engine::{Cell, Hints},
    error::{Error, Result},
    operation::{Operation, sealed::Steps},
    residency::{Phase, WordCell},
    usage::Use,
};
use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

impl Device {
    /// Hints at a launch to come: what it uses and does not overwrite whole is brought to the device beside what runs there,
    /// one buffer after the other. Gives how many of its bytes are there at the end, or will be before what is queued next.
    ///
    /// It counts as a use. It is served when no one else waits for room, and taken back as far as it has not been given when someone does. For
    /// its room the least recently used are spilled, but nothing that is pinned, that a
    /// [`LaunchQueue`](crate::LaunchQueue) waits for, or that an earlier hint was about and has not been used since. What
    /// there is no such room for stays where it is: a hint does not wait for pins to end.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tack_residency::{Device, Use};
    ///
    /// # futures::executor::block_on(async {
    /// let device = Device::options().budget(8192).open("sim")?;
    /// let mut steps = Vec::new();
    /// for _ in 0..4 {
    ///     steps.push(device.alloc(4096).await?);
    /// }
    /// for (now, next) in steps.iter().zip(steps.iter().cycle().skip(1)) {
    ///     let launch = device.prepare([Use::read_write(now)]).await?;
    ///     launch.submit(|run| run.host_kernel(Duration::from_micros(50), |args| args[0].bytes_mut().fill(1)))?;
    ///     assert_eq!(device.prefetch([Use::read_write(next)]).await?, 4096); // copied while the kernel runs
    /// }
    /// # Ok::<(), tack_residency::Error>(())
    /// # })?;
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Misuse` for a buffer of another device; `DeviceLost` or `TimedOut`. That there is no room is none.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it is as if it had not been asked, but for the copies that have begun.
    pub fn prefetch<'u>(&self, uses: impl AsRef<[Use<'u>]>) -> Operation<Prefetch> {
        let uses = uses.as_ref().iter();
        Operation::new(Prefetch::new(self, uses.filter(|used| !used.overwrites()).map(|used| used.cell())))
    }
}

impl Buffer {
    /// Hints that it will be used soon, as [`Device::prefetch`] does of a launch.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::open("sim")?;
    /// let buffer = device.alloc(4096).wait()?;
    /// buffer.spill().wait()?;
    /// assert_eq!(buffer.prefetch().wait()?, 4096);
    /// assert!(!buffer.is_spilled());
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `DeviceLost` or `TimedOut`. That there is no room is none.
    pub fn prefetch(&self) -> Operation<Prefetch> {
        Operation::new(Prefetch::new(&self.device(), [self.cell()]))
    }
}

/// The steps of [`Device::prefetch`].
pub struct Prefetch {
    device: Device,
    cells: Vec<Arc<Cell>>,
    hints: Option<Hints>,
}

impl Prefetch {
    fn new<'c>(device: &Device, cells: impl IntoIterator<Item = &'c Arc<Cell>>) -> Prefetch {
        let mut once: Vec<Arc<Cell>> = Vec::new();
        for cell in cells {
            if !once.iter().any(|other| Arc::ptr_eq(other, cell)) {
                once.push(cell.clone());
            }
        }
        Prefetch { device: device.clone(), cells: once, hints: None }
    }
}

impl Steps for Prefetch {
    type Output = u64;
    const NAME: &'static str = "prefetch";

    fn poll_steps(&mut self, cx: &mut Context<'_>, patience: Option<Duration>) -> Poll<Result<u64>> {
        if self.cells.iter().any(|cell| !self.device.is_of(cell)) {
            let error = Error::misuse("a buffer of another device: copy it over first").on(&self.device);
            return Poll::Ready(Err(error));
        }
        let hints = self.hints.get_or_insert_with(|| Hints::new(self.device.owner(), &self.cells));
        let ended = ready!(hints.poll(cx, patience));
        self.hints = None;
        ended.map_err(|failure| Error::from_failure(&self.device, Self::NAME, failure))?;
        let is_there = |cell: &&Arc<Cell>| cell.load().phase() != Phase::Spilled;
        Poll::Ready(Ok(self.cells.iter().filter(is_there).map(|cell| cell.bytes).sum()))
    }
}

impl fmt::Debug for Prefetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prefetch").field("buffers", &self.cells.len()).finish_non_exhaustive()
    }
}
