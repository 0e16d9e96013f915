//! A device: where buffers are allocated and launches prepared.

use crate::{
    alloc::Alloc,
    buffer::Buffer,
    driver::{DevicePtr, Driver},
    engine::{COMPUTE, Cell, Engine, IdleWait, Owner, Wait},
    error::{Error, ErrorKind, Result},
    launch::Prepare,
    operation::{Operation, poll_request, sealed::Steps},
    options::Options,
    queue::Queue,
    residency::{Ask, Bytes},
    spill::Spill,
    usage::Use,
};
use std::{
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

/// One GPU, or the simulated one. Cloning gives another handle of the same device.
///
/// ```
/// use tack_residency::{Device, Use};
///
/// # fn main() -> Result<(), tack_residency::Error> {
/// # futures::executor::block_on(async {
/// let device = Device::options().budget(2 << 20).open("sim")?;
/// let a = device.alloc(1 << 20).await?;
/// let b = device.alloc(1 << 20).await?;
/// let c = device.alloc(1 << 20).await?;             // `a` is spilled to make room
/// a.write(vec![7; 1 << 20]).await?;                 // written where it is
/// let launch = device.prepare([Use::read(&a), Use::write(&c)]).await?; // `a` comes back, `b` goes
/// launch.submit(|run| run.host_kernel(Default::default(), |args| {
///     let [a, c] = args else { unreachable!() };
///     c.bytes_mut().copy_from_slice(a.bytes());
/// }))?;
/// assert_eq!(c.read().await?, vec![7; 1 << 20]);
/// assert!(device.memory_info().peak <= 2 << 20);
/// # drop(b);
/// # Ok(())
/// # })
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Device {
    owner: Arc<Owner>,
}

impl Device {
    /// Opens a device by name, with the default options; see [`Options::open`].
    ///
    /// ```
    /// # use tack_residency::{Device, ErrorKind};
    /// let device = Device::open("sim:rtx6000ada")?;
    /// assert_eq!(device.name(), "sim:rtx6000ada");
    /// assert_eq!(Device::open("abacus").unwrap_err().kind(), ErrorKind::Unavailable);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Unavailable` if there is no such device.
    pub fn open(name: &str) -> Result<Device> {
        Options::default().open(name)
    }

    /// Options to open a device with.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::options().budget(1 << 20).tag("model").open("sim")?;
    /// assert_eq!(device.memory_info().budget, Some(1 << 20));
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn options() -> Options {
        Options::default()
    }

    pub(crate) fn from_owner(owner: Arc<Owner>) -> Device {
        Device { owner }
    }

    pub(crate) fn of(cell: &Cell) -> Device {
        Device { owner: cell.owner().expect("a buffer keeps its device while it has a handle") }
    }

    pub(crate) fn owner(&self) -> &Arc<Owner> {
        &self.owner
    }

    #[inline]
    pub(crate) fn engine(&self) -> &Engine {
        &self.owner.engine
    }

    /// The name it was opened by.
    pub fn name(&self) -> &str {
        &self.engine().settings.name
    }

    /// Its driver, for what only that can do.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::open("sim:pcie4")?;
    /// assert!(device.driver().caps().computed_clock);
    /// assert!(device.driver().description().starts_with("simulated pcie4"));
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn driver(&self) -> &Arc<dyn Driver> {
        &self.engine().driver
    }

    /// Allocates a buffer of `bytes` bytes, cleared to zero unless [`Operation::uninitialised`] says otherwise.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::open("sim")?;
    /// let buffer = device.alloc(16).tag("weights").wait()?;
    /// assert_eq!(buffer.read().wait()?, [0; 16]);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `TooLarge`, `Blocked`, `OutOfMemory`, `Stalled`, `DeviceLost`.
    pub fn alloc(&self, bytes: u64) -> Operation<Alloc> {
        Operation::new(Alloc::new(self.clone(), bytes))
    }

    /// Makes all buffers of a launch resident in one pass, and keeps them so until the launch is submitted or dropped.
    /// All of them, or an error and nothing held. When all are resident this takes no lock and allocates nothing; a loop
    /// that counts nanoseconds lends its uses (`prepare(&uses)`) instead of having them moved about.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tack_residency::{Buffer, Device, Use};
    ///
    /// # futures::executor::block_on(async {
    /// let device = Device::options().budget(2 << 20).open("sim")?;
    /// let (a, b, c) = futures::try_join!(device.alloc(1 << 20), device.alloc(1 << 20), device.alloc(1 << 20))?;
    /// // A spawned task owns what it uses: it would have its clones of the device and the buffer.
    /// let add_one = async |array: &Buffer| {
    ///     let launch = device.prepare([Use::read_write(array)]).await?;
    ///     launch.submit(|run| {
    ///         run.host_kernel(Duration::ZERO, |args| args[0].bytes_mut().iter_mut().for_each(|byte| *byte += 1))
    ///     })
    /// };
    /// futures::try_join!(add_one(&a), add_one(&b), add_one(&c))?; // all three wait at the same time
    /// assert_eq!(a.read().await?, vec![1; 1 << 20]);
    /// # Ok::<(), tack_residency::Error>(())
    /// # })?;
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`alloc`](Device::alloc); `Misuse` for a buffer of another device, and where `uses` gives others later than
    /// were made resident: those stay where they are then.
    #[track_caller]
    pub fn prepare<'a, U: AsRef<[Use<'a>]> + Unpin>(&'a self, uses: U) -> Operation<Prepare<'a, U>> {
        Operation::new(Prepare::new(self, uses))
    }

    /// Wraps memory that is not this crate's, such as another library's: `bytes` bytes at `ptr`. It can be used as
    /// any buffer, is counted apart, and never moves. The caller keeps it allocated until the handles are gone.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::open("sim")?;
    /// let queue = device.queue().id();
    /// let ptr = device.driver().allocate(queue, 4096)?; // as another library would
    /// let wrapped = device.wrap(ptr, 4096)?;
    /// wrapped.fill(7).wait()?;
    /// assert_eq!(wrapped.view(0, 2)?.read().wait()?, [7, 7]);
    /// assert_eq!((device.memory_info().in_use, device.memory_info().foreign), (0, 4096));
    /// drop(wrapped);
    /// device.driver().free(queue, ptr)?;
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Misuse` if the range touches a live buffer of this device, or is null.
    pub fn wrap(&self, ptr: DevicePtr, bytes: u64) -> Result<Buffer> {
        Buffer::wrap(self, ptr, bytes)
    }

    /// Frees `bytes` bytes of device memory for others: a library's workspace, or a launch that ran out by itself.
    /// What the driver keeps for reuse is given back, and buffers are spilled as far as needed.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::options().budget(8192).open("sim")?;
    /// let buffer = device.alloc(8192).wait()?;
    /// device.make_room(4096).wait()?;
    /// assert!(buffer.is_spilled());
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`alloc`](Device::alloc).
    pub fn make_room(&self, bytes: u64) -> Operation<MakeRoom> {
        Operation::new(MakeRoom { device: self.clone(), bytes, wait: None })
    }

    /// Spills every buffer that may be spilled; how many bytes of device memory that was.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::open("sim")?;
    /// let kept = device.alloc(1024).fixed().wait()?;
    /// let buffer = device.alloc(4096).wait()?;
    /// assert_eq!(device.spill_all().wait()?, 4096);
    /// assert!(buffer.is_spilled() && !kept.is_spilled());
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A refused copy; `OutOfMemory` if the host has no room; `DeviceLost`.
    pub fn spill_all(&self) -> Operation<Spill> {
        Operation::new(Spill::all(self))
    }

    /// Waits until everything queued so far is done, spills and frees included.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::open("sim")?;
    /// drop(device.alloc(4096).wait()?);
    /// device.idle().wait()?;
    /// assert_eq!(device.memory_info().leaving, 0);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `DeviceLost`.
    pub fn idle(&self) -> Operation<Idle> {
        Operation::new(Idle { device: self.clone(), wait: IdleWait::default() })
    }

    /// Sets the budget, or none. Lowered, it spills at once what may be spilled, and the rest as pins end; meanwhile
    /// the report says `over_budget`.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::open("sim")?;
    /// let buffer = device.alloc(4096).wait()?;
    /// device.set_budget(Some(2048));
    /// device.idle().wait()?;
    /// assert!(buffer.is_spilled());
    /// device.set_budget(None);
    /// assert_eq!(device.memory_info().budget, None);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn set_budget(&self, bytes: Option<u64>) {
        let spills = self.engine().settings.spills;
        self.engine().change(|core| core.set_budget(bytes.filter(|_| spills).map_or(Bytes::MAX, Bytes)));
    }

    /// The device's own compute queue.
    ///
    /// ```
    /// # use tack_residency::{Device, Error};
    /// let device = Device::open("sim")?;
    /// device.prepare([]).wait()?.submit(|run| {
    ///     assert_eq!(run.queue(), device.queue().id()); // where launches go that name no other
    ///     Ok::<(), Error>(())
    /// })?;
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn queue(&self) -> Queue {
        Queue::new(self.clone(), COMPUTE)
    }

    /// Makes a further compute queue. Launches that share a buffer on two queues, one of them writing, are put in
    /// order on the device.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tack_residency::{Device, Use};
    ///
    /// let device = Device::open("sim")?;
    /// let second = device.add_queue()?;
    /// let buffer = device.alloc(4).wait()?;
    /// let on_second = device.prepare([Use::write(&buffer)]).wait()?.on(&second)?;
    /// on_second.submit(|run| run.host_kernel(Duration::ZERO, |args| args[0].bytes_mut().fill(7)))?;
    /// assert_eq!(buffer.read().wait()?, [7; 4]); // behind the launch, whatever its queue
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Unsupported` beyond five compute queues; the driver's.
    pub fn add_queue(&self) -> Result<Queue> {
        match self.engine().add_compute_queue()? {
            Some(index) => Ok(Queue::new(self.clone(), index)),
            None => {
                Err(Error::new(ErrorKind::Unsupported, "a device has at most five compute queues").on(self))
            }
        }
    }

    /// Recounts every byte from the buffers, and compares the books with that. For tests: it looks at every buffer.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::open("sim")?;
    /// let buffer = device.alloc(4096).wait()?;
    /// device.check()?;
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Misuse`, naming the figure that is wrong: a fault of this crate.
    pub fn check(&self) -> Result<()> {
        self.engine()
            .check()
            .map_err(|wrong| Error::misuse(format!("the books do not balance: {wrong}")).on(self))
    }

    #[inline]
    pub(crate) fn is_of(&self, cell: &Cell) -> bool {
        Arc::ptr_eq(&self.owner.engine, &cell.engine)
    }
}

/// The steps of [`Device::make_room`].
#[derive(Debug)]
pub struct MakeRoom {
    device: Device,
    bytes: u64,
    wait: Option<Box<Wait>>,
}

impl Steps for MakeRoom {
    type Output = ();
    const NAME: &'static str = "make_room";

    fn poll_steps(&mut self, cx: &mut Context<'_>, patience: Option<Duration>) -> Poll<Result<()>> {
        let device = &self.device;
        let granularity = device.driver().caps().granularity;
        let bytes = Bytes(self.bytes).round_up(granularity);
        if bytes == Bytes::ZERO {
            return Poll::Ready(Ok(()));
        }
        let ask = || Wait::new(device.owner(), Ask::Room(bytes), device.engine().stamp(), None);
        let done = ready!(poll_request(&mut self.wait, ask, device, Self::NAME, cx, patience));
        Poll::Ready(done.map(|wait| device.engine().end_request(wait.into_id())))
    }
}

/// The steps of [`Device::idle`].
#[derive(Debug)]
pub struct Idle {
    device: Device,
    wait: IdleWait,
}

impl Steps for Idle {
    type Output = ();
    const NAME: &'static str = "idle";

    fn poll_steps(&mut self, cx: &mut Context<'_>, patience: Option<Duration>) -> Poll<Result<()>> {
        let done = ready!(self.wait.poll(self.device.owner(), cx, patience));
        Poll::Ready(done.map_err(|failure| Error::from_failure(&self.device, Self::NAME, failure)))
    }
}
