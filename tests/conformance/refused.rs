//! A small program in which calls are refused: whatever fails says so, and all that was taken is given back.

use crate::backends::Opened;
use std::{
    env, thread,
    time::{Duration, Instant},
};
use tack_residency::{Buffer, Device, Error, Use, driver::DriverError};

/// Runs the program, and prints what it came to.
pub fn run(opened: &Opened) {
    let control = opened.control.expect("calls of a simulated library are refused");
    match attempt(opened.entry.device) {
        Ok(()) => println!("went through"),
        Err(error) => {
            let mut source: Option<&(dyn std::error::Error + 'static)> = Some(&error);
            let mut found = None;
            while let Some(at) = source {
                found = found.or(at.downcast_ref::<DriverError>());
                source = at.source();
            }
            let (call, code) = found.map_or(("no call", 0), |driver| (driver.call, driver.code));
            println!("{:?} by {call} with {code}: {error}", error.kind());
        }
    }
    // The device's own thread sees to what is still to be given up.
    let end = Instant::now() + if may_stay(opened) { PATIENCE / 4 } else { 5 * PATIENCE };
    while control.open_handles() + control.held_contexts() > 0 && Instant::now() < end {
        thread::sleep(Duration::from_millis(1));
    }
    println!("held: {}, open: {}", control.held_contexts(), control.open_handles());
}

/// Whether the call that is refused is one without which something stays open.
fn may_stay(opened: &Opened) -> bool {
    let refused = env::var("TACK_SIM_REFUSE").unwrap_or_default();
    let closing = opened.entry.library.map_or(&[][..], |library| library.closing);
    closing.iter().any(|name| refused.split(':').next() == Some(name))
}

/// How long a call waits that may never be answered, since what it waits for is refused again and again.
const PATIENCE: Duration = Duration::from_millis(700);

const BYTES: u64 = 1 << 16;

fn attempt(name: &str) -> Result<(), Error> {
    let device = Device::options().budget(3 * BYTES).open(name)?;
    let done = (|| {
        let _ = device.driver().memory();
        let buffers: Vec<Buffer> = (0..5)
            .map(|_| device.alloc(BYTES).uninitialised().within(PATIENCE).wait())
            .collect::<Result<_, Error>>()?;
        for (value, buffer) in buffers.iter().enumerate() {
            buffer.fill(value as u8).within(PATIENCE).wait()?;
        }
        let second = device.add_queue()?;
        for (value, pair) in buffers.windows(2).enumerate() {
            let launch =
                device.prepare([Use::read_write(&pair[0]), Use::read(&pair[1])]).within(PATIENCE).wait()?;
            let launch = if value % 2 == 0 { launch } else { launch.on(&second)? };
            launch.submit(|_| Ok::<(), Error>(()))?;
            pair[0].copy_to(&pair[1]).within(PATIENCE).wait()?;
        }
        buffers[4].write(vec![9; BYTES as usize]).within(PATIENCE).wait()?;
        for buffer in &buffers[..4] {
            let bytes = buffer.read().within(PATIENCE).wait()?;
            assert!(bytes.iter().all(|&byte| byte == 0), "a call that was refused changed bytes");
        }
        assert!(buffers[4].read().within(PATIENCE).wait()?.iter().all(|&byte| byte == 9));
        cross(&format!("{name}:1"), &buffers)?;
        drop(buffers[0].export().within(PATIENCE).wait()?);
        buffers[0].read().within(PATIENCE).wait()?;
        device.spill_all().within(PATIENCE).wait()?;
        device.idle().within(PATIENCE).wait()?;
        drop(buffers);
        device.idle().within(PATIENCE).wait()?;
        device.make_room(BYTES).within(PATIENCE).wait()
    })();
    device.check().expect("the books balance");
    if done.is_err() {
        // What is asked next is answered too.
        let _ =
            device.alloc(512).within(PATIENCE).wait().map(|buffer| buffer.fill(1).within(PATIENCE).wait());
        device.check().expect("the books balance");
    }
    done
}

/// Copies to another device, which holds one array at a time, and back.
fn cross(name: &str, buffers: &[Buffer]) -> Result<(), Error> {
    let other = Device::options().budget(BYTES).open(name)?;
    let done = (|| {
        let alloc = || other.alloc(BYTES).uninitialised().within(PATIENCE).wait();
        let there = [alloc()?, alloc()?];
        for (from, to) in buffers[3..].iter().zip(&there) {
            from.copy_to(to).within(PATIENCE).wait()?;
        }
        for (from, to) in there.iter().zip(buffers) {
            from.copy_to(to).within(PATIENCE).wait()?;
        }
        for (buffer, value) in buffers.iter().zip([0, 9]) {
            let bytes = buffer.read().within(PATIENCE).wait()?;
            assert!(bytes.iter().all(|&byte| byte == value), "a call that was refused changed bytes");
        }
        other.idle().within(PATIENCE).wait()
    })();
    other.check().expect("the books balance");
    done
}
