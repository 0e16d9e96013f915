//! Each call of the driver's trait, on the device itself.

use crate::{Check, gpu::Gpu, until};
use cudarc::driver::{CudaContext, CudaStream, result};
use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use tack_residency::driver::{
    DevicePtr, Driver, DriverErrorKind, Fence, HostKernel, HostKind, HostMemory, HostRange, QueueId,
    QueueRole, cuda::Cuda,
};

pub const CHECKS: &[Check] = &[
    ("allocate and free", allocate_and_free),
    ("fill, and copies of every kind", copies),
    ("parts of host memory", parts),
    ("a queue waits for another's fence", waits),
    ("a fence passes when its work has ended", fences),
    ("a pinned copy is queued, and kept alive", asynchronous),
    ("a dropped device lets its copies end", dropped_early),
    ("park ends with a fence, or when told to", park),
    ("calls from any thread, any context", contexts),
    ("what is wrong is refused", refusals),
    ("opened from cudarc's context", from_context),
];

/// A driver with its queues.
pub struct Bench {
    pub cuda: Arc<Cuda>,
    pub compute: QueueId,
    pub spill: QueueId,
    pub restore: QueueId,
    pub release: QueueId,
}

pub const BUSY: Duration = Duration::from_millis(30);

impl Bench {
    pub fn open() -> Bench {
        Bench::on(Cuda::open(0).expect("the device opens"))
    }

    pub fn on(cuda: Arc<Cuda>) -> Bench {
        use QueueRole::{Compute, Release, Restore, Spill};
        let [compute, spill, restore, release] =
            [Compute, Spill, Restore, Release].map(|role| cuda.create_queue(role).expect("a queue"));
        Bench { cuda, compute, spill, restore, release }
    }

    pub fn stream(&self, queue: QueueId) -> Arc<CudaStream> {
        self.cuda.cuda_stream(queue).expect("a stream")
    }

    pub fn finish(&self, queue: QueueId) {
        let fence = self.cuda.record(queue).expect("a fence");
        self.pass(fence);
        self.cuda.retire(fence);
    }

    pub fn pass(&self, fence: Fence) {
        until("a fence passes", || self.cuda.is_passed(fence).expect("the device is not lost"));
    }

    pub fn host(&self, kind: HostKind, bytes: usize) -> HostRange {
        let memory = match kind {
            HostKind::Pinned => self.cuda.allocate_host(bytes).expect("pinned memory"),
            HostKind::Ordinary => HostMemory::ordinary(bytes).expect("ordinary memory"),
        };
        assert_eq!((memory.kind(), memory.len()), (kind, bytes));
        HostRange::whole(Arc::new(memory))
    }

    fn read(&self, ptr: DevicePtr, bytes: usize) -> Vec<u8> {
        let host = self.host(HostKind::Pinned, bytes);
        self.cuda.copy_out(self.spill, ptr, &host).expect("a copy out");
        self.finish(self.spill);
        bytes_of(&host)
    }
}

fn bytes_of(range: &HostRange) -> Vec<u8> {
    let mut bytes = vec![0; range.bytes];
    range.memory.read(range.offset, &mut bytes);
    bytes
}

/// Bytes that are not alike at any two near places.
fn pattern(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8 ^ seed as u8).collect()
}

fn allocate_and_free(_: &Gpu) -> String {
    let bench = Bench::open();
    let cuda = &bench.cuda;
    let before = cuda.memory();
    assert!(before.free <= before.total && before.total > Some(1 << 30), "{before:?}");
    let sizes = [512, 1024, 4096, 1 << 20, (1 << 21) + 512, 64 << 20, 256 << 20];
    let mut live: Vec<(u64, u64)> = Vec::new();
    for queue in [bench.compute, bench.restore] {
        for bytes in sizes {
            let ptr = cuda.allocate(queue, bytes).expect("memory").as_raw();
            assert!(ptr % 256 == 0, "{ptr:#x} is not aligned");
            live.push((ptr, bytes));
        }
    }
    live.sort_unstable();
    assert!(live.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0), "two allocations overlap");
    let during = cuda.memory();
    let held: u64 = live.iter().map(|(_, bytes)| bytes).sum();
    assert!(
        during.free.zip(before.free).is_some_and(|(now, then)| now + held <= then + (1 << 20)),
        "{during:?}"
    );
    bench.finish(bench.compute);
    bench.finish(bench.restore);
    for (ptr, _) in live {
        cuda.free(bench.release, DevicePtr::from_raw(ptr)).expect("it is freed");
    }
    bench.finish(bench.release);
    let kept = cuda.memory().cached;
    assert!(kept >= held, "the pool kept {kept} of {held} bytes");
    let given = cuda.trim().expect("it is trimmed");
    let after = cuda.memory();
    assert_eq!(after.cached, 0, "{given} given back");
    let gone = before.free.unwrap_or(0).saturating_sub(after.free.unwrap_or(0));
    assert!(gone < 64 << 20, "{gone} bytes are missing after the trim");
    format!("{held} B held, {kept} B kept by the pool, {given} B trimmed, {gone} B not back")
}

fn copies(_: &Gpu) -> String {
    let bench = Bench::open();
    let cuda = &bench.cuda;
    let mut count = 0;
    for bytes in [1usize, 511, 4096, 100_000, 3 << 20, (32 << 20) + 3] {
        let size = (bytes as u64).next_multiple_of(512);
        let [first, second] = [0; 2].map(|_| cuda.allocate(bench.restore, size).expect("memory"));
        for into in [HostKind::Pinned, HostKind::Ordinary] {
            for out_of in [HostKind::Pinned, HostKind::Ordinary] {
                let (from, to) = (bench.host(into, bytes), bench.host(out_of, bytes));
                let expected = pattern(bytes, count);
                from.memory.write(0, &expected);
                cuda.fill(bench.restore, second, bytes as u64, 0xAA).expect("a fill");
                cuda.copy_in(bench.restore, &from, first).expect("a copy in");
                cuda.copy(bench.restore, first, second, bytes as u64).expect("a copy");
                cuda.copy_out(bench.restore, second, &to).expect("a copy out");
                bench.finish(bench.restore);
                assert!(bytes_of(&to) == expected, "{bytes} bytes from {into:?} to {out_of:?}");
                count += 1;
            }
        }
        for value in [0, 0x7F, 0xFF] {
            cuda.fill(bench.restore, first, bytes as u64, value).expect("a fill");
            bench.finish(bench.restore);
            assert!(bench.read(first, bytes).iter().all(|&byte| byte == value), "{bytes} bytes of {value}");
        }
        for ptr in [first, second] {
            cuda.free(bench.release, ptr).expect("it is freed");
        }
    }
    format!("{count} rounds")
}

fn parts(_: &Gpu) -> String {
    let bench = Bench::open();
    let cuda = &bench.cuda;
    let ptr = cuda.allocate(bench.restore, 8192).expect("memory");
    let host = bench.host(HostKind::Pinned, 8192);
    host.memory.write(0, &pattern(8192, 1));
    cuda.fill(bench.restore, ptr, 8192, 0).expect("a fill");
    let part = HostRange { memory: host.memory.clone(), offset: 4001, bytes: 999 };
    cuda.copy_in(bench.restore, &part, ptr.offset(17)).expect("a copy of a part");
    cuda.fill(bench.restore, ptr.offset(17 + 999), 3, 9).expect("a fill of a part");
    bench.finish(bench.restore);
    let mut expected = vec![0; 8192];
    expected[17..17 + 999].copy_from_slice(&pattern(8192, 1)[4001..5000]);
    expected[1016..1019].fill(9);
    assert!(bench.read(ptr, 8192) == expected, "the parts are not where they should be");
    let out = bench.host(HostKind::Ordinary, 100);
    let part = HostRange { memory: out.memory.clone(), offset: 60, bytes: 40 };
    cuda.copy_out(bench.spill, ptr.offset(1000), &part).expect("a copy of a part");
    bench.finish(bench.spill);
    assert_eq!(bytes_of(&out)[..60], [0; 60]);
    assert_eq!(bytes_of(&out)[60..], expected[1000..1040]);
    let beyond = HostRange { memory: out.memory, offset: 61, bytes: 40 };
    assert_eq!(
        cuda.copy_out(bench.spill, ptr, &beyond).expect_err("it is too long").kind,
        DriverErrorKind::Invalid
    );
    let none = HostRange { memory: host.memory, offset: 8192, bytes: 0 };
    cuda.copy_in(bench.restore, &none, ptr).expect("nothing to copy");
    cuda.fill(bench.restore, ptr, 0, 1).expect("nothing to fill");
    cuda.free(bench.release, ptr).expect("it is freed");
    String::new()
}

fn waits(gpu: &Gpu) -> String {
    let bench = Bench::open();
    let cuda = &bench.cuda;
    let ptr = cuda.allocate(bench.compute, 1 << 20).expect("memory");
    for round in 0..4u8 {
        // Before the kernel: pinning may wait for the device.
        let host = bench.host(HostKind::Pinned, 1 << 20);
        gpu.spin(&bench.stream(bench.compute), BUSY / 2);
        cuda.fill(bench.compute, ptr, 1 << 20, round).expect("a fill");
        let fence = cuda.record(bench.compute).expect("a fence");
        cuda.wait(bench.spill, fence).expect("a wait");
        cuda.copy_out(bench.spill, ptr, &host).expect("a copy out");
        assert!(!cuda.is_passed(fence).expect("not lost"), "the kernel had ended too early to tell");
        let copied = cuda.record(bench.spill).expect("a fence");
        bench.pass(copied);
        assert!(cuda.is_passed(fence).expect("not lost"), "the copy did not wait");
        assert!(bytes_of(&host).iter().all(|&byte| byte == round), "round {round}");
        // One that has passed is waited for at once.
        cuda.wait(bench.spill, fence).expect("a wait");
        cuda.wait(bench.compute, copied).expect("a wait");
        cuda.retire(fence);
        cuda.retire(copied);
    }
    cuda.free(bench.release, ptr).expect("it is freed");
    String::new()
}

fn fences(gpu: &Gpu) -> String {
    let bench = Bench::open();
    let cuda = &bench.cuda;
    let start = Instant::now();
    gpu.spin(&bench.stream(bench.compute), BUSY);
    let fence = cuda.record(bench.compute).expect("a fence");
    let queued = start.elapsed();
    assert!(!cuda.is_passed(fence).expect("not lost"), "it passed before its work ended");
    let other = cuda.record(bench.spill).expect("a fence");
    bench.pass(other);
    assert!(!cuda.is_passed(fence).expect("not lost"), "one queue's fence waited for another queue");
    bench.pass(fence);
    let passed = start.elapsed();
    assert!(passed >= BUSY.mul_f64(0.9), "it passed after {passed:?}");
    cuda.retire(fence);
    let again = cuda.record(bench.compute).expect("a fence");
    assert_ne!(fence, again);
    assert_eq!(cuda.is_passed(fence).expect_err("it was given back").kind, DriverErrorKind::Invalid);
    assert_eq!(cuda.wait(bench.spill, fence).expect_err("it was given back").kind, DriverErrorKind::Invalid);
    bench.pass(again);
    // Fences of one event, many times.
    let many = Instant::now();
    for _ in 0..2000 {
        let fence = cuda.record(bench.compute).expect("a fence");
        while !cuda.is_passed(fence).expect("not lost") {}
        cuda.retire(fence);
    }
    let each = many.elapsed() / 2000;
    format!(
        "queued in {queued:?}, a {BUSY:?} kernel's fence passed after {passed:?}; a fence to and fro {each:?}"
    )
}

fn asynchronous(gpu: &Gpu) -> String {
    let bench = Bench::open();
    let cuda = &bench.cuda;
    let ptr = cuda.allocate(bench.compute, 8 << 20).expect("memory");
    let mut took = Vec::new();
    for kind in [HostKind::Pinned, HostKind::Ordinary] {
        cuda.fill(bench.compute, ptr, 8 << 20, 5).expect("a fill");
        bench.finish(bench.compute);
        let host = bench.host(kind, 8 << 20);
        gpu.spin(&bench.stream(bench.compute), BUSY);
        let start = Instant::now();
        cuda.copy_out(bench.compute, ptr, &host).expect("a copy out");
        took.push(start.elapsed());
        let fence = cuda.record(bench.compute).expect("a fence");
        if kind == HostKind::Pinned {
            assert!(took[0] < BUSY / 2, "a pinned copy kept the host for {:?}", took[0]);
            assert!(!cuda.is_passed(fence).expect("not lost"), "the copy had ended too early to tell");
            assert_eq!(Arc::strong_count(&host.memory), 2, "nobody keeps the memory of a copy under way");
        }
        bench.pass(fence);
        assert_eq!(Arc::strong_count(&host.memory), 1, "the memory of a copy that has ended is still kept");
        assert!(bytes_of(&host).iter().all(|&byte| byte == 5));
        cuda.retire(fence);
    }
    cuda.free(bench.release, ptr).expect("it is freed");
    format!(
        "behind a {BUSY:?} kernel, a pinned copy took the host {:?}, an ordinary one {:?}",
        took[0], took[1]
    )
}

fn dropped_early(gpu: &Gpu) -> String {
    let start;
    let host;
    {
        let bench = Bench::open();
        let cuda = &bench.cuda;
        let ptr = cuda.allocate(bench.compute, 8 << 20).expect("memory");
        host = bench.host(HostKind::Pinned, 8 << 20);
        cuda.fill(bench.compute, ptr, 8 << 20, 5).expect("a fill");
        gpu.spin(&bench.stream(bench.compute), BUSY);
        cuda.copy_out(bench.compute, ptr, &host).expect("a copy out");
        cuda.free(bench.compute, ptr).expect("it is freed in order");
        start = Instant::now();
    }
    let took = start.elapsed();
    assert!(bytes_of(&host).iter().all(|&byte| byte == 5), "the device went before its copy had run");
    // The last pinned block keeps the context; it goes after the device.
    drop(host);
    format!("it waited {took:?}")
}

fn park(gpu: &Gpu) -> String {
    let bench = Bench::open();
    let cuda = &bench.cuda;
    let long = Duration::from_secs(5);
    gpu.spin(&bench.stream(bench.compute), BUSY);
    let fence = cuda.record(bench.compute).expect("a fence");
    let start = Instant::now();
    let mut parks = 0;
    while !cuda.is_passed(fence).expect("not lost") {
        cuda.park(long);
        parks += 1;
    }
    let woke = start.elapsed();
    assert!(woke < BUSY * 2, "it rested for {woke:?}");
    cuda.retire(fence);
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(BUSY);
            cuda.unpark();
        });
        let start = Instant::now();
        cuda.park(long);
        assert!(start.elapsed() < long / 2, "unpark did not end it");
    });
    let start = Instant::now();
    cuda.park(BUSY);
    assert!((BUSY..long).contains(&start.elapsed()), "{:?}", start.elapsed());
    format!("woke {:?} late, in {parks} parks", woke.saturating_sub(BUSY))
}

fn contexts(gpu: &Gpu) -> String {
    let bench = Bench::open();
    let cuda = &bench.cuda;
    let ptr = cuda.allocate(bench.compute, 4096).expect("memory");
    // A thread that never touched CUDA.
    thread::scope(|scope| {
        scope.spawn(|| {
            cuda.fill(bench.compute, ptr, 4096, 3).expect("a fill");
            bench.finish(bench.compute);
            assert!(bench.read(ptr, 4096).iter().all(|&byte| byte == 3));
            gpu.spin(&bench.stream(bench.compute), Duration::from_micros(1));
        });
    });
    // A thread that has another context keeps it, and a pinned block may be freed there.
    let other = CudaContext::new_non_primary(0, 0).expect("another context");
    let block = bench.host(HostKind::Pinned, 4096);
    other.bind_to_thread().expect("it is current");
    cuda.fill(bench.compute, ptr, 4096, 4).expect("a fill");
    bench.finish(bench.compute);
    drop(block);
    let current = result::ctx::get_current().expect("a context");
    assert_eq!(current, Some(other.cu_ctx()), "the caller's context is not current any more");
    assert!(bench.read(ptr, 4096).iter().all(|&byte| byte == 4));
    // For kernels queued by hand, the device's own stays current.
    let raw = cuda.raw_queue(bench.compute).expect("a stream");
    assert_eq!(raw, bench.stream(bench.compute).cu_stream().cast());
    assert_eq!(result::ctx::get_current().expect("a context"), Some(gpu.context.cu_ctx()));
    drop(other);
    gpu.context.bind_to_thread().expect("it is current");
    cuda.free(bench.release, ptr).expect("it is freed");
    String::new()
}

fn refusals(_: &Gpu) -> String {
    let bench = Bench::open();
    let cuda = &bench.cuda;
    let total = cuda.memory().total.expect("a total");
    assert_eq!(cuda.caps().max_allocation, Some(total));
    let kernel = HostKernel::new(Duration::ZERO, |_| {});
    let large = cuda.allocate(bench.compute, total + (1 << 30)).expect_err("there is not so much");
    assert_eq!((large.kind, large.code), (DriverErrorKind::OutOfMemory, 2), "{large}");
    let unknown = QueueId(31);
    let mut kinds = vec![
        ("a null address", cuda.free(bench.release, DevicePtr::from_raw(0xDEAD_0000)).err()),
        ("an unknown queue", cuda.fill(unknown, DevicePtr::NULL, 1, 0).err()),
        ("an empty allocation", cuda.allocate(bench.compute, 0).err()),
        ("an unknown fence", cuda.is_passed(Fence(1 << 40)).err()),
        ("a host kernel", cuda.launch_host(bench.compute, kernel).err()),
    ];
    let host = kinds.pop().and_then(|(_, error)| error).expect("it is refused");
    assert_eq!(host.kind, DriverErrorKind::Unsupported);
    for (what, error) in kinds {
        assert_eq!(error.expect(what).kind, DriverErrorKind::Invalid, "{what}");
    }
    let pinned = cuda.allocate_host(1 << 50).expect_err("no host has so much");
    // None of it has harmed the device.
    let ptr = cuda.allocate(bench.compute, 512).expect("memory");
    bench.finish(bench.compute);
    cuda.free(bench.release, ptr).expect("it is freed");
    format!("too large: {large}; pinned too large: {pinned} ({:?})", pinned.kind)
}

fn from_context(gpu: &Gpu) -> String {
    let bench = Bench::on(Cuda::from_context(gpu.context.clone()).expect("it opens"));
    assert!(Arc::ptr_eq(&bench.cuda.context().expect("a context"), &gpu.context));
    let ptr = bench.cuda.allocate(bench.compute, 4096).expect("memory");
    bench.cuda.fill(bench.compute, ptr, 4096, 0).expect("a fill");
    let stream = bench.stream(bench.compute);
    gpu.add_one(&stream, ptr, 4096);
    bench.finish(bench.compute);
    assert!(bench.read(ptr, 4096).chunks(4).all(|number| number == [1, 0, 0, 0]));
    bench.cuda.free(bench.release, ptr).expect("it is freed");
    // A stream that a program keeps outlives the device.
    drop(bench);
    gpu.spin(&stream, Duration::from_micros(10));
    stream.synchronize().expect("the stream lives");
    String::new()
}
