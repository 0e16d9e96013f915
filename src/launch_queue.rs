//! A queue of launches: taken ahead of time, prepared while earlier ones run, queued in their order.

mod line;

use crate::{
    buffer::Buffer,
    device::Device,
    engine::{LaunchWait, lock},
    error::{Error, Result},
    operation::{Operation, sealed::Steps},
    run::Run,
    usage::{Kept, Use},
};
use line::{Entry, Keep, Shared};
use std::{
    fmt,
    sync::{Arc, Weak},
    task::{Context, Poll, ready},
    time::Duration,
};

type Work = Box<dyn FnOnce(&Run<'_>) -> Result<()> + Send>;

/// Launches that wait to be queued on the device's compute queue, in their order. The buffers of the next ones are
/// brought to the device while earlier ones run.
///
/// Each goes as soon as it is ready and its turn has come, whether or not anyone polls: its work may run on the
/// device's own thread, and must not wait. A launch in here keeps its buffers by itself: a program may drop its handles,
/// and the memory is counted as given up from there on. What is spilled for whom is what it would be without looking
/// ahead.
///
/// Launches not queued yet when this is dropped are not queued at all. Dropping waits for no one: the one whose work
/// another thread is running at that moment may still be queued.
///
/// ```
/// use tack_residency::{Device, Use, driver::sim::{Config, Contents, Sim}};
/// use std::time::Duration;
///
/// # futures::executor::block_on(async {
/// // Eight arrays of 16 MiB on a device that may hold half of them; copies take half as long as kernels.
/// let config = Config::profile("pcie4")?.with_contents(Contents::NotHeld);
/// let device = Device::options().budget(64 << 20).open_driver("sim", Sim::open(config)?)?;
/// let mut arrays = Vec::new();
/// for _ in 0..8 {
///     arrays.push(device.alloc(16 << 20).uninitialised().await?);
/// }
/// let mut queue = device.launch_queue(2);
/// for round in 0..16 {
///     let uses = [Use::read_write(&arrays[round % 8])];
///     queue.push(uses, |run| run.host_kernel(Duration::from_micros(1400), |_| ())).await?;
/// }
/// queue.flush().await?;
/// assert!(device.memory_info().restores > 0);
/// # Ok::<(), tack_residency::Error>(())
/// # }).unwrap();
/// ```
pub struct LaunchQueue {
    shared: Arc<Shared>,
    look_ahead: usize,
}

impl Device {
    /// A queue of launches that prepares up to `look_ahead` of them while earlier ones run. With none, each is queued
    /// before the next is prepared.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::open("sim")?;
    /// let queue = device.launch_queue(4);
    /// assert!(queue.is_empty());
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn launch_queue(&self, look_ahead: usize) -> LaunchQueue {
        let shared = Arc::new(Shared::new(self.clone()));
        let launcher: Weak<Shared> = Arc::downgrade(&shared);
        self.engine().add_launcher(launcher);
        LaunchQueue { shared, look_ahead }
    }
}

impl LaunchQueue {
    /// Adds a launch: its buffers are asked for at the first poll, and `work` queues the kernel when its turn has come.
    /// Waits until no more than the look-ahead wait to be queued.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tack_residency::{Device, Use};
    ///
    /// # futures::executor::block_on(async {
    /// let device = Device::open("sim")?;
    /// let buffer = device.alloc(4).await?;
    /// let mut queue = device.launch_queue(4);
    /// let fill = |run: &tack_residency::Run<'_>| {
    ///     run.host_kernel(Duration::ZERO, |args| args[0].bytes_mut().fill(7))
    /// };
    /// queue.push([Use::write(&buffer)], fill).await?; // pushed: it runs when its turn has come
    /// queue.flush().await?; // queued on the device
    /// assert_eq!(buffer.read().await?, [7; 4]); // done
    /// # Ok::<(), tack_residency::Error>(())
    /// # })?;
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Device::prepare`], and what the work of this launch or an earlier one gave: that launch is not queued, and
    /// the others go on.
    ///
    /// # Cancel safety
    ///
    /// Once polled, the launch is in the queue, whether or not this is polled to its end, and whatever it gives: also after
    /// `WouldBlock` or `TimedOut`, and after an earlier launch's error. Pushed again, it runs twice.
    pub fn push<'q, 'u>(
        &'q mut self,
        uses: impl AsRef<[Use<'u>]>,
        work: impl FnOnce(&Run<'_>) -> Result<()> + Send + 'static,
    ) -> Operation<Push<'q>> {
        let uses = uses.as_ref().iter().map(Kept::of).collect();
        Operation::new(Push { queue: self, new: Some((uses, Box::new(work))), wait: LaunchWait::default() })
    }

    /// A new buffer of `bytes` bytes, at once: its device memory comes in its turn, behind what was pushed before and
    /// ahead of what is pushed after. It reads as zero until it is written. So a program that allocates between launches looks as
    /// far ahead as one that does not. Which buffers are spilled for it is what it would be with [`Device::alloc`].
    ///
    /// # Errors
    ///
    /// `TooLarge` if it can never fit, or one allocation may not be as large. What its turn brings, such as `OutOfMemory` or
    /// `DeviceLost`, is given by the next [`push`](LaunchQueue::push) or [`flush`](LaunchQueue::flush); the buffer can be used
    /// all the same, and asks for its memory again then.
    ///
    /// ```
    /// # use tack_residency::{Device, Use};
    /// let device = Device::options().budget(8192).open("sim")?;
    /// let mut queue = device.launch_queue(2);
    /// for value in 1..=6 {
    ///     let scratch = queue.alloc(4096)?;
    ///     let work = move |run: &tack_residency::Run<'_>| {
    ///         run.host_kernel(Default::default(), move |args| args[0].bytes_mut()[0] += value)
    ///     };
    ///     queue.push([Use::read_write(&scratch)], work).wait()?;
    ///     // Dropped here, though the launch may not be queued yet.
    /// }
    /// queue.flush().wait()?;
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn alloc(&mut self, bytes: u64) -> Result<Buffer> {
        self.alloc_with(bytes, true)
    }

    /// As [`alloc`](LaunchQueue::alloc), with contents that are not specified until they are written.
    ///
    /// ```
    /// # use tack_residency::{Device, Use};
    /// let device = Device::open("sim")?;
    /// let mut queue = device.launch_queue(2);
    /// let filled = queue.alloc_uninitialised(4)?;
    /// queue.push([Use::write(&filled)], |run| Ok(run.driver().fill(run.queue(), run.ptr(0), 4, 7)?)).wait()?;
    /// queue.flush().wait()?;
    /// assert_eq!(filled.read().wait()?, [7; 4]);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`alloc`](LaunchQueue::alloc).
    pub fn alloc_uninitialised(&mut self, bytes: u64) -> Result<Buffer> {
        self.alloc_with(bytes, false)
    }

    fn alloc_with(&mut self, bytes: u64, cleared: bool) -> Result<Buffer> {
        let buffer = Buffer::unborn(&self.shared.device, bytes, cleared)?;
        if !buffer.is_empty() {
            self.shared.ask(vec![Kept::whole(buffer.cell().clone())], None)?;
        }
        Ok(buffer)
    }

    /// Waits until every launch is queued.
    ///
    /// ```
    /// # use tack_residency::{Device, Error, Use};
    /// let device = Device::open("sim")?;
    /// let buffer = device.alloc(4096).wait()?;
    /// let mut queue = device.launch_queue(4);
    /// queue.push([Use::read(&buffer)], |_| Ok(())).wait()?;
    /// queue.flush().wait()?;
    /// assert_eq!(queue.len(), 0);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`push`](LaunchQueue::push).
    pub fn flush(&mut self) -> Operation<Flush<'_>> {
        Operation::new(Flush { queue: self, keep: Keep::All(0), wait: LaunchWait::default() })
    }

    /// Waits until every launch that uses `buffer` is queued: a read by the host that is polled then is behind them.
    ///
    /// ```
    /// use tack_residency::{Device, Use};
    ///
    /// let device = Device::open("sim")?;
    /// let (a, b) = (device.alloc(4096).wait()?, device.alloc(4096).wait()?);
    /// let mut queue = device.launch_queue(4);
    /// queue.push([Use::write(&a)], |run| Ok(run.driver().fill(run.queue(), run.ptr(0), run.bytes(0), 7)?)).wait()?;
    /// queue.push([Use::read(&b)], |_| Ok(())).wait()?;
    /// queue.flush_uses(&a).wait()?;
    /// assert_eq!(a.read().wait()?, vec![7; 4096]);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`push`](LaunchQueue::push).
    pub fn flush_uses(&mut self, buffer: &Buffer) -> Operation<Flush<'_>> {
        let is_used =
            |entry: &Entry| entry.uses.iter().any(|kept| Arc::ptr_eq(Use::from(kept).cell(), buffer.cell()));
        let keep = lock(&self.shared.state).entries.iter().rev().take_while(|entry| !is_used(entry)).count();
        Operation::new(Flush { queue: self, keep: Keep::All(keep), wait: LaunchWait::default() })
    }

    /// How many launches wait to be queued.
    pub fn len(&self) -> usize {
        lock(&self.shared.state).launches
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until no more than `keep` wait.
    fn poll(
        &mut self,
        wait: &mut LaunchWait,
        cx: &mut Context<'_>,
        patience: Option<Duration>,
        name: &str,
        keep: Keep,
    ) -> Poll<Result<()>> {
        let shared = &self.shared;
        let ended = ready!(wait.poll(shared.device.owner(), &shared.event, cx, patience, || {
            shared.device.engine().run_hook_of_launches();
            let mut state = lock(&shared.state);
            match state.errors.pop_front() {
                Some(error) => Some(Err(error)),
                None => {
                    let is_over = match keep {
                        Keep::Launches(keep) => state.launches <= keep,
                        Keep::All(keep) => state.waiting() <= keep,
                    };
                    is_over.then_some(Ok(()))
                }
            }
        }));
        let late = |failure| Error::from_failure(&shared.device, name, failure);
        Poll::Ready(ended.map_err(late).and_then(|outcome| outcome))
    }
}

impl Drop for LaunchQueue {
    /// Launches not queued yet are not queued at all, but for one whose work is being run.
    fn drop(&mut self) {
        let entries = {
            let mut state = lock(&self.shared.state);
            state.launches = usize::from(state.queueing);
            std::mem::take(&mut state.entries)
        };
        let engine = self.shared.device.engine();
        entries.iter().for_each(|entry| engine.unbell(entry.request));
        engine.change(|core| {
            for entry in entries.iter().rev() {
                core.cancel(entry.request);
            }
        });
    }
}

impl fmt::Debug for LaunchQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaunchQueue")
            .field("look_ahead", &self.look_ahead)
            .field("waiting", &self.len())
            .finish()
    }
}

/// The steps of [`LaunchQueue::push`].
pub struct Push<'q> {
    queue: &'q mut LaunchQueue,
    new: Option<(Vec<Kept>, Work)>,
    wait: LaunchWait,
}

impl Steps for Push<'_> {
    type Output = ();
    const NAME: &'static str = "push";

    fn poll_steps(&mut self, cx: &mut Context<'_>, patience: Option<Duration>) -> Poll<Result<()>> {
        if let Some((uses, work)) = self.new.take() {
            self.queue.shared.ask(uses, Some(work))?;
        }
        let keep = Keep::Launches(self.queue.look_ahead);
        self.queue.poll(&mut self.wait, cx, patience, Self::NAME, keep)
    }
}

impl fmt::Debug for Push<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Push").field("queue", &self.queue).finish_non_exhaustive()
    }
}

/// The steps of [`LaunchQueue::flush`].
#[derive(Debug)]
pub struct Flush<'q> {
    queue: &'q mut LaunchQueue,
    keep: Keep,
    wait: LaunchWait,
}

impl Steps for Flush<'_> {
    type Output = ();
    const NAME: &'static str = "flush";

    fn poll_steps(&mut self, cx: &mut Context<'_>, patience: Option<Duration>) -> Poll<Result<()>> {
        self.queue.poll(&mut self.wait, cx, patience, Self::NAME, self.keep)
    }
}
