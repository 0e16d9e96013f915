//! Launches: a set of buffers made resident in one pass, and pinned until the work is queued.

use crate::{
    device::Device,
    engine::{COMPUTE, Cell, Flags, Holder, Wait},
    error::{Error, Result},
    operation::{poll_request, sealed::Steps},
    queue::{Queue, not_of},
    residency::{Ask, NoPin, RequestId, WordCell},
    run::Run,
    usage::{self, Use},
};
use std::{
    panic::Location,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

/// Where the uses are that a launch's pins are for: others that its owner gives later are not its own. A pin is one
/// use's, and no one else's may be dropped for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pinned {
    start: usize,
    len: usize,
}

impl Pinned {
    /// What `uses` gives now, and where that is.
    #[inline(always)]
    fn look<'u, 'a, U: AsRef<[Use<'a>]>>(uses: &'u U) -> (&'u [Use<'a>], Pinned) {
        let slice = uses.as_ref();
        let start = slice.as_ptr().addr();
        // What its owner holds in itself moves with it.
        let within = start.wrapping_sub(std::ptr::from_ref(uses).addr());
        let start = if within < size_of::<U>() { within } else { start };
        (slice, Pinned { start: if slice.is_empty() { 0 } else { start }, len: slice.len() })
    }

    fn misuse(device: &Device) -> Error {
        Error::misuse("the owner of a launch's uses gave others than were made resident").on(device)
    }
}

/// The steps of [`Device::prepare`].
#[derive(Debug)]
pub struct Prepare<'a, U> {
    device: &'a Device,
    uses: Option<U>,
    pub(crate) wait: Option<Box<Wait>>,
    asked: Option<Pinned>,
    place: &'static Location<'static>,
}

impl<'a, U: AsRef<[Use<'a>]>> Prepare<'a, U> {
    #[track_caller]
    pub(crate) fn new(device: &'a Device, uses: U) -> Prepare<'a, U> {
        Prepare { device, uses: Some(uses), wait: None, asked: None, place: Location::caller() }
    }

    /// Goes on with another's wait, for the same uses.
    #[track_caller]
    pub(crate) fn again(device: &'a Device, uses: U, wait: Option<Box<Wait>>) -> Prepare<'a, U> {
        Prepare { wait, ..Prepare::new(device, uses) }
    }

    /// Pins every buffer without a lock; false, with none pinned, if one of them needs the engine.
    #[inline(always)]
    fn pin_all(device: &Device, uses: &[Use<'a>]) -> Result<bool> {
        let engine = device.engine();
        if engine.flags.has(Flags::GATE) {
            return Ok(false);
        }
        let stamp = engine.stamp();
        for (index, used) in uses.iter().enumerate() {
            let refused = if device.is_of(used.cell()) {
                match used.cell().try_pin(stamp, used.writes()) {
                    Ok(()) => continue,
                    Err(NoPin::TooMany) => Some("a buffer has as many pins as can be counted"),
                    Err(_) => None,
                }
            } else {
                Some("a buffer of another device: copy it over first")
            };
            uses.iter().take(index).for_each(|used| unpin(device, used.cell()));
            return match refused {
                None => Ok(false),
                Some(what) => Err(Error::misuse(what).on(device)),
            };
        }
        Ok(true)
    }

    /// A request pins each buffer once; a launch drops a pin for each use.
    fn pin_repeated(device: &Device, uses: &[Use<'a>]) -> Result<()> {
        for (pinned, used) in Self::repeated(uses).enumerate() {
            if used.cell().update(|word| word.with_pin()).is_none() {
                Self::repeated(uses).take(pinned).for_each(|used| unpin(device, used.cell()));
                return Err(Error::misuse("a buffer has as many pins as can be counted").on(device));
            }
        }
        Ok(())
    }

    /// The uses of buffers that another use before them names too.
    fn repeated<'u>(uses: &'u [Use<'a>]) -> impl Iterator<Item = &'u Use<'a>> {
        let is_repeated = |index, used: &Use<'a>| {
            uses.iter().take(index).any(|other| Arc::ptr_eq(other.cell(), used.cell()))
        };
        uses.iter().enumerate().filter(move |&(index, used)| is_repeated(index, used)).map(|(_, used)| used)
    }
}

#[inline]
fn unpin(device: &Device, cell: &Arc<Cell>) {
    if cell.unpin() {
        device.engine().unpinned(cell);
    }
}

impl<'a, U: AsRef<[Use<'a>]> + Unpin> Steps for Prepare<'a, U> {
    type Output = Launch<'a, U>;
    const NAME: &'static str = "prepare";

    #[inline(always)]
    fn poll_steps(
        &mut self,
        cx: &mut Context<'_>,
        patience: Option<Duration>,
    ) -> Poll<Result<Launch<'a, U>>> {
        let device = self.device;
        let Some(uses) = &self.uses else {
            return Poll::Ready(Err(Error::misuse("prepare was polled after its end").on(device)));
        };
        let mut request = None;
        let (slice, mut pinned) = Pinned::look(uses);
        if self.wait.is_some() || !Self::pin_all(device, slice)? {
            let (id, asked) = ready!(self.poll_engine(cx, patience))?;
            (request, pinned) = (Some(id), asked);
        }
        let Some(uses) = self.uses.take() else { return Poll::Pending };
        let mut launch = Launch { device, uses, pinned, queue: COMPUTE, held: None };
        if let Some(request) = request {
            launch.hold(Some(request), self.place);
        }
        Poll::Ready(Ok(launch))
    }
}

impl<'a, U: AsRef<[Use<'a>]> + Unpin> Prepare<'a, U> {
    #[cold]
    fn poll_engine(
        &mut self,
        cx: &mut Context<'_>,
        patience: Option<Duration>,
    ) -> Poll<Result<(RequestId, Pinned)>> {
        let device = self.device;
        let Some(uses) = &self.uses else { return Poll::Pending };
        let (uses, pinned) = Pinned::look(uses);
        if *self.asked.get_or_insert(pinned) != pinned {
            return Poll::Ready(Err(Pinned::misuse(device)));
        }
        if uses.iter().any(|used| !device.is_of(used.cell())) {
            return Poll::Ready(Err(
                Error::misuse("a buffer of another device: copy it over first").on(device)
            ));
        }
        let ask =
            || Wait::new(device.owner(), Ask::Uses(usage::wants(uses, false)), device.engine().stamp(), None);
        let wait = ready!(poll_request(&mut self.wait, ask, device, "prepare", cx, patience))?;
        Self::pin_repeated(device, uses)?;
        Poll::Ready(Ok((wait.into_id(), pinned)))
    }
}

/// A launch whose buffers are resident, until it is submitted or dropped.
///
/// ```
/// use std::time::Duration;
/// use tack_residency::{Device, Use};
///
/// let device = Device::open("sim")?;
/// let buffer = device.alloc(4096).wait()?;
/// let launch = device.prepare([Use::write(&buffer)]).wait()?;
/// assert_eq!(buffer.spill().try_now()?, 0); // it stays where it is
/// launch.submit(|run| run.host_kernel(Duration::ZERO, |args| args[0].bytes_mut().fill(7)))?;
/// assert_eq!(buffer.spill().wait()?, 4096); // behind the kernel
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a launch does nothing until it is submitted, and keeps its buffers where they are"]
pub struct Launch<'a, U: AsRef<[Use<'a>]>> {
    device: &'a Device,
    uses: U,
    pinned: Pinned,
    queue: usize,
    held: Option<Box<Held>>,
}

/// What the engine knows of a launch: kept apart, since few launches have it and all are moved about.
#[derive(Debug)]
struct Held {
    /// The request of a launch that needed the engine.
    request: Option<RequestId>,
    /// Its entry among those that hold pins.
    holder: u64,
}

impl<'a, U: AsRef<[Use<'a>]>> Launch<'a, U> {
    /// Goes to another compute queue of the device.
    ///
    /// ```
    /// use tack_residency::{Device, Error, Use};
    ///
    /// let device = Device::open("sim")?;
    /// let second = device.add_queue()?;
    /// let buffer = device.alloc(4096).wait()?;
    /// device.prepare([Use::read(&buffer)]).wait()?.on(&second)?.submit(|run| {
    ///     assert_eq!(run.queue(), second.id());
    ///     Ok::<(), Error>(())
    /// })?;
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Misuse` if the queue is another device's.
    pub fn on(mut self, queue: &Queue) -> Result<Launch<'a, U>> {
        if !Arc::ptr_eq(queue.device().owner(), self.device.owner()) {
            return Err(not_of(self.device));
        }
        self.queue = queue.index();
        Ok(self)
    }

    /// Queues the caller's kernel: the closure queues it on the queue it is given, with the pointers it is given, and
    /// no other. Then the buffers may move again, behind it. Gives what the closure gives.
    ///
    /// The closure must not wait for what can only come behind its launch: a read, write or fill by the host of one of
    /// its buffers, or a launch behind that. The crate's own waits are refused there as `Misuse`; one on an executor,
    /// such as `block_on`, never ends.
    ///
    /// If the closure fails or panics, buffers that were to be overwritten whole and were spilled keep their bytes.
    ///
    /// ```
    /// use tack_residency::{Device, Error, Use};
    ///
    /// let device = Device::open("sim")?;
    /// let buffer = device.alloc(4096).wait()?;
    /// device.prepare([Use::write(&buffer)]).wait()?.submit(|run| {
    ///     // Here a program queues its kernel on `run.queue()`. A device's own copies and fills are queued like this:
    ///     run.driver().fill(run.queue(), run.ptr(0), run.bytes(0), 7)?;
    ///     Ok::<(), Error>(()) // names its error: any that an `Error` turns into will do
    /// })?;
    /// assert_eq!(buffer.read().wait()?, vec![7; 4096]);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The closure's; `DeviceLost`; a refused wait; `Misuse` within the closure of another launch, if one of the buffers
    /// is waited for as above or the device has further queues.
    #[inline(always)]
    pub fn submit<T, E: From<Error>>(self, queue: impl FnOnce(&Run<'_>) -> Result<T, E>) -> Result<T, E> {
        let engine = self.device.engine();
        let (uses, pinned) = Pinned::look(&self.uses);
        if pinned != self.pinned {
            return Err(Pinned::misuse(self.device).into());
        }
        let submitting = engine
            .begin_submit(self.queue, uses.iter().map(|used| (used.cell(), used.writes())))
            .map_err(|failure| Error::from_failure(self.device, "submit", failure))?;
        let run = Run::new(self.device, uses, self.queue);
        let result = queue(&run);
        if let Some(request) = self.held.as_ref().and_then(|held| held.request).filter(|_| result.is_ok()) {
            engine.overwritten(request);
        }
        drop(submitting);
        result
    }

    /// Makes it known who holds the pins, for the report of a stall.
    #[cold]
    pub(crate) fn hold(&mut self, request: Option<RequestId>, place: &'static Location<'static>) {
        if self.held.is_some() {
            return;
        }
        let uses = self.uses.as_ref();
        let holder = self.device.engine().add_holder(Holder {
            what: "launch",
            place,
            thread: std::thread::current().id(),
            bytes: uses.iter().map(|used| used.cell().bytes).sum(),
            tag: uses.first().and_then(|used| used.cell().tag.clone()),
        });
        self.held = Some(Box::new(Held { request, holder }));
    }

    /// Which buffers its pins are on is not known any more: they stay where they are.
    #[cold]
    fn keep_pins(&self) {
        let error = Pinned::misuse(self.device);
        tracing::error!(target: "tack_residency", %error, "pins of a launch are left");
    }

    #[cold]
    fn let_go(&self, held: &Held) {
        if let Some(request) = held.request {
            self.device.engine().end_request(request);
        }
        self.device.engine().remove_holder(held.holder);
    }
}

impl<'a, U: AsRef<[Use<'a>]>> Drop for Launch<'a, U> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            self.let_go(&held);
        }
        let (uses, pinned) = Pinned::look(&self.uses);
        if pinned == self.pinned {
            uses.iter().for_each(|used| unpin(self.device, used.cell()));
        } else {
            self.keep_pins();
        }
    }
}
