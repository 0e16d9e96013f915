//! The self-test: makes a spill give back other bytes than it was given, which the comparison must notice.

use crate::api::Api;
use std::time::Duration;
use tack_residency::{Device, Result, Use, driver::sim::Sim};

/// The device, if it can be made to give wrong bytes.
pub fn corruptible(device: &Device) -> Option<&Sim> {
    device.driver().as_any().downcast_ref()
}

/// Spills an array, and flips one bit of its host copy on the way.
///
/// A launch that changes nothing sees to it first that there is something to copy out: an array that has been spilled,
/// or was since only read, would be spilled without a copy.
pub async fn spill_corrupted<A: Api>(api: &A, array: &A::Buffer) -> Result<()> {
    let launch = api.prepare(vec![Use::read_write(A::use_of(array))]).await?;
    launch.submit(|run| run.host_kernel(Duration::ZERO, |_| {}))?;
    api.idle().await?;
    if let Some(sim) = corruptible(api.device()) {
        sim.corrupt_next_copy_out();
    }
    A::spill(array).await.map(drop)
}
