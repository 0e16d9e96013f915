//! The command line of the sweep: what is asked for, or what is wrong with how it was asked.

use crate::budget::Budget;
use std::{ffi::OsString, path::PathBuf};

pub const HELP: &str = "\
Runs dataset filters over a mesh whose arrays do not fit on the device, and compares every output with that of a run
with unlimited memory.

usage: sweep [MESH] [OPTIONS]

  MESH                 a legacy .vtk or an XML .vtu file; without one, the air around the Ahmed body is made
  --size N             cells along the body of the mesh that is made, 2 to 256 (default 80)
  --device NAME        sim, sim:PROFILE (computed time, as sim:rtx6000ada), cpu (never spills), auto, or a GPU as the
                       example `devices` lists it, where kernels run on the host (default sim)
  --budget SIZE        the most device memory of the second run: a part of the first run's peak (40%), bytes (64MiB,
                       1500000), or none: then the second run is unlimited too (default 40%)
  --facade             call tack_residency::blocking, in place of the asynchronous API
  --json               print one JSON object, and nothing else, on the standard output
  --csv FILE           write the table of steps to FILE
  --self-test corrupt  flip one bit of a spilled array in the second run, which must be noticed
  --help               print this

Seconds are the device's own: of its clock, from the first array made to the device idle. Digests are XXH3-128.
Exit status: 0 if the outputs of both runs are identical, 1 if not, 2 if there is nothing to compare.
";

/// Cells along the body of the default mesh.
const DEFAULT_CELLS: usize = 80;

/// What is asked for.
#[derive(Clone, PartialEq, Debug)]
pub enum Request {
    Help,
    Sweep(Options),
}

#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// The file to read; none for the default mesh.
    pub mesh: Option<PathBuf>,
    /// Cells along the body of the default mesh.
    pub cells: usize,
    pub device: String,
    pub budget: Budget,
    pub facade: bool,
    pub json: bool,
    pub csv: Option<PathBuf>,
    pub self_test: Option<SelfTest>,
}

/// What the second run does wrong on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SelfTest {
    Corrupt,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            mesh: None,
            cells: DEFAULT_CELLS,
            device: "sim".to_owned(),
            budget: Budget::Percent(40.0),
            facade: false,
            json: false,
            csv: None,
            self_test: None,
        }
    }
}

impl Request {
    /// Reads the words of a command line, its program's name left out.
    ///
    /// # Errors
    ///
    /// The first word that makes no sense, and what would.
    pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Request, String> {
        let mut options = Options::default();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let Some(flag) = word.to_str().filter(|word| word.starts_with("--")) else {
                if word.to_str().is_some_and(|word| word.starts_with('-')) {
                    return Err(unknown(&word));
                }
                if let Some(first) = options.mesh.replace(word.into()) {
                    return Err(format!("one mesh at a time: {} was given before", first.display()));
                }
                continue;
            };
            let (flag, mut given) = match flag.split_once('=') {
                Some((flag, value)) => (flag, Some(OsString::from(value))),
                None => (flag, None),
            };
            let mut value = |what: &str| {
                given.take().or_else(|| words.next()).ok_or_else(|| format!("{flag} needs {what}"))
            };
            match flag {
                "--help" => return Ok(Request::Help),
                "--facade" => options.facade = true,
                "--json" => options.json = true,
                "--device" => options.device = text(flag, value("the name of a device, as sim")?)?,
                "--csv" => options.csv = Some(value("a file to write")?.into()),
                "--budget" => options.budget = budget(&text(flag, value("40%, bytes or none")?)?)?,
                "--size" => {
                    let size = text(flag, value("a number of cells")?)?;
                    options.cells = size
                        .parse()
                        .map_err(|_| format!("--size {size}: give a number of cells, as {DEFAULT_CELLS}"))?;
                }
                "--self-test" => {
                    let test = text(flag, value("a test: corrupt")?)?;
                    if test != "corrupt" {
                        return Err(format!("--self-test {test}: the one there is is called corrupt"));
                    }
                    options.self_test = Some(SelfTest::Corrupt);
                }
                _ => return Err(unknown(&word)),
            }
            if let Some(value) = given {
                return Err(format!("{flag} takes no value, and was given {}", value.display()));
            }
        }
        Ok(Request::Sweep(options))
    }
}

fn unknown(word: &OsString) -> String {
    format!("there is no option {}: see --help", word.display())
}

fn text(flag: &str, value: OsString) -> Result<String, String> {
    value.into_string().map_err(|value| format!("{flag} {}: is not text", value.display()))
}

fn budget(text: &str) -> Result<Budget, String> {
    Budget::parse(text)
        .ok_or_else(|| format!("--budget {text}: give a part as 40%, bytes as 64MiB or 1500000, or none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Request, String> {
        Request::parse(line.split_whitespace().map(OsString::from))
    }

    fn options(line: &str) -> Options {
        match parse(line) {
            Ok(Request::Sweep(options)) => options,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn every_option_is_taken_in_both_forms() {
        let wanted = Options {
            mesh: Some("mesh.vtk".into()),
            cells: 12,
            device: "sim:pcie4".to_owned(),
            budget: Budget::Bytes(64 << 20),
            facade: true,
            json: true,
            csv: Some("steps.csv".into()),
            self_test: Some(SelfTest::Corrupt),
        };
        let flags = "--facade --json";
        assert_eq!(
            options(&format!(
                "--size 12 mesh.vtk --device sim:pcie4 --budget 64MiB {flags} --csv steps.csv --self-test corrupt"
            )),
            wanted
        );
        assert_eq!(
            options(&format!(
                "--size=12 --device=sim:pcie4 --budget=64MiB {flags} --csv=steps.csv --self-test=corrupt mesh.vtk"
            )),
            wanted
        );
        assert_eq!(options(""), Options::default());
        assert_eq!(parse("mesh.vtk --help"), Ok(Request::Help));
    }

    #[test]
    fn budgets_are_read_with_their_units() {
        for (text, wanted) in [
            ("40%", Budget::Percent(40.0)),
            ("12.5%", Budget::Percent(12.5)),
            ("1500000", Budget::Bytes(1_500_000)),
            ("1.5kib", Budget::Bytes(1536)),
            ("2GB", Budget::Bytes(2_000_000_000)),
            ("none", Budget::Unlimited),
        ] {
            assert_eq!(budget(text), Ok(wanted), "{text}");
        }
        for text in
            ["", "%", "-1", "-4%", "nan%", "inf%", "1e9%", "MiB", "3 parsecs", "99999999999TiB", "1.2"]
        {
            assert!(budget(text).is_err_and(|error| error.contains("--budget")), "{text}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (line, named) in [
            ("--fast", "--fast"),
            ("-x", "-x"),
            ("--size", "--size needs"),
            ("--size many", "many"),
            ("--budget lots", "lots"),
            ("--self-test all", "all"),
            ("a.vtk b.vtk", "a.vtk"),
            ("--json=yes", "yes"),
        ] {
            let error = parse(line).expect_err(line);
            assert!(error.contains(named), "{line}: {error}");
        }
    }
}
