//! What a device holds, as plain data that serialises and displays.

use crate::{
    driver::{Busy, Share},
    engine::Cell,
    residency::{Bytes, Record, WordCell},
};
use std::{fmt, sync::Arc, time::Duration};

/// A device's memory at one moment. All figures but counts are in bytes, and those of buffers are what the driver takes
/// for them: lengths rounded up to its granularity.
///
/// ```
/// # use tack_residency::Device;
/// let device = Device::open("sim")?;
/// let buffer = device.alloc(1 << 20).wait()?;
/// let info = device.memory_info();
/// assert_eq!((info.in_use, info.peak, info.spilled), (1 << 20, 1 << 20, 0));
/// println!("{info}");
/// # drop(buffer);
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct MemoryInfo {
    /// Device memory of live buffers.
    pub in_use: u64,
    /// The highest `in_use` since the device was opened or the peak reset.
    pub peak: u64,
    /// What the driver's pool keeps beyond use.
    pub cached: u64,
    /// Bytes of buffers whose contents are in host memory alone.
    pub spilled: u64,
    /// Free on the device as the driver tells it, if it does. A report, never a basis.
    pub device_free: Option<u64>,
    /// All memory of the device, if the driver tells.
    pub device_total: Option<u64>,
    /// The most that live buffers may hold; none without a budget.
    pub budget: Option<u64>,
    /// Given up by buffers, and not yet free since the device may still use it.
    pub leaving: u64,
    /// Granted to requests and not yet allocated.
    pub reserved: u64,
    /// Resident with a current host copy: these are spilled without a copy.
    pub clean: u64,
    /// Held by launches and guards.
    pub pinned: u64,
    /// Handed out.
    pub exported: u64,
    /// Allocated never to move.
    pub fixed: u64,
    /// Foreign memory wrapped: counted apart, never moved.
    pub foreign: u64,
    /// Pinned host memory of host copies and staging.
    pub host_pinned: u64,
    /// Ordinary host memory of host copies and staging.
    pub host_ordinary: u64,
    /// Pinned host memory beside `host_pinned`: kept for reuse, lost to rounding, or chunks for what is ordinary.
    pub host_spare: u64,
    /// Copied by spills, write-back and restores through pinned chunks, each byte once a copy, since the host copy is in
    /// ordinary memory: no more could be pinned.
    pub host_ring_bytes: u64,
    /// The runs that host copies and staging are in: each is a copy of its own.
    pub host_runs: u64,
    /// The most runs of one of them so far.
    pub host_most_runs: u64,
    /// Live buffers.
    pub buffers: u64,
    /// Buffers spilled so far.
    pub spills: u64,
    /// Buffers restored so far.
    pub restores: u64,
    /// Their bytes.
    pub spilled_bytes: u64,
    /// Their bytes.
    pub restored_bytes: u64,
    /// Copied to the host by spills.
    pub copied_out_bytes: u64,
    /// Copied to the device by restores.
    pub copied_in_bytes: u64,
    /// Spills and restores that needed no copy.
    pub copies_avoided: u64,
    /// How long requests waited for room, from when they were asked until they were done, failed or were given up.
    /// Those that waited at the same time count each, launches taken ahead of time included; what is done at once, as
    /// every launch whose buffers are resident, counts nothing.
    pub waited: Duration,
    /// How long kernels and copies ran, and at the same time, if the driver can say.
    pub busy: Option<Busy>,
    /// Times in which the device thrashed; [`Device::thrash`](crate::Device::thrash) names the buffers.
    pub thrash_episodes: u64,
    /// Trips to the host and back that were thrash, those of dropped buffers included.
    pub thrash_trips: u64,
    /// Their bytes, each way.
    pub thrash_bytes: u64,
    /// Whether live buffers hold more than the budget, since it was lowered and pins stand in the way.
    pub over_budget: bool,
}

impl fmt::Display for MemoryInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in use {}, peak {}", Bytes(self.in_use), Bytes(self.peak))?;
        if let Some(budget) = self.budget {
            write!(f, ", budget {}", Bytes(budget))?;
        }
        if self.over_budget {
            f.write_str(", over budget")?;
        }
        for (name, bytes) in [
            ("spilled", self.spilled),
            ("cached", self.cached),
            ("leaving", self.leaving),
            ("pinned", self.pinned),
            ("exported", self.exported),
            ("fixed", self.fixed),
            ("foreign", self.foreign),
        ] {
            if bytes > 0 {
                write!(f, ", {name} {}", Bytes(bytes))?;
            }
        }
        if self.spills > 0 {
            let hidden = Share(self.busy.and_then(|busy| busy.hidden()));
            write!(f, ", hidden {hidden}, waited {:.1?}", self.waited)?;
        }
        if self.host_ring_bytes > 0 {
            write!(
                f,
                ", not pinned {}, copied by the host {}",
                Bytes(self.host_ordinary),
                Bytes(self.host_ring_bytes)
            )?;
        }
        if self.thrash_trips > 0 {
            write!(f, ", thrash {} in {} trips", Bytes(self.thrash_bytes), self.thrash_trips)?;
        }
        match (self.device_free, self.device_total) {
            (Some(free), Some(total)) => write!(f, ", device {} free of {}", Bytes(free), Bytes(total)),
            (Some(free), None) => write!(f, ", device {} free", Bytes(free)),
            (None, Some(total)) => write!(f, ", device has {}", Bytes(total)),
            (None, None) => Ok(()),
        }
    }
}

/// Who holds memory: buffers of one tag, or one guard.
///
/// ```
/// # use tack_residency::Device;
/// let device = Device::open("sim")?;
/// let image = device.alloc(4096).tag("image").fixed().wait()?;
/// let holder = &device.largest_holders(1)[0];
/// assert_eq!((holder.bytes, holder.buffers), (4096, 1));
/// assert_eq!(holder.stays.as_deref(), Some("fixed"));
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct HolderInfo {
    /// The tag of the buffers, or what is held.
    pub tag: String,
    /// Their bytes on the device.
    pub bytes: u64,
    /// How many they are.
    pub buffers: u64,
    /// Where a guard or launch was taken, where it is one.
    pub place: Option<String>,
    /// Why some cannot be spilled now, in words; none if all can.
    pub stays: Option<String>,
}

impl fmt::Display for HolderInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe(f)
    }
}

/// A buffer that was spilled and restored again and again: at least three times in a row, each time back in less than
/// half of the time for which it had lain unused before, or all of it within four uses of the device. Time is counted
/// in uses: a launch is one, and so is a read or write by the host. What is spilled by name does not count.
///
/// ```
/// # use tack_residency::{Device, ThrashInfo};
/// let device = Device::open("sim")?;
/// let buffer = device.alloc(4096).wait()?;
/// let thrashing: Vec<ThrashInfo> = device.thrash(10); // see there for a program that thrashes
/// assert!(thrashing.is_empty());
/// # drop(buffer);
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ThrashInfo {
    /// The buffer's number, as events tell it.
    pub buffer: u64,
    /// Its tag.
    pub tag: String,
    /// Its bytes.
    pub bytes: u64,
    /// Such trips to the host and back.
    pub trips: u64,
}

impl fmt::Display for ThrashInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {} trips)", self.tag, Bytes(self.bytes), self.trips)
    }
}

/// Why buffers stay, for choosing whom a report names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stays {
    pub(crate) exported: bool,
    pub(crate) fixed: bool,
    pub(crate) pinned: bool,
    foreign: bool,
}

impl Stays {
    pub(crate) fn of(record: &Record<Arc<Cell>>) -> Stays {
        Stays {
            exported: record.exports > 0,
            fixed: record.fixed,
            pinned: record.cell.load().pins() > 0,
            foreign: record.foreign,
        }
    }

    pub(crate) fn words(self) -> impl Iterator<Item = &'static str> {
        [
            (self.exported, "exported"),
            (self.fixed, "fixed"),
            (self.pinned, "pinned"),
            (self.foreign, "foreign"),
        ]
        .into_iter()
        .filter_map(|(on, word)| on.then_some(word))
    }
}
