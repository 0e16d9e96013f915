//! What follows when the device has done a numbered piece of work.

use super::{Cell, HostTier, access::HostOp, free::FreeJob, sync::Event};
use crate::{
    driver::HostRange,
    residency::{Bytes, Core, Failure, Slot},
};
use std::sync::Arc;

/// Something that waits for a queue to have done a number.
#[derive(Debug)]
pub enum Due {
    /// A copy out has ended, and this is the host copy now.
    CopiedOut {
        /// The buffer.
        slot: Slot,
        /// Its cell.
        cell: Arc<Cell>,
        /// Names the copy.
        token: u64,
        /// The copy.
        range: HostRange,
    },
    /// A copy in has ended.
    Arrived(Slot),
    /// One of the uses that a free waits for is over.
    Free(FreeJob),
    /// A free in the compute queue's order has run.
    Ordered(Bytes),
    /// A host operation's bytes are there.
    Operation(Arc<HostOp>),
    /// Staging is not read any more.
    Staged(HostRange),
}

impl Due {
    /// The device is lost: it will not come.
    pub fn lost(self, core: &mut Core<Arc<Cell>>, host: &HostTier, ringing: &mut Vec<Arc<Event>>) {
        match self {
            Due::Free(job) => core.left(job.bytes),
            Due::Ordered(bytes) => core.order_passed(bytes),
            Due::Operation(op) => op.fail(Failure::Lost, host, ringing),
            Due::CopiedOut { slot, token, range, .. } => {
                host.give_back(range);
                core.copy_out_refused(slot, token, Failure::Lost);
            }
            Due::Staged(range) => host.give_back(range),
            Due::Arrived(_) => {}
        }
    }
}
