//! What happens around a launch's closure: order before it, numbers after it.

use super::{
    Cell, Engine, Flags,
    nested::NESTED_LAUNCH,
    queue::Queue,
    sync::{MutexGuard, lock},
};
use crate::residency::{Failure, WordCell};
use std::{
    cell::Cell as StdCell,
    sync::{Arc, TryLockError},
    time::Duration,
};

thread_local! {
    static IN_ORDER: StdCell<bool> = const { StdCell::new(false) };
}

/// A launch being queued. Dropping it draws the number and notes the uses, also when the closure panics.
#[derive(Debug)]
pub struct Submitting<'e, U: Iterator<Item = (&'e Arc<Cell>, bool)> + Clone> {
    engine: &'e Engine,
    queue: &'e Queue,
    uses: U,
    begun: Begun,
    _ordering: Option<Ordering<'e>>,
}

/// How the queue knows that a launch is being queued.
#[derive(Clone, Copy, Debug)]
enum Begun {
    /// By the place taken on it: uses were not noted when this began.
    Place(usize),
    /// By its turn among the launches begun.
    Launch(u64),
}

/// With more than one compute queue, launches are queued one at a time, so that those that share a buffer are in order.
#[derive(Debug)]
struct Ordering<'e> {
    engine: &'e Engine,
    turn: Option<MutexGuard<'e, ()>>,
}

impl Drop for Ordering<'_> {
    fn drop(&mut self) {
        drop(self.turn.take());
        IN_ORDER.set(false);
        self.engine.take_up_launchers();
    }
}

impl Engine {
    /// Starts to queue a launch on the queue at `index`: what its buffers' uses on other queues ask for is waited for,
    /// on the device.
    ///
    /// # Errors
    ///
    /// The device is lost, a wait was refused, or this thread is queueing another launch.
    #[inline]
    pub fn begin_submit<'e, U>(&'e self, index: usize, uses: U) -> Result<Submitting<'e, U>, Failure>
    where
        U: Iterator<Item = (&'e Arc<Cell>, bool)> + Clone,
    {
        let queue = self.queue(index);
        let place = queue.enter();
        if let Some(place) = place
            && !self.flags.has(Flags::TRACK | Flags::LOST | Flags::MULTI)
        {
            let begun = Begun::Place(place);
            return Ok(Submitting { engine: self, queue, uses, begun, _ordering: None });
        }
        self.begin_numbered(queue, place, uses)
    }

    /// Starts to queue a launch whose uses are noted.
    #[cold]
    fn begin_numbered<'e, U>(
        &'e self,
        queue: &'e Queue,
        place: Option<usize>,
        uses: U,
    ) -> Result<Submitting<'e, U>, Failure>
    where
        U: Iterator<Item = (&'e Arc<Cell>, bool)> + Clone,
    {
        let mut launch = queue.begin();
        if let Some(place) = place {
            queue.leave(place);
        }
        match self.order_launch(queue, &mut launch, uses.clone()) {
            Ok(_ordering) => {
                Ok(Submitting { engine: self, queue, uses, begun: Begun::Launch(launch), _ordering })
            }
            Err(failure) => {
                queue.end(launch, |number| number);
                if self.flags.has(Flags::SETTLE) {
                    self.pump();
                }
                Err(failure)
            }
        }
    }

    fn order_launch<'e, U>(
        &'e self,
        queue: &Queue,
        launch: &mut u64,
        uses: U,
    ) -> Result<Option<Ordering<'e>>, Failure>
    where
        U: Iterator<Item = (&'e Arc<Cell>, bool)> + Clone,
    {
        loop {
            if self.flags.has(Flags::LOST) {
                return Err(Failure::Lost);
            }
            if !uses.clone().any(|(cell, _)| cell.load().is_closed()) {
                break;
            }
            // A host operation decided earlier comes first; it may be waiting for this very launch to stand back.
            queue.end(*launch, |number| number);
            if uses.clone().any(|(cell, _)| self.is_closed_by_caller(cell)) {
                *launch = queue.begin();
                return Err(NESTED_LAUNCH);
            }
            self.stand_back(|| uses.clone().any(|(cell, _)| cell.load().is_closed()));
            *launch = queue.begin();
        }
        let turn = if self.flags.has(Flags::MULTI) {
            if IN_ORDER.replace(true) {
                return Err(NESTED_LAUNCH);
            }
            Some(Ordering { engine: self, turn: Some(lock(&self.ordering)) })
        } else {
            None
        };
        for (cell, writes) in uses {
            self.order(queue, cell, !writes).map_err(|error| self.failure(error))?;
        }
        Ok(turn)
    }

    /// Whether a launch that goes in order with others is being queued by this thread, here or on another device.
    pub(super) fn is_in_order(&self) -> bool {
        IN_ORDER.get()
    }

    /// Whether a launch that goes in order with others is being queued: by another thread, or by this one.
    pub(super) fn is_ordering(&self) -> bool {
        self.is_in_order() || matches!(self.ordering.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// Lets the queueing of a pinned buffer's host operation go on, for a moment. If the driver has refused a part of
    /// it, this thread may be the one that has it tried again.
    pub(super) fn stand_back(&self, is_closed: impl Fn() -> bool) {
        let opened = self.bell.listen();
        let now = self.driver.now();
        self.retry(&mut lock(&self.state), now);
        self.follow_crossings();
        self.pump();
        if is_closed() {
            opened.wait_timeout(Duration::from_millis(10));
        }
    }
}

impl<'e, U: Iterator<Item = (&'e Arc<Cell>, bool)> + Clone> Submitting<'e, U> {
    fn note(&self, number: u64) -> u64 {
        for (cell, writes) in self.uses.clone() {
            cell.note_use(self.queue.index, number, writes);
        }
        number
    }

    /// Notes the uses, if that was asked for meanwhile, and has whoever waits for this launch go on.
    #[cold]
    fn end_noted(&self) {
        let number = match self.begun {
            Begun::Place(_) => self.note(self.queue.number()),
            Begun::Launch(launch) => self.queue.end(launch, |number| self.note(number)),
        };
        self.engine.mark(self.queue, number);
        if let Begun::Place(place) = self.begun {
            self.queue.leave(place);
        }
        if self.engine.flags.has(Flags::SETTLE) {
            self.engine.pump();
        }
    }
}

impl<'e, U: Iterator<Item = (&'e Arc<Cell>, bool)> + Clone> Drop for Submitting<'e, U> {
    #[inline]
    fn drop(&mut self) {
        match self.begun {
            // Whoever set a flag after this look finds the launch queued; the device's thread looks at the place again.
            Begun::Place(place) if !self.engine.flags.has(Flags::TRACK | Flags::SETTLE) => {
                self.queue.leave(place)
            }
            _ => self.end_noted(),
        }
    }
}
