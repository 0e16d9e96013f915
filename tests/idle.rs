//! Waiting for a device to have done everything.

use std::{sync::mpsc, thread, time::Duration};
use tack_residency::{Device, Result};

/// A free that was run but never counted made the count of jobs wrap, and nothing was ever idle again.
#[test]
fn idle_ends_after_memory_was_freed_on_the_hosts_timeline() -> Result<()> {
    let device = Device::options().budget(8192).open("sim")?;
    let buffers = [0; 3].map(|_| device.alloc(4096).wait());
    assert_eq!(device.memory_info().spills, 1);
    drop(buffers);
    let (done, ended) = mpsc::channel();
    let waiting = device.clone();
    thread::spawn(move || done.send(waiting.idle().wait()));
    ended.recv_timeout(Duration::from_secs(20)).expect("idle ends")?;
    assert_eq!(device.memory_info().in_use, 0);
    device.check()
}
