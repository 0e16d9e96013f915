//! What follows when the device has done a numbered piece of work.

use super::{
    Cell, HostRuns, access::HeldRead, copy_out::Landing, free::FreeJob, host_op::HostOp, sync::Event,
};
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
        copy: HostRuns,
    },
    /// A piece of a copy out ahead of need has ended.
    Piece,
    /// A piece of a copy out is in its chunk of the ring.
    Landed(Landing),
    /// A piece of a copy in has left this chunk of the ring.
    Left(HostRange),
    /// A copy in from this host copy has ended.
    Arrived(Slot, HostRuns),
    /// One of the uses that a free waits for is over.
    Free(FreeJob),
    /// One of the writes that a read waits for is over.
    Read(HeldRead),
    /// A free in the compute queue's order has run.
    Ordered(Bytes),
    /// A host operation's bytes are there, in this staging.
    Operation(Arc<HostOp>, HostRuns),
    /// Host memory is neither read nor written any more.
    LetGo(HostRuns),
}

impl Due {
    /// The device is lost: it will not come.
    pub fn lost(self, core: &mut Core<Arc<Cell>>, ringing: &mut Vec<Arc<Event>>) {
        match self {
            Due::Free(job) => core.left(job.bytes),
            Due::Read(read) => read.job.lost(core, ringing),
            Due::Ordered(bytes) => core.order_passed(bytes),
            Due::Operation(op, _) => op.fail(Failure::Lost, ringing),
            Due::CopiedOut { slot, token, .. } => core.copy_out_refused(slot, token, Failure::Lost),
            Due::Landed(landing) => landing.lost(core),
            Due::Piece | Due::Left(_) | Due::Arrived(..) | Due::LetGo(_) => {}
        }
    }
}
