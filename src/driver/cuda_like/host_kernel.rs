//! Kernels that the host runs in a stream's order, on what was brought to it.
#![allow(unsafe_code)]

use super::{
    super::{DriverError, DriverErrorKind, HostKernel, HostRange, QueueId, Result, staged::Staged},
    CudaLike,
    context::{Context, Vendor, within},
};
use std::{ffi::c_void, sync::Arc};

/// What the vendor's thread is given.
struct Called<V: Vendor> {
    staged: Arc<Staged>,
    context: Arc<Context<V>>,
}

/// Queues a kernel.
pub(super) fn launch<V: Vendor>(device: &CudaLike<V>, queue: QueueId, kernel: HostKernel) -> Result<()> {
    const NAME: &str = "launch_host";
    let Some(launch) = device.context.vendor.library().extras.launch_host else {
        let message = "the library has no call that runs something of the host's in a stream";
        return Err(DriverError::new(DriverErrorKind::Unsupported, NAME, 0, message));
    };
    let place = device.queues.find(queue, NAME)?;
    let take_back = |from: &HostRange, to| device.bring_in(place, from, to);
    let lost =
        |error: DriverError| device.context.lose_by(DriverError { kind: DriverErrorKind::Lost, ..error });
    // Dropped last: what its body has captured may call this device.
    let staged = Staged::new(device, &device.stages, kernel)?;
    let _entered = device.context.enter()?;
    let _turn = place.turn();
    let call = |staged: &Arc<Staged>| {
        let called = Arc::new(Called { staged: staged.clone(), context: device.context.clone() });
        let data = Arc::as_ptr(&called).cast_mut().cast();
        // SAFETY: the context is current. `data` is what `run` of this vendor takes, and is kept below until a fence behind
        // the call has passed, or the stream has been waited for.
        let code = unsafe { (launch.call)(place.stream, run::<V>, data) };
        device.context.check(launch.name, code)?;
        place.copying().push(called);
        Ok(())
    };
    staged.queue(device, queue, call, take_back, lost)
}

/// Runs on a thread of the vendor's, which must not unwind.
unsafe extern "C" fn run<V: Vendor>(data: *mut c_void) {
    // SAFETY: `launch` keeps what it handed over until this has returned.
    let called = unsafe { &*data.cast::<Called<V>>() };
    if let Err(panic) = within(|| called.staged.run()) {
        let message = format!("the work panicked: {panic}");
        called.context.lose_by(DriverError::new(DriverErrorKind::Lost, "launch_host", 0, message));
    }
}
