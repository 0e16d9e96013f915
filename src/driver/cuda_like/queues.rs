//! A device's queues: streams, each with the host memory that its copies use.

use super::{
    super::{HostRange, QueueId, QueueRole, Result},
    context::{Context, Vendor},
    invalid,
    symbols::Handle,
};
use std::{
    any::Any,
    ffi::{c_int, c_void},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

/// The most queues of a device.
pub(super) const STREAMS: usize = 32;

/// What queued work uses until it has run: a copy's host memory, a host kernel.
pub(super) type Held = Arc<dyn Any + Send + Sync>;

/// All queues of one device, found without a lock.
#[derive(Debug, Default)]
pub(super) struct Queues([OnceLock<Queue>; STREAMS]);

impl Queues {
    /// Gives a stream a number; none if there are too many.
    pub(super) fn add(&self, stream: Handle, role: QueueRole) -> Option<QueueId> {
        let place = |place: &OnceLock<Queue>| {
            place.set(Queue { stream, role, turn: Mutex::default(), copying: Mutex::default() }).is_ok()
        };
        self.0.iter().position(place).map(|index| QueueId(index as u32))
    }

    pub(super) fn find(&self, queue: QueueId, call: &'static str) -> Result<&Queue> {
        let found = self.0.get(queue.0 as usize).and_then(OnceLock::get);
        found.ok_or_else(|| invalid(call, format!("there is no queue {}", queue.0)))
    }

    /// Each queue with its number.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, &Queue)> {
        self.0.iter().map_while(OnceLock::get).enumerate()
    }
}

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) stream: Handle,
    pub(super) role: QueueRole,
    /// Had by who queues what must not come between the calls that a host kernel is made of: writes and fences.
    turn: Mutex<()>,
    /// What is used by work that no fence is behind yet.
    copying: Mutex<Vec<Held>>,
}

impl Queue {
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn copying(&self) -> MutexGuard<'_, Vec<Held>> {
        self.copying.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy between the device and a range of the host, which is kept until the copy has run.
    pub(super) fn copy<V: Vendor>(
        &self,
        context: &Context<V>,
        range: &HostRange,
        name: &'static str,
        call: impl FnOnce(*mut c_void, Handle) -> c_int,
    ) -> Result<()> {
        let Some(start) = range.memory.part(range.offset, range.bytes) else {
            return Err(invalid(name, "the range runs past the end of its host memory"));
        };
        let _entered = context.enter()?;
        if range.bytes > 0 {
            context.check(name, call(start.as_ptr().cast(), self.stream))?;
            // Only now: a fence recorded before the copy was queued must not let go of it.
            self.copying().push(range.memory.clone());
        }
        Ok(())
    }
}
