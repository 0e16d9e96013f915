//! Keeps more GPU arrays alive than a GPU can hold: it counts every byte, copies the arrays used least recently to
//! host memory when memory runs short, and brings each one back the next time the device needs it.
//!
//! | you want to | look at |
//! |---|---|
//! | open a device, with a budget | [`Device`], [`Options`] |
//! | allocate, read, write, spill, discard | [`Buffer`], [`View`] |
//! | launch a kernel on arrays that may be spilled | [`Device::prepare`], [`Use`], [`Launch`] |
//! | keep a pointer for a while | [`Buffer::ensure_resident`], [`Buffer::export`] |
//! | know what is held | [`Device::memory_info`], [`MemoryInfo`] |
//! | do the same without an async runtime | [`blocking`] |
//! | try it without a GPU, or make calls fail | [`driver::sim`], [`driver::fault`] |

mod access;
pub mod blocking;
mod buffer;
mod device;
pub mod driver;
mod engine;
mod error;
mod export;
mod launch;
mod launch_queue;
mod operation;
mod options;
mod report;
mod residency;
mod usage;
mod view;

pub use access::{Fill, Read, Write};
pub use buffer::{Alloc, Buffer};
pub use device::{Device, Idle, MakeRoom, Queue, Spill};
pub use error::{Error, ErrorKind, Result};
pub use export::{EnsureResident, Export, MakeExport, Residency};
pub use launch::{CopyTo, Launch, Prepare, Run};
pub use launch_queue::{Flush, LaunchQueue, Push};
pub use operation::{Operation, Steps};
pub use options::{HostMemoryKind, Options};
pub use report::{HolderInfo, MemoryInfo, PeakScope};
pub use residency::{Policy, Victims};
pub use usage::Use;
pub use view::View;

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
