//! The warm path: `prepare`, `submit` and drop of a launch whose buffers are all resident.
//!
//! `cargo bench --bench warm` prints nanoseconds a launch (median and least of many batches, so that a noisy machine
//! shows as a gap between the two). `-- --instructions` counts instructions with valgrind instead, which do not depend
//! on the machine's mood. Nothing is queued by the launches, so the figures are this crate's alone.

use std::{
    hint::black_box,
    process::Command,
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};
use tack_residency::{Buffer, Device, Error, Use, blocking};

const BATCH: u32 = 20_000;
const BATCHES: usize = 200;

fn buffers(device: &Device, count: usize) -> Vec<Buffer> {
    (0..count).map(|_| device.alloc(4096).wait().expect("a small buffer fits")).collect()
}

/// A launch of `N` buffers, every other one written.
fn uses<const N: usize>(buffers: &[Buffer]) -> [Use<'_>; N] {
    std::array::from_fn(|i| if i % 2 == 0 { Use::read(&buffers[i]) } else { Use::read_write(&buffers[i]) })
}

async fn launches<const N: usize>(device: &Device, buffers: &[Buffer], count: u32) -> Result<(), Error> {
    for _ in 0..count {
        let launch = device.prepare(uses::<N>(buffers)).await?;
        launch.submit(|run| {
            black_box(run.len());
            Ok::<(), Error>(())
        })?;
    }
    Ok(())
}

/// The same, the uses kept by the caller.
async fn lent(device: &Device, buffers: &[Buffer], count: u32) -> Result<(), Error> {
    let uses = uses::<8>(buffers);
    for _ in 0..count {
        device.prepare(&uses).await?.submit(|run| {
            black_box(run.len());
            Ok::<(), Error>(())
        })?;
    }
    Ok(())
}

fn run<const N: usize>(device: &Device, buffers: &[Buffer], count: u32) {
    futures::executor::block_on(launches::<N>(device, buffers, count)).expect("nothing is short");
}

fn run_facade(device: &blocking::Device, buffers: &[Buffer], count: u32) {
    for _ in 0..count {
        let launch = device.prepare(uses::<8>(buffers)).expect("nothing is short");
        launch
            .submit(|run| {
                black_box(run.len());
                Ok::<(), Error>(())
            })
            .expect("nothing is short");
    }
}

/// What no design goes below: a stamp drawn, a compare-exchange and a decrement for each of eight buffers.
fn floor(words: &[Line], stamp: &AtomicU64, count: u32) {
    for _ in 0..count {
        let now = stamp.fetch_add(1, Ordering::Relaxed) + 1;
        for Line(word) in words {
            let old = word.load(Ordering::Relaxed);
            let new = (old + 64) & 0xF_FFFF | now << 20;
            let _ = black_box(word.compare_exchange(old, new, Ordering::Acquire, Ordering::Relaxed));
        }
        for Line(word) in words {
            black_box(word.fetch_sub(64, Ordering::Release));
        }
    }
}

/// A word in a cache line of its own.
#[repr(align(64))]
#[derive(Default)]
struct Line(AtomicU64);

/// Median and least nanoseconds a launch.
fn time(mut batch: impl FnMut(u32)) -> (f64, f64) {
    let mut figures: Vec<f64> = (0..BATCHES)
        .map(|_| {
            let start = Instant::now();
            batch(BATCH);
            start.elapsed().as_nanos() as f64 / f64::from(BATCH)
        })
        .collect();
    figures.sort_by(f64::total_cmp);
    (figures[BATCHES / 2], figures[0])
}

fn figures() {
    let device = Device::open("sim").expect("the simulated device opens");
    let facade = blocking::Device::open("sim").expect("the simulated device opens");
    let held = buffers(&device, 16);
    let plain: Vec<Buffer> = (0..8).map(|_| facade.alloc(4096).expect("fits").into()).collect();
    run::<8>(&device, &held, BATCH);
    println!("{:<34} {:>9} {:>9}", "prepare + submit + drop", "median ns", "least ns");
    let row = |name: &str, (median, least): (f64, f64)| println!("{name:<34} {median:>9.1} {least:>9.1}");
    let (words, stamp): ([Line; 8], AtomicU64) = Default::default();
    row("floor: 17 atomic operations", time(|count| floor(&words, &stamp, count)));
    row("0 buffers (an empty launch)", time(|count| run::<0>(&device, &held, count)));
    row("1 buffer", time(|count| run::<1>(&device, &held, count)));
    row("8 buffers", time(|count| run::<8>(&device, &held, count)));
    row(
        "8 buffers, uses lent",
        time(|count| futures::executor::block_on(lent(&device, &held, count)).expect("nothing is short")),
    );
    row("16 buffers", time(|count| run::<16>(&device, &held, count)));
    row("8 buffers, blocking facade", time(|count| run_facade(&facade, &plain, count)));
}

/// Instructions a launch, from the difference between two counts of launches.
fn instructions() {
    let own = std::env::current_exe().expect("the bench has a path");
    println!("{:<34} {:>12}", "prepare + submit + drop", "instructions");
    for buffers in [0, 1, 8, 16] {
        let count = |launches: u32| -> Option<u64> {
            let args = ["--tool=callgrind", "--callgrind-out-file=/dev/null"];
            let run = Command::new("valgrind")
                .args(args)
                .arg(&own)
                .args(["--count", &buffers.to_string(), &launches.to_string()])
                .output()
                .ok()?;
            let log = String::from_utf8_lossy(&run.stderr).into_owned();
            let line = log.lines().find(|line| line.contains("Collected"))?;
            line.rsplit(':').next()?.trim().parse().ok()
        };
        match (count(10_000), count(30_000)) {
            (Some(few), Some(many)) => {
                println!("{:<34} {:>12.1}", format!("{buffers} buffers"), (many - few) as f64 / 20_000.0);
            }
            _ => {
                println!("SKIPPED: valgrind is not installed, so no instructions are counted");
                return;
            }
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "--count") {
        let number = |i: usize| args.get(at + i).and_then(|arg| arg.parse::<u32>().ok()).expect("a number");
        let device = Device::open("sim").expect("the simulated device opens");
        let held = buffers(&device, 16);
        match number(1) {
            0 => run::<0>(&device, &held, number(2)),
            1 => run::<1>(&device, &held, number(2)),
            8 => run::<8>(&device, &held, number(2)),
            _ => run::<16>(&device, &held, number(2)),
        }
    } else if args.iter().any(|arg| arg == "--instructions") {
        instructions();
    } else {
        figures();
    }
}
