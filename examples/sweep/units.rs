//! Bytes and seconds as people read them.

use std::fmt::{self, Display};

/// Bytes in binary units, in at most eight characters.
#[derive(Clone, Copy, Debug)]
pub struct Size(pub u64);

impl Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let mut size = self.0 as f64;
        let mut unit = "B";
        for larger in UNITS {
            if size < 999.5 {
                break;
            }
            (size, unit) = (size / 1024.0, larger);
        }
        let digits = if unit == "B" || size >= 99.95 { 0 } else { 1 };
        f.pad(&format!("{size:.digits$} {unit}"))
    }
}

/// Seconds, in at most eight characters.
#[derive(Clone, Copy, Debug)]
pub struct Seconds(pub f64);

impl Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&if self.0 < 0.9995 { format!("{:.2} ms", self.0 * 1e3) } else { format!("{:.3} s", self.0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_seconds_keep_to_their_columns() {
        for (bytes, wanted) in [
            (0, "0 B"),
            (999, "999 B"),
            (1023, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (102_300, "99.9 KiB"),
            (102_400, "100 KiB"),
            (1_048_575, "1.0 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(Size(bytes).to_string(), wanted, "{bytes}");
        }
        assert_eq!(Seconds(0.0123456).to_string(), "12.35 ms");
        assert_eq!(Seconds(0.9996).to_string(), "1.000 s");
        assert_eq!(format!("{:>10}", Size(512)), "     512 B");
    }
}
