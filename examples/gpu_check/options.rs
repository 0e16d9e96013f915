//! The command line.

use std::{ffi::OsString, path::PathBuf};

pub const HELP: &str = "\
usage: gpu_check [--device NAME] [--json] [--short] [--only TEXT] [TRACE]

Checks a device and measures it: the conformance suite, a recorded program (TRACE, or a small one) at half of its memory
with kernels of the device's own, and copies and launches beside those of its driver alone. Exits with 1 if anything failed.

  --device NAME  cuda, cuda:1, hip, sim, ...: as `devices` lists them; without it, the first GPU that opens
  --json         one JSON object instead of the table
  --short        small arrays and few rounds: whether it works, not how fast
  --only TEXT    of the checks those whose name contains it, and nothing else
";

/// How large and how often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// So that copies take a GPU milliseconds.
    Full,
    /// So that a simulated device is done soon.
    Short,
}

impl Extent {
    /// How long an array of a check is, in bytes: a multiple of what any driver rounds up to.
    pub fn array_bytes(self) -> u64 {
        if self == Extent::Full { 8 << 20 } else { 1 << 16 }
    }
}

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    pub device: Option<String>,
    pub json: bool,
    pub extent: Extent,
    pub only: Option<String>,
    pub trace: Option<PathBuf>,
    pub help: bool,
}

impl Options {
    pub fn is_short(&self) -> bool {
        self.extent == Extent::Short
    }

    /// Reads a command line.
    ///
    /// # Errors
    ///
    /// The word that means nothing, or that lacks its value.
    pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Options, String> {
        let mut options =
            Options { device: None, json: false, extent: Extent::Full, only: None, trace: None, help: false };
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut value = || {
                let value = words.next().and_then(|value| value.into_string().ok());
                value
                    .filter(|value| !value.is_empty())
                    .ok_or_else(|| format!("{} needs a value: see --help", word.display()))
            };
            match word.to_str() {
                Some("--device") => options.device = Some(value()?),
                Some("--only") => options.only = Some(value()?),
                Some("--json") => options.json = true,
                Some("--short") => options.extent = Extent::Short,
                Some("--help" | "-h") => options.help = true,
                Some(text) if text.starts_with('-') || text.is_empty() => {
                    return Err(format!("there is no option {text:?}: see --help"));
                }
                _ if options.trace.is_some() => return Err("one trace is enough: see --help".to_owned()),
                _ => options.trace = Some(word.into()),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Options, String> {
        Options::parse(words.iter().map(OsString::from))
    }

    #[test]
    fn words_are_taken_in_any_order() {
        let options =
            parse(&["a.jsonl", "--json", "--device", "hip:1", "--short", "--only", "sweep"]).expect("taken");
        assert_eq!((options.device.as_deref(), options.only.as_deref()), (Some("hip:1"), Some("sweep")));
        assert_eq!(options.trace.as_deref(), Some(std::path::Path::new("a.jsonl")));
        assert!(options.json && options.is_short() && !options.help);
    }

    #[test]
    fn an_argument_that_means_nothing_is_refused() {
        for words in [&["--nothing"][..], &[""], &["--device"], &["--only", ""], &["a", "b"]] {
            let problem = parse(words).expect_err("refused");
            assert!(problem.contains("see --help"), "{problem}");
        }
    }
}
