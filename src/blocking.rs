//! The same operations, waiting: for programs without an async runtime, from any number of threads.
//!
//! Each call is its async form's [`wait`](crate::Operation::wait). The default host memory is ordinary memory, and a
//! spill is a copy the caller waits for.
//!
//! ```
//! use tack_residency::{Use, blocking::Device};
//!
//! let device = Device::options().budget(8192).open("sim")?;
//! let a = device.alloc(4096)?;
//! let b = device.alloc(4096)?;
//! let c = device.alloc(4096)?; // `a` is spilled
//! a.fill(7)?;
//! device.prepare([Use::read(&a), Use::write(&c)])?.submit(|run| {
//!     run.host_kernel(Default::default(), |args| {
//!         let [a, c] = args else { unreachable!() };
//!         c.bytes_mut().copy_from_slice(a.bytes());
//!     })
//! })?;
//! assert_eq!(c.read()?, vec![7; 4096]);
//! # drop(b);
//! # Ok::<(), tack_residency::Error>(())
//! ```
//!
//! # Panics
//!
//! Every call that waits panics on a thread that is polling an async task, at the caller's line.

use crate::{
    Export, HostMemoryKind, Launch, Options as AsyncOptions, Queue, Residency, Use, driver::DevicePtr,
    error::Result,
};
use std::{ops::Deref, sync::Arc};

/// A device whose calls wait. Everything that does not wait is [`crate::Device`]'s, which this derefs to.
///
/// ```
/// use tack_residency::{Use, blocking::{Buffer, Device}};
///
/// let device = Device::open("sim")?;
/// let (a, b) = (device.alloc(4096)?, device.alloc(4096)?);
/// device.prepare([Use::write(&a)])?.submit(|run| {
///     run.host_kernel(Default::default(), |args| args[0].bytes_mut().fill(7))
/// })?;
/// device.idle()?;
/// assert_eq!(device.spill_all()?, 8192);
/// device.make_room(4096)?;
/// device.set_budget(Some(1 << 20)); // waits for nothing: `crate::Device`'s own
/// // What has options, and what has no waiting form, is the async device's: its calls are waited for.
/// let tagged: Buffer = (*device).alloc(4096).tag("weights").wait()?.into();
/// let mut queue = device.launch_queue(4);
/// queue.push([Use::read(&tagged)], |_| Ok(())).wait()?;
/// queue.flush().wait()?;
/// # let _ = b;
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Device(crate::Device);

/// Options of a [`Device`] whose calls wait; all of [`crate::Options`], with ordinary host memory by default.
///
/// ```
/// use std::time::Duration;
/// use tack_residency::{blocking::Device, driver::sim::{Config, Sim}};
///
/// let options = Device::options().budget(1 << 20).with(|options| options.stall_after(Duration::from_secs(1)));
/// let device = options.clone().open("sim")?;
/// let small = options.open_driver("small", Sim::open(Config::new().with_capacity(1 << 20))?)?;
/// assert_eq!(device.memory_info().budget, small.memory_info().budget);
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Options(AsyncOptions);

impl Options {
    /// Changes the options, as [`crate::Options`] has them.
    pub fn with(self, change: impl FnOnce(AsyncOptions) -> AsyncOptions) -> Options {
        Options(change(self.0))
    }

    /// See [`crate::Options::budget`].
    pub fn budget(self, bytes: u64) -> Options {
        self.with(|options| options.budget(bytes))
    }

    /// See [`crate::Options::open`].
    ///
    /// # Errors
    ///
    /// `Unavailable` if there is no such device.
    pub fn open(self, name: &str) -> Result<Device> {
        self.0.open(name).map(Device)
    }

    /// See [`crate::Options::open_driver`].
    ///
    /// # Errors
    ///
    /// As that.
    pub fn open_driver(self, name: &str, driver: Arc<dyn crate::driver::Driver>) -> Result<Device> {
        self.0.open_driver(name, driver).map(Device)
    }
}

impl Device {
    /// Opens a device by name; see [`crate::Options::open`].
    ///
    /// # Errors
    ///
    /// `Unavailable` if there is no such device.
    pub fn open(name: &str) -> Result<Device> {
        Device::options().open(name)
    }

    /// Options to open a device with.
    pub fn options() -> Options {
        Options(crate::Device::options().host_memory(HostMemoryKind::Ordinary))
    }

    /// Allocates a cleared buffer; see [`crate::Device::alloc`]. With a tag, fixed or not cleared, it is the async
    /// device's: `(*device).alloc(bytes).tag("weights").wait()?.into()`.
    ///
    /// # Errors
    ///
    /// As that.
    #[track_caller]
    pub fn alloc(&self, bytes: u64) -> Result<Buffer> {
        self.0.alloc(bytes).wait().map(Buffer)
    }

    /// Makes all buffers of a launch resident; see [`crate::Device::prepare`].
    ///
    /// # Errors
    ///
    /// As that.
    #[track_caller]
    pub fn prepare<'a, U: AsRef<[Use<'a>]> + Unpin>(&'a self, uses: U) -> Result<Launch<'a, U>> {
        let mut launch = self.0.prepare(uses).wait()?;
        launch.hold(None, std::panic::Location::caller());
        Ok(launch)
    }

    /// See [`crate::Device::wrap`].
    ///
    /// ```
    /// # use tack_residency::blocking::Device;
    /// let device = Device::open("sim")?;
    /// let queue = device.queue().id();
    /// let ptr = device.driver().allocate(queue, 4096)?; // as another library would
    /// let wrapped = device.wrap(ptr, 4096)?;
    /// wrapped.fill(7)?;
    /// drop(wrapped);
    /// device.idle()?;
    /// device.driver().free(queue, ptr)?;
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As that.
    pub fn wrap(&self, ptr: DevicePtr, bytes: u64) -> Result<Buffer> {
        self.0.wrap(ptr, bytes).map(Buffer)
    }

    /// See [`crate::Device::make_room`].
    ///
    /// # Errors
    ///
    /// As that.
    #[track_caller]
    pub fn make_room(&self, bytes: u64) -> Result<()> {
        self.0.make_room(bytes).wait()
    }

    /// See [`crate::Device::spill_all`].
    ///
    /// # Errors
    ///
    /// As that.
    #[track_caller]
    pub fn spill_all(&self) -> Result<u64> {
        self.0.spill_all().wait()
    }

    /// See [`crate::Device::idle`].
    ///
    /// # Errors
    ///
    /// As that.
    #[track_caller]
    pub fn idle(&self) -> Result<()> {
        self.0.idle().wait()
    }
}

impl Deref for Device {
    type Target = crate::Device;

    fn deref(&self) -> &crate::Device {
        &self.0
    }
}

/// A buffer whose calls wait. Everything that does not wait is [`crate::Buffer`]'s, which this derefs to.
///
/// ```
/// use tack_residency::blocking::Device;
///
/// let device = Device::open("sim")?;
/// let (a, b) = (device.alloc(4)?, device.alloc(4)?);
/// a.write([1, 2, 3, 4])?;
/// a.view(2, 2)?.fill(0)?;
/// a.copy_to(&b)?;
/// assert_eq!(b.read()?, [1, 2, 0, 0]);
/// let (guard, export) = (a.ensure_resident()?, b.export()?);
/// assert_eq!((a.spill()?, b.spill()?), (0, 0)); // both stay where they are
/// drop((guard, export));
/// assert_eq!((a.spill()?, b.spill()?), (512, 512)); // in bytes of device memory, which come in blocks of 512 here
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Buffer(crate::Buffer);

/// A view whose calls wait. Everything that does not wait is [`crate::View`]'s, which this derefs to.
///
/// ```
/// use tack_residency::blocking::Device;
///
/// let device = Device::open("sim")?;
/// let buffer = device.alloc(1024)?;
/// let view = buffer.view(256, 4)?;
/// view.write([1, 2, 3, 4])?;
/// view.view(0, 1)?.fill(7)?;
/// assert_eq!(view.read()?, [7, 2, 3, 4]);
/// assert_eq!(view.ensure_resident()?.view().offset(), 256);
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct View(crate::View);

impl From<crate::Buffer> for Buffer {
    fn from(buffer: crate::Buffer) -> Buffer {
        Buffer(buffer)
    }
}

impl From<Buffer> for crate::Buffer {
    fn from(buffer: Buffer) -> crate::Buffer {
        buffer.0
    }
}

impl<'a> From<&'a Buffer> for Use<'a> {
    fn from(buffer: &'a Buffer) -> Use<'a> {
        Use::from(&buffer.0)
    }
}

impl<'a> From<&'a View> for Use<'a> {
    fn from(view: &'a View) -> Use<'a> {
        Use::from(&view.0)
    }
}

impl Deref for Buffer {
    type Target = crate::Buffer;

    fn deref(&self) -> &crate::Buffer {
        &self.0
    }
}

impl Deref for View {
    type Target = crate::View;

    fn deref(&self) -> &crate::View {
        &self.0
    }
}

/// The host's calls, which a buffer and a view share.
macro_rules! host_calls {
    ($of:ident) => {
        impl $of {
            /// Reads it to the host; see [`crate::Buffer::read`].
            ///
            /// # Errors
            ///
            /// As that.
            #[track_caller]
            pub fn read(&self) -> Result<Vec<u8>> {
                self.0.read().wait()
            }

            /// Writes the host's bytes into it; see [`crate::Buffer::write`].
            ///
            /// # Errors
            ///
            /// As that.
            #[track_caller]
            pub fn write(&self, data: impl AsRef<[u8]>) -> Result<()> {
                self.0.write(data.as_ref()).wait()
            }

            /// Sets every byte; see [`crate::Buffer::fill`].
            ///
            /// # Errors
            ///
            /// As that.
            #[track_caller]
            pub fn fill(&self, value: u8) -> Result<()> {
                self.0.fill(value).wait()
            }

            /// Copies it into `to`, on the device or to another; see [`crate::Buffer::copy_to`].
            ///
            /// # Errors
            ///
            /// As that.
            #[track_caller]
            pub fn copy_to(&self, to: &$of) -> Result<()> {
                self.0.copy_to(&to.0).wait()
            }

            /// A part of it; see [`crate::Buffer::view`].
            ///
            /// # Errors
            ///
            /// As that.
            pub fn view(&self, offset: u64, bytes: u64) -> Result<View> {
                self.0.view(offset, bytes).map(View)
            }

            /// Keeps it resident while the guard lives; see [`crate::Buffer::ensure_resident`].
            ///
            /// # Errors
            ///
            /// As that.
            #[track_caller]
            pub fn ensure_resident(&self) -> Result<Residency> {
                self.0.ensure_resident().wait()
            }
        }
    };
}

host_calls!(Buffer);
host_calls!(View);

impl Buffer {
    /// Hands its pointer out; see [`crate::Buffer::export`].
    ///
    /// # Errors
    ///
    /// As that.
    #[track_caller]
    pub fn export(&self) -> Result<Export> {
        self.0.export().wait()
    }

    /// Spills it now, if it may be; see [`crate::Buffer::spill`].
    ///
    /// # Errors
    ///
    /// As that.
    #[track_caller]
    pub fn spill(&self) -> Result<u64> {
        self.0.spill().wait()
    }
}

impl Device {
    /// See [`crate::Device::add_queue`].
    ///
    /// ```
    /// # use tack_residency::blocking::Device;
    /// let device = Device::open("sim")?;
    /// assert_ne!(device.add_queue()?.id(), device.queue().id());
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As that.
    pub fn add_queue(&self) -> Result<Queue> {
        self.0.add_queue()
    }
}
