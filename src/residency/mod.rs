//! Decides what is resident. Handed what happened, it answers with what to do.
//!
//! No I/O, clock, lock, thread, log, `await` or `unsafe` is in this layer; the same inputs give the same decisions.

mod books;
mod bytes;
mod check;
mod claims;
mod core;
mod decision;
mod feed;
mod grants;
mod hand_out;
mod hints;
mod policy;
mod recency;
mod record;
mod requests;
mod room;
mod stalls;
mod state;
mod table;
mod thrash;
mod victims;
mod word;
mod write_back;

pub use self::{
    books::Books,
    bytes::Bytes,
    check::Imbalance,
    core::Core,
    decision::{Decision, Failure, Grant, GrantFor, Pace},
    policy::{Policy, Victims},
    record::{HostCopy, Record},
    requests::{Ask, Outcome, Request, RequestId, Want},
    state::{Step, StepRecord},
    table::{Slot, Table},
    word::{NoPin, Phase, STAMP_MAX, Word, WordCell},
    write_back::Need,
};
