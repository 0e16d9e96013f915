//! Tells whether the calling thread may wait.

use std::task::{Context, Poll, Waker};

/// Panics, at the caller's line, on a thread that an async runtime is polling a task on.
#[track_caller]
pub fn assert_may_block(async_form: &str) {
    assert!(
        may_block(),
        "this call waits, and the calling thread drives an async runtime: use {async_form}, or call it within \
         `spawn_blocking` or `block_in_place`"
    );
}

/// A tokio task being polled has a budget of steps; a thread that may block has none, whatever handle it carries.
fn may_block() -> bool {
    if tokio::runtime::Handle::try_current().is_err() {
        return true;
    }
    let mut context = Context::from_waker(Waker::noop());
    let mut taken = Vec::new();
    // A budget is 128 steps. Each step taken here is given back when its value is dropped, last first.
    for _ in 0..=128 {
        match tokio::task::coop::poll_proceed(&mut context) {
            Poll::Ready(step) => taken.push(step),
            Poll::Pending => {
                while taken.pop().is_some() {}
                return false;
            }
        }
    }
    while taken.pop().is_some() {}
    !is_polled_without_budget()
}

/// `unconstrained` tasks have no budget either, but tokio refuses to block under them.
fn is_polled_without_budget() -> bool {
    std::panic::catch_unwind(|| drop(tokio::sync::Mutex::new(()).blocking_lock())).is_err()
}
