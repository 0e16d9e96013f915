//! Copies beside kernels, and what this crate costs where nothing is copied.
//!
//! `cargo bench --bench overlap` prints three tables: a program that reads and writes each of 256 buffers in turn, on a
//! device that holds half of them, in computed time (the same on every machine); real copies through the simulated
//! device against plain `memcpy` of the same bytes, in one run; and the instructions of a program that fits, against the
//! same with spilling switched off (counted by valgrind; skipped, and said so, without it).

use std::{
    hint::black_box,
    process::Command,
    time::{Duration, Instant},
};
use tack_residency::{
    Buffer, Device, Result, Use, blocking,
    driver::sim::{Clock, Config, Contents, Link, Sim},
};

const MIB: u64 = 1 << 20;
const BUFFERS: usize = 256;
const PASSES: usize = 8;

/// How a program calls the crate.
#[derive(Clone, Copy)]
enum Way {
    Ahead(usize),
    Facade,
}

struct Swept {
    time: Duration,
    out_bytes: u64,
    in_bytes: u64,
}

/// Reads and writes each buffer in turn; the device's time for it.
fn sweep(budget: Option<u64>, bytes: u64, kernel: Duration, way: Way) -> Result<Swept> {
    let config = Config::profile("pcie4")?.with_contents(Contents::NotHeld);
    let sim = Sim::open(config.with_capacity(1 << 40))?;
    let facade = match way {
        Way::Facade => {
            let options = blocking::Device::options().with(|options| options.maybe_budget(budget));
            Some(options.open_driver("facade", sim.clone())?)
        }
        Way::Ahead(_) => None,
    };
    let device = match &facade {
        Some(facade) => Device::clone(facade),
        None => Device::options().maybe_budget(budget).open_driver("async", sim)?,
    };
    let held: Result<Vec<Buffer>> =
        (0..BUFFERS).map(|_| device.alloc(bytes).uninitialised().wait()).collect();
    let held = held?;
    device.idle().wait()?;
    let (start, before) = (device.driver().now(), device.memory_info());
    let launches = (0..BUFFERS * PASSES).map(|index| &held[index % BUFFERS]);
    match way {
        Way::Ahead(look_ahead) => {
            let mut queue = device.launch_queue(look_ahead);
            for buffer in launches {
                queue.push([Use::read_write(buffer)], move |run| run.host_kernel(kernel, |_| ())).wait()?;
            }
            queue.flush().wait()?;
        }
        Way::Facade => {
            for buffer in launches {
                let launch = device.prepare([Use::read_write(buffer)]).wait()?;
                launch.submit(|run| run.host_kernel(kernel, |_| ()))?;
            }
        }
    }
    device.idle().wait()?;
    let after = device.memory_info();
    Ok(Swept {
        time: device.driver().now() - start,
        out_bytes: after.copied_out_bytes - before.copied_out_bytes,
        in_bytes: after.copied_in_bytes - before.copied_in_bytes,
    })
}

fn sweeps() -> Result<()> {
    println!(
        "256 buffers, room for 128, 8 passes, each read and written in turn; computed time, profile pcie4"
    );
    println!(
        "{:<10} {:<22} {:<9} {:>12} {:>12} {:>12} {:>15}",
        "buffers", "copies", "way", "unlimited", "limited", "x unlimited", "share of bound"
    );
    for bytes in [16 * MIB, MIB] {
        let copy = Duration::from_secs_f64(bytes as f64 / 24e9) + Duration::from_micros(10);
        for (copies, kernel) in [("half as long as kernels", copy * 2), ("twice as long", copy / 2)] {
            for (name, way) in
                [("4 ahead", Way::Ahead(4)), ("64 ahead", Way::Ahead(64)), ("facade", Way::Facade)]
            {
                let unlimited = sweep(None, bytes, kernel, way)?;
                let limited = sweep(Some(bytes * BUFFERS as u64 / 2), bytes, kernel, way)?;
                let engine = limited.out_bytes.max(limited.in_bytes) / bytes;
                let bound = (copy * engine as u32).max(kernel * (BUFFERS * PASSES) as u32);
                println!(
                    "{:<10} {copies:<22} {name:<9} {:>9.3} ms {:>9.3} ms {:>12.4} {:>15.4}",
                    format!("{} MiB", bytes / MIB),
                    unlimited.time.as_secs_f64() * 1e3,
                    limited.time.as_secs_f64() * 1e3,
                    limited.time.as_secs_f64() / unlimited.time.as_secs_f64(),
                    bound.as_secs_f64() / limited.time.as_secs_f64(),
                );
            }
        }
    }
    Ok(())
}

/// Takes the better speed, in bytes a second.
fn time(best: &mut f64, bytes: u64, body: impl FnOnce() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    body()?;
    *best = best.max(bytes as f64 / start.elapsed().as_secs_f64());
    Ok(())
}

/// Spills of some buffers and restores of others, all asked for at once; until the device is idle.
fn exchange(device: &Device, outward: &[Buffer], inward: &[Buffer]) -> Result<()> {
    futures::executor::block_on(async {
        let spills = outward.iter().map(Buffer::spill);
        let restores = inward.iter().map(Buffer::ensure_resident);
        let (spilled, restored) =
            futures::join!(futures::future::try_join_all(spills), futures::future::try_join_all(restores));
        drop((spilled?, restored?));
        device.idle().await
    })
}

/// One thread a pair, each copying all of its own.
fn copy_all(pairs: &mut [Pair]) -> Result<()> {
    std::thread::scope(|scope| {
        for (from, to) in pairs {
            scope.spawn(move || {
                for (from, to) in from.iter().zip(to) {
                    to.copy_from_slice(black_box(from));
                    black_box(&to);
                }
            });
        }
    });
    Ok(())
}

/// Buffers to copy from, and those to copy to.
type Pair = (Vec<Vec<u8>>, Vec<Vec<u8>>);

fn real_copies() -> Result<()> {
    println!("\nreal copies at the speed of memory, GB/s, the best of several rounds in this run");
    println!(
        "{:<10} {:>8} {:>8} {:>8} {:>8} {:>8} {:>12} {:>12} {:>8}",
        "buffers", "memcpy", "spill", "share", "restore", "share", "two memcpys", "both ways", "share"
    );
    for bytes in [8 * MIB, 64 * MIB] {
        let count = (512 * MIB / bytes) as usize;
        let config = Config::new().with_clock(Clock::Real).with_capacity(4 << 30).with_poison(None);
        let config = config.with_outward(Link::default()).with_inward(Link::default());
        let device = Device::options().open_driver("real", Sim::open(config)?)?;
        let make = |value: u8| -> Result<Vec<Buffer>> {
            let buffers: Result<Vec<Buffer>> = (0..count).map(|_| device.alloc(bytes).wait()).collect();
            let buffers = buffers?;
            for buffer in &buffers {
                buffer.fill(value).wait()?;
            }
            Ok(buffers)
        };
        let (a, b) = (make(1)?, make(2)?);
        let total = bytes * count as u64;
        let plain = |value: u8| vec![vec![value; bytes as usize]; count];
        let mut pairs = vec![(plain(1), plain(3)), (plain(2), plain(4))];
        // What is pinned and touched for the first time is so now.
        for _ in 0..2 {
            exchange(&device, &a, &[])?;
            exchange(&device, &b, &a)?;
            exchange(&device, &[], &b)?;
        }
        let dirty = |buffers: &[Buffer]| -> Result<()> {
            for buffer in buffers {
                buffer.view(0, 1)?.fill(7).wait()?;
            }
            device.idle().wait()
        };
        let (mut single, mut double, mut spill, mut restore, mut both) = (0f64, 0f64, 0f64, 0f64, 0f64);
        for _ in 0..5 {
            time(&mut single, total, || copy_all(&mut pairs[..1]))?;
            time(&mut double, 2 * total, || copy_all(&mut pairs))?;
            dirty(&a)?;
            time(&mut spill, total, || exchange(&device, &a, &[]))?;
            time(&mut restore, total, || exchange(&device, &[], &a))?;
            dirty(&a)?;
            exchange(&device, &a, &[])?;
            dirty(&b)?;
            time(&mut both, 2 * total, || exchange(&device, &b, &a))?;
            exchange(&device, &[], &b)?;
        }
        println!(
            "{:<10} {:>8.2} {:>8.2} {:>8.3} {:>8.2} {:>8.3} {:>12.2} {:>12.2} {:>8.3}",
            format!("{} MiB", bytes / MIB),
            single / 1e9,
            spill / 1e9,
            spill / single,
            restore / 1e9,
            restore / single,
            double / 1e9,
            both / 1e9,
            both / double
        );
    }
    Ok(())
}

/// A program that fits: eight buffers a launch, one in eight launches with a buffer made for it and dropped after.
fn fitting(spilling: bool, launches: usize) -> Result<()> {
    let device = Device::options().budget(1 << 30).spilling(spilling).open("sim:pcie4")?;
    let held: Result<Vec<Buffer>> = (0..64).map(|_| device.alloc(4096).uninitialised().wait()).collect();
    let held = held?;
    for index in 0..launches {
        let fresh = if index % 8 == 0 { Some(device.alloc(4096).uninitialised().wait()?) } else { None };
        let uses: [Use<'_>; 8] = std::array::from_fn(|at| match &fresh {
            Some(fresh) if at == 0 => Use::write(fresh),
            _ => Use::read_write(&held[(index * 8 + at) % held.len()]),
        });
        device.prepare(&uses).wait()?.submit(|run| run.host_kernel(Duration::from_micros(10), |_| ()))?;
    }
    device.idle().wait()
}

fn instructions() -> Result<()> {
    println!(
        "\na program that fits: instructions a launch of 8 buffers, one in eight with a buffer made and dropped"
    );
    let own = std::env::current_exe().expect("the bench has a path");
    let count = |spilling: &str, launches: u32| -> Option<u64> {
        let run = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(&own)
            .args(["--fitting", spilling, &launches.to_string()])
            .output()
            .ok()?;
        let log = String::from_utf8_lossy(&run.stderr).into_owned();
        let line = log.lines().find(|line| line.contains("Collected"))?;
        line.rsplit(':').next()?.trim().parse().ok()
    };
    let each = |spilling| Some((count(spilling, 6000)? - count(spilling, 2000)?) as f64 / 4000.0);
    match (each("on"), each("off")) {
        (Some(on), Some(off)) => {
            println!("spilling on {on:.1}, off {off:.1}: {:+.2} %", (on / off - 1.0) * 100.0);
        }
        _ => println!("SKIPPED: valgrind is not installed, so no instructions are counted"),
    }
    Ok(())
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "--fitting") {
        let launches = args.get(at + 2).and_then(|count| count.parse().ok()).expect("a number of launches");
        return fitting(args.get(at + 1).is_some_and(|on| on == "on"), launches);
    }
    sweeps()?;
    if !args.iter().any(|arg| arg == "--computed") {
        real_copies()?;
        instructions()?;
    }
    Ok(())
}
