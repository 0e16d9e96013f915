//! What is asked for: all of it or nothing, first come, first served.

use super::{Bytes, Failure, Slot, Table};
use std::collections::VecDeque;

/// One request in the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub(super) Slot);

/// One buffer of a request, and how it will be used. A request names each buffer once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Want {
    /// The buffer.
    pub slot: Slot,
    /// It will be written.
    pub writes: bool,
    /// All of it is overwritten before anything is read.
    pub overwrites: bool,
    /// The request keeps the buffer alive, and its pin ends by itself: when the launches ahead of it are queued.
    pub kept: bool,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub enum Ask {
    /// All of these on the device, pinned.
    Uses(Vec<Want>),
    /// Memory for a new buffer.
    Fresh(Bytes),
    /// Memory for others on the device.
    Room(Bytes),
    /// These spilled, as far as they may be.
    Spill(Vec<Slot>),
    /// This dropped, once all that was asked for before is admitted.
    Drop(Slot),
    /// This used by the host, as seen by all that is asked for later.
    Touch(Slot),
    /// This not used for long, as seen by all that is asked for later.
    Cool(Slot),
}

/// How far a request has come.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// In the queue.
    Queued,
    /// The caller's hook is to be run, by the one who asks.
    AskHook,
    /// Its victims are chosen; it waits for their memory, and for its restores to be queued.
    Admitted,
    /// All is as asked.
    Done,
    /// It failed, and holds nothing.
    Failed(Failure),
}

/// A request and where it stands.
#[derive(Debug)]
pub struct Request {
    /// What is asked for.
    pub ask: Ask,
    /// The stamp all its uses get.
    pub stamp: u64,
    /// How far it has come.
    pub outcome: Outcome,
    /// The bytes it asks for in all.
    pub bytes: Bytes,
    /// Of what it asked to have spilled, the bytes that were.
    pub spilled: Bytes,
    pub(super) missing: usize,
    pub(super) hooked: bool,
    /// Its place among those admitted; zero if it waits in the queue.
    pub(super) turn: u64,
    /// Its launch is being queued: what it holds cannot be taken back.
    pub(super) begun: bool,
    /// It only hints at what will be asked for.
    pub(super) is_hint: bool,
}

impl Request {
    /// Whether it keeps its buffers alive, and this is one of them if one is named.
    pub fn keeps(&self, slot: Option<Slot>) -> bool {
        let kept = |want: &Want| want.kept && slot.is_none_or(|slot| want.slot == slot);
        matches!(&self.ask, Ask::Uses(wants) if wants.iter().any(kept))
    }

    /// The buffers that it uses.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        let wants = if let Ask::Uses(wants) = &self.ask { wants.as_slice() } else { &[] };
        wants.iter().map(|want| want.slot)
    }

    /// Whether no one waits for it: it is a note of what happened between the others.
    pub(super) fn is_note(&self) -> bool {
        matches!(self.ask, Ask::Drop(_) | Ask::Touch(_) | Ask::Cool(_))
    }

    /// Whether it was admitted to keep its buffers, and its launch is not being queued yet.
    pub(super) fn is_kept_admitted(&self) -> bool {
        let is_admitted = self.turn > 0 && !matches!(self.outcome, Outcome::Failed(_));
        is_admitted && !self.begun && self.keeps(None)
    }

    /// Not ended yet.
    pub fn is_waiting(&self) -> bool {
        !matches!(self.outcome, Outcome::Done | Outcome::Failed(_))
    }
}

/// All requests, and the order of those not yet admitted.
#[derive(Debug, Default)]
pub struct Requests {
    table: Table<Request>,
    pub(super) queue: VecDeque<RequestId>,
    /// Hints that wait until no one else does, in their order.
    pub(super) hints: VecDeque<RequestId>,
}

impl Requests {
    pub(super) fn push(&mut self, ask: Ask, stamp: u64, bytes: Bytes, is_hint: bool) -> RequestId {
        let id = RequestId(self.table.insert(Request {
            ask,
            stamp,
            outcome: Outcome::Queued,
            bytes,
            spilled: Bytes::ZERO,
            missing: 0,
            hooked: false,
            turn: 0,
            begun: false,
            is_hint,
        }));
        if is_hint {
            self.hints.push_back(id)
        } else {
            self.queue.push_back(id)
        }
        id
    }

    /// A request that was not yet ended or taken.
    pub fn get(&self, id: RequestId) -> Option<&Request> {
        self.table.get(id.0)
    }

    pub(super) fn get_mut(&mut self, id: RequestId) -> Option<&mut Request> {
        self.table.get_mut(id.0)
    }

    /// Takes out one that is not in the queue.
    pub(super) fn remove(&mut self, id: RequestId) -> Option<Request> {
        self.table.remove(id.0)
    }

    /// Whether it waits to be admitted.
    pub(super) fn is_queued(&self, id: RequestId) -> bool {
        place(&self.queue, id).or_else(|| place(&self.hints, id)).is_some()
    }

    /// Takes one out of the queue; false if it was not there.
    pub(super) fn unqueue(&mut self, id: RequestId) -> bool {
        if let Some(at) = place(&self.hints, id) {
            self.hints.remove(at);
        }
        let queued = place(&self.queue, id).and_then(|at| self.queue.remove(at));
        queued.is_some()
    }

    /// All requests, in the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = (RequestId, &Request)> {
        self.table.iter().map(|(slot, request)| (RequestId(slot), request))
    }
}

/// Where a request stands. Looked for from both ends: those that leave are mostly near one, and many may be waiting.
fn place(queue: &VecDeque<RequestId>, id: RequestId) -> Option<usize> {
    let pairs = queue.iter().zip(queue.iter().rev()).enumerate().take(queue.len().div_ceil(2));
    pairs.into_iter().find_map(|(at, (first, last))| {
        let from_end = || queue.len().saturating_sub(at).saturating_sub(1);
        if *first == id { Some(at) } else { (*last == id).then(from_end) }
    })
}
