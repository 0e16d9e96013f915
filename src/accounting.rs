//! What a device is asked about what it holds.

use crate::{
    device::Device,
    engine::Cell,
    report::{HolderInfo, MemoryInfo, Stays, ThrashInfo},
    residency::{Bytes, HostCopy, Phase, WordCell},
};
use std::collections::BTreeMap;

impl Device {
    /// What the device holds now: one consistent snapshot. Cost: one look at every buffer.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::options().budget(8192).open("sim")?;
    /// let [a, b, c] = [device.alloc(4096).wait()?, device.alloc(4096).wait()?, device.alloc(4096).wait()?];
    /// let info = device.memory_info();
    /// assert_eq!((info.in_use, info.spilled, info.spills), (8192, 4096, 1));
    /// assert!(info.to_string().starts_with("in use 8.0 KiB, peak 8.0 KiB, budget 8.0 KiB, spilled 4.0 KiB"));
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn memory_info(&self) -> MemoryInfo {
        let engine = self.engine();
        let driver = engine.driver.memory();
        let (busy, waited) = (engine.driver.busy(), engine.waited());
        let host = engine.host().held();
        engine.with_state(|state| {
            let books = state.core.books();
            let totals = books.totals;
            let budget = state.core.budget();
            let mut info = MemoryInfo {
                in_use: books.in_use.0,
                peak: books.peak.0,
                cached: driver.cached,
                spilled: books.spilled.0,
                device_free: driver.free,
                device_total: driver.total,
                budget: (budget != Bytes::MAX).then_some(budget.0),
                leaving: books.leaving.0 + books.ordered.0,
                reserved: books.reserved.0,
                fixed: books.fixed.0,
                foreign: books.foreign.0,
                host_pinned: host.pinned,
                host_ordinary: host.ordinary,
                host_spare: host.spare,
                host_ring_bytes: state.ring_bytes,
                host_runs: host.runs,
                host_most_runs: host.most_runs,
                spills: totals.spills,
                restores: totals.restores,
                spilled_bytes: totals.spilled.0,
                restored_bytes: totals.restored.0,
                copied_out_bytes: totals.copied_out.0,
                copied_in_bytes: totals.copied_in.0,
                copies_avoided: totals.copies_avoided,
                waited,
                busy,
                thrash_episodes: totals.thrash_episodes,
                thrash_trips: totals.thrash_trips,
                thrash_bytes: totals.thrash.0,
                over_budget: state.core.is_over_budget(),
                ..MemoryInfo::default()
            };
            for (_, record) in state.core.records() {
                let word = record.cell.load();
                info.buffers += 1;
                if record.foreign {
                    continue;
                }
                let is_clean = word.phase() == Phase::Resident && !word.is_dirty();
                if is_clean && record.host == HostCopy::Held && record.copying.is_none() {
                    info.clean += record.bytes.0;
                }
                if word.pins() > 0 {
                    info.pinned += record.bytes.0;
                }
                if record.exports > 0 {
                    info.exported += record.bytes.0;
                }
            }
            info
        })
    }

    /// Starts the peak anew from what is held now. Scopes keep theirs.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::open("sim")?;
    /// drop(device.alloc(4096).wait()?);
    /// device.reset_peak_memory();
    /// assert_eq!(device.memory_info().peak, 0);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn reset_peak_memory(&self) {
        self.engine().with_state(|state| state.core.books_mut().reset_peak());
    }

    /// Measures the peak of a block, from what is held now. Scopes nest, and do not disturb each other.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::open("sim")?;
    /// let kept = device.alloc(4096).wait()?;
    /// let outer = device.peak_scope();
    /// drop(device.alloc(1 << 20).wait()?);
    /// let inner = device.peak_scope();
    /// assert_eq!(inner.finish(), 4096);
    /// assert_eq!(outer.finish(), 4096 + (1 << 20));
    /// # drop(kept);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn peak_scope(&self) -> PeakScope {
        let id = self.engine().with_state(|state| state.core.books_mut().open_scope());
        PeakScope { device: self.clone(), id }
    }

    /// The holders of the most memory, by tag, largest first.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::open("sim")?;
    /// let weights = device.alloc(4096).tag("weights").wait()?;
    /// let image = device.alloc(1024).tag("image").wait()?;
    /// let tags: Vec<String> = device.largest_holders(8).into_iter().map(|holder| holder.tag).collect();
    /// assert_eq!(tags, ["weights", "image"]);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn largest_holders(&self, most: usize) -> Vec<HolderInfo> {
        self.largest(most, |_| true)
    }

    pub(crate) fn largest(&self, most: usize, counts: impl Fn(Stays) -> bool) -> Vec<HolderInfo> {
        let mut by_tag: BTreeMap<String, (u64, u64, Vec<&'static str>)> = BTreeMap::new();
        self.engine().with_state(|state| {
            for (_, record) in state.core.records() {
                let stays = Stays::of(record);
                if !counts(stays) {
                    continue;
                }
                let tag = record.cell.tag.as_deref().unwrap_or(Cell::UNTAGGED);
                let entry = by_tag.entry(tag.to_owned()).or_default();
                entry.0 += if record.memory { record.bytes.0 } else { 0 };
                entry.1 += 1;
                for word in stays.words() {
                    if !entry.2.contains(&word) {
                        entry.2.push(word);
                    }
                }
            }
        });
        let mut holders: Vec<_> = by_tag
            .into_iter()
            .map(|(tag, (bytes, buffers, stays))| HolderInfo {
                tag,
                bytes,
                buffers,
                place: None,
                stays: (!stays.is_empty()).then(|| stays.join(", ")),
            })
            .collect();
        holders.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.tag.cmp(&b.tag)));
        holders.truncate(most);
        holders
    }

    /// The buffers that were spilled and restored again and again, those with the most bytes moved first. Dropped ones
    /// are in the totals of [`memory_info`](Device::memory_info) alone. Cost: one look at every buffer.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tack_residency::{Device, ThrashInfo, Use};
    /// let device = Device::options().budget(1 << 20).open("sim")?;
    /// let there = device.alloc(1 << 20).tag("there").wait()?;
    /// let back = device.alloc(1 << 20).tag("back").wait()?;
    /// for _ in 0..3 {
    ///     for buffer in [&there, &back] {
    ///         let launch = device.prepare([Use::read_write(buffer)]).wait()?;
    ///         launch.submit(|run| run.host_kernel(Duration::ZERO, |_| {}))?;
    ///     }
    /// }
    /// let worst: &ThrashInfo = &device.thrash(1)[0];
    /// assert_eq!((worst.tag.as_str(), worst.bytes, worst.trips), ("there", 1 << 20, 3));
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn thrash(&self, most: usize) -> Vec<ThrashInfo> {
        let mut thrash: Vec<ThrashInfo> = self.engine().with_state(|state| {
            let thrashed = state.core.records().filter(|(_, record)| record.trips.thrash() > 0);
            thrashed
                .map(|(_, record)| ThrashInfo {
                    buffer: record.age,
                    tag: record.cell.tag.as_deref().unwrap_or(Cell::UNTAGGED).to_owned(),
                    bytes: record.bytes.0,
                    trips: record.trips.thrash(),
                })
                .collect()
        });
        let moved = |info: &ThrashInfo| u128::from(info.bytes) * u128::from(info.trips);
        thrash.sort_by_key(|info| (std::cmp::Reverse(moved(info)), info.buffer));
        thrash.truncate(most);
        thrash
    }

    /// Who holds pins: guards and launches with their places, and the tags of what is pinned besides, since a launch
    /// whose buffers were all resident tells no one of itself.
    pub(crate) fn all_pin_holders(&self) -> Vec<HolderInfo> {
        let mut holders = self.pin_holders();
        let known: u64 = holders.iter().map(|holder| holder.bytes).sum();
        let pinned = self.largest(8, |stays| stays.pinned);
        if pinned.iter().map(|holder| holder.bytes).sum::<u64>() > known {
            holders.extend(pinned);
        }
        holders
    }

    /// Guards and launches that hold pins, where they are known.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::open("sim")?;
    /// let buffer = device.alloc(4096).tag("weights").wait()?;
    /// let guard = buffer.ensure_resident().wait()?;
    /// let holder = &device.pin_holders()[0];
    /// assert_eq!(holder.tag, "residency guard of weights");
    /// println!("taken at {}", holder.place.as_deref().unwrap_or("an unknown place"));
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn pin_holders(&self) -> Vec<HolderInfo> {
        self.engine().with_state(|state| {
            let holders = state.holders.values();
            holders
                .map(|holder| HolderInfo {
                    tag: match &holder.tag {
                        Some(tag) => format!("{} of {tag}", holder.what),
                        None => holder.what.to_owned(),
                    },
                    bytes: holder.bytes,
                    buffers: 1,
                    place: Some(holder.place.to_string()),
                    stays: Some("pinned".to_owned()),
                })
                .collect()
        })
    }
}

/// A scope that measures its peak; see [`Device::peak_scope`].
///
/// ```
/// # use tack_residency::Device;
/// let device = Device::open("sim")?;
/// let scope = device.peak_scope();
/// drop(device.alloc(4096).wait()?);
/// assert_eq!(scope.peak(), 4096);
/// assert_eq!(scope.finish(), 4096);
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the peak is read with `finish`"]
pub struct PeakScope {
    device: Device,
    id: u64,
}

impl PeakScope {
    /// The peak so far, in bytes.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::open("sim")?;
    /// let scope = device.peak_scope();
    /// let buffer = device.alloc(4096).wait()?;
    /// assert_eq!(scope.peak(), 4096);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn peak(&self) -> u64 {
        self.device.engine().with_state(|state| state.core.books().scope(self.id)).0
    }

    /// Ends the scope; its peak, in bytes.
    pub fn finish(self) -> u64 {
        self.peak()
    }
}

impl Drop for PeakScope {
    fn drop(&mut self) {
        self.device.engine().with_state(|state| state.core.books_mut().close_scope(self.id));
    }
}
