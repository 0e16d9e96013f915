//! The crate's one error: a kind that tells what to do, and what a reader needs to know to do it.

use crate::{
    device::Device,
    driver::{DriverError, DriverErrorKind},
    report::{HolderInfo, MemoryInfo},
    residency::{Bytes, Failure},
};
use std::{error::Error as StdError, fmt, sync::Arc};

/// The result of the crate's calls.
///
/// ```
/// use tack_residency::{Buffer, Device, Result};
///
/// fn weights(device: &Device) -> Result<Buffer> {
///     device.alloc(4096).tag("weights").wait()
/// }
/// assert_eq!(weights(&Device::open("sim")?)?.len(), 4096);
/// # Ok::<(), tack_residency::Error>(())
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What failed, in kinds that ask for different reactions.
///
/// ```
/// use tack_residency::{Device, ErrorKind};
///
/// let device = Device::options().budget(4096).open("sim")?;
/// let buffer = match device.alloc(8192).wait() {
///     Err(error) if error.kind() == ErrorKind::TooLarge => device.alloc(4096).wait(),
///     other => other,
/// }?;
/// assert_eq!(buffer.len(), 4096);
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ErrorKind {
    /// More than the budget, or than one allocation may be: it never fits. Ask for less, or raise the budget.
    TooLarge,
    /// It would fit but for exports and fixed buffers: end some.
    Blocked,
    /// Not enough memory now, on the device or the host. Free something and try again.
    OutOfMemory,
    /// Only guards and launches stand in the way, and nothing is on its way: drop or submit them.
    Stalled,
    /// A `try_` call would have had to wait.
    WouldBlock,
    /// A deadline passed.
    TimedOut,
    /// The device is lost. Buffers with a current host copy can still be read.
    DeviceLost,
    /// No such driver or device.
    Unavailable,
    /// The device cannot do this.
    Unsupported,
    /// The call was wrong.
    Misuse,
    /// A driver's call was refused for another reason; it had no effect.
    Refused,
}

/// A call that failed. It had no effect, and holds nothing.
///
/// ```
/// use tack_residency::{Device, ErrorKind};
///
/// let device = Device::options().budget(4096).open("sim")?;
/// let error = device.alloc(8192).wait().unwrap_err();
/// assert_eq!((error.kind(), error.device()), (ErrorKind::TooLarge, Some("sim")));
/// assert_eq!(error.memory_info().unwrap().budget, Some(4096));
/// assert!(error.to_string().starts_with("sim: alloc needs 8.0 KiB, and at most 4.0 KiB can ever fit"));
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    what: String,
    device: Option<String>,
    ledger: Option<MemoryInfo>,
    holders: Vec<HolderInfo>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the same call may succeed later, with nothing else changed by the caller.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::options().budget(1 << 20).open("sim")?;
    /// let error = device.alloc(1 << 30).wait().unwrap_err();
    /// assert!(!error.is_retryable());
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn is_retryable(&self) -> bool {
        matches!(
            self.0.kind,
            ErrorKind::Blocked
                | ErrorKind::OutOfMemory
                | ErrorKind::Stalled
                | ErrorKind::WouldBlock
                | ErrorKind::TimedOut
                | ErrorKind::Refused
        )
    }

    /// The device's name, where the failure is one device's.
    pub fn device(&self) -> Option<&str> {
        self.0.device.as_deref()
    }

    /// The device's memory when it failed, where memory is what it failed for.
    pub fn memory_info(&self) -> Option<&MemoryInfo> {
        self.0.ledger.as_ref()
    }

    /// Who holds the most: by tag where memory is short, by place where guards stand in the way.
    ///
    /// ```
    /// # use tack_residency::{Device, ErrorKind};
    /// let device = Device::options().budget(4096).open("sim")?;
    /// let image = device.alloc(4096).tag("image").fixed().wait()?;
    /// let error = device.alloc(4096).wait().unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Blocked);
    /// assert_eq!(error.holders()[0].to_string(), "image (4.0 KiB)");
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn holders(&self) -> &[HolderInfo] {
        &self.0.holders
    }

    pub(crate) fn new(kind: ErrorKind, what: impl Into<String>) -> Error {
        Error(Box::new(Inner {
            kind,
            what: what.into(),
            device: None,
            ledger: None,
            holders: Vec::new(),
            source: None,
        }))
    }

    pub(crate) fn misuse(what: impl Into<String>) -> Error {
        Error::new(ErrorKind::Misuse, what)
    }

    pub(crate) fn on(mut self, device: &Device) -> Error {
        self.0.device = Some(device.name().to_owned());
        self
    }

    /// The failure of a call on a device, with the device's ledger and holders.
    pub(crate) fn from_failure(device: &Device, call: &str, failure: Failure) -> Error {
        let (kind, what) = match &failure {
            Failure::TooLarge { bytes, most } => {
                let raised = if device.memory_info().budget.is_some() { " or raise the budget" } else { "" };
                let what =
                    format!("{call} needs {bytes}, and at most {most} can ever fit: ask for less{raised}");
                (ErrorKind::TooLarge, what)
            }
            Failure::Blocked { bytes, exported } => (
                ErrorKind::Blocked,
                format!(
                    "{call} needs {bytes}, and exports and fixed buffers hold {exported}: drop some of them"
                ),
            ),
            Failure::OutOfMemory { bytes } => (
                ErrorKind::OutOfMemory,
                format!(
                    "{call} needs {bytes} of device memory, and nothing more can be spilled: free buffers or try again later"
                ),
            ),
            Failure::HostOutOfMemory { bytes } => (
                ErrorKind::OutOfMemory,
                format!(
                    "{call} needs {bytes} of host memory for a copy, and the host tier has no more: raise its limit or free buffers"
                ),
            ),
            Failure::Stalled { bytes } => (
                ErrorKind::Stalled,
                format!(
                    "{call} needs {bytes}, and only guards and prepared launches stand in the way: drop or submit them"
                ),
            ),
            Failure::Misuse(what) => (ErrorKind::Misuse, format!("{call}: {what}")),
            Failure::TimedOut => (
                ErrorKind::TimedOut,
                format!("{call} did not end before its deadline: try it again, or give it longer"),
            ),
            Failure::Lost => {
                let why = device.engine().lost().map(|lost| format!(": {lost}")).unwrap_or_default();
                let what = format!(
                    "{call}: the device is lost{why}; open it again: of the buffers here, those with a current host copy can be read"
                );
                (ErrorKind::DeviceLost, what)
            }
            Failure::Call(_) => (ErrorKind::Refused, format!("{call} was refused by the driver")),
        };
        let mut error = Error::new(kind, what).on(device);
        match failure {
            Failure::Call(source) => {
                if let Some(driver) = source.downcast_ref::<DriverError>() {
                    error.0.kind = kind_of(driver.kind);
                }
                error.0.source = Some(source);
            }
            Failure::Lost => {
                error.0.source = device.engine().lost().map(|lost| Arc::new(lost) as _);
            }
            Failure::Stalled { .. } => error.0.holders = device.all_pin_holders(),
            Failure::Misuse(_) => {}
            _ => {
                error.0.ledger = Some(device.memory_info());
                error.0.holders = match kind {
                    ErrorKind::TooLarge => Vec::new(),
                    ErrorKind::TimedOut => device.all_pin_holders(),
                    ErrorKind::Blocked => device.largest(8, |info| info.exported || info.fixed),
                    _ => device.largest(8, |_| true),
                };
                // What is spilled stands in nobody's way.
                error.0.holders.retain(|holder| holder.bytes > 0);
            }
        }
        error
    }
}

fn kind_of(kind: DriverErrorKind) -> ErrorKind {
    match kind {
        DriverErrorKind::OutOfMemory => ErrorKind::OutOfMemory,
        DriverErrorKind::TooLarge => ErrorKind::TooLarge,
        DriverErrorKind::Lost => ErrorKind::DeviceLost,
        DriverErrorKind::Unsupported => ErrorKind::Unsupported,
        DriverErrorKind::Unavailable => ErrorKind::Unavailable,
        DriverErrorKind::Invalid => ErrorKind::Misuse,
        DriverErrorKind::Refused => ErrorKind::Refused,
    }
}

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Error {
        let mut made = Error::new(kind_of(error.kind), error.message.clone());
        made.0.source = Some(Arc::new(error));
        made
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(device) = &self.0.device {
            write!(f, "{device}: ")?;
        }
        f.write_str(&self.0.what)?;
        if let Some(ledger) = &self.0.ledger {
            write!(f, " ({ledger})")?;
        }
        for (index, holder) in self.0.holders.iter().enumerate() {
            f.write_str(if index == 0 { "; held by " } else { ", " })?;
            write!(f, "{holder}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("message", &self.to_string())
            .field("source", &self.0.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

impl HolderInfo {
    pub(crate) fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", self.tag, Bytes(self.bytes))?;
        if self.buffers > 1 {
            write!(f, " in {} buffers", self.buffers)?;
        }
        if let Some(place) = &self.place {
            write!(f, ", taken at {place}")?;
        }
        f.write_str(")")
    }
}
