//! CUDA on a real device: each call of the driver's trait, whole programs whose every byte is checked, and figures.
//!
//! One program that needs nothing but itself: `cargo test --release --test cuda --no-run`, carry the binary over, run
//! it. Arguments choose the checks whose names contain one of them. Without a device it says what was tried, and that
//! it checked nothing else.
#![allow(unsafe_code)]

#[path = "../conformance/backend.rs"]
mod backend;
#[path = "../conformance/calls.rs"]
mod calls;
mod contexts;
#[path = "../conformance/dropped.rs"]
mod dropped;
mod gpu;
mod lost;
mod measure;
#[path = "../conformance/order.rs"]
mod order;
mod pool;
#[path = "../conformance/program.rs"]
mod program;
#[path = "../common/random.rs"]
mod random;
mod room;

use backend::Rig;
use gpu::Gpu;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
    time::{Duration, Instant},
};
use tack_residency::{Device, ErrorKind, driver::Driver, driver::cuda::Cuda};

/// One check: what it found out, for its line.
type Check = (&'static str, fn(&Gpu) -> String);

/// A check of any device, or of CUDA's.
enum Any {
    Device(fn(&Rig) -> String),
    Cuda(fn(&Gpu) -> String),
}

fn checks() -> Vec<(&'static str, Any)> {
    let every = [calls::CHECKS, order::CHECKS, dropped::CHECKS, program::CHECKS].concat();
    let own = [contexts::CHECKS, pool::CHECKS, room::CHECKS, lost::CHECKS, measure::CHECKS].concat();
    let every = every.into_iter().map(|(name, check)| (name, Any::Device(check)));
    every.chain(own.into_iter().map(|(name, check)| (name, Any::Cuda(check)))).collect()
}

fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    if std::env::args().any(|arg| arg == "--list") {
        checks().iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    if std::env::args().any(|arg| arg == lost::CHILD) {
        lost::lose();
        return ExitCode::SUCCESS;
    }
    let started = Instant::now();
    no_such_device();
    let cuda = match Cuda::open(0) {
        Ok(cuda) => cuda,
        Err(error) => {
            let checks = checks().len();
            println!("SKIPPED: no CUDA device opens, so none of {checks} checks ran.\n  {}", error.message);
            return ExitCode::SUCCESS;
        }
    };
    println!("{}, opened in {:?}; {:?}", cuda.description(), started.elapsed(), cuda.caps());
    drop(cuda);
    let gpu = match Gpu::open() {
        Ok(gpu) => gpu,
        Err(error) => {
            println!("FAILED: the kernels could not be loaded: {error:?}");
            return ExitCode::FAILURE;
        }
    };
    let (mut failed, mut ran) = (Vec::new(), 0);
    for (name, check) in checks() {
        if !names.is_empty() && !names.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        let begun = Instant::now();
        match catch_unwind(AssertUnwindSafe(|| match check {
            Any::Device(check) => check(&gpu.rig()),
            Any::Cuda(check) => check(&gpu),
        })) {
            Ok(found) => println!("ok      {name:<44} {:>7.2} s  {found}", begun.elapsed().as_secs_f64()),
            Err(_) => {
                println!("FAILED  {name:<44} {:>7.2} s", begun.elapsed().as_secs_f64());
                failed.push(name);
            }
        }
        ran += 1;
    }
    println!("{ran} checks in {:.1} s, {} failed {failed:?}", started.elapsed().as_secs_f64(), failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A device that is not there is an error that says what was tried, with or without a driver.
fn no_such_device() {
    let error = Device::open("cuda:4000000000").expect_err("there is no such device");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    for wrong in ["cuda:", "cuda:x", "cuda:-1", "cuda0"] {
        let error = Device::open(wrong).expect_err("no device has such a name");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("`cuda:ORDINAL`"), "{error}");
    }
    println!("ok      a device that is not there is unavailable");
}

/// Bytes a second in GB/s (10⁹).
fn rate(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / time.as_secs_f64() / 1e9
}
