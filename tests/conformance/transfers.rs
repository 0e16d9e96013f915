//! Programs without kernels: arrays filled, copied, written and read, spilled and brought back, dropped anywhere.

use crate::{
    backend::{Check, Rig, pattern},
    random::Rng,
};
use std::{ops::Range, sync::Arc, thread};
use tack_residency::{Buffer, Device, Error, HostMemoryKind, Options, Residency, Result, Use, blocking};

pub const CHECKS: &[Check] = &[
    ("arrays: host work in a budget", budgeted),
    ("arrays: the same, in ordinary memory", ordinary),
    ("arrays: the same, by the facade", facade),
    ("arrays: tasks on many threads", tasks),
    ("arrays: made, used and dropped on other threads", strangers),
    ("arrays: fresh ones are zero", fresh),
    ("arrays: a device that goes first", device_first),
];

const ARRAYS: usize = 10;
const STEPS: usize = 400;

/// What a program without kernels does to an array.
enum Step {
    Fill(usize, Range<usize>, u8),
    Write(usize, Range<usize>, u8),
    Copy(usize, usize),
    Read(usize),
    Spill(usize),
    Need(usize),
}

fn step(rng: &mut Rng, bytes: usize) -> Step {
    let (first, second) = (rng.below(ARRAYS as u64) as usize, rng.below(ARRAYS as u64) as usize);
    let at = rng.below(bytes as u64) as usize;
    let range = at..at + 1 + rng.below((bytes - at) as u64) as usize;
    match rng.below(8) {
        0 | 1 => Step::Fill(first, range, rng.below(256) as u8),
        2 | 3 => Step::Write(first, range, rng.below(256) as u8),
        4 if first != second => Step::Copy(first, second),
        5 => Step::Spill(first),
        6 => Step::Need(first),
        _ => Step::Read(first),
    }
}

/// An array of either face of the crate; every call waits.
trait Array: Sized {
    fn fill_part(&self, range: &Range<usize>, value: u8) -> Result<()>;
    fn write_part(&self, range: &Range<usize>, bytes: Vec<u8>) -> Result<()>;
    fn copy_whole(&self, to: &Self) -> Result<()>;
    fn read_whole(&self) -> Result<Vec<u8>>;
    fn send_out(&self) -> Result<u64>;
    fn need(&self) -> Result<Residency>;
}

macro_rules! array {
    ($buffer:ty, $($wait:tt)*) => {
        impl Array for $buffer {
            fn fill_part(&self, range: &Range<usize>, value: u8) -> Result<()> {
                self.view(range.start as u64, range.len() as u64)?.fill(value)$($wait)*
            }

            fn write_part(&self, range: &Range<usize>, bytes: Vec<u8>) -> Result<()> {
                self.view(range.start as u64, range.len() as u64)?.write(bytes)$($wait)*
            }

            fn copy_whole(&self, to: &Self) -> Result<()> {
                self.copy_to(to)$($wait)*
            }

            fn read_whole(&self) -> Result<Vec<u8>> {
                self.read()$($wait)*
            }

            fn send_out(&self) -> Result<u64> {
                self.spill()$($wait)*
            }

            fn need(&self) -> Result<Residency> {
                self.ensure_resident()$($wait)*
            }
        }
    };
}
array!(Buffer, .wait());
array!(blocking::Buffer,);

/// Random steps, each byte checked whenever it is read.
fn walk<A: Array>(arrays: &[A], bytes: usize) -> Result<()> {
    let (mut model, mut rng) = (vec![vec![0; bytes]; ARRAYS], Rng(11));
    for _ in 0..STEPS {
        match step(&mut rng, bytes) {
            Step::Fill(array, range, value) => {
                arrays[array].fill_part(&range, value)?;
                model[array][range].fill(value);
            }
            Step::Write(array, range, seed) => {
                let bytes = pattern(range.len(), seed.into());
                arrays[array].write_part(&range, bytes.clone())?;
                model[array][range].copy_from_slice(&bytes);
            }
            Step::Copy(from, to) => {
                arrays[from].copy_whole(&arrays[to])?;
                model[to] = model[from].clone();
            }
            Step::Read(array) => assert!(arrays[array].read_whole()? == model[array], "array {array}"),
            Step::Spill(array) => _ = arrays[array].send_out()?,
            Step::Need(array) => drop(arrays[array].need()?),
        }
    }
    for (index, (array, expected)) in arrays.iter().zip(&model).enumerate() {
        assert!(array.read_whole()? == *expected, "array {index}");
    }
    Ok(())
}

/// How long an array is, in bytes: no multiple of anything.
fn odd(rig: &Rig) -> u64 {
    rig.array_bytes() - 3
}

fn budgeted(rig: &Rig) -> String {
    program(rig, Device::options())
}

fn ordinary(rig: &Rig) -> String {
    program(rig, Device::options().host_memory(HostMemoryKind::Ordinary))
}

fn program(rig: &Rig, options: Options) -> String {
    let device = rig.device(options.budget(4 * rig.array_bytes()));
    let arrays: Vec<Buffer> =
        (0..ARRAYS).map(|_| device.alloc(odd(rig)).wait().expect("room is made")).collect();
    walk(&arrays, odd(rig) as usize).expect("each step is taken");
    drop(arrays);
    device.idle().wait().expect("not lost");
    ended(rig, &device)
}

fn facade(rig: &Rig) -> String {
    let options = blocking::Device::options().budget(4 * rig.array_bytes());
    let device = options.open_driver("checked", rig.open()).expect("the device opens");
    let arrays: Vec<blocking::Buffer> =
        (0..ARRAYS).map(|_| device.alloc(odd(rig)).expect("room is made")).collect();
    walk(&arrays, odd(rig) as usize).expect("each step is taken");
    drop(arrays);
    device.idle().expect("not lost");
    ended(rig, &device)
}

/// A device whose arrays have all been dropped, at rest.
fn ended(rig: &Rig, device: &Device) -> String {
    device.check().expect("the books balance");
    let info = device.memory_info();
    assert!(info.restores > 10 && info.spills > 10 && info.peak <= 4 * rig.array_bytes(), "{info}");
    assert_eq!((info.in_use, info.spilled, info.leaving), (0, 0, 0), "{info}");
    format!("{} spills, {} restores", info.spills, info.restores)
}

/// Each task fills arrays of its own on a device that holds a few of them all.
fn tasks(rig: &Rig) -> String {
    const TASKS: u64 = 16;
    let bytes = rig.array_bytes();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().expect("a runtime");
    let device = rig.device(Device::options().budget(6 * bytes));
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let device = device.clone();
            runtime.spawn(async move {
                let mut rng = Rng(task);
                for round in 0..20 {
                    let value = (task * 16 + round) as u8;
                    let bytes = bytes / 2 + rng.below(bytes / 2);
                    let [first, second] =
                        [device.alloc(bytes).await.expect("room"), device.alloc(bytes).await.expect("room")];
                    first.fill(value).await.expect("it is filled");
                    let launch =
                        device.prepare([Use::read(&first), Use::read_write(&second)]).await.expect("room");
                    launch.submit(|_| Ok::<(), Error>(())).expect("it is queued");
                    first.copy_to(&second).await.expect("it is copied");
                    drop(first);
                    second.spill().await.expect("it is spilled");
                    let found = second.read().await.expect("it is read");
                    assert!(found.iter().all(|&byte| byte == value), "task {task}, round {round}");
                }
            })
        })
        .collect();
    for task in tasks {
        runtime.block_on(task).expect("a task failed");
    }
    runtime.block_on(async { device.idle().await }).expect("not lost");
    let info = device.memory_info();
    assert_eq!((info.in_use, info.spilled), (0, 0), "{info}");
    assert!(info.peak <= 6 * bytes, "{info}");
    device.check().expect("the books balance");
    format!("{} spills, {} restores", info.spills, info.restores)
}

fn strangers(rig: &Rig) -> String {
    let bytes = rig.array_bytes();
    let device = rig.device(Device::options().budget(3 * bytes));
    let on_a_thread =
        |work: Box<dyn FnOnce() -> Vec<Arc<Buffer>> + Send>| thread::spawn(work).join().expect("no panic");
    let maker = device.clone();
    let made = on_a_thread(Box::new(move || {
        (0..6).map(|_| Arc::new(maker.alloc(bytes).wait().expect("room is made"))).collect()
    }));
    let used = made.clone();
    let used = on_a_thread(Box::new(move || {
        for (value, array) in used.iter().enumerate() {
            array.fill(value as u8 + 1).wait().expect("it is filled");
        }
        used
    }));
    drop(made);
    let read = on_a_thread(Box::new(move || {
        for (value, array) in used.iter().enumerate() {
            let found = array.read().wait().expect("it is read");
            assert!(found.iter().all(|&byte| byte == value as u8 + 1), "array {value}");
        }
        used
    }));
    on_a_thread(Box::new(move || {
        drop(read);
        Vec::new()
    }));
    device.idle().wait().expect("not lost");
    device.check().expect("the books balance");
    thread::spawn(move || drop(device)).join().expect("no panic");
    String::new()
}

fn fresh(rig: &Rig) -> String {
    let bytes = rig.array_bytes();
    let device = rig.device(Device::options().budget(8 * bytes));
    for round in 0..20u8 {
        let arrays: Vec<Buffer> =
            (0..4).map(|_| device.alloc(bytes - 1).wait().expect("room is made")).collect();
        for array in &arrays {
            assert!(array.read().wait().expect("it is read").iter().all(|&byte| byte == 0), "round {round}");
            array.fill(0xF0 | round).wait().expect("it is filled");
        }
    }
    String::new()
}

/// A buffer keeps what it needs of its device, whose other handles may be gone.
fn device_first(rig: &Rig) -> String {
    let bytes = rig.array_bytes();
    let device = rig.device(Device::options().budget(2 * bytes));
    let arrays: Vec<Buffer> = (0..4).map(|_| device.alloc(bytes).wait().expect("room is made")).collect();
    for (value, array) in arrays.iter().enumerate() {
        array.fill(value as u8).wait().expect("it is filled");
    }
    drop(device);
    for (value, array) in arrays.iter().enumerate() {
        assert!(array.read().wait().expect("it is read").iter().all(|&byte| byte == value as u8));
    }
    String::new()
}
