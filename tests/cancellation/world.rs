//! A device with room for two buffers and four of them, whose bytes are known.

use futures::future::{BoxFuture, FutureExt};
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};
use tack_residency::{
    Buffer, Device, Result, Use,
    driver::{
        QueueId,
        sim::{Clock, Config, Sim},
    },
};

/// The bytes of a buffer.
pub const UNIT: u64 = 4096;

/// The queues that every device makes first, but for that of frees.
pub const QUEUES: [(&str, QueueId); 4] =
    [("compute", QueueId(0)), ("spill", QueueId(1)), ("restore", QueueId(2)), ("read", QueueId(4))];

/// The kinds of calls that may be dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Alloc,
    Prepare,
    PrepareSpilled,
    Overwrite,
    Launch,
    EnsureResident,
    Prefetch,
    Export,
    CopyIn,
    CopyOut,
    Read,
    ReadSpilled,
    Write,
    WriteSpilled,
    Fill,
    Spill,
    SpillAll,
    MakeRoom,
    Idle,
}

impl Kind {
    pub const ALL: [Kind; 19] = [
        Kind::Alloc,
        Kind::Prepare,
        Kind::PrepareSpilled,
        Kind::Overwrite,
        Kind::Launch,
        Kind::EnsureResident,
        Kind::Prefetch,
        Kind::Export,
        Kind::CopyIn,
        Kind::CopyOut,
        Kind::Read,
        Kind::ReadSpilled,
        Kind::Write,
        Kind::WriteSpilled,
        Kind::Fill,
        Kind::Spill,
        Kind::SpillAll,
        Kind::MakeRoom,
        Kind::Idle,
    ];
}

/// A device, its buffers, and for each the bytes it may hold: more than one where a change was dropped half way.
#[derive(Debug)]
pub struct World {
    pub sim: Arc<Sim>,
    pub device: Device,
    pub buffers: [Buffer; 4],
    pub allowed: [Vec<u8>; 4],
}

impl World {
    /// The first two buffers are spilled, the others resident and dirty.
    pub fn new(clock: Clock) -> World {
        let config = Config::profile("pcie4").expect("a profile").with_clock(clock);
        let sim = Sim::open(config).expect("a device");
        let device = Device::options().budget(2 * UNIT).stall_after(Duration::from_secs(1));
        let device = device.open_driver("sim", sim.clone()).expect("a device");
        let buffers = [0, 1, 2, 3].map(|value: u8| {
            let buffer = device.alloc(UNIT).tag(format!("buffer {value}")).wait().expect("room");
            buffer.fill(value).wait().expect("filled");
            buffer
        });
        let world = World { sim, device, buffers, allowed: [0, 1, 2, 3].map(|value| vec![value]) };
        world.settle();
        world
    }

    /// Brings the first two buffers out and the others in again, and dirty.
    pub fn settle(&self) {
        let [_, _, c, d] = &self.buffers;
        let launch = self.device.prepare([Use::read_write(c), Use::read_write(d)]).wait().expect("room");
        launch.submit(|run| run.host_kernel(Duration::ZERO, |_| {})).expect("queued");
        self.device.idle().wait().expect("idle");
        assert_eq!(self.buffers.each_ref().map(Buffer::is_spilled), [true, true, false, false]);
    }

    /// The call, and which buffer it may set to which value when it is done.
    pub fn call(&self, kind: Kind) -> (BoxFuture<'_, Result<()>>, Vec<(usize, u8)>) {
        let (device, [a, b, c, _]) = (&self.device, &self.buffers);
        let last = |index: usize| *self.allowed[index].last().expect("a value");
        match kind {
            Kind::Alloc => (async move { device.alloc(2 * UNIT).await.map(drop) }.boxed(), vec![]),
            Kind::Prepare => (
                async move { device.prepare([Use::read(a), Use::read_write(c)]).await.map(drop) }.boxed(),
                vec![],
            ),
            Kind::PrepareSpilled => (
                async move { device.prepare([Use::read(a), Use::read_write(b)]).await.map(drop) }.boxed(),
                vec![],
            ),
            Kind::Overwrite => (
                async move { device.prepare([Use::write(a), Use::write(b)]).await.map(drop) }.boxed(),
                vec![],
            ),
            Kind::Launch => {
                let run = async move {
                    let launch = device.prepare([Use::write(a), Use::write(b)]).await?;
                    launch.submit(|run| {
                        run.host_kernel(Duration::from_micros(20), |args| {
                            args.iter_mut().for_each(|arg| arg.bytes_mut().fill(77));
                        })
                    })
                };
                (run.boxed(), vec![(0, 77), (1, 77)])
            }
            Kind::EnsureResident => (async move { a.ensure_resident().await.map(drop) }.boxed(), vec![]),
            Kind::Prefetch => {
                (async move { device.prefetch([Use::read(a), Use::read(b)]).await.map(drop) }.boxed(), vec![])
            }
            Kind::Export => (async move { a.export().await.map(drop) }.boxed(), vec![]),
            Kind::CopyIn => (async move { a.copy_to(c).await }.boxed(), vec![(2, last(0))]),
            Kind::CopyOut => (async move { c.copy_to(b).await }.boxed(), vec![(1, last(2))]),
            Kind::Read => (async move { c.read().await.map(drop) }.boxed(), vec![]),
            Kind::ReadSpilled => (async move { a.read().await.map(drop) }.boxed(), vec![]),
            Kind::Write => (c.write(vec![55; UNIT as usize]).boxed(), vec![(2, 55)]),
            Kind::WriteSpilled => (a.write(vec![56; UNIT as usize]).boxed(), vec![(0, 56)]),
            Kind::Fill => (c.fill(57).boxed(), vec![(2, 57)]),
            Kind::Spill => (async move { c.spill().await.map(drop) }.boxed(), vec![]),
            Kind::SpillAll => (async move { device.spill_all().await.map(drop) }.boxed(), vec![]),
            Kind::MakeRoom => (device.make_room(2 * UNIT).boxed(), vec![]),
            Kind::Idle => (device.idle().boxed(), vec![]),
        }
    }

    /// Polls to the end, and no longer than anything here takes.
    pub fn finish<F: Future>(&self, what: &str, future: F) -> F::Output {
        let mut future = Box::pin(future);
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(20) {
            if let Poll::Ready(output) = poll_once(future.as_mut()) {
                return output;
            }
            std::thread::yield_now();
        }
        panic!("{what}: it hangs");
    }

    /// Every buffer holds whole what it may hold, moves, and is what it is from now on; and nothing is held.
    pub fn check(&mut self, what: &str) {
        self.finish(what, self.device.idle()).expect("idle");
        let info = self.device.memory_info();
        assert_eq!((info.reserved, info.pinned, info.leaving), (0, 0, 0), "{what}: {info:?}");
        assert_eq!((info.exported, info.host_ordinary, info.over_budget), (0, 0, false), "{what}: {info:?}");
        self.device.check().unwrap_or_else(|error| panic!("{what}: {error}"));
        for index in 0..4 {
            let bytes = self.finish(what, self.buffers[index].read()).expect("its bytes");
            let value = bytes[0];
            assert!(bytes.iter().all(|byte| *byte == value), "{what}: buffer {index} is torn");
            assert!(self.allowed[index].contains(&value), "{what}: buffer {index} holds {value}");
            self.allowed[index] = vec![value];
            let spilled = self.finish(what, self.buffers[index].spill()).expect("spilled");
            assert!(self.buffers[index].is_spilled(), "{what}: buffer {index} cannot be spilled: {spilled}");
            drop(self.finish(what, self.buffers[index].ensure_resident()).expect("resident"));
            let bytes = self.finish(what, self.buffers[index].read()).expect("its bytes");
            assert!(bytes.iter().all(|byte| *byte == value), "{what}: buffer {index} lost its bytes");
        }
        assert_eq!(self.sim.faults(), [], "{what}");
        self.finish(what, self.device.idle()).expect("idle");
        let info = self.device.memory_info();
        assert_eq!(info.host_pinned, info.spilled + info.clean, "{what}: host memory leaked: {info:?}");
    }
}

pub fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}
