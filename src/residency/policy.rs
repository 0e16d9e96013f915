//! The choices that a program makes: which copies are made, and whom a spill takes.

/// Which copies are made.
///
/// ```
/// use tack_residency::{Device, Policy};
///
/// let device = Device::options().policy(Policy::Plain).open("sim")?;
/// let buffer = device.alloc(4096).wait()?;
/// buffer.spill().wait()?;
/// drop(buffer.ensure_resident().wait()?);
/// assert_eq!(device.memory_info().copies_avoided, 0);
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Policy {
    /// Every spill copies out and every restore copies in: the plain yardstick.
    Plain,
    /// A clean buffer is spilled without a copy, and one that is overwritten whole comes back without one.
    #[default]
    Aware,
}

/// Whom a spill takes.
///
/// ```
/// use tack_residency::{Device, Victims};
///
/// let strict = Device::options().victims(Victims::LeastRecentlyUsed).open("sim")?; // the default
/// let looks_ahead = Device::options().victims(Victims::NextUse).open("sim")?;
/// # let _ = (strict, looks_ahead);
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Victims {
    /// Exactly the least recently used, whatever is known of launches to come: the same at every look-ahead.
    #[default]
    LeastRecentlyUsed,
    /// The same, but for what the launches of a queue wait for: that comes last, and of it what is needed last.
    NextUse,
}
