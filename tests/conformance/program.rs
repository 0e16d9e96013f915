//! Whole programs through the public API, on buffers that the device cannot hold at once. Every byte is checked.

use crate::{
    backend::{Check, Rig, mixed},
    random::Rng,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};
use tack_residency::{Buffer, Device, MemoryInfo, Use, blocking};

/// Programs of kernels.
pub const CHECKS: &[Check] = &[
    ("sweep: awaited launches", sweep_awaited),
    ("sweep: a queue of launches, looking ahead", sweep_queued),
    ("sweep: the facade", sweep_facade),
    ("many tasks at once", many_tasks),
    ("two compute queues share buffers", two_queues),
    ("host reads, writes and fills between launches", host_access),
];

/// How many arrays there are: three times what the device may hold.
const UNITS: usize = 72;
const PASSES: u32 = 3;

fn budget(rig: &Rig) -> u64 {
    rig.array_bytes() * UNITS as u64 / 3
}

fn device(rig: &Rig, budget: u64) -> Device {
    rig.device(Device::options().budget(budget))
}

fn numbers(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect()
}

fn first_numbers(rig: &Rig, unit: usize) -> Vec<u32> {
    (0..rig.array_bytes() as u32 / 4)
        .map(|at| at.wrapping_mul(2_654_435_761).wrapping_add(unit as u32))
        .collect()
}

fn bytes_of(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// What a sweep leaves: in each pass, each unit takes its neighbour's numbers in, and one more is added.
fn model(rig: &Rig) -> Vec<Vec<u32>> {
    let mut units: Vec<Vec<u32>> = (0..UNITS).map(|unit| first_numbers(rig, unit)).collect();
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

fn swept(rig: &Rig, info: &MemoryInfo, start: Instant) -> String {
    assert!(
        info.spills > UNITS as u64 && info.restores > UNITS as u64,
        "nothing was put to the test: {info}"
    );
    assert!(info.peak <= budget(rig), "{info}");
    let took = start.elapsed().as_secs_f64();
    let (out, into) = (info.copied_out_bytes as f64 / 1e9, info.copied_in_bytes as f64 / 1e9);
    format!("{took:.2} s, {out:.2} GB out and {into:.2} GB in: {:.1} GB/s both ways", (out + into) / took)
}

async fn begin(rig: &Rig, device: &Device) -> Vec<Buffer> {
    let mut units = Vec::new();
    for unit in 0..UNITS {
        let buffer = device.alloc(rig.array_bytes()).uninitialised().await.expect("room is made");
        buffer.write(bytes_of(&first_numbers(rig, unit))).await.expect("it is written");
        units.push(buffer);
    }
    units
}

async fn verify(rig: &Rig, units: &[Buffer]) {
    for (index, (unit, expected)) in units.iter().zip(model(rig)).enumerate() {
        compare(index, &unit.read().await.expect("it is read"), &expected);
    }
}

fn sweep_awaited(rig: &Rig) -> String {
    futures::executor::block_on(async {
        let device = device(rig, budget(rig));
        let units = begin(rig, &device).await;
        let start = Instant::now();
        for pass in 0..PASSES {
            for unit in 0..UNITS {
                let from = &units[(unit + UNITS - 1) % UNITS];
                let uses = [Use::read_write(&units[unit]), Use::read(from)];
                let launch = device.prepare(uses).await.expect("room is made");
                launch
                    .submit(|run| {
                        rig.mix(run, pass)?;
                        rig.add_one(run, 0)
                    })
                    .expect("it is queued");
            }
        }
        device.idle().await.expect("not lost");
        let found = swept(rig, &device.memory_info(), start);
        verify(rig, &units).await;
        device.check().expect("the books balance");
        found
    })
}

fn sweep_queued(rig: &Rig) -> String {
    futures::executor::block_on(async {
        let device = device(rig, budget(rig));
        let units = begin(rig, &device).await;
        let start = Instant::now();
        let mut queue = device.launch_queue(4);
        for pass in 0..PASSES {
            for unit in 0..UNITS {
                let from = &units[(unit + UNITS - 1) % UNITS];
                let (uses, rig) = ([Use::read_write(&units[unit]), Use::read(from)], rig.clone());
                let work = move |run: &tack_residency::Run<'_>| {
                    rig.mix(run, pass)?;
                    rig.add_one(run, 0)
                };
                queue.push(uses, work).await.expect("it is taken");
            }
        }
        queue.flush().await.expect("all are queued");
        device.idle().await.expect("not lost");
        let found = swept(rig, &device.memory_info(), start);
        verify(rig, &units).await;
        device.check().expect("the books balance");
        found
    })
}

fn sweep_facade(rig: &Rig) -> String {
    let device = blocking::Device::options()
        .budget(budget(rig))
        .open_driver("checked", rig.open())
        .expect("the device opens");
    let units: Vec<blocking::Buffer> = (0..UNITS)
        .map(|unit| {
            let buffer = device.alloc(rig.array_bytes()).expect("room is made");
            buffer.write(bytes_of(&first_numbers(rig, unit))).expect("it is written");
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
                    rig.mix(run, pass)?;
                    rig.add_one(run, 0)
                })
                .expect("it is queued");
        }
    }
    device.idle().expect("not lost");
    let found = swept(rig, &device.memory_info(), start);
    for (index, (unit, expected)) in units.iter().zip(model(rig)).enumerate() {
        compare(index, &unit.read().expect("it is read"), &expected);
    }
    found
}

/// Buffers of many sizes, used by tasks on several threads; each is as often added to as the tasks say.
fn many_tasks(rig: &Rig) -> String {
    const TASKS: u64 = 24;
    const ROUNDS: u64 = 60;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().expect("a runtime");
    runtime.block_on(async {
        let (unit, mut rng) = (rig.array_bytes(), Rng(1));
        let device = device(rig, 6 * unit);
        let mut shared = Vec::new();
        for _ in 0..64 {
            let bytes = 4 * (rng.below(unit / 16) + 1);
            shared.push((device.alloc(bytes).await.expect("room is made"), AtomicU64::new(0)));
        }
        let (shared, start) = (Arc::new(shared), Instant::now());
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let (device, rig, shared) = (device.clone(), rig.clone(), shared.clone());
                tokio::spawn(async move {
                    let mut rng = Rng(task + 100);
                    for _ in 0..ROUNDS {
                        let first = rng.below(64) as usize;
                        let second = (first + 1 + rng.below(63) as usize) % 64;
                        let uses = [Use::read_write(&shared[first].0), Use::read_write(&shared[second].0)];
                        let launch = device.prepare(uses).await.expect("room is made");
                        launch
                            .submit(|run| {
                                rig.add_one(run, 0)?;
                                rig.add_one(run, 1)
                            })
                            .expect("it is queued");
                        shared[first].1.fetch_add(1, Ordering::Relaxed);
                        shared[second].1.fetch_add(1, Ordering::Relaxed);
                        if rng.below(8) == 0 {
                            drop(device.alloc(rng.below(unit / 8) + 1).await.expect("room is made"));
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
        assert!(info.restores > 100 && info.peak <= 6 * unit, "{info}");
        device.check().expect("the books balance");
        format!(
            "{} launches in {took:.2?}, {} spills, {} restores",
            TASKS * ROUNDS,
            info.spills,
            info.restores
        )
    })
}

fn two_queues(rig: &Rig) -> String {
    let half = rig.array_bytes() / 2;
    let device = device(rig, 5 * half);
    let queues = [device.queue(), device.add_queue().expect("a queue"), device.add_queue().expect("a queue")];
    let buffers: Vec<Buffer> = (0..12).map(|_| device.alloc(half).wait().expect("room is made")).collect();
    let (mut rng, mut added) = (Rng(7), [0u32; 12]);
    for _ in 0..600 {
        let index = rng.below(12) as usize;
        let launch = device.prepare([Use::read_write(&buffers[index])]).wait().expect("room is made");
        let launch = launch.on(&queues[rng.below(3) as usize]).expect("its own queue");
        launch.submit(|run| rig.add_one(run, 0)).expect("it is queued");
        added[index] += 1;
    }
    for (buffer, added) in buffers.iter().zip(added) {
        let found = numbers(&buffer.read().wait().expect("it is read"));
        assert!(found.iter().all(|&number| number == added), "an addition was lost");
    }
    let info = device.memory_info();
    assert!(info.restores > 50 && info.peak <= 5 * half, "{info}");
    format!("{} restores", info.restores)
}

fn host_access(rig: &Rig) -> String {
    let (half, count) = (rig.array_bytes() / 2, rig.array_bytes() / 8);
    let device = device(rig, 4 * half);
    let buffers: Vec<Buffer> = (0..10).map(|_| device.alloc(half).wait().expect("room is made")).collect();
    let mut expected = vec![vec![0u32; count as usize]; 10];
    let mut rng = Rng(3);
    for _ in 0..400 {
        let index = rng.below(10) as usize;
        let at = rng.below(count) as usize;
        let count = rng.below(count - at as u64) as usize + 1;
        let view = buffers[index].view(4 * at as u64, 4 * count as u64).expect("it is within");
        let range = at..at + count;
        match rng.below(4) {
            0 => {
                let launch = device.prepare([Use::read_write(&view)]).wait().expect("room is made");
                launch.submit(|run| rig.add_one(run, 0)).expect("it is queued");
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
