//! The event that waits and wake-ups go through. Wakers are their callers' code: they run with no lock held, this event's
//! own included, so they may drop the future they wake, or call the crate.

use super::sync::{Mutex, lock};
use event_listener::Listener as _;
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

/// Something to wait for.
#[derive(Debug)]
pub struct Event {
    event: event_listener::Event,
    woken: Arc<Mutex<Vec<Waker>>>,
}

impl Event {
    /// One that no one waits for.
    pub fn new() -> Event {
        Event { event: event_listener::Event::new(), woken: Arc::default() }
    }

    /// Starts to listen.
    pub fn listen(&self) -> EventListener {
        let relay = Arc::new(Relay { waker: Mutex::new(None), woken: self.woken.clone() });
        EventListener { listener: self.event.listen(), relay }
    }

    /// Wakes as many that listen.
    pub fn notify(&self, listeners: usize) {
        self.event.notify(listeners);
        let woken = std::mem::take(&mut *lock(&self.woken));
        woken.into_iter().for_each(Waker::wake);
    }
}

/// What the event wakes under its lock, in the waker's place: all it does is to note the waker.
#[derive(Debug)]
struct Relay {
    waker: Mutex<Option<Waker>>,
    woken: Arc<Mutex<Vec<Waker>>>,
}

impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        let waker = lock(&self.waker).take();
        lock(&self.woken).extend(waker);
    }
}

/// Ready once the event was notified.
#[derive(Debug)]
pub struct EventListener {
    // Goes first: then the event has let go of the relay, and the waker in it is dropped with no lock held.
    listener: event_listener::EventListener,
    relay: Arc<Relay>,
}

impl EventListener {
    /// Waits on this thread; none if that took longer than `patience`.
    pub fn wait_timeout(self, patience: Duration) -> Option<()> {
        self.listener.wait_timeout(patience)
    }
}

impl Future for EventListener {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let waker = cx.waker().clone();
        let before = lock(&self.relay.waker).replace(waker);
        drop(before);
        let relay = Waker::from(self.relay.clone());
        Pin::new(&mut self.listener).poll(&mut Context::from_waker(&relay))
    }
}
