//! A model of the event that waits and wake-ups go through: the same calls, on locks that loom sees. It cannot look into
//! the real one's.

use super::sync::{Mutex, lock};
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

/// Something to wait for.
#[derive(Debug)]
pub struct Event(Mutex<Vec<Arc<Mutex<Entry>>>>);

#[derive(Debug, Default)]
struct Entry {
    is_notified: bool,
    waker: Option<Waker>,
}

impl Event {
    /// One that no one waits for.
    pub fn new() -> Event {
        Event(Mutex::new(Vec::new()))
    }

    /// Starts to listen.
    pub fn listen(&self) -> EventListener {
        let entry = Arc::new(Mutex::new(Entry::default()));
        lock(&self.0).push(entry.clone());
        EventListener(entry)
    }

    /// Wakes all that listen.
    pub fn notify(&self, _: usize) {
        let entries = std::mem::take(&mut *lock(&self.0));
        for entry in entries {
            let waker = {
                let mut entry = lock(&entry);
                entry.is_notified = true;
                entry.waker.take()
            };
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

/// Ready once the event was notified.
#[derive(Debug)]
pub struct EventListener(Arc<Mutex<Entry>>);

impl Future for EventListener {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut entry = lock(&self.0);
        if entry.is_notified {
            return Poll::Ready(());
        }
        entry.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl EventListener {
    /// Gives others a turn.
    pub fn wait_timeout(self, _: Duration) -> Option<()> {
        loom::thread::yield_now();
        None
    }
}
