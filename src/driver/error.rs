//! Why a driver's call failed: a kind that tells what to do, and the vendor's own call and number.

use std::fmt;

/// The result of a driver's call.
///
/// ```
/// use std::sync::Arc;
/// use tack_residency::driver::{Result, sim::{Config, Sim}};
///
/// fn small() -> Result<Arc<Sim>> {
///     Sim::open(Config::new().with_capacity(1 << 20))
/// }
/// assert_eq!(small()?.config().capacity, 1 << 20);
/// # Ok::<(), tack_residency::driver::DriverError>(())
/// ```
pub type Result<T> = std::result::Result<T, DriverError>;

/// What a failed driver call means for its caller.
///
/// ```
/// use tack_residency::driver::{DriverErrorKind, sim::{Config, Sim}};
///
/// assert_eq!(Config::profile("abacus").unwrap_err().kind, DriverErrorKind::Unavailable);
/// assert_eq!(Sim::open(Config::new().with_granularity(0)).unwrap_err().kind, DriverErrorKind::Invalid);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum DriverErrorKind {
    /// Not enough memory now; it may succeed when some has been freed.
    OutOfMemory,
    /// More than one allocation may ever be.
    TooLarge,
    /// The device is lost: this call and every later one fails.
    Lost,
    /// The device or its driver cannot do this.
    Unsupported,
    /// No such driver, or no such device.
    Unavailable,
    /// The call was wrong: an unknown queue, address or fence.
    Invalid,
    /// Any other refusal; the call had no effect.
    Refused,
}

/// A driver's call that failed.
///
/// ```
/// use tack_residency::{Error, ErrorKind, driver::{DriverError, DriverErrorKind}};
///
/// let error = DriverError::new(DriverErrorKind::OutOfMemory, "cuMemAllocAsync", 2, "out of memory");
/// assert_eq!(error.to_string(), "cuMemAllocAsync failed with code 2: out of memory");
/// assert_eq!(Error::from(error).kind(), ErrorKind::OutOfMemory);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriverError {
    /// What it means for the caller.
    pub kind: DriverErrorKind,
    /// The call's name, as its vendor spells it.
    pub call: &'static str,
    /// The vendor's number.
    pub code: i64,
    /// What happened, in words.
    pub message: String,
}

impl DriverError {
    /// A failed call.
    pub fn new(
        kind: DriverErrorKind,
        call: &'static str,
        code: i64,
        message: impl Into<String>,
    ) -> DriverError {
        DriverError { kind, call, code, message: message.into() }
    }

    /// The same of a call that allocates no memory: making room would not help it.
    pub(crate) fn of_no_allocation(self) -> DriverError {
        match self.kind {
            DriverErrorKind::OutOfMemory | DriverErrorKind::TooLarge => {
                DriverError { kind: DriverErrorKind::Refused, ..self }
            }
            _ => self,
        }
    }
}

/// A call that was wrong.
#[cfg(any(feature = "cuda", feature = "hip", feature = "level-zero"))]
pub(super) fn invalid(call: &'static str, message: impl Into<String>) -> DriverError {
    DriverError::new(DriverErrorKind::Invalid, call, 0, message)
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            0 => write!(f, "{} failed: {}", self.call, self.message),
            code => write!(f, "{} failed with code {code}: {}", self.call, self.message),
        }
    }
}

impl std::error::Error for DriverError {}
