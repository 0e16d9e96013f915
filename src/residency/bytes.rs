//! A number of bytes, with arithmetic that cannot overflow and a display in binary units.

use std::{fmt, iter::Sum};

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Bytes = Bytes(0);
    /// More than any device holds: a budget that never binds.
    pub const MAX: Bytes = Bytes(u64::MAX);

    /// The sum, or the largest value where that would be larger.
    #[must_use]
    pub fn plus(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }

    /// The difference, or zero where that would be negative.
    #[must_use]
    pub fn minus(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }

    /// The next multiple of `granularity`.
    #[must_use]
    pub fn round_up(self, granularity: u64) -> Bytes {
        Bytes(self.0.checked_next_multiple_of(granularity.max(1)).unwrap_or(u64::MAX))
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(iter: I) -> Bytes {
        iter.fold(Bytes::ZERO, Bytes::plus)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
        let mut value = self.0 as f64;
        let mut unit = "B";
        for next in UNITS {
            if value < 1024.0 {
                break;
            }
            value /= 1024.0;
            unit = next;
        }
        if unit == "B" { f.pad(&format!("{} B", self.0)) } else { f.pad(&format!("{value:.1} {unit}")) }
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn displays_in_binary_units() {
        assert_eq!(Bytes(0).to_string(), "0 B");
        assert_eq!(Bytes(1023).to_string(), "1023 B");
        assert_eq!(Bytes(1536).to_string(), "1.5 KiB");
        assert_eq!(Bytes(3 << 30).to_string(), "3.0 GiB");
    }

    #[test]
    fn never_overflows() {
        assert_eq!(Bytes::MAX.plus(Bytes(1)), Bytes::MAX);
        assert_eq!(Bytes(1).minus(Bytes(2)), Bytes::ZERO);
        assert_eq!(Bytes::MAX.round_up(256), Bytes::MAX);
        assert_eq!(Bytes(257).round_up(256), Bytes(512));
    }
}
