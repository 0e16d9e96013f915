//! Through the asynchronous API, with launches asked for ahead of their turn.

use super::{KERNEL, Player, Shared};
use crate::{
    content,
    program::{Content, Launch},
};
use tack_residency::{Buffer, Device, LaunchQueue, Result, Use};

/// A program that looks ahead, and waits for what the host reads.
pub struct Ahead {
    device: Device,
    holds: bool,
    shared: Shared,
    buffers: Vec<Option<Buffer>>,
    queue: LaunchQueue,
}

impl Ahead {
    /// With `holds`, the device holds bytes.
    pub fn new(device: &Device, look_ahead: usize, holds: bool, shared: Shared) -> Ahead {
        let (buffers, queue) = (Vec::new(), device.launch_queue(look_ahead));
        Ahead { device: device.clone(), holds, shared, buffers, queue }
    }
}

fn alive(buffers: &[Option<Buffer>], number: usize) -> &Buffer {
    buffers[number].as_ref().expect("a program uses what is alive")
}

impl Player for Ahead {
    async fn alloc(&mut self, bytes: u64, content: Content) -> Result<()> {
        let alloc = self.device.alloc(bytes);
        let alloc = if content == Content::Cleared { alloc } else { alloc.uninitialised() };
        let buffer = alloc.await?;
        if content == Content::Host && self.holds {
            buffer.write(content::fresh(self.buffers.len(), bytes)).await?;
        }
        self.buffers.push(Some(buffer));
        Ok(())
    }

    async fn launch(&mut self, place: usize, launch: &Launch) -> Result<()> {
        let buffers = &self.buffers;
        let uses: Vec<Use<'_>> =
            launch.uses.iter().map(|&(number, how)| how.of(alive(buffers, number))).collect();
        self.queue.push(uses, self.shared.work(place, launch, KERNEL)).await
    }

    async fn read(&mut self, place: usize, buffer: usize) -> Result<()> {
        let buffer = alive(&self.buffers, buffer);
        // It comes behind the launches before it.
        self.queue.flush_uses(buffer).await?;
        let bytes = buffer.read().await?;
        if self.holds {
            self.shared.digest.read(place, &bytes);
        }
        Ok(())
    }

    fn free(&mut self, buffer: usize) {
        self.buffers[buffer] = None;
    }

    async fn settle(&mut self) -> Result<()> {
        self.queue.flush().await?;
        self.device.idle().await
    }
}
