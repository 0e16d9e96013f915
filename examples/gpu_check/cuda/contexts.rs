//! What is CUDA's alone: contexts, streams that cudarc has.

use super::{
    Check,
    gpu::{self, Gpu},
};
use crate::backend::Bench;
use cudarc::driver::{CudaContext, result};
use std::{sync::Arc, thread, time::Duration};
use tack_residency::driver::{HostKind, cuda::Cuda};

pub const CHECKS: &[Check] =
    &[("calls from any thread, any context", contexts), ("opened from cudarc's context", from_context)];

fn contexts(gpu: &Gpu) -> String {
    let bench = Bench::open(&gpu.rig());
    let driver = &bench.driver;
    let ptr = driver.allocate(bench.compute, 4096).expect("memory");
    // A thread that never touched CUDA.
    thread::scope(|scope| {
        scope.spawn(|| {
            driver.fill(bench.compute, ptr, 4096, 3).expect("a fill");
            bench.finish(bench.compute);
            assert!(bench.read(ptr, 4096).iter().all(|&byte| byte == 3));
            bench.spin(bench.compute, Duration::from_micros(1));
        });
    });
    // A thread that has another context keeps it, and a pinned block may be freed there.
    let other = CudaContext::new_non_primary(gpu.ordinal() as usize, 0).expect("another context");
    let block = bench.host(HostKind::Pinned, 4096);
    other.bind_to_thread().expect("it is current");
    driver.fill(bench.compute, ptr, 4096, 4).expect("a fill");
    bench.finish(bench.compute);
    drop(block);
    let current = result::ctx::get_current().expect("a context");
    assert_eq!(current, Some(other.cu_ctx()), "the caller's context is not current any more");
    assert!(bench.read(ptr, 4096).iter().all(|&byte| byte == 4));
    // For kernels queued by hand, the device's own stays current.
    let raw = driver.raw_queue(bench.compute).expect("a stream");
    assert_eq!(raw, gpu::stream(&*bench.driver, bench.compute).cu_stream().cast());
    assert_eq!(result::ctx::get_current().expect("a context"), Some(gpu.context.cu_ctx()));
    drop(other);
    gpu.context.bind_to_thread().expect("it is current");
    driver.free(bench.release, ptr).expect("it is freed");
    String::new()
}

fn from_context(gpu: &Gpu) -> String {
    let cuda = Cuda::from_context(gpu.context.clone()).expect("it opens");
    assert!(Arc::ptr_eq(&cuda.context().expect("a context"), &gpu.context));
    let bench = Bench::on(&gpu.rig(), cuda);
    let ptr = bench.driver.allocate(bench.compute, 4096).expect("memory");
    bench.driver.fill(bench.compute, ptr, 4096, 0).expect("a fill");
    let stream = gpu::stream(&*bench.driver, bench.compute);
    gpu.add_one(&stream, ptr, 4096);
    bench.finish(bench.compute);
    assert!(bench.read(ptr, 4096).chunks(4).all(|number| number == [1, 0, 0, 0]));
    bench.driver.free(bench.release, ptr).expect("it is freed");
    // A stream that a program keeps outlives the device.
    drop(bench);
    gpu.spin(&stream, Duration::from_micros(10));
    stream.synchronize().expect("the stream lives");
    String::new()
}
