//! The host's time for a launch of eight resident buffers, beside the launch alone.

use super::{Bed, Figure, TOUCHED, settle, timed};
use std::time::Duration;
use tack_residency::{Buffer, Device, Error, Use, driver::QueueId};

/// Launches that a queue takes without waiting.
const BURST: u32 = 400;

pub fn warm(bed: &Bed) -> Vec<Figure> {
    let device = bed.device(1 << 30);
    let buffers: Vec<Buffer> = (0..8).map(|_| device.alloc(TOUCHED).wait().expect("memory")).collect();
    settle(&device);
    let (queue, driver) = (device.queue().id(), device.driver().clone());
    let guard = buffers[0].ensure_resident().wait().expect("resident");
    let ptr = guard.ptr();
    let bare = per_launch(bed, &device, queue, || {
        bed.subject.add(&*driver, queue, ptr, TOUCHED).expect("it is queued");
    });
    drop(guard);
    settle(&device);
    let uses = || -> [Use<'_>; 8] { std::array::from_fn(|index| Use::read_write(&buffers[index])) };
    let with = per_launch(bed, &device, queue, || {
        let launch = device.prepare(uses()).try_now().expect("resident");
        launch.submit(|run| bed.touch(run)).expect("it is queued");
    });
    let alone = per_launch(bed, &device, queue, || {
        let launch = device.prepare(uses()).try_now().expect("resident");
        launch.submit(|_| Ok::<(), Error>(())).expect("it is queued");
    });
    vec![
        Figure::time("a launch of 8 resident buffers", with, Some(bare)),
        Figure::time("the same without a kernel", alone, None),
    ]
}

fn per_launch(bed: &Bed, device: &Device, queue: QueueId, mut launch: impl FnMut()) -> Duration {
    bed.best(20, || {
        let took = timed(|| (0..BURST).for_each(|_| launch()));
        let driver = device.driver();
        let fence = driver.record(queue).expect("a fence");
        crate::backend::until("the launches end", || driver.is_passed(fence).expect("not lost"));
        driver.retire(fence);
        took / BURST
    })
}
