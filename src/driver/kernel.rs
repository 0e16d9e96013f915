//! A kernel whose body is a Rust closure: what the simulated device and the `cpu` device run.

use super::DevicePtr;
use std::{
    any::Any,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

/// How a kernel uses one of its arguments.
///
/// ```
/// use std::time::Duration;
/// use tack_residency::driver::{ArgAccess, DevicePtr, HostKernel};
///
/// let (input, output) = (DevicePtr::from_raw(0x1000), DevicePtr::from_raw(0x2000));
/// let kernel = HostKernel::new(Duration::ZERO, |_| ())
///     .arg(input, 256, ArgAccess::Read)
///     .arg(output, 256, ArgAccess::Write);
/// # let _ = kernel;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ArgAccess {
    /// The bytes are only read.
    Read,
    /// The bytes are written, and may be read.
    Write,
}

/// One argument as a kernel's body sees it: a range of device memory as bytes, aligned to 64.
///
/// ```
/// use tack_residency::driver::Arg;
///
/// let mut output = [0; 4];
/// let mut args = [Arg::Read(&[1, 2, 3, 4]), Arg::Write(&mut output)];
/// let [from, to] = &mut args; // taken apart first, to borrow one while another is written
/// to.bytes_mut().copy_from_slice(from.bytes());
/// assert_eq!(output, [1, 2, 3, 4]);
/// ```
#[derive(Debug)]
#[allow(missing_docs)]
pub enum Arg<'a> {
    Read(&'a [u8]),
    Write(&'a mut [u8]),
}

impl<'a> Arg<'a> {
    /// The bytes, to read.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Arg::Read(bytes) => bytes,
            Arg::Write(bytes) => bytes,
        }
    }

    /// The bytes, to write.
    ///
    /// # Panics
    ///
    /// If the argument was declared as only read.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Arg::Read(_) => panic!("this kernel argument was declared read: declare it write"),
            Arg::Write(bytes) => bytes,
        }
    }
}

pub(super) type Body = Box<dyn FnOnce(&mut [Arg<'_>]) + Send>;

/// A kernel that runs a closure over ranges of device memory.
///
/// Its arguments are declared before it runs, as they would be bound to a real kernel. Two arguments may overlap
/// only if both are read.
///
/// ```
/// use std::time::Duration;
/// use tack_residency::driver::{ArgAccess, Driver, HostKernel, QueueRole, sim::{Config, Sim}};
///
/// let device = Sim::open(Config::profile("pcie4")?)?;
/// let queue = device.create_queue(QueueRole::Compute)?;
/// let ptr = device.allocate(queue, 4)?;
/// let kernel = HostKernel::new(Duration::from_micros(50), |args| args[0].bytes_mut().fill(7));
/// device.launch_host(queue, kernel.labelled("fill").arg(ptr, 4, ArgAccess::Write))?;
/// while device.advance() {}
/// let mut bytes = [0; 4];
/// device.peek(ptr, &mut bytes)?;
/// assert_eq!(bytes, [7; 4]);
/// # Ok::<(), tack_residency::driver::DriverError>(())
/// ```
pub struct HostKernel {
    pub(super) label: &'static str,
    pub(super) cost: Duration,
    pub(super) args: Vec<(DevicePtr, u64, ArgAccess)>,
    pub(super) body: Body,
}

impl HostKernel {
    /// A kernel that keeps the compute engine for `cost`, and whose `body` is given its arguments in order.
    pub fn new(cost: Duration, body: impl FnOnce(&mut [Arg<'_>]) + Send + 'static) -> HostKernel {
        HostKernel { label: "kernel", cost, args: Vec::new(), body: Box::new(body) }
    }

    /// Names the kernel, for a timeline that shows it.
    #[must_use]
    pub fn labelled(mut self, label: &'static str) -> HostKernel {
        self.label = label;
        self
    }

    /// Adds an argument: `bytes` bytes at `ptr`.
    #[must_use]
    pub fn arg(mut self, ptr: DevicePtr, bytes: u64, access: ArgAccess) -> HostKernel {
        self.args.push((ptr, bytes, access));
        self
    }
}

/// What a panic said. A payload that panics when it is dropped is left as it is.
pub(super) fn panic_text(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
    text.unwrap_or_else(|| "no message".to_owned())
}

impl fmt::Debug for HostKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostKernel")
            .field("label", &self.label)
            .field("cost", &self.cost)
            .field("args", &self.args)
            .finish_non_exhaustive()
    }
}
