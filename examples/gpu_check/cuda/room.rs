//! Memory beside what others of the process hold: given back, made room in, full.
#![allow(unsafe_code)]

use super::{Check, Gpu};
use crate::{
    backend::{Backend, until},
    options::Extent,
};
use cudarc::driver::result;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};
use tack_residency::{Buffer, Device, ErrorKind, Use, driver::cuda::Cuda};

pub const CHECKS: &[Check] = &[
    ("all memory is given back", given_back),
    ("make_room gives others memory", make_room),
    ("a full device, no budget", full_device),
];

fn device(gpu: &Gpu, budget: u64) -> Device {
    Device::options().budget(budget).open(&gpu.name()).expect("the device opens")
}

/// What sizes are multiples of here, in bytes: 32 MiB where nothing is spared.
fn unit(gpu: &Gpu) -> u64 {
    if gpu.extent() == Extent::Full { 32 << 20 } else { 8 << 20 }
}

fn free_bytes() -> u64 {
    let (free, _) = result::mem_get_info().expect("a context is current");
    free as u64
}

fn given_back(gpu: &Gpu) -> String {
    gpu.context.bind_to_thread().expect("it is current");
    let before = free_bytes();
    let device = device(gpu, 32 * unit(gpu));
    let buffers: Vec<Buffer> =
        (0..48).map(|_| device.alloc(unit(gpu)).wait().expect("room is made")).collect();
    for buffer in &buffers {
        let launch = device.prepare([Use::read_write(buffer)]).wait().expect("room is made");
        launch.submit(|run| Backend::add_one(gpu, run, 0)).expect("it is queued");
    }
    let during = free_bytes();
    assert!(before.saturating_sub(during) > 28 * unit(gpu), "only {} bytes were taken", before - during);
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
    let device = device(gpu, 128 * unit(gpu));
    let kept: Vec<Buffer> = (0..64).map(|_| device.alloc(unit(gpu)).wait().expect("memory")).collect();
    let gone: Vec<Buffer> = (0..64).map(|_| device.alloc(unit(gpu)).wait().expect("memory")).collect();
    drop(gone);
    device.idle().wait().expect("not lost");
    let (before, info) = (free_bytes(), device.memory_info());
    device.make_room(96 * unit(gpu)).wait().expect("room is made");
    let after = free_bytes();
    let (spilled, cached) = (device.memory_info().spilled, device.memory_info().cached);
    assert!(
        after.saturating_sub(before) >= 32 * unit(gpu),
        "the device has {before} B, and then {after} B free"
    );
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
    let (left, bytes) = (32 * unit(gpu), 2 * unit(gpu));
    gpu.context.bind_to_thread().expect("it is current");
    let asked = Arc::new(AtomicU64::new(0));
    let noted = asked.clone();
    let options = Device::options().on_memory_pressure(move |_| _ = noted.fetch_add(1, Ordering::Relaxed));
    let device = options.open_driver("full", Cuda::open(gpu.ordinal()).expect("it opens")).expect("it opens");
    let start = Instant::now();
    let hog = free_bytes().saturating_sub(left) as usize;
    // SAFETY: it is freed below, and nothing uses it.
    let hog = unsafe { result::malloc_sync(hog) }.expect("nearly all memory");
    let took = start.elapsed();
    let run = || {
        let mut buffers: Vec<Buffer> = Vec::new();
        for index in 0..40u8 {
            let buffer = device.alloc(bytes).uninitialised().wait()?;
            buffer.fill(index).wait()?;
            buffers.push(buffer);
        }
        for buffer in buffers.iter().chain(&buffers) {
            let launch = device.prepare([Use::read_write(buffer)]).wait()?;
            launch.submit(|run| Backend::add_one(gpu, run, 0))?;
        }
        for (index, buffer) in buffers.iter().enumerate() {
            let expected = u32::from_le_bytes([index as u8; 4]).wrapping_add(2).to_le_bytes();
            assert!(buffer.read().wait()?.chunks(4).all(|number| number == expected), "buffer {index}");
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
        "all but {left} B taken in {took:.1?}; peak {} B, {} spills, {} restores, hook called {} times, then {full:?}",
        info.peak,
        info.spills,
        info.restores,
        asked.load(Ordering::Relaxed)
    )
}
