//! A kernel that faults: the device is lost, in a process of its own, since CUDA loses it for the whole process.

use super::{Check, Gpu};
use crate::options::Extent;
use std::{
    process::Command,
    time::{Duration, Instant},
};
use tack_residency::{
    Buffer, Device, Error, ErrorKind, Use,
    driver::{DevicePtr, DriverError},
};

pub const CHECKS: &[Check] = &[("a kernel that faults loses the device", in_a_child)];

/// Tells this program that it is the child; a device's number follows.
pub const CHILD: &str = "--lose-the-device";

fn in_a_child(gpu: &Gpu) -> String {
    let program = std::env::current_exe().expect("this program");
    let child = Command::new(program).args([CHILD, &gpu.ordinal().to_string()]).output().expect("it runs");
    let (out, err) = (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
    assert!(child.status.success(), "{}: {out} {err}", child.status);
    out.trim().to_owned()
}

/// What the child does.
pub fn lose(ordinal: u32) {
    let gpu = Gpu::open(ordinal, Extent::Short).expect("the kernels are loaded");
    let device = Device::options().budget(8 << 20).open(&gpu.name()).expect("it opens");
    let buffers: Vec<Buffer> = (0..4u8)
        .map(|value| {
            let buffer = device.alloc(4 << 20).wait().expect("room is made");
            buffer.fill(value).wait().expect("it is filled");
            buffer
        })
        .collect();
    device.idle().wait().expect("not lost yet");
    let spilled = buffers.iter().filter(|buffer| buffer.is_spilled()).count();
    assert_eq!(spilled, 2, "two of four fit");
    let launch = device.prepare([Use::read_write(&buffers[3])]).wait().expect("it is resident");
    let queued = launch.submit(|run| {
        gpu.add_one(&*run.cuda_stream()?, DevicePtr::from_raw(0xBAD0_0000), 4096);
        Ok::<(), Error>(())
    });
    queued.expect("it is queued");
    let start = Instant::now();
    let lost = device.idle().wait().expect_err("the kernel faults");
    let took = start.elapsed();
    assert_eq!(lost.kind(), ErrorKind::DeviceLost, "{lost}");
    let source = std::error::Error::source(&lost).and_then(|source| source.downcast_ref::<DriverError>());
    let source = source.expect("the driver's error").clone();
    assert_eq!(source.code, 700, "{source}");
    for (value, buffer) in buffers.iter().enumerate() {
        match buffer.read().wait() {
            Ok(bytes) => assert!(bytes.iter().all(|&byte| byte == value as u8), "buffer {value} is wrong"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
                assert!(!buffer.is_spilled(), "a buffer with a host copy is gone: {error}");
            }
        }
    }
    assert_eq!(device.alloc(4096).wait().expect_err("it is lost").kind(), ErrorKind::DeviceLost);
    drop(buffers);
    let start = Instant::now();
    drop(device);
    assert!(start.elapsed() < Duration::from_secs(1));
    println!("known after {took:.1?}: {source}");
}
