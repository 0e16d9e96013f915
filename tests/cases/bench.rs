//! A small simulated device, what a test may do to it, and what must be so at its end.

pub use crate::random::Random;
use std::{
    future::Future,
    pin::{Pin, pin},
    sync::{Arc, Mutex},
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{Duration, Instant},
};
use tack_residency::{
    Buffer, Device, MemoryInfo, Options, Queue, Use,
    driver::{
        QueueId,
        sim::{Clock, Config, Pool, Sim},
    },
};

/// The bytes of most buffers.
pub const UNIT: u64 = 4096;
pub const CLOCKS: [Clock; 2] = [Clock::Computed, Clock::Real];
pub const POOLS: [Pool; 2] = [Pool::StreamOrdered, Pool::None];
/// The queues every device makes, in their order.
pub const COMPUTE: QueueId = QueueId(0);
pub const SPILL: QueueId = QueueId(1);
pub const RESTORE: QueueId = QueueId(2);
/// Both queues that host reads may take.
pub const READS: [QueueId; 2] = [SPILL, QueueId(4)];
/// More than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Bench {
    pub sim: Arc<Sim>,
    pub device: Device,
}

/// A device on a clock, with room for a few units. Its speeds are those of the `pcie4` profile.
pub fn config(clock: Clock, units: u64) -> Config {
    Config::profile("pcie4").expect("a profile").with_clock(clock).with_capacity(units * UNIT)
}

impl Bench {
    pub fn new(config: Config, options: Options) -> Bench {
        let sim = Sim::open(config).expect("a device");
        let device = options.open_driver("bench", sim.clone()).expect("a device");
        Bench { sim, device }
    }

    /// A device full at `units`, which are its budget too.
    pub fn tight(clock: Clock, units: u64) -> Bench {
        Bench::new(config(clock, units), Device::options().budget(units * UNIT))
    }

    /// A buffer with its pattern in it.
    pub fn buffer(&self, seed: u8) -> Buffer {
        let buffer = finish(self.device.alloc(UNIT).tag(format!("buffer {seed}"))).expect("room");
        finish(buffer.write(pattern(seed))).expect("written");
        buffer
    }

    /// Stops queues, once all that is queued so far has run.
    #[track_caller]
    pub fn hold(&self, queues: &[QueueId]) {
        finish(self.device.idle()).expect("idle");
        queues.iter().for_each(|&queue| self.sim.hold(queue).expect("a queue"));
    }

    /// Lets queues go on.
    #[track_caller]
    pub fn release(&self, queues: &[QueueId]) {
        queues.iter().for_each(|&queue| self.sim.release(queue).expect("a queue"));
    }

    pub fn info(&self) -> MemoryInfo {
        self.device.memory_info()
    }

    /// Launches a kernel that notes what it reads of a buffer.
    pub fn observe(&self, queue: &Queue, buffer: &Buffer) -> Arc<Mutex<Option<Vec<u8>>>> {
        let seen = Arc::new(Mutex::new(None));
        let notes = seen.clone();
        let launch = finish(self.device.prepare([Use::read(buffer)])).expect("resident");
        launch
            .on(queue)
            .expect("its queue")
            .submit(|run| {
                run.host_kernel(Duration::from_micros(20), move |args| {
                    *notes.lock().expect("not poisoned") = Some(args[0].bytes().to_vec());
                })
            })
            .expect("submitted");
        seen
    }

    /// Launches a kernel that adds one to every byte.
    pub fn increment(&self, queue: &Queue, buffer: &Buffer) {
        let launch = finish(self.device.prepare([Use::read_write(buffer)])).expect("resident");
        launch
            .on(queue)
            .expect("its queue")
            .submit(|run| {
                run.host_kernel(Duration::from_micros(20), |args| {
                    args[0].bytes_mut().iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
                })
            })
            .expect("submitted");
    }

    /// Looks again and again until something is so; computed time goes on meanwhile.
    pub fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let start = Instant::now();
        let mut idle = pin!(self.device.idle());
        let mut over = false;
        while !is_so() {
            assert!(start.elapsed() < PATIENCE, "{what}: it never is; {:?}", self.info());
            if over {
                idle.set(self.device.idle());
            }
            over = poll_once(idle.as_mut()).is_ready();
            thread::yield_now();
        }
    }

    /// Nothing was misused and the books balance.
    #[track_caller]
    pub fn check(&self) {
        self.device.check().expect("balanced books");
        assert_eq!(self.sim.faults(), [], "the device was misused");
    }

    /// As [`check`](Bench::check), and nothing is held any more.
    #[track_caller]
    pub fn check_empty(&self) {
        finish(self.device.idle()).expect("idle");
        self.check();
        let info = self.info();
        let held = [info.in_use, info.spilled, info.leaving, info.reserved, info.pinned, info.exported];
        assert_eq!((held, info.host_pinned + info.host_ordinary), ([0; 6], 0), "{info:?}");
        self.until("the device's memory is free", || self.sim.live_bytes() == 0);
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future, and not for ever.
#[track_caller]
pub fn finish<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let start = Instant::now();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        assert!(start.elapsed() < PATIENCE, "it hangs");
        thread::park_timeout(PATIENCE);
    }
}

pub fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls something that cannot end yet, often enough for all else to have happened.
#[track_caller]
pub fn still_waits<F: Future + ?Sized>(mut future: Pin<&mut F>) {
    for _ in 0..50 {
        assert!(poll_once(future.as_mut()).is_pending(), "it does not wait");
        thread::yield_now();
    }
}

/// Runs something on a thread of its own, and fails if it never ends.
pub fn watched<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = std::sync::mpsc::channel();
    let worker = thread::spawn(move || tell.send(run()));
    match told.recv_timeout(PATIENCE) {
        Ok(output) => output,
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        Err(_) => match worker.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(_) => unreachable!("it ended without telling"),
        },
    }
}

/// A unit of bytes that no other seed gives.
pub fn pattern(seed: u8) -> Vec<u8> {
    (0..UNIT).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

#[track_caller]
pub fn assert_bytes(what: &str, buffer: &Buffer, expected: &[u8]) {
    let bytes = finish(buffer.read()).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(bytes == expected, "{what}: wrong bytes");
}
