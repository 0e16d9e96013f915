//! Plays a program on a device. Both ways to call the crate behind one trait, so that the rest is written once.

mod ahead;
mod facade;

pub use ahead::Ahead;
pub use facade::Facade;

use crate::{
    content::{self, Digest, How},
    program::{Content, Launch, Program, Step},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};
use tack_residency::{
    Result, Run,
    driver::{ArgAccess, HostKernel},
};

/// What a program does. The facade's calls wait before they return: its futures are ready when first polled.
pub trait Player {
    /// Makes the next buffer.
    async fn alloc(&mut self, bytes: u64, content: Content) -> Result<()>;
    async fn launch(&mut self, place: usize, launch: &Launch) -> Result<()>;
    /// Reads a buffer to the host; what is read goes to the digest.
    async fn read(&mut self, place: usize, buffer: usize) -> Result<()>;
    async fn free(&mut self, buffer: usize) -> Result<()>;
    /// Waits until all that was asked for is done.
    async fn settle(&mut self) -> Result<()>;

    /// Does the step at a place of the program.
    async fn step(&mut self, place: usize, step: &Step) -> Result<()> {
        match step {
            Step::Alloc { bytes, content } => self.alloc(*bytes, *content).await,
            Step::Launch(launch) => self.launch(place, launch).await,
            Step::HostRead(buffer) => self.read(place, *buffer).await,
            Step::Free(buffer) => self.free(*buffer).await,
        }
    }

    /// Reads all that a program leaves, for the digest alone.
    async fn read_left(&mut self, program: &Program) -> Result<()> {
        for &buffer in &program.left {
            self.read(program.steps.len() + buffer, buffer).await?;
        }
        self.settle().await
    }
}

/// Queues a launch's kernel.
pub type Kernel = Box<dyn FnOnce(&Run<'_>) -> Result<()> + Send>;

/// What a program's launches do, and where what the host reads is summed up.
pub trait Work {
    /// The launch at a place of the program.
    fn kernel(&self, place: usize, launch: &Launch) -> Kernel;
    fn digest(&self) -> &Digest;
}

/// What all kernels of a run share.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    pub digest: Arc<Digest>,
    places: Arc<Mutex<BTreeMap<u64, usize>>>,
}

impl Shared {
    /// The buffer that was at an address of the device, if a kernel used it there.
    pub fn buffer_at(&self, address: u64) -> Option<usize> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner).get(&address).copied()
    }
}

impl Work for Shared {
    /// A kernel on the host that mixes bytes. Each is labelled, for a timeline that shows it.
    fn kernel(&self, place: usize, launch: &Launch) -> Kernel {
        let (buffers, hows): (Vec<usize>, Vec<How>) = launch.uses.iter().copied().unzip();
        let (cost, shared) = (launch.cost, self.clone());
        Box::new(move |run| {
            let mut places = shared.places.lock().unwrap_or_else(PoisonError::into_inner);
            places
                .extend(buffers.iter().enumerate().map(|(index, &buffer)| (run.ptr(index).as_raw(), buffer)));
            drop(places);
            let accesses = hows.clone();
            let digest = shared.digest.clone();
            let mut kernel = HostKernel::new(cost, move |args| content::mix(place, &hows, args, &digest));
            for (index, how) in accesses.into_iter().enumerate() {
                let access = if how == How::Read { ArgAccess::Read } else { ArgAccess::Write };
                kernel = kernel.arg(run.ptr(index), run.bytes(index), access);
            }
            Ok(run.driver().launch_host(run.queue(), kernel.labelled(KERNEL))?)
        })
    }

    fn digest(&self) -> &Digest {
        &self.digest
    }
}

/// What the work of every launch is labelled with. What the crate queues itself has labels of its own.
pub const KERNEL: &str = "launch";
