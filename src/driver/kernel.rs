//! A kernel whose body is a Rust closure: what the simulated device and the `cpu` device run.

use super::DevicePtr;
use std::{fmt, time::Duration};

/// How a kernel uses one of its arguments.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ArgAccess {
    /// The bytes are only read.
    Read,
    /// The bytes are written, and may be read.
    Write,
}

/// One argument as a kernel's body sees it: a range of device memory as bytes, aligned to 64.
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

impl fmt::Debug for HostKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostKernel")
            .field("label", &self.label)
            .field("cost", &self.cost)
            .field("args", &self.args)
            .finish_non_exhaustive()
    }
}
