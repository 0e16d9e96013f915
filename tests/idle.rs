//! Waiting for a device to have done everything.

use std::{sync::mpsc, thread, time::Duration};
use tack_residency::{Device, Result, Use};

/// A free that was run but never counted made the count of jobs wrap, and nothing was ever idle again.
#[test]
fn idle_ends_after_memory_was_freed_on_the_hosts_timeline() -> Result<()> {
    let device = Device::options().budget(8192).open("sim")?;
    let buffers = [0; 3].map(|_| device.alloc(4096).wait());
    assert_eq!(device.memory_info().spills, 1);
    drop(buffers);
    let waiting = device.clone();
    within_a_minute(move || waiting.idle().wait())?;
    assert_eq!(device.memory_info().in_use, 0);
    device.check()
}

/// The device's thread was woken by a fence while another thread was looking at the device, found it taken, and rested:
/// no one looked at that fence again.
#[test]
fn idle_ends_though_two_threads_look_at_the_device_at_the_same_time() -> Result<()> {
    let device = Device::open("sim")?;
    within_a_minute(move || {
        let buffer = device.alloc(64).wait()?;
        for _ in 0..3000 {
            device
                .prepare([Use::read_write(&buffer)])
                .wait()?
                .submit(|run| run.host_kernel(Duration::ZERO, |args| args[0].bytes_mut().fill(1)))?;
            device.idle().wait()?;
        }
        Ok(())
    })
}

/// Runs `body` on a thread of its own, and fails if it takes so long that it must hang.
fn within_a_minute<T: Send + 'static>(body: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let (done, ended) = mpsc::channel();
    thread::spawn(move || done.send(body()));
    ended.recv_timeout(Duration::from_secs(60)).expect("it ends within a minute")
}
