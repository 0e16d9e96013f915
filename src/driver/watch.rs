//! What a device's own thread watches: its outstanding fences, and the bell that ends its rest.

use super::{
    Fence, Result,
    fences::Fences,
    invalid,
    pace::{Pace, SELDOM},
    queues::Queue,
    sim::bell::Bell,
    symbols::Handle,
};
use std::time::Duration;

/// The fences of a device, with its clock.
#[derive(Debug, Default)]
pub(super) struct Watch {
    pub(super) fences: Fences,
    pub(super) pace: Pace,
    pub(super) bell: Bell,
}

/// What a look at events told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Look {
    /// None has passed.
    Nothing,
    /// One has passed, or a call says why it cannot be told.
    Something,
    /// There is no looking.
    Blind,
}

impl Watch {
    /// A fence of an event that `record` records on the queue at `index`. What the queue's work uses is kept until it has
    /// passed.
    pub(super) fn record<S>(
        &self,
        index: usize,
        queue: &Queue<S>,
        event: Handle,
        record: impl FnOnce() -> Result<()>,
    ) -> Result<Fence> {
        let held = std::mem::take(&mut *queue.copying());
        if let Err(error) = record() {
            queue.copying().extend(held);
            self.fences.keep(event);
            return Err(error);
        }
        let (fence, first) = self.fences.add(event, index, held);
        if first {
            self.pace.note();
            self.bell.ring();
        }
        Ok(fence)
    }

    /// A fence's event, as long as it is not known to have passed.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is no such fence.
    pub(super) fn outstanding(&self, fence: Fence, call: &'static str) -> Result<Option<Handle>> {
        let found = self.fences.find(fence);
        let (event, known) =
            found.ok_or_else(|| invalid(call, "there is no such fence, or it has been retired"))?;
        Ok((!known).then_some(event))
    }

    /// Whether a fence has passed, for which its event is asked.
    pub(super) fn is_passed(&self, fence: Fence, query: impl FnOnce(Handle) -> Result<bool>) -> Result<bool> {
        let Some(event) = self.outstanding(fence, "is_passed")? else { return Ok(true) };
        let passed = query(event)?;
        if passed {
            drop(self.fences.pass(fence));
            self.pace.note();
        }
        Ok(passed)
    }

    /// Looks at the outstanding fences, more seldom the longer none has passed. Not by a callback in a stream, since
    /// none comes after a device's error; not in a call that waits for one event, since no other would end that.
    pub(super) fn park(&self, patience: Duration, look: impl Fn(&[(Fence, Handle)]) -> Look) {
        let end = self.pace.now().saturating_add(patience);
        let mut next = Vec::new();
        loop {
            self.fences.next(&mut next);
            let left = end.saturating_sub(self.pace.now());
            if next.is_empty() {
                self.bell.rest(left);
                return;
            }
            match look(&next) {
                Look::Blind => {
                    self.bell.rest(left.min(SELDOM));
                    return;
                }
                Look::Something => return,
                Look::Nothing if left.is_zero() => return,
                Look::Nothing => {}
            }
            if self.bell.rest(self.pace.pause().min(left)) {
                return;
            }
        }
    }
}
