//! Twice as many arrays as the device may hold, used in turn: each launch waits for its array, or the next arrays come
//! while launches run.

use std::{
    error::Error,
    ffi::OsString,
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};
use tack_residency::{
    Buffer, Device, Result, Use,
    driver::sim::{Config, Contents, Sim},
};

const BYTES: u64 = 16 << 20;
const ARRAYS: usize = 32;
const PASSES: usize = 8;
/// What each launch takes: twice as long as its array does over the link.
const KERNEL: Duration = Duration::from_micros(1400);

/// A device that holds half of the arrays. Time is computed and bytes are not held, so this is over in a moment.
async fn open() -> std::result::Result<(Device, Vec<Buffer>), Box<dyn Error>> {
    let driver = Sim::open(Config::profile("pcie4")?.with_contents(Contents::NotHeld))?;
    let device = Device::options().budget(BYTES * ARRAYS as u64 / 2).open_driver("sim:pcie4", driver)?;
    let mut arrays = Vec::new();
    for _ in 0..ARRAYS {
        arrays.push(device.alloc(BYTES).uninitialised().await?);
    }
    device.idle().await?;
    Ok((device, arrays))
}

/// Before: the next array is asked for when the kernel before it has run.
async fn one_by_one(device: &Device, arrays: &[Buffer]) -> Result<()> {
    for array in arrays.iter().cycle().take(PASSES * ARRAYS) {
        let launch = device.prepare([Use::read_write(array)]).await?;
        launch.submit(|run| run.host_kernel(KERNEL, |_| ()))?;
        device.idle().await?;
    }
    Ok(())
}

/// After: up to four launches wait for their arrays, which come while earlier launches run.
async fn ahead(device: &Device, arrays: &[Buffer]) -> Result<()> {
    let mut queue = device.launch_queue(4);
    for array in arrays.iter().cycle().take(PASSES * ARRAYS) {
        queue.push([Use::read_write(array)], |run| run.host_kernel(KERNEL, |_| ())).await?;
    }
    queue.flush().await?;
    device.idle().await
}

async fn compare(out: &mut dyn Write) -> std::result::Result<(), Box<dyn Error>> {
    let least = KERNEL.as_secs_f64() * (PASSES * ARRAYS) as f64;
    writeln!(out, "kernels alone  {:6.1} ms", least * 1e3)?;
    for name in ["one by one", "look-ahead 4"] {
        let (device, arrays) = open().await?;
        let start = device.driver().now();
        match name {
            "one by one" => one_by_one(&device, &arrays).await?,
            _ => ahead(&device, &arrays).await?,
        }
        let seconds = (device.driver().now() - start).as_secs_f64();
        let (times, restores) = (seconds / least, device.memory_info().restores);
        writeln!(out, "{name:14} {:6.1} ms, {times:.2} times as long, {restores} restores", seconds * 1e3)?;
    }
    Ok(())
}

/// Does what a command line asks for.
pub fn perform(words: &[OsString], out: &mut dyn Write) -> std::result::Result<(), Box<dyn Error>> {
    match words.first() {
        None => futures::executor::block_on(compare(out))?,
        Some(word) if word == "--help" => writeln!(out, "usage: overlap")?,
        Some(word) => return Err(format!("there is no option {}: see --help", word.display()).into()),
    }
    Ok(out.flush()?)
}

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    match perform(&words, &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            // With the standard error closed, the status is all there is to tell.
            let _ = writeln!(io::stderr(), "overlap: {problem}");
            ExitCode::from(2)
        }
    }
}
