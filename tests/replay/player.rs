//! Plays a trace on a device, one request at a time.

use crate::{
    lru::Figures,
    trace::{Event, Id, Trace},
};
use std::{collections::BTreeMap, time::Duration};
use tack_residency::{Buffer, Device, LaunchQueue, Result, Run, Use};

/// A program that is being played.
#[derive(Debug)]
pub struct Player {
    device: Device,
    buffers: BTreeMap<Id, Buffer>,
    /// Kernels cost this share of what was recorded.
    speed: f64,
    /// Launches and allocations are asked for ahead of their turn.
    queue: Option<LaunchQueue>,
}

impl Player {
    pub fn new(device: Device, speed: f64) -> Player {
        Player { device, buffers: BTreeMap::new(), speed, queue: None }
    }

    pub fn ahead(device: Device, look_ahead: usize) -> Player {
        let queue = Some(device.launch_queue(look_ahead));
        Player { queue, ..Player::new(device, 1.0) }
    }

    pub fn buffers(&self) -> &BTreeMap<Id, Buffer> {
        &self.buffers
    }

    pub fn apply(&mut self, event: &Event) -> Result<()> {
        match event {
            Event::Alloc { buf, bytes, .. } => {
                let buffer = match &mut self.queue {
                    Some(queue) => queue.alloc_uninitialised(*bytes)?,
                    None => self.device.alloc(*bytes).uninitialised().wait()?,
                };
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
                let cost = Duration::from_secs_f64(cost_us * 1e-6 * self.speed);
                let work = move |run: &Run<'_>| run.host_kernel(cost, |_| {});
                match &mut self.queue {
                    Some(queue) => queue.push(uses, work).wait()?,
                    None => self.device.prepare(uses).wait()?.submit(work)?,
                }
            }
            Event::HostRead { buf } => {
                let buffer = &self.buffers[buf];
                if let Some(queue) = &mut self.queue {
                    queue.flush_uses(buffer).wait()?;
                }
                drop(buffer.read().wait()?);
            }
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
pub fn play(mut player: Player, trace: &Trace) -> Figures {
    for event in &trace.events {
        player.apply(event).unwrap_or_else(|error| panic!("{}: {error}", trace.name));
    }
    if let Some(queue) = &mut player.queue {
        queue.flush().wait().expect("every launch");
    }
    let device = &player.device;
    device.idle().wait().expect("an idle device");
    device.check().expect("balanced books");
    player.figures()
}
