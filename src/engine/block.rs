//! The one way to wait for any of the crate's futures without a runtime.

use std::{
    cell::Cell,
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::Thread,
};

thread_local! {
    static BLOCKING: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread waits in [`block_on`].
pub(super) fn is_blocking() -> bool {
    BLOCKING.get()
}

struct Parker {
    thread: Thread,
    woken: std::sync::atomic::AtomicBool,
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, std::sync::atomic::Ordering::Release);
        self.thread.unpark();
    }
}

/// Waits for a future on this thread, without a runtime.
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Leave(bool);
    impl Drop for Leave {
        fn drop(&mut self) {
            BLOCKING.set(self.0);
        }
    }
    let _leave = Leave(BLOCKING.replace(true));
    let mut future = pin!(future);
    // Nearly every call is over at its first poll, and then needs no waker.
    if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return output;
    }
    let parker =
        Arc::new(Parker { thread: std::thread::current(), woken: std::sync::atomic::AtomicBool::new(false) });
    let waker = Waker::from(parker.clone());
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        while !parker.woken.swap(false, std::sync::atomic::Ordering::Acquire) {
            std::thread::park();
        }
    }
}
