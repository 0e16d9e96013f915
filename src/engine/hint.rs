//! Hints at what will be asked for, and the wait for them.

use super::{
    Cell, Engine, Owner,
    alarm::Alarm,
    block::is_blocking,
    sync::{Event, lock},
    wait::Watch,
};
use crate::residency::{Failure, RequestId, Slot};
use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// Hints under way. Dropped before their end, they are taken back.
#[derive(Debug)]
pub struct Hints {
    owner: Arc<Owner>,
    slots: Vec<Slot>,
    stamp: u64,
    /// Those that have not ended.
    ids: Vec<RequestId>,
    bell: Arc<Event>,
    watch: Watch,
    alarm: Alarm,
}

impl Hints {
    /// Hints that these buffers will be used, in this order.
    pub fn new<'c>(owner: &Arc<Owner>, cells: impl IntoIterator<Item = &'c Arc<Cell>>) -> Hints {
        let engine = &owner.engine;
        let slots: Vec<_> = cells.into_iter().map(|cell| cell.slot()).collect();
        let (bell, stamp) = (Arc::new(Event::new()), engine.stamp());
        let ids = {
            let mut state = lock(&engine.state);
            let ids = state.core.hint(&slots, stamp);
            for &id in &ids {
                state.add_bell(id, &bell);
            }
            ids
        };
        engine.pump();
        Hints {
            owner: owner.clone(),
            slots,
            stamp,
            ids,
            bell,
            watch: Watch::default(),
            alarm: Alarm::default(),
        }
    }

    /// Waits until each has been followed or passed over, or for the end of `patience` from the first poll on.
    pub fn poll(&mut self, cx: &mut Context<'_>, patience: Option<Duration>) -> Poll<Result<(), Failure>> {
        let engine = &*self.owner.engine;
        self.alarm.set(&self.owner, &self.bell, patience);
        let (alarm, ids) = (&self.alarm, &mut self.ids);
        self.watch.poll(engine, &self.bell, cx, || {
            if engine.flags.has(super::Flags::LOST) {
                return Some(Err(Failure::Lost));
            }
            engine.end_hints(ids);
            if ids.is_empty() {
                return Some(Ok(()));
            }
            alarm.is_over().then_some(Err(Failure::TimedOut))
        })
    }
}

impl Drop for Hints {
    fn drop(&mut self) {
        if self.ids.is_empty() {
            return;
        }
        let engine = &self.owner.engine;
        {
            let mut state = lock(&engine.state);
            for &id in &self.ids {
                state.remove_bell(id);
                state.core.cancel(id);
            }
            state.core.forget_hints(&self.slots, self.stamp);
        }
        engine.pump();
        engine.ring();
    }
}

impl Engine {
    /// Takes out the hints that have ended, and those that wait in vain for as long as the calling thread does.
    fn end_hints(&self, ids: &mut Vec<RequestId>) {
        self.run_hook_of_launches();
        if let Some(&first) = ids.first()
            && is_blocking()
            && self.waits_for_caller(first)
        {
            self.change(|core| ids.iter().for_each(|id| core.cancel(*id)));
        }
        let mut state = lock(&self.state);
        ids.retain(|&id| {
            let waits = state.core.request(id).is_some_and(|request| request.is_waiting());
            if !waits {
                state.remove_bell(id);
                state.core.take_request(id);
            }
            waits
        });
    }
}
