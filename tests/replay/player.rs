//! Plays a trace on a device, one request at a time.

use crate::{
    lru::Figures,
    trace::{Event, Id, Trace},
};
use std::{collections::BTreeMap, time::Duration};
use tack_residency::{Buffer, Device, Result, Use};

/// A program that is being played.
#[derive(Debug)]
pub struct Player {
    device: Device,
    buffers: BTreeMap<Id, Buffer>,
    /// Kernels cost this share of what was recorded.
    speed: f64,
}

impl Player {
    pub fn new(device: Device, speed: f64) -> Player {
        Player { device, buffers: BTreeMap::new(), speed }
    }

    pub fn buffers(&self) -> &BTreeMap<Id, Buffer> {
        &self.buffers
    }

    pub fn apply(&mut self, event: &Event) -> Result<()> {
        match event {
            Event::Alloc { buf, bytes, .. } => {
                let buffer = self.device.alloc(*bytes).uninitialised().wait()?;
                self.buffers.insert(*buf, buffer);
            }
            Event::Launch { reads, writes, cost_us, .. } => {
                let read = reads.iter().map(|id| {
                    let buffer = &self.buffers[id];
                    if writes.contains(id) { Use::read_write(buffer) } else { Use::read(buffer) }
                });
                let written = writes.iter().filter(|id| !reads.contains(id));
                let written = written.map(|id| Use::write(&self.buffers[id]));
                let uses: Vec<Use> = read.chain(written).collect();
                let launch = self.device.prepare(uses).wait()?;
                let cost = Duration::from_secs_f64(cost_us * 1e-6 * self.speed);
                launch.submit(|run| run.host_kernel(cost, |_| {}))?;
            }
            Event::HostRead { buf } => drop(self.buffers[buf].read().wait()?),
            Event::Free { buf } => drop(self.buffers.remove(buf)),
        }
        Ok(())
    }

    /// What the device says it has done so far.
    pub fn figures(&self) -> Figures {
        let info = self.device.memory_info();
        Figures {
            spills: info.spills,
            spilled: info.spilled_bytes,
            restores: info.restores,
            restored: info.restored_bytes,
            out: info.copied_out_bytes,
            back: info.copied_in_bytes,
            peak: info.peak,
        }
    }
}

/// Plays a whole trace.
pub fn play(device: &Device, trace: &Trace) -> Figures {
    let mut player = Player::new(device.clone(), 1.0);
    for event in &trace.events {
        player.apply(event).unwrap_or_else(|error| panic!("{}: {error}", trace.name));
    }
    let figures = player.figures();
    device.idle().wait().expect("an idle device");
    device.check().expect("balanced books");
    figures
}
