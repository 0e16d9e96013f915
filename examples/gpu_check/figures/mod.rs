//! Figures of the crate beside what the driver gives by its own calls, in the same run.

mod copies;
mod launches;
mod raw;
mod small;

use crate::{backend::Rig, options::Extent, subject::Subject};
use serde::Serialize;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tack_residency::{Buffer, Device, Error, Use};

/// What a figure counts in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Unit {
    /// 10⁹ bytes a second: more is better.
    #[serde(rename = "GB/s")]
    GigabytesPerSecond,
    /// Less is better.
    #[serde(rename = "ns")]
    Nanoseconds,
}

/// One figure.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figure {
    pub name: String,
    pub unit: Unit,
    pub value: f64,
    /// What the driver's own calls come to.
    pub raw: Option<f64>,
    /// How near the value is to that; 1 is as good.
    pub share: Option<f64>,
}

impl Figure {
    fn rate(name: impl Into<String>, bytes: u64, time: Duration, raw: Option<f64>) -> Figure {
        let value = rate(bytes, time);
        let share = raw.map(|raw| value / raw);
        Figure { name: name.into(), unit: Unit::GigabytesPerSecond, value, raw, share }
    }

    fn time(name: impl Into<String>, time: Duration, raw: Option<Duration>) -> Figure {
        let nanos = |time: Duration| time.as_secs_f64() * 1e9;
        let (value, raw) = (nanos(time), raw.map(nanos));
        let share = raw.map(|raw| raw / value);
        Figure { name: name.into(), unit: Unit::Nanoseconds, value, raw, share }
    }
}

/// A few figures that are measured together, by their name.
pub type Group = (&'static str, fn(&Bed) -> Vec<Figure>);

/// All of them.
pub const GROUPS: &[Group] = &[
    ("figures: pinning", copies::pinning),
    ("figures: copies of 8 MiB", copies::of_8),
    ("figures: copies of 64 MiB", copies::of_64),
    ("figures: both directions, 8 MiB", copies::both_of_8),
    ("figures: both directions, 64 MiB", copies::both_of_64),
    ("figures: the facade's copies", copies::facade),
    ("figures: warm launches", launches::warm),
    ("figures: one small buffer there and back", small::round_trip),
];

/// What is measured, and how long.
#[derive(Clone)]
pub struct Bed {
    pub subject: Arc<dyn Subject>,
    pub extent: Extent,
}

/// How many of a launch's first bytes its kernel touches where the copies are what is measured.
const TOUCHED: u64 = 4096;

impl Bed {
    fn rig(&self) -> Rig {
        self.subject.clone()
    }

    /// A device that may hold so much.
    fn device(&self, budget: u64) -> Device {
        self.subject.device(Device::options().budget(budget))
    }

    /// How many buffers, of so many where nothing is spared.
    fn count(&self, full: usize) -> usize {
        if self.extent == Extent::Full { full } else { full / 4 }
    }

    fn rounds(&self, full: usize) -> usize {
        if self.extent == Extent::Full { full } else { full.min(2) }
    }

    /// The best of a few, since other programs only ever add time.
    fn best(&self, rounds: usize, mut work: impl FnMut() -> Duration) -> Duration {
        (0..self.rounds(rounds)).map(|_| work()).min().unwrap_or_default()
    }

    fn buffers(&self, device: &Device, bytes: u64, count: usize) -> Vec<Buffer> {
        let buffers: Vec<Buffer> = (0..count).map(|_| device.alloc(bytes).wait().expect("memory")).collect();
        self.use_all(device, &buffers);
        buffers
    }

    /// Brings every buffer back, and writes a little of it.
    fn use_all(&self, device: &Device, buffers: &[Buffer]) {
        for buffer in buffers {
            let launch = device.prepare([Use::read_write(buffer)]).wait().expect("memory");
            launch.submit(|run| self.touch(run)).expect("it is queued");
        }
    }

    fn touch(&self, run: &tack_residency::Run<'_>) -> Result<(), Error> {
        self.subject.add(run.driver(), run.queue(), run.ptr(0), TOUCHED)
    }
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// Bytes a second in GB/s (10⁹).
fn rate(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / time.as_secs_f64() / 1e9
}

/// Waits until all that was asked of a device is done.
fn settle(device: &Device) {
    device.idle().wait().expect("not lost");
}
