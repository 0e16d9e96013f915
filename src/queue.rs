//! A compute queue, by its handle.

use crate::{device::Device, driver::QueueId};

/// One of a device's compute queues.
///
/// ```
/// # use tack_residency::Device;
/// let device = Device::open("sim")?;
/// let second = device.add_queue()?;
/// assert_ne!(second.id(), device.queue().id());
/// assert_eq!(second.device().name(), "sim");
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Queue {
    device: Device,
    index: usize,
}

impl Queue {
    pub(crate) fn new(device: Device, index: usize) -> Queue {
        Queue { device, index }
    }

    /// The driver's name for it.
    pub fn id(&self) -> QueueId {
        self.device.engine().queue_id(self.index)
    }

    /// Its device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }
}
