//! One read, write or fill by the host, from its call to its end.

use super::{
    HostRuns,
    sync::{AtomicUsize, Event, Mutex, lock},
};
use crate::residency::Failure;
use std::sync::Arc;

/// How many bytes go at once from one run of host memory to another.
const PIECE: usize = 16 << 10;

/// What the host does with a part of a buffer.
#[derive(Debug)]
pub enum Access {
    /// Reads into staging.
    Read,
    /// Writes what is in staging.
    Write,
    /// Sets every byte.
    Fill(u8),
}

#[derive(Debug)]
enum Progress {
    /// Nothing has been done, and no one else need know if it is taken back.
    Pending,
    /// It is being queued, or is.
    Begun,
    Cancelled,
    Done,
    Failed(Failure),
}

/// A host operation on device memory.
#[derive(Debug)]
pub struct HostOp {
    /// What is done.
    pub(super) access: Access,
    /// Where in the buffer, in bytes.
    pub(super) offset: u64,
    /// To how many bytes.
    pub(super) bytes: u64,
    staging: Mutex<Option<HostRuns>>,
    /// Of a write, how many runs of the staging are queued: once one is, it must be done whole.
    pub(super) queued: AtomicUsize,
    progress: Mutex<Progress>,
    /// Rung when it has ended, by whoever has let go of the state lock by then.
    pub event: Arc<Event>,
}

impl HostOp {
    pub(super) fn new(access: Access, offset: u64, bytes: u64, staging: Option<HostRuns>) -> Arc<HostOp> {
        let (staging, progress) = (Mutex::new(staging), Mutex::new(Progress::Pending));
        let (queued, event) = (AtomicUsize::new(0), Arc::new(Event::new()));
        Arc::new(HostOp { access, offset, bytes, staging, queued, progress, event })
    }

    /// It is to be done now; false if it was cancelled.
    pub(super) fn begin(&self) -> bool {
        let mut progress = lock(&self.progress);
        if let Progress::Pending = *progress {
            *progress = Progress::Begun;
        }
        matches!(*progress, Progress::Begun)
    }

    /// No one waits for it any more: what has not begun is not done. False if it changes the buffer all the same.
    pub fn cancel(&self) -> bool {
        let mut progress = lock(&self.progress);
        if let Progress::Pending = *progress {
            *progress = Progress::Cancelled;
        }
        matches!(*progress, Progress::Cancelled) || matches!(self.access, Access::Read)
    }

    /// It has ended well. `ringing` is rung once the state lock is given up: wakers are the caller's.
    pub fn finish(&self, ringing: &mut Vec<Arc<Event>>) {
        self.end(Progress::Done, ringing);
    }

    /// It has failed. What was to be written is not needed any more, and neither is a place to read to.
    pub fn fail(&self, failure: Failure, ringing: &mut Vec<Arc<Event>>) {
        self.take_staging();
        self.end(Progress::Failed(failure), ringing);
    }

    /// Does it in a host copy.
    pub(super) fn apply(&self, copy: &HostRuns) {
        let at = self.offset as usize;
        if let Access::Fill(value) = self.access {
            return copy.fill(at, self.bytes as usize, value);
        }
        let Some(staging) = self.staging() else { return };
        let (mut piece, mut done) = ([0; PIECE], 0);
        while done < self.bytes as usize {
            let bytes = PIECE.min(self.bytes as usize - done);
            let piece = &mut piece[..bytes];
            if matches!(self.access, Access::Read) {
                copy.read(at + done, piece);
                staging.write(done, piece);
            } else {
                staging.read(done, piece);
                copy.write(at + done, piece);
            }
            done += bytes;
        }
    }

    fn end(&self, progress: Progress, ringing: &mut Vec<Arc<Event>>) {
        *lock(&self.progress) = progress;
        ringing.push(self.event.clone());
    }

    /// Whether it has ended, and how.
    pub fn outcome(&self) -> Option<Result<(), Failure>> {
        match &*lock(&self.progress) {
            Progress::Pending | Progress::Begun | Progress::Cancelled => None,
            Progress::Done => Some(Ok(())),
            Progress::Failed(failure) => Some(Err(failure.clone())),
        }
    }

    /// What was read, or is to be written.
    pub(super) fn staging(&self) -> Option<HostRuns> {
        lock(&self.staging).clone()
    }

    /// Takes the memory that was read into.
    pub fn take_staging(&self) -> Option<HostRuns> {
        lock(&self.staging).take()
    }
}
