//! Sixty-four workers whose sets of buffers overlap, and room for one set.

use std::time::Duration;
use tack_residency::{
    Buffer, Device, HostMemoryKind, Result, Use,
    driver::sim::{Clock, Config, Sim},
};

pub const UNIT: u64 = 1024;
pub const WORKERS: usize = 64;
const BUFFERS: usize = 12;
const SET: usize = 3;
const ROUNDS: usize = 6;

/// A device with room for so many units.
pub fn device(clock: Clock, units: u64, kind: HostMemoryKind) -> Device {
    let config = Config::profile("pcie4").expect("a profile").with_clock(clock);
    let sim = Sim::open(config).expect("a device");
    let options = Device::options().budget(units * UNIT).host_memory(kind);
    options.open_driver("sim", sim).expect("a device")
}

/// The crowd's buffers, and how often each was used.
#[derive(Clone, Debug)]
pub struct Crowd {
    pub device: Device,
    buffers: Vec<Buffer>,
}

impl Crowd {
    pub fn new(clock: Clock, kind: HostMemoryKind) -> Crowd {
        let device = device(clock, SET as u64, kind);
        let buffers = (0..BUFFERS).map(|_| device.alloc(UNIT).wait().expect("room")).collect();
        Crowd { device, buffers }
    }

    /// Which buffers a worker uses in a round: three different ones, other ones each time.
    fn set(worker: usize, round: usize) -> [usize; SET] {
        let first = worker * 5 + round * 7;
        [first, first + 1 + worker % 4, first + 6 + round % 3].map(|index| index % BUFFERS)
    }

    fn submit<'a>(launch: tack_residency::Launch<'a, [Use<'a>; SET]>) -> Result<()> {
        launch.submit(|run| {
            run.host_kernel(Duration::from_micros(2), |args| {
                for arg in args {
                    let bytes = arg.bytes_mut();
                    let count = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) + 1;
                    bytes[..4].copy_from_slice(&count.to_le_bytes());
                }
            })
        })
    }

    fn uses(&self, worker: usize, round: usize) -> [Use<'_>; SET] {
        Crowd::set(worker, round).map(|index| Use::read_write(&self.buffers[index]))
    }

    /// One worker's rounds.
    pub async fn work(self, worker: usize) {
        for round in 0..ROUNDS {
            let launch = self.device.prepare(self.uses(worker, round)).await.expect("it is served");
            // Others run while this one holds its set.
            tokio::task::yield_now().await;
            Crowd::submit(launch).expect("queued");
        }
    }

    /// One worker's rounds, waiting.
    pub fn work_waiting(&self, worker: usize) {
        let device = &self.device;
        for round in 0..ROUNDS {
            Crowd::submit(device.prepare(self.uses(worker, round)).wait().expect("it is served"))
                .expect("queued");
        }
    }

    /// Every use of every buffer has been counted.
    pub fn check(&self, what: &str) {
        let mut right = [0u32; BUFFERS];
        for worker in 0..WORKERS {
            for round in 0..ROUNDS {
                Crowd::set(worker, round).into_iter().for_each(|index| right[index] += 1);
            }
        }
        for (buffer, right) in self.buffers.iter().zip(right) {
            let bytes = buffer.read().wait().expect("its bytes");
            assert_eq!(bytes[..4], right.to_le_bytes(), "{what}: a use was lost");
        }
        let info = self.device.memory_info();
        assert!(info.peak <= SET as u64 * UNIT, "{what}: over budget: {info:?}");
        assert_eq!((info.pinned, info.reserved), (0, 0), "{what}: {info:?}");
        self.device.check().unwrap_or_else(|error| panic!("{what}: {error}"));
    }
}
