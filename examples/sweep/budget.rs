//! How much device memory a run may use, as the command line gives it: a part of the unlimited peak, bytes, or no end.

const UNITS: [(&str, f64); 9] = [
    ("b", 1.0),
    ("kb", 1e3),
    ("mb", 1e6),
    ("gb", 1e9),
    ("tb", 1e12),
    ("kib", 1024.0),
    ("mib", 1_048_576.0),
    ("gib", 1_073_741_824.0),
    ("tib", 1_099_511_627_776.0),
];

/// The most device memory of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Budget {
    /// A part of the unlimited peak.
    Percent(f64),
    Bytes(u64),
    Unlimited,
}

impl Budget {
    /// Reads `40%`, `1500000`, `64MiB` or `none`; none if it is none of them.
    pub fn parse(text: &str) -> Option<Budget> {
        if text == "none" {
            return Some(Budget::Unlimited);
        }
        if let Some(percent) = text.strip_suffix('%') {
            return number(percent).map(Budget::Percent);
        }
        if let Ok(bytes) = text.parse() {
            return Some(Budget::Bytes(bytes));
        }
        let end = text.find(|letter: char| letter.is_ascii_alphabetic())?;
        let (count, unit) = text.split_at(end);
        let unit = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
        let bytes = number(count.trim_end())? * unit.1;
        (bytes < u64::MAX as f64).then_some(Budget::Bytes(bytes as u64))
    }

    /// In bytes, where the unlimited peak is `peak`; none for no end.
    pub fn bytes(self, peak: u64) -> Option<u64> {
        match self {
            Budget::Unlimited => None,
            Budget::Bytes(bytes) => Some(bytes),
            Budget::Percent(percent) => Some((peak as f64 * percent / 100.0) as u64),
        }
    }
}

/// A plain number that is not negative: no sign, exponent, infinity or other word.
fn number(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|number: &f64| plain && number.is_finite())
}
