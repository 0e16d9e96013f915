//! The command line of the replay: what is asked for, or what is wrong with how it was asked.

use crate::budget::Budget;
use std::{ffi::OsString, path::PathBuf};
use tack_residency::{Policy, Victims, driver::sim::Clock};

pub const HELP: &str = "\
Replays a recorded program, once with unlimited device memory and once under each budget. Each launch mixes every byte
that it reads into every byte that it writes, so the digests agree only if no byte was lost or stale.

usage: replay [TRACE] [OPTIONS]

  TRACE                one JSON object a line, plain or .gz; without one, a small trace of this example's own
  --device NAME        sim, sim:PROFILE (as sim:pcie5), cpu, which never spills, auto, or a GPU as the example
                       `devices` lists it, on which kernels run on the host (default sim:pcie4)
  --budgets LIST       device memory, with commas between: parts of the most that the program holds at one time (50%),
                       bytes (64MiB, 1500000), or none (default 100%,50%). A budget too small for the largest launch
                       or buffer is raised to it
  --clock WHICH        computed or real (default: the device's own)
  --mode WHICH         async or facade: the asynchronous API or tack_residency::blocking (default async)
  --policy WHICH       aware, or plain: every spill and restore copies (default aware)
  --victims WHICH      lru: whom a spill takes is strictly the least recently used; or next-use: what launches queued
                       ahead of time are about to use is spared (default lru)
  --look-ahead N       launches whose buffers are asked for before their turn; none on the facade (default 4)
  --write-back WHICH   on or off: copy out ahead of need, from less than 10 % of the budget free or clean
                       until 20 % are (default off)
  --scale 1/N          divide all sizes, rounded up to 4 bytes; kernels take as long as before (default 1/1)
  --bytes WHICH        held, or none: only sizes and times are simulated, the host writes nothing, and there is no
                       digest (default held for programs of up to 1 GiB, else none)
  --json               print one JSON object, and nothing else, on the standard output
  --timeline FILE      draw memory in use and the queues over time, as a page to open in a browser
  --trace FILE         write the same for Perfetto or chrome://tracing
  --survey FOLDER      instead: replay every trace of a folder at half of what it holds, on two devices, through the
                       facade and at several look-aheads, without bytes; print one table, in Markdown
  --help               print this

Seconds are the device's own. Hidden is the part of the copies' time in which a kernel ran beside them; a stall is
time in which copies ran and no kernel did, since the next launch waited for a buffer to come or to make room.
Exit status: 0 if the digests agree, 1 if not, 2 if nothing could be replayed.
";

/// Programs of up to this many bytes are replayed with their bytes, if nothing else is said.
const HELD: u64 = 1 << 30;

/// What is asked for.
#[derive(Clone, PartialEq, Debug)]
pub enum Request {
    Help,
    /// All traces of a folder, in one table.
    Survey(PathBuf),
    Replay(Options),
}

/// Which API is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Async,
    Facade,
}

/// Whether a simulated device holds bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bytes {
    Held,
    None,
}

/// Whether copies out are made ahead of need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteBack {
    On,
    Off,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// The file to read; none for the small one.
    pub trace: Option<PathBuf>,
    pub device: String,
    pub budgets: Vec<Budget>,
    /// None for the device's own.
    pub clock: Option<Clock>,
    pub mode: Mode,
    pub policy: Policy,
    pub victims: Victims,
    look_ahead: usize,
    pub write_back: WriteBack,
    /// What sizes are divided by.
    pub divisor: u64,
    /// None until the program's size is known.
    pub bytes: Option<Bytes>,
    pub json: bool,
    pub timeline: Option<PathBuf>,
    pub trace_events: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            trace: None,
            device: "sim:pcie4".to_owned(),
            budgets: vec![Budget::Percent(100.0), Budget::Percent(50.0)],
            clock: None,
            mode: Mode::Async,
            policy: Policy::Aware,
            victims: Victims::LeastRecentlyUsed,
            look_ahead: 4,
            write_back: WriteBack::Off,
            divisor: 1,
            bytes: None,
            json: false,
            timeline: None,
            trace_events: None,
        }
    }
}

impl Options {
    /// Launches asked for before their turn: the facade has none.
    pub fn look_ahead(&self) -> usize {
        if self.mode == Mode::Facade { 0 } else { self.look_ahead }
    }

    /// With another look-ahead.
    pub fn ahead(self, look_ahead: usize) -> Options {
        Options { look_ahead, ..self }
    }

    /// Whether bytes are held, as far as that is known.
    pub fn holds(&self) -> bool {
        self.bytes != Some(Bytes::None)
    }

    /// Settles what was left open for a program of `peak` bytes; true if its bytes are not held for their number.
    pub fn settle(&mut self, peak: u64) -> bool {
        let simulated = self.device == "sim" || self.device.starts_with("sim:");
        let large = self.bytes.is_none() && simulated && peak > HELD;
        self.bytes.get_or_insert(if large { Bytes::None } else { Bytes::Held });
        large
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
            let Some(flag) = word.to_str().filter(|word| word.starts_with('-')) else {
                if let Some(first) = options.trace.replace(word.into()) {
                    return Err(format!("one trace at a time: {} was given before", first.display()));
                }
                continue;
            };
            let (flag, mut given) = match flag.split_once('=') {
                Some((flag, value)) => (flag, Some(OsString::from(value))),
                None => (flag, None),
            };
            let mut file = |what: &str| {
                given.take().or_else(|| words.next()).ok_or_else(|| format!("{flag} needs {what}"))
            };
            let mut value = |what: &str| {
                let value = file(what)?;
                value.into_string().map_err(|value| format!("{flag} {}: is not text", value.display()))
            };
            match flag {
                "--help" => return Ok(Request::Help),
                "--json" => options.json = true,
                "--device" => options.device = value("the name of a device, as sim:pcie4")?,
                "--budgets" => options.budgets = budgets(&value("sizes, as 100%,50%")?)?,
                "--clock" => {
                    let clocks = [("computed", Clock::Computed), ("real", Clock::Real)];
                    options.clock = Some(one_of(flag, &value("computed or real")?, &clocks)?);
                }
                "--mode" => {
                    let modes = [("async", Mode::Async), ("facade", Mode::Facade)];
                    options.mode = one_of(flag, &value("async or facade")?, &modes)?;
                }
                "--policy" => {
                    let policies = [("plain", Policy::Plain), ("aware", Policy::Aware)];
                    options.policy = one_of(flag, &value("plain or aware")?, &policies)?;
                }
                "--victims" => {
                    let ways = [("lru", Victims::LeastRecentlyUsed), ("next-use", Victims::NextUse)];
                    options.victims = one_of(flag, &value("lru or next-use")?, &ways)?;
                }
                "--look-ahead" => options.look_ahead = look_ahead(&value("a number of launches")?)?,
                "--write-back" => {
                    let ways = [("on", WriteBack::On), ("off", WriteBack::Off)];
                    options.write_back = one_of(flag, &value("on or off")?, &ways)?;
                }
                "--scale" => options.divisor = divisor(&value("a scale, as 1/256")?)?,
                "--bytes" => {
                    let ways = [("held", Bytes::Held), ("none", Bytes::None)];
                    options.bytes = Some(one_of(flag, &value("held or none")?, &ways)?);
                }
                "--survey" => return Ok(Request::Survey(file("a folder of traces")?.into())),
                "--timeline" => options.timeline = Some(file("a file to write")?.into()),
                "--trace" => options.trace_events = Some(file("a file to write")?.into()),
                _ => return Err(format!("there is no option {}: see --help", word.display())),
            }
            if let Some(value) = given {
                return Err(format!("{flag} takes no value, and was given {}", value.display()));
            }
        }
        Ok(Request::Replay(options))
    }
}

fn one_of<T: Copy>(flag: &str, text: &str, ways: &[(&str, T)]) -> Result<T, String> {
    let way = ways.iter().find(|(name, _)| *name == text).map(|(_, way)| *way);
    way.ok_or_else(|| {
        let names: Vec<&str> = ways.iter().map(|(name, _)| *name).collect();
        format!("{flag} {text}: give {}", names.join(" or "))
    })
}

fn budgets(text: &str) -> Result<Vec<Budget>, String> {
    let wrong = |part: &str| {
        format!(
            "--budgets {part}: give parts as 50%, bytes as 64MiB or 1500000, or none, with commas between"
        )
    };
    text.split(',').map(|part| Budget::parse(part.trim()).ok_or_else(|| wrong(part))).collect()
}

fn look_ahead(text: &str) -> Result<usize, String> {
    let number: Option<u16> = text.parse().ok();
    number
        .map(usize::from)
        .ok_or_else(|| format!("--look-ahead {text}: give a number of launches, 0 to 65535"))
}

fn divisor(text: &str) -> Result<u64, String> {
    let divisor = text.strip_prefix("1/").or((text == "1").then_some("1"));
    let divisor = divisor.and_then(|divisor| divisor.parse().ok()).filter(|divisor| *divisor > 0);
    divisor.ok_or_else(|| format!("--scale {text}: give one part of a whole, as 1/256"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Request, String> {
        Request::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn every_option_is_taken_in_both_forms() {
        let wanted = Options {
            trace: Some("a.jsonl.gz".into()),
            device: "sim:pcie5".to_owned(),
            budgets: vec![Budget::Percent(12.5), Budget::Bytes(64 << 20), Budget::Unlimited],
            clock: Some(Clock::Real),
            mode: Mode::Facade,
            policy: Policy::Plain,
            victims: Victims::NextUse,
            look_ahead: 16,
            write_back: WriteBack::On,
            divisor: 256,
            bytes: Some(Bytes::None),
            json: true,
            timeline: Some("t.html".into()),
            trace_events: Some("t.json".into()),
        };
        let line = "a.jsonl.gz --device sim:pcie5 --budgets 12.5%,64MiB,none --clock real --mode facade --policy plain --victims next-use \
                    --look-ahead 16 --write-back on --scale 1/256 --bytes none --json --timeline t.html --trace t.json";
        assert_eq!(parse(line), Ok(Request::Replay(wanted.clone())));
        let glued: Vec<String> = line.split(" --").map(|part| part.replacen(' ', "=", 1)).collect();
        assert_eq!(parse(&glued.join(" --")), Ok(Request::Replay(wanted)));
        assert_eq!(parse(""), Ok(Request::Replay(Options::default())));
        assert_eq!(parse("a.jsonl --help"), Ok(Request::Help));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (line, named) in [
            ("--fast", "--fast"),
            ("-x", "-x"),
            ("a b", "one trace"),
            ("--json=yes", "--json takes no value"),
            ("--budgets", "--budgets needs"),
            ("--budgets 50%,", "--budgets"),
            ("--budgets half", "half"),
            ("--clock slow", "computed or real"),
            ("--mode sync", "async or facade"),
            ("--policy lru", "plain or aware"),
            ("--victims fifo", "lru or next-use"),
            ("--look-ahead -1", "-1"),
            ("--write-back maybe", "on or off"),
            ("--scale 2", "1/256"),
            ("--scale 1/0", "1/0"),
            ("--bytes some", "held or none"),
        ] {
            let error = parse(line).expect_err(line);
            assert!(error.contains(named), "{line}: {error}");
        }
    }
}
