//! Through the asynchronous API, with launches asked for ahead of their turn.

use super::{Player, Work};
use crate::{
    content,
    program::{Content, Launch},
};
use futures::{FutureExt, StreamExt, future::LocalBoxFuture, stream::FuturesUnordered};
use std::task::Poll;
use tack_residency::{Buffer, Device, LaunchQueue, Result, Use};

/// A program that looks ahead, and waits for what the host reads.
pub struct Ahead<W> {
    device: Device,
    holds: bool,
    work: W,
    buffers: Vec<Option<Buffer>>,
    queue: LaunchQueue,
    /// Those under way.
    reads: FuturesUnordered<HostRead>,
}

/// A read: its step in the program, and its bytes.
type HostRead = LocalBoxFuture<'static, (usize, Result<Vec<u8>>)>;

/// How many reads may be under way: each holds a buffer's bytes.
const READS: usize = 32;

impl<W: Work> Ahead<W> {
    /// With `holds`, the device holds bytes.
    pub fn new(device: &Device, look_ahead: usize, holds: bool, work: W) -> Ahead<W> {
        let (buffers, queue) = (Vec::new(), device.launch_queue(look_ahead));
        Ahead { device: device.clone(), holds, work, buffers, queue, reads: FuturesUnordered::new() }
    }

    fn take(&self, place: usize, bytes: &[u8]) {
        if self.holds {
            self.work.digest().read(place, bytes);
        }
    }

    /// Waits until no more than `keep` reads are under way.
    async fn finish_reads(&mut self, keep: usize) -> Result<()> {
        while self.reads.len() > keep
            && let Some((place, bytes)) = self.reads.next().await
        {
            self.take(place, &bytes?);
        }
        Ok(())
    }
}

fn alive(buffers: &[Option<Buffer>], number: usize) -> &Buffer {
    buffers[number].as_ref().expect("a program uses what is alive")
}

impl<W: Work> Player for Ahead<W> {
    async fn alloc(&mut self, bytes: u64, content: Content) -> Result<()> {
        let is_cleared = content == Content::Cleared;
        let buffer =
            if is_cleared { self.queue.alloc(bytes)? } else { self.queue.alloc_uninitialised(bytes)? };
        if content == Content::Host && self.holds {
            // Once it has its memory, as the host's own part of a program would.
            self.queue.flush_uses(&buffer).await?;
            buffer.write(content::fresh(self.buffers.len(), bytes)).await?;
        }
        self.buffers.push(Some(buffer));
        Ok(())
    }

    async fn launch(&mut self, place: usize, launch: &Launch) -> Result<()> {
        let buffers = &self.buffers;
        let uses: Vec<Use<'_>> =
            launch.uses.iter().map(|&(number, how)| how.of(alive(buffers, number))).collect();
        self.queue.push(uses, self.work.kernel(place, launch)).await
    }

    async fn read(&mut self, place: usize, number: usize) -> Result<()> {
        let buffer = alive(&self.buffers, number);
        // It comes behind the launches before it, and is not waited for: later ones need not wait either.
        self.queue.flush_uses(buffer).await?;
        let mut read = buffer.read().map(move |bytes| (place, bytes)).boxed_local();
        match futures::poll!(&mut read) {
            Poll::Ready((place, bytes)) => self.take(place, &bytes?),
            Poll::Pending => self.reads.push(read),
        }
        self.finish_reads(READS).await
    }

    async fn free(&mut self, buffer: usize) -> Result<()> {
        self.buffers[buffer] = None;
        Ok(())
    }

    async fn settle(&mut self) -> Result<()> {
        self.queue.flush().await?;
        self.finish_reads(0).await?;
        self.device.idle().await
    }
}
