//! Wakers: what they may do while they are called.

use crate::bench::{Bench, COMPUTE, READS, RESTORE, SPILL, UNIT, finish, poll_once, watched};
use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, OnceLock},
    task::{Context, Wake, Waker},
    thread,
    time::{Duration, Instant},
};
use tack_residency::{Buffer, Device, Use, driver::sim::Clock};

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Each of the crate's ways to wait, none over while the queues stand still.
fn tasks(device: &Device, buffer: &Buffer) -> Vec<Task> {
    let (device, buffer) = (device.clone(), buffer.clone());
    let (one, other, third) = (device.clone(), device.clone(), buffer.clone());
    vec![
        Box::pin(async move { _ = one.alloc(UNIT).await }),
        Box::pin(async move { _ = other.idle().await }),
        Box::pin(async move { _ = third.read().await }),
        Box::pin(async move {
            let mut queue = device.launch_queue(0);
            _ = queue.push([Use::read(&buffer)], |_| Ok(())).await;
            let scratch = queue.alloc(UNIT);
            _ = queue.flush().await;
            drop(scratch);
        }),
    ]
}

/// Starts each of the tasks on a device of its own, has it woken, and looks at what came of that.
fn with_each(start: impl Fn(&Bench, &Buffer, Task) + Clone + Send + 'static) {
    for index in 0..4 {
        let start = start.clone();
        watched(move || {
            let bench = Bench::tight(Clock::Real, 1);
            let buffer = bench.buffer(1);
            let queues = [COMPUTE, SPILL, RESTORE, READS[1]];
            bench.hold(&queues);
            bench.observe(&bench.device.queue(), &buffer);
            let task = tasks(&bench.device, &buffer).swap_remove(index);
            start(&bench, &buffer, task);
        });
    }
}

fn wait_until(is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(30), "no one was woken");
        thread::sleep(Duration::from_micros(100));
    }
}

/// Drops the future that it wakes, as executors do with a task that they cannot run any more.
struct Gone(Mutex<Option<Task>>);

impl Wake for Gone {
    fn wake(self: Arc<Self>) {
        let task = self.0.lock().expect("not poisoned").take();
        drop(task);
    }
}

#[test]
fn a_waker_that_dropped_its_future_waited_for_itself() {
    with_each(|bench, _, mut task| {
        let gone = Arc::new(Gone(Mutex::default()));
        let waker = Waker::from(gone.clone());
        assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        *gone.0.lock().expect("not poisoned") = Some(task);
        bench.release(&[COMPUTE, SPILL, RESTORE, READS[1]]);
        wait_until(|| gone.0.lock().expect("not poisoned").is_none());
        finish(bench.device.idle()).expect("idle");
        bench.check();
    });
}

/// Asks for more of the device whose event woke it.
struct Busy(Device, Buffer, OnceLock<()>);

impl Wake for Busy {
    fn wake(self: Arc<Self>) {
        let mut waiting = tasks(&self.0, &self.1);
        waiting.iter_mut().for_each(|task| _ = poll_once(task.as_mut()));
        drop(waiting);
        self.1.wont_use();
        self.0.set_budget(Some(2 * UNIT));
        _ = self.1.spill().try_now();
        _ = self.2.set(());
    }
}

#[test]
fn a_waker_that_waited_for_the_event_that_woke_it_waited_for_itself() {
    with_each(|bench, buffer, mut task| {
        let busy = Arc::new(Busy(bench.device.clone(), buffer.clone(), OnceLock::new()));
        let waker = Waker::from(busy.clone());
        let mut cx = Context::from_waker(&waker);
        assert!(task.as_mut().poll(&mut cx).is_pending());
        bench.release(&[COMPUTE, SPILL, RESTORE, READS[1]]);
        wait_until(|| busy.2.get().is_some());
        wait_until(|| bench.device.idle().wait().is_ok());
        while task.as_mut().poll(&mut cx).is_pending() {
            thread::yield_now();
        }
        drop(task);
        bench.check();
    });
}
