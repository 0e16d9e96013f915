//! How fast buffers are spilled and restored, beside plain copies of as many bytes.

use super::{Bed, Figure, raw::Raw, settle, timed};
use crate::{
    backend::{BUSY, Bench},
    subject::Way,
};
use std::time::Duration;
use tack_residency::{Buffer, Device, Use, blocking};

pub fn pinning(bed: &Bed) -> Vec<Figure> {
    let bench = Bench::open(&bed.rig());
    let mut figures = Vec::new();
    for (bytes, is_busy) in [(8usize << 20, false), (64 << 20, false), (64 << 20, true)] {
        let mut memory = None;
        if is_busy {
            bench.spin(bench.compute, BUSY);
        }
        let pinned = timed(|| memory = bench.driver.allocate_host(bytes).ok());
        assert!(memory.is_some(), "{bytes} bytes were not pinned");
        let freed = timed(|| drop(memory));
        bench.finish(bench.compute);
        let beside = if is_busy { format!(" beside a kernel of {BUSY:?}") } else { String::new() };
        let what = |did: &str| format!("{} MiB {did}{beside}", bytes >> 20);
        figures.push(Figure::time(what("pinned"), pinned, None));
        figures.push(Figure::time(what("of pinned memory freed"), freed, None));
    }
    figures
}

pub fn of_8(bed: &Bed) -> Vec<Figure> {
    one_way(bed, 8 << 20, bed.count(64))
}

pub fn of_64(bed: &Bed) -> Vec<Figure> {
    one_way(bed, 64 << 20, bed.count(12))
}

fn one_way(bed: &Bed, bytes: u64, count: usize) -> Vec<Figure> {
    let raw = Raw::new(bed, bytes, count);
    let (raw_out, raw_in) = (raw.rate(bed, Way::Out), raw.rate(bed, Way::In));
    drop(raw);
    let device = bed.device(8 << 30);
    let buffers = bed.buffers(&device, bytes, count);
    let total = bytes * count as u64;
    let (mut out, mut into) = (Duration::MAX, Duration::MAX);
    for _ in 0..bed.rounds(4) {
        settle(&device);
        out = out.min(timed(|| assert_eq!(device.spill_all().wait().expect("they are spilled"), total)));
        settle(&device);
        into = into.min(timed(|| {
            bed.use_all(&device, &buffers);
            settle(&device);
        }));
    }
    let size = bytes >> 20;
    vec![
        Figure::rate(format!("spills of {size} MiB"), total, out, Some(raw_out)),
        Figure::rate(format!("restores of {size} MiB"), total, into, Some(raw_in)),
    ]
}

pub fn facade(bed: &Bed) -> Vec<Figure> {
    let (bytes, count) = (8u64 << 20, bed.count(32));
    let options = blocking::Device::options().budget(8 << 30);
    let device = options.open_driver("measured", bed.subject.open()).expect("it opens");
    let buffers = bed.buffers(&device, bytes, count);
    let total = bytes * count as u64;
    let (mut out, mut into) = (Duration::MAX, Duration::MAX);
    for _ in 0..bed.rounds(3) {
        device.idle().expect("not lost");
        out = out.min(timed(|| assert_eq!(device.spill_all().expect("they are spilled"), total)));
        into = into.min(timed(|| {
            bed.use_all(&device, &buffers);
            device.idle().expect("not lost");
        }));
    }
    vec![
        Figure::rate("the facade's spills of 8 MiB", total, out, None),
        Figure::rate("the facade's restores of 8 MiB", total, into, None),
    ]
}

pub fn both_of_8(bed: &Bed) -> Vec<Figure> {
    both_ways(bed, 8 << 20, bed.count(64))
}

pub fn both_of_64(bed: &Bed) -> Vec<Figure> {
    both_ways(bed, 64 << 20, bed.count(16))
}

/// A working set of twice the budget in turn: each launch brings one in, and another goes.
fn both_ways(bed: &Bed, bytes: u64, count: usize) -> Vec<Figure> {
    let raw = Raw::new(bed, bytes, count);
    let raw_rate = raw.both(bed);
    drop(raw);
    let device = bed.device(bytes * count as u64 / 2);
    let buffers = bed.buffers(&device, bytes, count);
    let turn = |way: &str, pass: &mut dyn FnMut()| {
        let mut fastest: Option<Figure> = None;
        for _ in 0..bed.rounds(4) {
            settle(&device);
            let before = moved(&device);
            let took = timed(|| {
                pass();
                settle(&device);
            });
            let name = format!("both ways, {} MiB, {way}", bytes >> 20);
            let figure = Figure::rate(name, moved(&device) - before, took, Some(raw_rate));
            fastest = fastest.filter(|fastest| fastest.value >= figure.value).or(Some(figure));
        }
        fastest
    };
    let awaited = turn("awaited one by one", &mut || bed.use_all(&device, &buffers));
    let [two, eight] = [2, 8].map(|look_ahead| {
        turn(&format!("looking {look_ahead} ahead"), &mut || push_all(bed, &device, &buffers, look_ahead))
    });
    [awaited, two, eight].into_iter().flatten().collect()
}

fn push_all(bed: &Bed, device: &Device, buffers: &[Buffer], look_ahead: usize) {
    futures::executor::block_on(async {
        let mut queue = device.launch_queue(look_ahead);
        for buffer in buffers {
            let bed = bed.clone();
            queue.push([Use::read_write(buffer)], move |run| bed.touch(run)).await.expect("it is taken");
        }
        queue.flush().await.expect("all are queued");
    });
}

/// How much was copied either way so far.
fn moved(device: &Device) -> u64 {
    let info = device.memory_info();
    info.copied_out_bytes + info.copied_in_bytes
}
