//! Figures beside what the driver gives by itself, in the same run.

use crate::{
    Check,
    backend::{BUSY, Bench},
    gpu::{self, Gpu},
    rate,
};
use cudarc::driver::{CudaStream, result, sys::CUstream};
use std::{
    ffi::c_void,
    sync::Arc,
    time::{Duration, Instant},
};
use tack_residency::{Buffer, Device, Error, Use, blocking, driver::DevicePtr};

pub const CHECKS: &[Check] = &[
    ("figures: pinning", pinning),
    ("figures: spills and restores, 8 MiB", copies_of_8),
    ("figures: spills and restores, 64 MiB", copies_of_64),
    ("figures: the facade's spills and restores", facade),
    ("figures: both directions at once", both_ways),
    ("figures: warm launches", warm),
    ("figures: one small buffer there and back", latency),
];

fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// The best of a few, since other programs only ever add time.
fn best(rounds: usize, mut work: impl FnMut() -> Duration) -> Duration {
    (0..rounds).map(|_| work()).min().unwrap_or_default()
}

fn pinning(gpu: &Gpu) -> String {
    let bench = Bench::open(&gpu.rig());
    let mut seen = Vec::new();
    for bytes in [1usize << 20, 8 << 20, 64 << 20, 512 << 20] {
        let mut memory = None;
        let pinned = timed(|| memory = bench.driver.allocate_host(bytes).ok());
        assert!(memory.is_some(), "{bytes} bytes were not pinned");
        let freed = timed(|| drop(memory));
        let rate = rate(bytes as u64, pinned);
        seen.push(format!("{} MiB in {pinned:.1?} ({rate:.1} GB/s), freed in {freed:.1?}", bytes >> 20));
    }
    for bytes in [1usize << 20, 64 << 20] {
        let mut memory = None;
        bench.spin(bench.compute, BUSY);
        let pinned = timed(|| memory = bench.driver.allocate_host(bytes).ok());
        bench.finish(bench.compute);
        bench.spin(bench.compute, BUSY);
        let freed = timed(|| drop(memory));
        bench.finish(bench.compute);
        seen.push(format!(
            "{} MiB beside a {BUSY:?} kernel in {pinned:.1?}, freed in {freed:.1?}",
            bytes >> 20
        ));
    }
    seen.join("; ")
}

/// What copies of pinned memory reach by the driver's own calls.
struct Raw {
    bench: Bench,
    blocks: Vec<*mut c_void>,
    memory: Vec<DevicePtr>,
    bytes: usize,
}

impl Raw {
    fn new(gpu: &Gpu, bytes: usize, count: usize) -> Raw {
        let bench = Bench::open(&gpu.rig());
        gpu.context.bind_to_thread().expect("it is current");
        // SAFETY: the blocks are freed once, at this value's end.
        let block = |_| unsafe { result::malloc_host(bytes, 1) }.expect("pinned memory");
        let blocks = (0..count).map(block).collect();
        let memory =
            (0..count).map(|_| bench.driver.allocate(bench.compute, bytes as u64).expect("memory")).collect();
        bench.finish(bench.compute);
        Raw { bench, blocks, memory, bytes }
    }

    fn queue(&self, stream: CUstream, out: bool) {
        for (block, ptr) in self.blocks.iter().zip(&self.memory) {
            // SAFETY: the block has `bytes` bytes, all set at once by the device or never read here.
            let block = unsafe { std::slice::from_raw_parts_mut(block.cast::<u8>(), self.bytes) };
            let copied = match out {
                // SAFETY: both places live until the stream has been waited for.
                true => unsafe { result::memcpy_dtoh_async(block, ptr.as_raw(), stream) },
                // SAFETY: as above.
                false => unsafe { result::memcpy_htod_async(ptr.as_raw(), block, stream) },
            };
            copied.expect("a copy");
        }
    }

    fn copy(&self, out: bool) -> f64 {
        let stream = gpu::stream(&*self.bench.driver, self.bench.spill);
        let took = best(4, || {
            timed(|| {
                self.queue(stream.cu_stream(), out);
                stream.synchronize().expect("it ends");
            })
        });
        rate(self.total(), took)
    }

    fn total(&self) -> u64 {
        self.bytes as u64 * self.blocks.len() as u64
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        for &block in &self.blocks {
            // SAFETY: it was allocated with this value, and no copy of it is under way.
            let _ = unsafe { result::free_host(block) };
        }
        for &ptr in &self.memory {
            let _ = self.bench.driver.free(self.bench.release, ptr);
        }
    }
}

fn buffers(gpu: &Gpu, device: &Device, bytes: u64, count: usize) -> Vec<Buffer> {
    let buffers: Vec<Buffer> = (0..count).map(|_| device.alloc(bytes).wait().expect("memory")).collect();
    use_all(gpu, device, &buffers);
    buffers
}

/// Brings every buffer back and writes it, all but a little.
fn use_all(gpu: &Gpu, device: &Device, buffers: &[Buffer]) {
    for buffer in buffers {
        let launch = device.prepare([Use::read_write(buffer)]).wait().expect("memory");
        let queued = launch.submit(|run| {
            gpu.add_one(&*run.cuda_stream()?, run.ptr(0), 4096);
            Ok::<(), Error>(())
        });
        queued.expect("it is queued");
    }
}

fn copies_of_8(gpu: &Gpu) -> String {
    copies(gpu, 8 << 20, 64)
}

fn copies_of_64(gpu: &Gpu) -> String {
    copies(gpu, 64 << 20, 12)
}

fn copies(gpu: &Gpu, bytes: u64, count: usize) -> String {
    let raw = Raw::new(gpu, bytes as usize, count);
    let (raw_out, raw_in) = (raw.copy(true), raw.copy(false));
    drop(raw);
    let device = Device::options().budget(8 << 30).open("cuda").expect("it opens");
    let buffers = buffers(gpu, &device, bytes, count);
    let total = bytes * count as u64;
    let (mut out, mut into) = (Duration::MAX, Duration::MAX);
    for _ in 0..4 {
        device.idle().wait().expect("not lost");
        out = out.min(timed(|| assert_eq!(device.spill_all().wait().expect("they are spilled"), total)));
        device.idle().wait().expect("not lost");
        into = into.min(timed(|| {
            use_all(gpu, &device, &buffers);
            device.idle().wait().expect("not lost");
        }));
    }
    let (out, into) = (rate(total, out), rate(total, into));
    format!(
        "out {out:.1} GB/s of {raw_out:.1} ({:.0} %), in {into:.1} of {raw_in:.1} ({:.0} %)",
        100.0 * out / raw_out,
        100.0 * into / raw_in
    )
}

fn facade(gpu: &Gpu) -> String {
    let (bytes, count) = (8u64 << 20, 32);
    let device = blocking::Device::options().budget(8 << 30).open("cuda").expect("it opens");
    let buffers = buffers(gpu, &device, bytes, count);
    let total = bytes * count as u64;
    let (mut out, mut into) = (Duration::MAX, Duration::MAX);
    for _ in 0..3 {
        device.idle().expect("not lost");
        out = out.min(timed(|| assert_eq!(device.spill_all().expect("they are spilled"), total)));
        into = into.min(timed(|| {
            use_all(gpu, &device, &buffers);
            device.idle().expect("not lost");
        }));
    }
    format!("ordinary memory: out {:.1} GB/s, in {:.1} GB/s", rate(total, out), rate(total, into))
}

/// A working set of twice the budget in turn: each launch brings one in, and another goes.
fn both_ways(gpu: &Gpu) -> String {
    let (bytes, count) = (8u64 << 20, 64);
    let raw = Raw::new(gpu, bytes as usize, count / 2);
    let other = Raw::new(gpu, bytes as usize, count / 2);
    let (out, into) = (
        gpu::stream(&*raw.bench.driver, raw.bench.spill),
        gpu::stream(&*other.bench.driver, other.bench.restore),
    );
    let both = best(4, || {
        timed(|| {
            raw.queue(out.cu_stream(), true);
            other.queue(into.cu_stream(), false);
            out.synchronize().expect("it ends");
            into.synchronize().expect("it ends");
        })
    });
    let raw_rate = rate(raw.total() + other.total(), both);
    drop((raw, other));
    let device = Device::options().budget(bytes * count as u64 / 2).open("cuda").expect("it opens");
    let buffers = buffers(gpu, &device, bytes, count);
    let mut seen = Vec::new();
    let turn = |what: &str, pass: &mut dyn FnMut()| {
        let mut fastest = (0.0f64, 0.0);
        for _ in 0..4 {
            device.idle().wait().expect("not lost");
            let before = device.memory_info();
            let took = timed(|| {
                pass();
                device.idle().wait().expect("not lost");
            });
            let after = device.memory_info();
            let moved = after.copied_out_bytes + after.copied_in_bytes
                - before.copied_out_bytes
                - before.copied_in_bytes;
            fastest =
                if rate(moved, took) > fastest.0 { (rate(moved, took), moved as f64 / 1e9) } else { fastest };
        }
        format!("{what} {:.1} GB/s ({:.0} %), {:.2} GB", fastest.0, 100.0 * fastest.0 / raw_rate, fastest.1)
    };
    seen.push(turn("awaited one by one", &mut || use_all(gpu, &device, &buffers)));
    for look_ahead in [2, 8] {
        seen.push(turn(&format!("looking {look_ahead} ahead"), &mut || {
            futures::executor::block_on(async {
                let mut queue = device.launch_queue(look_ahead);
                for buffer in &buffers {
                    let gpu = gpu.clone();
                    let work = move |run: &tack_residency::Run<'_>| {
                        gpu.add_one(&*run.cuda_stream()?, run.ptr(0), 4096);
                        Ok(())
                    };
                    queue.push([Use::read_write(buffer)], work).await.expect("it is taken");
                }
                queue.flush().await.expect("all are queued");
            });
        }));
    }
    format!("raw {raw_rate:.1} GB/s both ways; {}", seen.join("; "))
}

/// The host's time for a launch of eight resident buffers, beside the launch alone. In bursts that a stream takes
/// without waiting.
fn warm(gpu: &Gpu) -> String {
    const BURST: u32 = 400;
    let device = Device::options().budget(1 << 30).open("cuda").expect("it opens");
    let buffers: Vec<Buffer> = (0..8).map(|_| device.alloc(4096).wait().expect("memory")).collect();
    device.idle().wait().expect("not lost");
    let stream = first_stream(&device);
    let guard = buffers[0].ensure_resident().wait().expect("resident");
    let ptr = guard.ptr();
    let per = |mut launch: Box<dyn FnMut() + '_>| {
        best(20, || {
            let took = timed(|| (0..BURST).for_each(|_| launch()));
            stream.synchronize().expect("it ends");
            took / BURST
        })
    };
    let uses = || -> [Use<'_>; 8] { std::array::from_fn(|index| Use::read_write(&buffers[index])) };
    let bare = per(Box::new(|| gpu.add_one(&stream, ptr, 4096)));
    drop(guard);
    device.idle().wait().expect("not lost");
    let with = per(Box::new(|| {
        let launch = device.prepare(uses()).try_now().expect("resident");
        let queued = launch.submit(|run| {
            gpu.add_one(&stream, run.ptr(0), 4096);
            Ok::<(), Error>(())
        });
        queued.expect("it is queued");
    }));
    let lookup = per(Box::new(|| {
        let launch = device.prepare(uses()).try_now().expect("resident");
        let queued = launch.submit(|run| {
            gpu.add_one(&*run.cuda_stream()?, run.ptr(0), 4096);
            Ok::<(), Error>(())
        });
        queued.expect("it is queued");
    }));
    let alone = per(Box::new(|| {
        let launch = device.prepare(uses()).try_now().expect("resident");
        launch.submit(|_| Ok::<(), Error>(())).expect("it is queued");
    }));
    format!(
        "the launch alone {bare:.0?}, prepared {with:.0?}, with its stream asked for {lookup:.0?}; without a kernel {alone:.0?}"
    )
}

fn first_stream(device: &Device) -> Arc<CudaStream> {
    let mut stream = None;
    let none: [Use<'_>; 0] = [];
    let launch = device.prepare(none).wait().expect("nothing to bring");
    let queued = launch.submit(|run| {
        stream = Some(run.cuda_stream()?);
        Ok::<(), Error>(())
    });
    queued.expect("it is queued");
    stream.expect("a stream")
}

fn latency(_: &Gpu) -> String {
    let device = Device::options().budget(1 << 30).open("cuda").expect("it opens");
    let mut seen = Vec::new();
    for bytes in [4096u64, 1 << 20] {
        let buffer = device.alloc(bytes).wait().expect("memory");
        let (mut out, mut into, mut read) = (Duration::MAX, Duration::MAX, Duration::MAX);
        for _ in 0..50 {
            drop(buffer.ensure_resident().wait().expect("resident"));
            device.idle().wait().expect("not lost");
            read = read.min(timed(|| _ = buffer.read().wait().expect("it is read")));
            out = out.min(timed(|| _ = buffer.spill().wait().expect("it is spilled")));
            device.idle().wait().expect("not lost");
            into = into.min(timed(|| {
                drop(buffer.ensure_resident().wait().expect("resident"));
                device.idle().wait().expect("not lost");
            }));
        }
        seen.push(format!("{bytes} B: read {read:.1?}, spilled {out:.1?}, restored and idle {into:.1?}"));
    }
    seen.join("; ")
}
