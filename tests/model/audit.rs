//! What must hold after every step, and when all is over.

use crate::world::World;
use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};
use tack_residency::driver::{
    Driver,
    sim::{Clock, Sim},
};

impl World {
    /// Recounts everything.
    pub fn audit(&self) {
        let device = self.device();
        if let Err(wrong) = device.check() {
            panic!("{wrong}");
        }
        let info = device.memory_info();
        let limit = self.budget.get().unwrap_or(u64::MAX);
        let held = info.in_use.saturating_add(info.reserved);
        assert!(held <= self.allowed.get(), "{held} held of {} allowed: {info:?}", self.allowed.get());
        self.allowed.set(limit.max(held + info.leaving).min(self.allowed.get()).max(limit));
        let Some(sim) = &self.bench.sim else { return };
        let faults = sim.faults();
        assert!(faults.is_empty(), "the device was used wrongly: {faults:?}");
        let peak = sim.peak_bytes();
        assert!(peak <= self.most_allowed.get(), "{peak} were held on the device: {info:?}");
        if self.bench.kind.clock == Clock::Computed {
            let live = sim.live_bytes();
            let booked = info.in_use + info.leaving;
            assert!(live <= booked, "{live} allocated, and {booked} in the books: {info:?}");
        }
    }

    /// With every handle gone: waits for the device, then nothing may be left.
    pub fn audit_end(&self) {
        let device = self.device();
        let mut idle = std::pin::pin!(device.idle());
        let began = Instant::now();
        let mut polls = 0u32;
        loop {
            match idle.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(done) => break done.expect("the device is not lost"),
                Poll::Pending => polls += 1,
            }
            assert!(
                polls < 100_000 || began.elapsed() < Duration::from_secs(20),
                "the device never came to rest"
            );
            std::thread::yield_now();
        }
        if let Err(wrong) = device.check() {
            panic!("{wrong}");
        }
        let info = device.memory_info();
        let left = [
            info.in_use,
            info.spilled,
            info.leaving,
            info.reserved,
            info.pinned,
            info.exported,
            info.fixed,
            info.buffers,
            info.host_pinned,
            info.host_ordinary,
        ];
        assert_eq!(left, [0; 10], "something is left: {info:?}");
        assert_eq!(device.pin_holders(), []);
        let Some(sim) = &self.bench.sim else { return };
        assert_eq!((sim.live_allocations(), sim.live_bytes()), (0, 0), "device memory leaked");
        // A queue's thread drops a copy's block a moment after the copy's end.
        while sim.live_host_bytes() != info.host_spare && began.elapsed() < Duration::from_secs(5) {
            std::thread::yield_now();
        }
        assert_eq!(sim.live_host_bytes(), info.host_spare, "host memory leaked");
        assert!(sim.live_fences() <= 64, "{} fences leaked", sim.live_fences());
        assert_eq!(sim.faults(), []);
    }
}

/// With the device's last handle gone: its host memory goes too, and its driver.
pub fn audit_closed(driver: &Arc<dyn Driver>, sim: Option<Arc<Sim>>) {
    let began = Instant::now();
    let host_bytes = || sim.as_ref().map_or(0, |sim| sim.live_host_bytes());
    let handles = 1 + usize::from(sim.is_some());
    while host_bytes() > 0 || Arc::strong_count(driver) > handles {
        let bytes = host_bytes();
        assert!(began.elapsed() < Duration::from_secs(20), "a closed device keeps {bytes} host bytes");
        driver.unpark();
        std::thread::yield_now();
    }
}
