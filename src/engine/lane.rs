//! Jobs for one queue, in the order they were decided, and the turn of whoever runs them.

use super::{
    jobs::Job,
    sync::{Mutex, MutexGuard, lock},
};
use std::collections::VecDeque;

/// One queue's jobs.
#[derive(Debug, Default)]
pub struct Lane {
    outbox: Mutex<VecDeque<Job>>,
    turn: Mutex<()>,
}

impl Lane {
    /// Adds a job; called under the state lock, so that jobs stand in decision order.
    pub fn push(&self, job: Job) {
        lock(&self.outbox).push_back(job);
    }

    /// The next job.
    pub fn pop(&self) -> Option<Job> {
        lock(&self.outbox).pop_front()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        lock(&self.outbox).is_empty()
    }

    /// The turn, unless someone has it, who will then see every job pushed before this call.
    pub fn try_turn(&self) -> Option<MutexGuard<'_, ()>> {
        match self.turn.try_lock() {
            Ok(turn) => Some(turn),
            #[cfg(not(model))]
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(_) => None,
        }
    }
}
