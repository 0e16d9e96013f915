//! Through the blocking facade: every call waits.

use super::{Player, Shared, Work};
use crate::{
    content,
    program::{Content, Launch},
};
use tack_residency::{Result, blocking};

/// A program without a runtime.
pub struct Facade {
    device: blocking::Device,
    holds: bool,
    shared: Shared,
    buffers: Vec<Option<blocking::Buffer>>,
}

impl Facade {
    /// With `holds`, the device holds bytes.
    pub fn new(device: &blocking::Device, holds: bool, shared: Shared) -> Facade {
        Facade { device: device.clone(), holds, shared, buffers: Vec::new() }
    }

    fn buffer(&self, number: usize) -> &blocking::Buffer {
        self.buffers[number].as_ref().expect("a program uses what is alive")
    }
}

impl Player for Facade {
    async fn alloc(&mut self, bytes: u64, content: Content) -> Result<()> {
        let buffer = match content {
            Content::Cleared => self.device.alloc(bytes)?,
            _ => (*self.device).alloc(bytes).uninitialised().wait()?.into(),
        };
        if content == Content::Host && self.holds {
            buffer.write(content::fresh(self.buffers.len(), bytes))?;
        }
        self.buffers.push(Some(buffer));
        Ok(())
    }

    async fn launch(&mut self, place: usize, launch: &Launch) -> Result<()> {
        let uses: Vec<_> = launch.uses.iter().map(|&(number, how)| how.of(self.buffer(number))).collect();
        self.device.prepare(uses)?.submit(self.shared.kernel(place, launch))
    }

    async fn read(&mut self, place: usize, buffer: usize) -> Result<()> {
        let bytes = self.buffer(buffer).read()?;
        if self.holds {
            self.shared.digest.read(place, &bytes);
        }
        Ok(())
    }

    async fn free(&mut self, buffer: usize) -> Result<()> {
        self.buffers[buffer] = None;
        Ok(())
    }

    async fn settle(&mut self) -> Result<()> {
        self.device.idle()
    }
}
