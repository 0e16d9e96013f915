//! Keeps more GPU arrays alive than a GPU can hold: it counts every byte, copies the arrays used least recently to
//! host memory when memory runs short, and brings each one back the next time the device needs it.
//!
//! | you want to | look at |
//! |---|---|
//! | open a device, with a budget | [`Device`], [`Options`] |
//! | allocate, read, write, spill, discard | [`Buffer`], [`View`] |
//! | launch a kernel on arrays that may be spilled | [`Device::prepare`], [`Use`], [`Launch`] |
//! | bring the arrays of the next launches while earlier ones run | [`Device::launch_queue`], [`LaunchQueue`], [`Device::prefetch`] |
//! | know which devices there are | [`devices()`] |
//! | keep a pointer for a while | [`Buffer::ensure_resident`], [`Buffer::export`] |
//! | know what is held, and what comes and goes too often | [`Device::memory_info`], [`MemoryInfo`], [`Device::thrash`] |
//! | do the same without an async runtime | [`blocking`] |
//! | try it without a GPU, or make calls fail | [`driver::sim`], [`driver::fault`] |
//!
//! Every call that may wait gives an [`Operation`]: `.await` it on any executor, or call its [`wait`](Operation::wait).
//! All sizes are in bytes.
//!
//! ```
//! use tack_residency::Device;
//!
//! # futures::executor::block_on(async {
//! let device = Device::options().budget(8192).open("sim")?;
//! let a = device.alloc(4096).await?;
//! a.fill(7).await?;
//! let (b, c) = (device.alloc(4096).await?, device.alloc(4096).await?); // no room for three: `a` is spilled
//! assert!(a.is_spilled());
//! let guard = a.ensure_resident().await?; // `a` comes back, and `b` goes
//! assert!(b.is_spilled() && !c.is_spilled());
//! assert_eq!(a.read().await?, vec![7; 4096]);
//! # drop(guard);
//! # Ok::<(), tack_residency::Error>(())
//! # })?;
//! # Ok::<(), tack_residency::Error>(())
//! ```

mod access;
mod accounting;
mod alloc;
pub mod blocking;
mod buffer;
mod copy;
mod device;
mod devices;
pub mod driver;
mod engine;
mod error;
mod export;
mod hold;
mod launch;
mod launch_queue;
mod operation;
mod options;
mod pool;
mod prefetch;
mod queue;
mod report;
mod residency;
mod run;
mod spill;
mod usage;
mod view;

pub use access::{Fill, Read, Write};
pub use accounting::PeakScope;
pub use alloc::Alloc;
pub use buffer::Buffer;
pub use copy::CopyTo;
pub use device::{Device, Idle, MakeRoom};
pub use devices::{DeviceInfo, devices};
pub use error::{Error, ErrorKind, Result};
pub use export::{EnsureResident, Export, MakeExport, Residency};
pub use launch::{Launch, Prepare};
pub use launch_queue::{Flush, LaunchQueue, Push};
pub use operation::{Operation, Steps};
pub use options::{HostMemoryKind, Options};
pub use prefetch::Prefetch;
pub use queue::Queue;
pub use report::{HolderInfo, MemoryInfo, ThrashInfo};
pub use residency::{Policy, Victims};
pub use run::Run;
pub use spill::Spill;
pub use usage::Use;
pub use view::View;

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
