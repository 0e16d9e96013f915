//! What the core wants done, and why a request failed.

use super::{Bytes, RequestId, Slot};
use std::{error::Error, sync::Arc};

/// Something to do outside the core.
#[derive(Debug)]
pub enum Decision<C> {
    /// Queue a copy of the buffer to a host copy of its own; answer with `copied_out`, `cut_short` or
    /// `copy_out_refused`.
    CopyOut {
        /// The buffer.
        slot: Slot,
        /// Names this copy in the answer.
        token: u64,
        /// How it is queued.
        pace: Pace,
    },
    /// A copy out ahead of need is needed now: queue all that is left of it.
    Hurry {
        /// Names the copy.
        token: u64,
    },
    /// Free the device memory of a buffer that was just spilled, or that lost its room; answer with `left`.
    Free {
        /// What holds the buffer's word.
        cell: C,
        /// Its bytes.
        bytes: Bytes,
    },
    /// Free all a dropped buffer has; answer with `left`, or with `freed_in_order`.
    FreeDropped {
        /// What holds the buffer's word.
        cell: C,
        /// Its bytes.
        bytes: Bytes,
        /// Whether it holds device memory.
        memory: bool,
    },
    /// Allocate device memory; answer with `allocated` or `refused`.
    Allocate(Grant),
    /// Queue the copy to the device, into memory the buffer has; answer with `copy_in_queued` or `copy_in_refused`.
    CopyIn(Slot),
    /// Ask the driver to give up what it keeps; answer with `trimmed`.
    Trim,
    /// The host copy is not needed.
    DropHost(Slot),
    /// The request's future has something to look at.
    Wake(RequestId),
}

/// How a copy out is queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// All of it at once: someone waits for the room.
    AtOnce,
    /// Piece by piece, ahead of need: others go before the rest of it.
    InPieces,
}

/// Device memory that was granted.
#[derive(Clone, Debug)]
pub struct Grant {
    /// What it is for.
    pub want: GrantFor,
    /// How much.
    pub bytes: Bytes,
    pub(super) serial: u64,
    pub(super) stage: Stage,
}

/// What granted memory is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GrantFor {
    /// A new buffer of this request.
    Fresh(RequestId),
    /// A spilled buffer comes back.
    Restore(Slot),
    /// A spilled buffer gets memory, and no copy, since a launch overwrites the whole of it.
    Overwrite(Slot),
    /// Nobody here: others on the device want it free.
    Room(RequestId),
}

/// How far the way out of a refused allocation has been gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Stage {
    /// Not refused yet.
    Untried,
    /// Refused: ask the caller's hook.
    Hook,
    /// The hook is running.
    Asking,
    /// Wait for what is leaving.
    Leaving,
    /// Ask the driver to give up what it keeps.
    Trim,
    /// The driver is asked.
    Trimming,
    /// Allocate again.
    Retry,
    /// Spill one victim.
    Victim,
    /// Wait for its memory, then allocate again.
    Room,
}

/// Why a request failed.
#[derive(Clone, Debug)]
pub enum Failure {
    /// More than the budget, or than one allocation may be.
    TooLarge {
        /// What was asked.
        bytes: Bytes,
        /// The most that fits.
        most: Bytes,
    },
    /// Would fit but for exports and fixed buffers.
    Blocked {
        /// What was asked.
        bytes: Bytes,
        /// What they hold.
        exported: Bytes,
    },
    /// The driver refuses, and nothing more can be spilled.
    OutOfMemory {
        /// What was asked.
        bytes: Bytes,
    },
    /// The host has no memory for a copy, within the limit set.
    HostOutOfMemory {
        /// What was asked.
        bytes: Bytes,
    },
    /// Only pins stand in the way, and nothing is on its way.
    Stalled {
        /// What was asked.
        bytes: Bytes,
    },
    /// A buffer of the request has been dropped, or has too many pins.
    Misuse(&'static str),
    /// Not before the deadline.
    TimedOut,
    /// A call to the driver failed.
    Call(Arc<dyn Error + Send + Sync>),
    /// The device is lost.
    Lost,
}
