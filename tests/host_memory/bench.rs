//! A simulated device whose calls are counted and may be refused, and waits that end.

pub use crate::random::Random;
use std::{
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant},
};
use tack_residency::{
    Buffer, Device, MemoryInfo, Options, Use,
    driver::{
        QueueId,
        fault::{Effect, Fault, Step},
        sim::{Clock, Config, Sim},
    },
};

pub const MIB: u64 = 1 << 20;
pub const CLOCKS: [Clock; 2] = [Clock::Computed, Clock::Real];
/// The queues every device makes, in their order.
pub const SPILL: QueueId = QueueId(1);
pub const RESTORE: QueueId = QueueId(2);
/// Both queues that host reads may take.
pub const READS: [QueueId; 2] = [SPILL, QueueId(4)];

pub struct Bench {
    pub sim: Arc<Sim>,
    pub fault: Arc<Fault>,
    pub device: Device,
}

impl Bench {
    /// A device with the speeds of the `pcie4` profile, whose calls fail as `steps` say.
    pub fn new(clock: Clock, options: Options, steps: &[Step]) -> Bench {
        let config = Config::profile("pcie4").expect("a profile").with_clock(clock);
        let sim = Sim::open(config).expect("a device");
        let fault = Fault::new(sim.clone(), steps.iter().copied());
        let device = options.open_driver("bench", fault.clone()).expect("a device");
        Bench { sim, fault, device }
    }

    pub fn info(&self) -> MemoryInfo {
        self.device.memory_info()
    }

    /// A buffer with its pattern in it, and its staging given back.
    pub fn buffer(&self, bytes: u64, seed: u8) -> Buffer {
        let buffer = finish(self.device.alloc(bytes).uninitialised()).expect("room");
        finish(buffer.write(pattern(bytes, seed))).expect("written");
        finish(self.device.idle()).expect("idle");
        buffer
    }

    /// Brings a buffer back and has it written, so that it keeps no host copy.
    pub fn dirty(&self, buffer: &Buffer) {
        let launch = finish(self.device.prepare([Use::read_write(buffer)])).expect("room");
        launch.submit(|run| run.host_kernel(Duration::ZERO, |_| {})).expect("queued");
        finish(self.device.idle()).expect("idle");
    }

    /// Pins `parts` MiB, of which every other one is free then. Gives the buffers that hold the others.
    pub fn split(&self, parts: usize) -> Vec<Buffer> {
        let all: Vec<_> = (0..parts).map(|part| self.buffer(MIB, part as u8)).collect();
        all.iter().for_each(|buffer| _ = finish(buffer.spill()).expect("spilled"));
        all.into_iter().enumerate().filter_map(|(part, buffer)| (part % 2 == 1).then_some(buffer)).collect()
    }

    #[track_caller]
    pub fn check(&self) {
        self.device.check().expect("balanced books");
        assert_eq!(self.sim.faults(), [], "the device was misused");
        let info = self.info();
        let ordinary = info.host_ordinary;
        assert_eq!(
            self.sim.live_host_bytes(),
            info.host_pinned + info.host_spare,
            "{ordinary} ordinary: {info:?}"
        );
    }

    /// Nothing is held, and when the device is gone neither is anything of it.
    #[track_caller]
    pub fn check_gone(self) {
        finish(self.device.idle()).expect("idle");
        self.check();
        let info = self.info();
        let held = [info.in_use, info.spilled, info.leaving, info.reserved, info.pinned];
        assert_eq!(
            (held, info.host_pinned, info.host_ordinary, info.host_runs),
            ([0; 5], 0, 0, 0),
            "{info:?}"
        );
        let sim = self.close("closed");
        assert_eq!((sim.live_bytes(), sim.faults()), (0, vec![]));
    }

    /// Drops the device, which keeps no host memory then, even if it is lost.
    #[track_caller]
    pub fn close(self, what: &str) -> Arc<Sim> {
        let Bench { sim, fault, device } = self;
        drop((device, fault));
        let start = Instant::now();
        while sim.live_host_bytes() > 0 || Arc::strong_count(&sim) > 1 {
            assert!(start.elapsed() < Duration::from_secs(20), "{what}: a closed device keeps host memory");
            thread::yield_now();
        }
        sim
    }
}

impl Bench {
    /// The books balance after one call has failed as told, and nothing is left of the device.
    #[track_caller]
    pub fn check_after(self, what: &str, made: Vec<Buffer>, failed: Step) {
        self.device.check().expect("balanced books");
        drop(made);
        if failed.effect != Effect::Lose {
            return self.check_gone();
        }
        self.close(what);
    }
}

/// Waits for a future, and not for ever.
#[track_caller]
pub fn finish<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let start = Instant::now();
    loop {
        if let Poll::Ready(output) = poll_once(future.as_mut()) {
            return output;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "it hangs");
        thread::yield_now();
    }
}

/// Waits for a future that was polled once, unless it ended there.
#[track_caller]
pub fn finish_polled<F: Future>(polled: Poll<F::Output>, future: F) -> F::Output {
    match polled {
        Poll::Ready(output) => output,
        Poll::Pending => finish(future),
    }
}

pub fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Bytes that no other seed gives, and no other place.
pub fn pattern(bytes: u64, seed: u8) -> Vec<u8> {
    (0..bytes).map(|at| ((at.wrapping_mul(0x9E37_79B9) >> 13) as u8).wrapping_add(seed)).collect()
}

#[track_caller]
pub fn assert_bytes(what: &str, buffer: &Buffer, expected: &[u8]) {
    let bytes = finish(buffer.read()).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(bytes == expected, "{what}: wrong bytes");
}
