//! Waiting that ends: a future is polled so often and no more, a thread is waited for so long and no longer.

use std::{
    future::Future,
    pin::pin,
    sync::mpsc::{self, RecvTimeoutError},
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

/// More than any wait of these tests needs on a computed clock, where each poll moves something on.
const POLLS: usize = 50_000;
/// More than any run of these tests needs on a real clock.
const PATIENCE: Duration = Duration::from_secs(20);

/// Polls a future of a device on a computed clock to its end.
pub fn poll<F: Future>(what: &str, future: F) -> F::Output {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..POLLS {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
    }
    panic!("{what} hangs: still pending after {POLLS} polls");
}

/// Runs something that waits in real time on a thread of its own.
pub fn watched<T: Send + 'static>(what: &str, run: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = mpsc::channel();
    let worker = thread::Builder::new().name("watched".to_owned());
    let worker = worker.spawn(move || tell.send(run())).expect("a thread");
    match told.recv_timeout(PATIENCE) {
        Ok(output) => output,
        Err(RecvTimeoutError::Timeout) => panic!("{what} hangs: no end after {PATIENCE:?}"),
        Err(RecvTimeoutError::Disconnected) => match worker.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(_) => unreachable!("it ended without telling"),
        },
    }
}

/// How many threads of this process have a name that starts like this (its first 15 bytes are known).
pub fn threads(name: &str) -> usize {
    let name = &name[..name.len().min(15)];
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return 0 };
    let names = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|found| found.trim_end() == name).count()
}

/// Waits until something is so, giving the processor to others meanwhile.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what}: not so after {PATIENCE:?}");
        thread::yield_now();
    }
}
