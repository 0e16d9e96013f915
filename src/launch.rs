//! Launches: a set of buffers made resident in one pass, and pinned until the work is queued.

use crate::{
    device::{Device, Queue},
    driver::{ArgAccess, DevicePtr, Driver, HostKernel, QueueId},
    engine::{COMPUTE, Cell, Flags, Holder, Wait},
    error::{Error, ErrorKind, Result},
    operation::{poll_request, sealed::Steps},
    residency::{Ask, NoPin, RequestId, WordCell},
    usage::{self, Use},
    view::View,
};
use std::{
    panic::Location,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

/// The steps of [`Device::prepare`].
#[derive(Debug)]
pub struct Prepare<'a, U> {
    device: &'a Device,
    uses: Option<U>,
    wait: Option<Box<Wait>>,
    place: &'static Location<'static>,
}

impl<'a, U: AsRef<[Use<'a>]>> Prepare<'a, U> {
    #[track_caller]
    pub(crate) fn new(device: &'a Device, uses: U) -> Prepare<'a, U> {
        Prepare { device, uses: Some(uses), wait: None, place: Location::caller() }
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
        if self.wait.is_some() || !Self::pin_all(device, uses.as_ref())? {
            request = Some(ready!(self.poll_engine(cx, patience))?);
        }
        let Some(uses) = self.uses.take() else { return Poll::Pending };
        let mut launch = Launch { device, uses, queue: COMPUTE, held: None };
        if let Some(request) = request {
            launch.hold(Some(request), self.place);
        }
        Poll::Ready(Ok(launch))
    }
}

impl<'a, U: AsRef<[Use<'a>]> + Unpin> Prepare<'a, U> {
    #[cold]
    fn poll_engine(&mut self, cx: &mut Context<'_>, patience: Option<Duration>) -> Poll<Result<RequestId>> {
        let device = self.device;
        let Some(uses) = &self.uses else { return Poll::Pending };
        let uses = uses.as_ref();
        if uses.iter().any(|used| !device.is_of(used.cell())) {
            return Poll::Ready(Err(
                Error::misuse("a buffer of another device: copy it over first").on(device)
            ));
        }
        let ask =
            || Wait::new(device.owner(), Ask::Uses(usage::wants(uses, false)), device.engine().stamp(), None);
        let wait = ready!(poll_request(&mut self.wait, ask, device, "prepare", cx, patience))?;
        Self::pin_repeated(device, uses)?;
        Poll::Ready(Ok(wait.into_id()))
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
            return Err(Error::misuse("the queue is another device's").on(self.device));
        }
        self.queue = queue.index();
        Ok(self)
    }

    /// Queues the caller's kernel: the closure queues it on the queue it is given, with the pointers it is given, and
    /// no other. Then the buffers may move again, behind it. Gives what the closure gives.
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
    /// The closure's; `DeviceLost`; a refused wait.
    #[inline(always)]
    pub fn submit<T, E: From<Error>>(self, queue: impl FnOnce(&Run<'_>) -> Result<T, E>) -> Result<T, E> {
        let engine = self.device.engine();
        let uses = self.uses.as_ref().iter().map(|used| (used.cell(), used.writes()));
        let submitting = engine
            .begin_submit(self.queue, uses)
            .map_err(|failure| Error::from_failure(self.device, "submit", failure))?;
        let run = Run::new(self.device, self.uses.as_ref(), self.queue);
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
        self.uses.as_ref().iter().for_each(|used| unpin(self.device, used.cell()));
    }
}

/// What a launch's closure is given: the queue, and each buffer's pointer.
///
/// ```
/// use tack_residency::{Device, Error, Use};
///
/// let device = Device::open("sim")?;
/// let buffer = device.alloc(4096).wait()?;
/// let half = buffer.view(2048, 2048)?;
/// device.prepare([Use::read(&buffer), Use::read(&half)]).wait()?.submit(|run| {
///     assert_eq!((run.len(), run.is_empty()), (2, false));
///     assert_eq!((run.bytes(0), run.bytes(1)), (4096, 2048));
///     assert_eq!(run.ptr(1), run.ptr(0).offset(2048));
///     assert_eq!(run.queue(), device.queue().id());
///     assert!(run.driver().caps().spills);
///     Ok::<(), Error>(())
/// })?;
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Debug)]
pub struct Run<'a> {
    device: &'a Device,
    uses: &'a [Use<'a>],
    queue: usize,
}

impl<'a> Run<'a> {
    pub(crate) fn new(device: &'a Device, uses: &'a [Use<'a>], queue: usize) -> Run<'a> {
        Run { device, uses, queue }
    }
}

impl Run<'_> {
    /// The queue to queue the kernel on.
    pub fn queue(&self) -> QueueId {
        self.device.engine().queue_id(self.queue)
    }

    /// The vendor's own handle of that queue, such as a `CUstream`, for kernels queued by the vendor's calls. What those
    /// need current on this thread is so afterwards.
    ///
    /// ```
    /// # use tack_residency::{Device, Error, ErrorKind, Use};
    /// # let device = Device::open("sim")?;
    /// # let buffer = device.alloc(4096).wait()?;
    /// # device.prepare([Use::read(&buffer)]).wait()?.submit(|run| {
    /// // A simulated device is no vendor's: it runs `host_kernel`s.
    /// assert_eq!(run.raw_queue().unwrap_err().kind(), ErrorKind::Unsupported);
    /// # Ok::<(), Error>(())
    /// # })?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Unsupported` on a device of no vendor's.
    pub fn raw_queue(&self) -> Result<*mut std::ffi::c_void> {
        self.driver().raw_queue(self.queue()).map_err(|error| Error::from(error).on(self.device))
    }

    /// That queue as cudarc has it; the pointers of [`ptr`](Run::ptr) are arguments of its launch builder, as
    /// [`Cuda`](crate::driver::cuda::Cuda) shows.
    ///
    /// ```
    /// # use tack_residency::{Device, Error, ErrorKind, Use};
    /// # let device = Device::open("sim")?;
    /// # let buffer = device.alloc(4096).wait()?;
    /// # device.prepare([Use::read(&buffer)]).wait()?.submit(|run| {
    /// let error = run.cuda_stream().unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Unsupported);
    /// assert!(error.to_string().contains("open `cuda`"));
    /// # Ok::<(), Error>(())
    /// # })?;
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Unsupported` on a device that is not CUDA's; what cudarc is refused.
    #[cfg(feature = "cuda")]
    pub fn cuda_stream(&self) -> Result<Arc<cudarc::driver::CudaStream>> {
        let cuda = self.driver().as_any().downcast_ref::<crate::driver::cuda::Cuda>().ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, "this device has no CUDA streams: open `cuda`").on(self.device)
        })?;
        cuda.cuda_stream(self.queue()).map_err(|error| Error::from(error).on(self.device))
    }

    /// The device's driver.
    pub fn driver(&self) -> &dyn Driver {
        &**self.device.driver()
    }

    /// The pointer of the use at `index`, in the order they were given.
    ///
    /// # Panics
    ///
    /// If there are not so many.
    pub fn ptr(&self, index: usize) -> DevicePtr {
        self.uses[index].ptr()
    }

    /// The bytes of the use at `index`.
    ///
    /// # Panics
    ///
    /// If there are not so many.
    pub fn bytes(&self, index: usize) -> u64 {
        self.uses[index].bytes()
    }

    /// How many uses there are.
    pub fn len(&self) -> usize {
        self.uses.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.uses.is_empty()
    }

    /// Queues a kernel that runs on the host, on a device that has those: its arguments are the launch's uses, in
    /// order. It keeps a simulated device's compute engine for `cost`. A body that panics loses the device.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tack_residency::{Device, Use};
    ///
    /// let device = Device::open("sim")?;
    /// let (from, to) = (device.alloc(4).wait()?, device.alloc(4).wait()?);
    /// from.fill(7).wait()?;
    /// device.prepare([Use::read(&from), Use::write(&to)]).wait()?.submit(|run| {
    ///     run.host_kernel(Duration::from_micros(50), |args| {
    ///         let [from, to] = args else { unreachable!() };
    ///         to.bytes_mut().copy_from_slice(from.bytes());
    ///     })
    /// })?;
    /// assert_eq!(to.read().wait()?, [7; 4]);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Unsupported` on a device that runs no such kernels; `Misuse` if two uses overlap and one is written.
    pub fn host_kernel(
        &self,
        cost: Duration,
        body: impl FnOnce(&mut [crate::driver::Arg<'_>]) + Send + 'static,
    ) -> Result<()> {
        let mut kernel = HostKernel::new(cost, body);
        for used in self.uses {
            let access = if used.writes() { ArgAccess::Write } else { ArgAccess::Read };
            kernel = kernel.arg(used.ptr(), used.bytes(), access);
        }
        self.driver().launch_host(self.queue(), kernel).map_err(|error| Error::from(error).on(self.device))
    }
}

/// The steps of [`Buffer::copy_to`](crate::Buffer::copy_to).
#[derive(Debug)]
pub struct CopyTo {
    from: View,
    to: View,
    wait: Option<Box<Wait>>,
}

impl CopyTo {
    pub(crate) fn new(from: View, to: View) -> CopyTo {
        CopyTo { from, to, wait: None }
    }
}

impl Steps for CopyTo {
    type Output = ();
    const NAME: &'static str = "copy_to";

    fn poll_steps(&mut self, cx: &mut Context<'_>, patience: Option<Duration>) -> Poll<Result<()>> {
        let device = self.from.buffer().device();
        if Arc::ptr_eq(self.from.buffer().cell(), self.to.buffer().cell()) {
            return Poll::Ready(Err(Error::misuse("a copy within one buffer: use another").on(&device)));
        }
        if !device.is_of(self.to.buffer().cell()) {
            let what = "a copy to another device: read it to the host and write it there";
            return Poll::Ready(Err(Error::new(ErrorKind::Unsupported, what).on(&device)));
        }
        if !self.to.is_within() || self.to.len() != self.from.len() {
            let what = format!("{} bytes do not fit into {}", self.from.len(), self.to.buffer().len());
            return Poll::Ready(Err(Error::misuse(what).on(&device)));
        }
        let uses = [Use::read(&self.from), Use::write(&self.to)];
        let mut prepare =
            Prepare { device: &device, uses: Some(uses), wait: self.wait.take(), place: Location::caller() };
        let launch = match prepare.poll_steps(cx, patience) {
            Poll::Ready(launch) => launch?,
            Poll::Pending => {
                self.wait = prepare.wait.take();
                return Poll::Pending;
            }
        };
        Poll::Ready(launch.submit(|run| {
            if run.bytes(0) > 0 {
                run.driver().copy(run.queue(), run.ptr(0), run.ptr(1), run.bytes(0))?;
            }
            Ok(())
        }))
    }
}
