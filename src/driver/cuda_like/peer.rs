//! Copies from one device's memory to another's of the same vendor.
//!
//! Neither vendor asks for access between the two to be enabled: with it the copy goes directly, without it the vendor's
//! driver takes it through the host itself (NVIDIA's "CUDA Programming Guide", "Peer-to-Peer Memory Copy"; the function
//! `submitCopyMemoryP2P` of AMD's runtime, ROCclr). Memory of a pool may be copied so, without access to the pool being given:
//! both contexts are named in the call ("Stream-Ordered Memory Allocator", on the current context of `cudaMemcpyAsync`).
#![allow(unsafe_code)]

use super::{
    super::{DevicePtr, Driver, DriverError, DriverErrorKind, QueueId, Result},
    CudaLike,
    context::{PeerCopy, Vendor},
};

/// The peer that a driver is, and the call that copies to it; none where it is another vendor's, or there is no such call.
pub(super) fn find<'p, V: Vendor>(
    device: &CudaLike<V>,
    peer: &'p dyn Driver,
) -> Option<(&'p CudaLike<V>, PeerCopy<V::Place>)> {
    peer.as_any().downcast_ref().zip(device.context.vendor.peer_copy())
}

/// Queues a copy.
pub(super) fn copy<V: Vendor>(
    device: &CudaLike<V>,
    queue: QueueId,
    [from, to]: [DevicePtr; 2],
    peer: &dyn Driver,
    bytes: u64,
) -> Result<()> {
    let Some((peer, copy)) = find(device, peer) else {
        let message = "the library has no call that copies to that device: copy through the host";
        return Err(DriverError::new(DriverErrorKind::Unsupported, "copy_to_peer", 0, message));
    };
    if peer.context.is_lost() {
        // The vendor would say that a device is lost, and not which.
        let message = "the device to be copied to is lost";
        return Err(DriverError::new(DriverErrorKind::Refused, copy.name, 0, message));
    }
    let queue = device.queues.find(queue, copy.name)?;
    let _entered = device.context.enter()?;
    let _turn = queue.turn();
    if bytes == 0 {
        return Ok(());
    }
    let [from_place, to_place] = [device, peer].map(|device| device.context.vendor.place());
    let (from, to) = (from.as_raw(), to.as_raw());
    // SAFETY: the context is current, and both devices' contexts live; the addresses are the devices', which check them, and
    // whoever queues the copy keeps both places until it has run.
    let code = unsafe { (copy.call)(to, to_place, from, from_place, bytes as usize, queue.stream) };
    device.context.check(copy.name, code)
}
