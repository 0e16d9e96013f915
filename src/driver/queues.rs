//! A device's queues: streams, each with what its queued work uses.

use super::{DriverError, DriverErrorKind, HostRange, QueueId, QueueRole, Result, invalid};
use std::{
    any::Any,
    ffi::c_void,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

/// The most queues of a device.
pub(super) const STREAMS: usize = 32;

/// What queued work uses until it has run: a copy's host memory, a host kernel.
pub(super) type Held = Arc<dyn Any + Send + Sync>;

/// All queues of one device, found without a lock.
#[derive(Debug)]
pub(super) struct Queues<S>([OnceLock<Queue<S>>; STREAMS]);

impl<S> Default for Queues<S> {
    fn default() -> Queues<S> {
        Queues([const { OnceLock::new() }; STREAMS])
    }
}

impl<S> Queues<S> {
    /// Gives a stream a number. If there are too many, it goes to `refused`.
    ///
    /// # Errors
    ///
    /// `Unsupported` if there are too many.
    pub(super) fn add(
        &self,
        stream: S,
        role: QueueRole,
        call: &'static str,
        refused: impl FnOnce(S),
    ) -> Result<QueueId> {
        let mut queue = Queue { stream, role, turn: Mutex::default(), copying: Mutex::default() };
        for (index, place) in self.0.iter().enumerate() {
            match place.set(queue) {
                Ok(()) => return Ok(QueueId(index as u32)),
                Err(back) => queue = back,
            }
        }
        refused(queue.stream);
        let message = format!("a device has at most {STREAMS} queues");
        Err(DriverError::new(DriverErrorKind::Unsupported, call, 0, message))
    }

    pub(super) fn find(&self, queue: QueueId, call: &'static str) -> Result<&Queue<S>> {
        let found = self.0.get(queue.0 as usize).and_then(OnceLock::get);
        found.ok_or_else(|| invalid(call, format!("there is no queue {}", queue.0)))
    }

    /// Each queue with its number.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, &Queue<S>)> {
        self.0.iter().map_while(OnceLock::get).enumerate()
    }
}

#[derive(Debug)]
pub(super) struct Queue<S> {
    pub(super) stream: S,
    #[cfg_attr(
        not(any(feature = "cuda", feature = "hip")),
        allow(dead_code, reason = "others trim without")
    )]
    pub(super) role: QueueRole,
    /// Had by who queues what must not come between the calls that a host kernel is made of: writes and fences.
    turn: Mutex<()>,
    /// What is used by work that no fence is behind yet.
    copying: Mutex<Vec<Held>>,
}

impl<S> Queue<S> {
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn copying(&self) -> MutexGuard<'_, Vec<Held>> {
        self.copying.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy between the device and a range of the host, which `copy` queues and which is kept until it has run.
    pub(super) fn copy(
        &self,
        range: &HostRange,
        name: &'static str,
        copy: impl FnOnce(*mut c_void) -> Result<()>,
    ) -> Result<()> {
        let start = range.start(name)?;
        if range.bytes > 0 {
            copy(start)?;
            // Only now: a fence recorded before the copy was queued must not let go of it.
            self.copying().push(range.memory.clone());
        }
        Ok(())
    }
}
