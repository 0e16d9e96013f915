//! Atomics and locks, or their models: every other file of the engine takes them from here.

#[cfg(not(model))]
pub use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

#[cfg(model)]
pub use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
};

#[cfg(not(model))]
pub use super::event::{Event, EventListener};

#[cfg(model)]
pub use super::model_event::{Event, EventListener};

/// Locks, whether or not another holder panicked: every change under these locks is whole before anything can panic.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
