//! Whole programs through the public API, on buffers that the device cannot hold at once. Every byte is checked.

use crate::{
    Check,
    gpu::{Gpu, mixed},
    random::Rng,
    until,
};
use cudarc::driver::result;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};
use tack_residency::{Buffer, Device, ErrorKind, MemoryInfo, Use, blocking, driver::cuda::Cuda};

pub const CHECKS: &[Check] = &[
    ("sweep: awaited launches", sweep_awaited),
    ("sweep: a queue of launches, looking ahead", sweep_queued),
    ("sweep: the facade", sweep_facade),
    ("many tasks at once", many_tasks),
    ("two compute queues share buffers", two_queues),
    ("host reads, writes and fills between launches", host_access),
    ("all memory is given back", given_back),
    ("make_room gives others memory", make_room),
    ("a full device, no budget", full_device),
];

/// One array, and how many there are: three times what the device may hold.
const UNIT: u64 = 8 << 20;
const UNITS: usize = 72;
const BUDGET: u64 = UNIT * UNITS as u64 / 3;
const PASSES: u32 = 3;

fn device(budget: u64) -> Device {
    Device::options().budget(budget).open("cuda:0").expect("the device opens")
}

fn numbers(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect()
}

fn first_numbers(unit: usize) -> Vec<u32> {
    (0..UNIT as u32 / 4).map(|at| at.wrapping_mul(2_654_435_761).wrapping_add(unit as u32)).collect()
}

fn bytes_of(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// What a sweep leaves: in each pass, each unit takes its neighbour's numbers in, and one more is added.
fn model() -> Vec<Vec<u32>> {
    let mut units: Vec<Vec<u32>> = (0..UNITS).map(first_numbers).collect();
    for pass in 0..PASSES {
        for unit in 0..UNITS {
            let from = std::mem::take(&mut units[(unit + UNITS - 1) % UNITS]);
            for (at, (value, input)) in units[unit].iter_mut().zip(&from).enumerate() {
                *value = mixed(*value, *input, at, pass).wrapping_add(1);
            }
            units[(unit + UNITS - 1) % UNITS] = from;
        }
    }
    units
}

fn compare(unit: usize, bytes: &[u8], expected: &[u32]) {
    let wrong = numbers(bytes).iter().zip(expected).position(|(found, expected)| found != expected);
    assert!(wrong.is_none() && bytes.len() == expected.len() * 4, "unit {unit} is wrong at number {wrong:?}");
}

fn swept(info: &MemoryInfo, start: Instant) -> String {
    assert!(
        info.spills > UNITS as u64 && info.restores > UNITS as u64,
        "nothing was put to the test: {info}"
    );
    assert!(info.peak <= BUDGET, "{info}");
    let took = start.elapsed().as_secs_f64();
    let (out, into) = (info.copied_out_bytes as f64 / 1e9, info.copied_in_bytes as f64 / 1e9);
    format!("{took:.2} s, {out:.2} GB out and {into:.2} GB in: {:.1} GB/s both ways", (out + into) / took)
}

async fn begin(device: &Device) -> Vec<Buffer> {
    let mut units = Vec::new();
    for unit in 0..UNITS {
        let buffer = device.alloc(UNIT).uninitialised().await.expect("room is made");
        buffer.write(bytes_of(&first_numbers(unit))).await.expect("it is written");
        units.push(buffer);
    }
    units
}

async fn verify(units: &[Buffer]) {
    for (index, (unit, expected)) in units.iter().zip(model()).enumerate() {
        compare(index, &unit.read().await.expect("it is read"), &expected);
    }
}

fn sweep_awaited(gpu: &Gpu) -> String {
    futures::executor::block_on(async {
        let device = device(BUDGET);
        let units = begin(&device).await;
        let start = Instant::now();
        for pass in 0..PASSES {
            for unit in 0..UNITS {
                let from = &units[(unit + UNITS - 1) % UNITS];
                let uses = [Use::read_write(&units[unit]), Use::read(from)];
                let launch = device.prepare(uses).await.expect("room is made");
                launch
                    .submit(|run| {
                        gpu.run_mix(run, pass)?;
                        gpu.run_add_one(run, 0)
                    })
                    .expect("it is queued");
            }
        }
        device.idle().await.expect("not lost");
        let found = swept(&device.memory_info(), start);
        verify(&units).await;
        device.check().expect("the books balance");
        found
    })
}

fn sweep_queued(gpu: &Gpu) -> String {
    futures::executor::block_on(async {
        let device = device(BUDGET);
        let units = begin(&device).await;
        let start = Instant::now();
        let mut queue = device.launch_queue(4);
        for pass in 0..PASSES {
            for unit in 0..UNITS {
                let from = &units[(unit + UNITS - 1) % UNITS];
                let (uses, gpu) = ([Use::read_write(&units[unit]), Use::read(from)], gpu.clone());
                let work = move |run: &tack_residency::Run<'_>| {
                    gpu.run_mix(run, pass)?;
                    gpu.run_add_one(run, 0)
                };
                queue.push(uses, work).await.expect("it is taken");
            }
        }
        queue.flush().await.expect("all are queued");
        device.idle().await.expect("not lost");
        let found = swept(&device.memory_info(), start);
        verify(&units).await;
        device.check().expect("the books balance");
        found
    })
}

fn sweep_facade(gpu: &Gpu) -> String {
    let device = blocking::Device::options().budget(BUDGET).open("cuda").expect("the device opens");
    let units: Vec<blocking::Buffer> = (0..UNITS)
        .map(|unit| {
            let buffer = device.alloc(UNIT).expect("room is made");
            buffer.write(bytes_of(&first_numbers(unit))).expect("it is written");
            buffer
        })
        .collect();
    let start = Instant::now();
    for pass in 0..PASSES {
        for unit in 0..UNITS {
            let uses = [Use::from(&units[unit]), Use::read(&units[(unit + UNITS - 1) % UNITS])];
            let launch = device.prepare(uses).expect("room is made");
            launch
                .submit(|run| {
                    gpu.run_mix(run, pass)?;
                    gpu.run_add_one(run, 0)
                })
                .expect("it is queued");
        }
    }
    device.idle().expect("not lost");
    let found = swept(&device.memory_info(), start);
    for (index, (unit, expected)) in units.iter().zip(model()).enumerate() {
        compare(index, &unit.read().expect("it is read"), &expected);
    }
    found
}

/// Buffers of many sizes, used by tasks on several threads; each is as often added to as the tasks say.
fn many_tasks(gpu: &Gpu) -> String {
    const TASKS: u64 = 24;
    const ROUNDS: u64 = 60;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().expect("a runtime");
    runtime.block_on(async {
        let device = device(48 << 20);
        let mut rng = Rng(1);
        let mut shared = Vec::new();
        for _ in 0..64 {
            let bytes = 4 * (rng.below(1 << 19) + 1);
            shared.push((device.alloc(bytes).await.expect("room is made"), AtomicU64::new(0)));
        }
        let (shared, start) = (Arc::new(shared), Instant::now());
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let (device, gpu, shared) = (device.clone(), gpu.clone(), shared.clone());
                tokio::spawn(async move {
                    let mut rng = Rng(task + 100);
                    for _ in 0..ROUNDS {
                        let first = rng.below(64) as usize;
                        let second = (first + 1 + rng.below(63) as usize) % 64;
                        let uses = [Use::read_write(&shared[first].0), Use::read_write(&shared[second].0)];
                        let launch = device.prepare(uses).await.expect("room is made");
                        launch
                            .submit(|run| {
                                gpu.run_add_one(run, 0)?;
                                gpu.run_add_one(run, 1)
                            })
                            .expect("it is queued");
                        shared[first].1.fetch_add(1, Ordering::Relaxed);
                        shared[second].1.fetch_add(1, Ordering::Relaxed);
                        if rng.below(8) == 0 {
                            drop(device.alloc(rng.below(1 << 20) + 1).await.expect("room is made"));
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("a task failed");
        }
        device.idle().await.expect("not lost");
        let took = start.elapsed();
        for (buffer, added) in shared.iter() {
            let added = added.load(Ordering::Relaxed) as u32;
            let found = numbers(&buffer.read().await.expect("it is read"));
            assert!(found.iter().all(|&number| number == added), "{} bytes", buffer.len());
        }
        let info = device.memory_info();
        assert!(info.restores > 100 && info.peak <= 48 << 20, "{info}");
        device.check().expect("the books balance");
        format!(
            "{} launches in {took:.2?}, {} spills, {} restores",
            TASKS * ROUNDS,
            info.spills,
            info.restores
        )
    })
}

fn two_queues(gpu: &Gpu) -> String {
    let device = device(20 << 20);
    let queues = [device.queue(), device.add_queue().expect("a queue"), device.add_queue().expect("a queue")];
    let buffers: Vec<Buffer> = (0..12).map(|_| device.alloc(4 << 20).wait().expect("room is made")).collect();
    let (mut rng, mut added) = (Rng(7), [0u32; 12]);
    for _ in 0..600 {
        let index = rng.below(12) as usize;
        let launch = device.prepare([Use::read_write(&buffers[index])]).wait().expect("room is made");
        let launch = launch.on(&queues[rng.below(3) as usize]).expect("its own queue");
        launch.submit(|run| gpu.run_add_one(run, 0)).expect("it is queued");
        added[index] += 1;
    }
    for (buffer, added) in buffers.iter().zip(added) {
        let found = numbers(&buffer.read().wait().expect("it is read"));
        assert!(found.iter().all(|&number| number == added), "an addition was lost");
    }
    let info = device.memory_info();
    assert!(info.restores > 50 && info.peak <= 20 << 20, "{info}");
    format!("{} restores", info.restores)
}

fn host_access(gpu: &Gpu) -> String {
    let device = device(16 << 20);
    let buffers: Vec<Buffer> = (0..10).map(|_| device.alloc(4 << 20).wait().expect("room is made")).collect();
    let mut expected = vec![vec![0u32; 1 << 20]; 10];
    let mut rng = Rng(3);
    for _ in 0..400 {
        let index = rng.below(10) as usize;
        let at = rng.below(1 << 20) as usize;
        let count = rng.below((1 << 20) - at as u64) as usize + 1;
        let view = buffers[index].view(4 * at as u64, 4 * count as u64).expect("it is within");
        let range = at..at + count;
        match rng.below(4) {
            0 => {
                let launch = device.prepare([Use::read_write(&view)]).wait().expect("room is made");
                launch.submit(|run| gpu.run_add_one(run, 0)).expect("it is queued");
                expected[index][range].iter_mut().for_each(|number| *number = number.wrapping_add(1));
            }
            1 => {
                let byte = rng.below(256) as u8;
                view.fill(byte).wait().expect("it is filled");
                expected[index][range].fill(u32::from_le_bytes([byte; 4]));
            }
            2 => {
                let seed = rng.below(1 << 32) as u32;
                let written: Vec<u32> = (0..count as u32).map(|at| at ^ seed).collect();
                view.write(bytes_of(&written)).wait().expect("it is written");
                expected[index][range].copy_from_slice(&written);
            }
            _ => {
                let found = numbers(&view.read().wait().expect("it is read"));
                assert!(found == expected[index][range], "a read of buffer {index} found other numbers");
            }
        }
    }
    for (buffer, expected) in buffers.iter().zip(expected) {
        assert!(numbers(&buffer.read().wait().expect("it is read")) == expected);
    }
    String::new()
}

fn free_bytes() -> u64 {
    let (free, _) = result::mem_get_info().expect("a context is current");
    free as u64
}

fn given_back(gpu: &Gpu) -> String {
    gpu.context.bind_to_thread().expect("it is current");
    let before = free_bytes();
    let device = device(1 << 30);
    let buffers: Vec<Buffer> =
        (0..48).map(|_| device.alloc(32 << 20).wait().expect("room is made")).collect();
    for buffer in &buffers {
        let launch = device.prepare([Use::read_write(buffer)]).wait().expect("room is made");
        launch.submit(|run| gpu.run_add_one(run, 0)).expect("it is queued");
    }
    let during = free_bytes();
    assert!(before.saturating_sub(during) > 900 << 20, "only {} bytes were taken", before - during);
    drop(buffers);
    device.idle().wait().expect("not lost");
    let info = device.memory_info();
    assert_eq!((info.in_use, info.spilled, info.leaving), (0, 0, 0), "{info}");
    drop(device);
    until("the memory comes back", || before.saturating_sub(free_bytes()) < 64 << 20);
    format!("{} B were taken, {} B are not back", before - during, before.saturating_sub(free_bytes()))
}

fn make_room(gpu: &Gpu) -> String {
    gpu.context.bind_to_thread().expect("it is current");
    let device = device(4 << 30);
    let kept: Vec<Buffer> = (0..64).map(|_| device.alloc(32 << 20).wait().expect("memory")).collect();
    let gone: Vec<Buffer> = (0..64).map(|_| device.alloc(32 << 20).wait().expect("memory")).collect();
    drop(gone);
    device.idle().wait().expect("not lost");
    let (before, info) = (free_bytes(), device.memory_info());
    device.make_room(3 << 30).wait().expect("room is made");
    let after = free_bytes();
    let (spilled, cached) = (device.memory_info().spilled, device.memory_info().cached);
    assert!(after.saturating_sub(before) >= 1 << 30, "the device has {before} B, and then {after} B free");
    assert!(
        kept.iter().all(|buffer| buffer.read().wait().is_ok_and(|bytes| bytes.iter().all(|&byte| byte == 0)))
    );
    format!(
        "{} B cached before, {cached} B after, {spilled} B spilled, {} B more free",
        info.cached,
        after - before
    )
}

/// Takes all but a little of the device, and runs a program without a budget that needs more.
fn full_device(gpu: &Gpu) -> String {
    const LEFT: u64 = 1 << 30;
    const BYTES: u64 = 64 << 20;
    gpu.context.bind_to_thread().expect("it is current");
    let asked = Arc::new(AtomicU64::new(0));
    let noted = asked.clone();
    let options = Device::options().on_memory_pressure(move |_| _ = noted.fetch_add(1, Ordering::Relaxed));
    let device = options.open_driver("full", Cuda::open(0).expect("it opens")).expect("it opens");
    let start = Instant::now();
    let hog = free_bytes().saturating_sub(LEFT) as usize;
    // SAFETY: it is freed below, and nothing uses it.
    let hog = unsafe { result::malloc_sync(hog) }.expect("nearly all memory");
    let took = start.elapsed();
    let run = || {
        let mut buffers: Vec<Buffer> = Vec::new();
        for index in 0..40u8 {
            let buffer = device.alloc(BYTES).uninitialised().wait()?;
            buffer.fill(index).wait()?;
            buffers.push(buffer);
        }
        for buffer in buffers.iter().chain(&buffers) {
            let launch = device.prepare([Use::read_write(buffer)]).wait()?;
            launch.submit(|run| gpu.run_add_one(run, 0))?;
        }
        for (index, buffer) in buffers.iter().enumerate() {
            let expected = u32::from_le_bytes([index as u8; 4]).wrapping_add(2);
            assert!(
                numbers(&buffer.read().wait()?).iter().all(|&number| number == expected),
                "buffer {index}"
            );
        }
        let guards: Result<Vec<_>, _> =
            buffers.iter().map(|buffer| buffer.ensure_resident().wait()).collect();
        let full = guards.expect_err("they do not fit all at once");
        assert!(matches!(full.kind(), ErrorKind::OutOfMemory | ErrorKind::Stalled), "{full}");
        Ok::<_, tack_residency::Error>((device.memory_info(), full.kind()))
    };
    let ran = run();
    // SAFETY: it was allocated above, and is freed once.
    unsafe { result::free_sync(hog) }.expect("it is freed");
    let (info, full) = ran.expect("the program runs");
    assert!(info.spills > 20 && info.restores > 20, "{info}");
    assert!(asked.load(Ordering::Relaxed) > 0, "the hook was never called");
    device.check().expect("the books balance");
    format!(
        "all but {LEFT} B taken in {took:.1?}; peak {} B, {} spills, {} restores, hook called {} times, then {full:?}",
        info.peak,
        info.spills,
        info.restores,
        asked.load(Ordering::Relaxed)
    )
}
