//! How long a device's engines were busy, alone and at the same time as others.

use std::{fmt, time::Duration};

/// Time for which a device's engines were at work since it was opened. Copies are those with the host: of spills, restores
/// and write-back, and of the program's own reads and writes.
///
/// Two kernels at the same time count once.
///
/// ```
/// # use tack_residency::Device;
/// let device = Device::open("sim:pcie4")?;
/// let buffer = device.alloc(1 << 20).wait()?;
/// buffer.write(vec![7; 1 << 20]).wait()?;
/// device.idle().wait()?;
/// let busy = device.memory_info().busy.expect("a simulated device can tell");
/// assert!(!busy.copy_in.is_zero() && busy.copy == busy.copy_in);
/// assert_eq!(busy.hidden(), Some(0.0), "no kernel ran beside it");
/// println!("{busy}");
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Busy {
    /// Some copy to the host ran.
    pub copy_out: Duration,
    /// Some copy from the host ran.
    pub copy_in: Duration,
    /// Some kernel, or copy or fill within the device, ran.
    pub compute: Duration,
    /// A copy ran in one direction at least.
    pub copy: Duration,
    /// Copies ran in both directions.
    pub both_ways: Duration,
    /// A copy ran, and a kernel ran at the same time: this much of `copy` was hidden.
    pub copy_while_compute: Duration,
}

impl Busy {
    /// The share of the time with copies in which a kernel ran too, from 0 to 1; none if there were no copies.
    pub fn hidden(&self) -> Option<f64> {
        let is_any = !self.copy.is_zero();
        is_any.then(|| self.copy_while_compute.as_secs_f64() / self.copy.as_secs_f64())
    }
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Busy { compute, copy_out, copy_in, .. } = self;
        write!(f, "kernels {compute:.1?}, copies out {copy_out:.1?}, in {copy_in:.1?}, ")?;
        write!(f, "hidden {}", Share(self.hidden()))
    }
}

/// A share as people read it; a dash if there is none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share(pub(crate) Option<f64>);

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(share) => write!(f, "{:.1}%", share * 100.0),
            None => f.write_str("-"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_copies_there_is_no_share_of_them() {
        let idle = Busy::default();
        assert_eq!(idle.hidden(), None);
        assert_eq!(idle.to_string(), "kernels 0.0ns, copies out 0.0ns, in 0.0ns, hidden -");
        let milli = Duration::from_millis;
        let busy = Busy { copy_in: milli(4), copy: milli(4), copy_while_compute: milli(3), ..idle };
        assert_eq!(busy.hidden(), Some(0.75));
        assert!(busy.to_string().ends_with("in 4.0ms, hidden 75.0%"), "{busy}");
    }
}
