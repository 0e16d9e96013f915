//! CUDA: kernels by its own compiler, and what is checked of it alone.

mod contexts;
mod gpu;
mod graph;
pub mod lost;
mod pool;
mod room;

pub use gpu::Gpu;

use crate::job::Job;
use tack_residency::{Device, ErrorKind};

/// One check of CUDA's alone: what it found out.
type Check = (&'static str, fn(&Gpu) -> String);

/// Every one of them.
pub fn jobs(gpu: &Gpu) -> Vec<Job> {
    let checks = [&[NO_SUCH_DEVICE], contexts::CHECKS, pool::CHECKS, room::CHECKS, lost::CHECKS].concat();
    checks
        .into_iter()
        .map(|(name, check)| {
            let gpu = gpu.clone();
            Job::new(name, move || check(&gpu))
        })
        .collect()
}

const NO_SUCH_DEVICE: Check = ("a device that is not there is unavailable", no_such_device);

fn no_such_device(_: &Gpu) -> String {
    let error = Device::open("cuda:4000000000").expect_err("there is no such device");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    for wrong in ["cuda:", "cuda:x", "cuda:-1", "cuda0"] {
        let error = Device::open(wrong).expect_err("no device has such a name");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("`cuda:ORDINAL`"), "{error}");
    }
    String::new()
}
