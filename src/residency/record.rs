//! What is known of one buffer beside its word. Changed under the engine's lock only.

use super::{Bytes, Phase, RequestId, WordCell, thrash::Trips};

/// Where a buffer stands with the search for victims.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Among the candidates, under this stamp.
    Listed(u64),
    /// Set aside: met pinned or exported; whoever ends that puts it back.
    Aside,
    /// Not a candidate: spilled, claimed, fixed or without bytes.
    Off,
}

/// Whether a host copy is held. It is current while the buffer is spilled or clean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostCopy {
    /// None. A clean or spilled buffer without one has contents nobody needs.
    None,
    /// One is held.
    Held,
}

/// One buffer. `C` is what holds its word.
#[derive(Debug)]
pub struct Record<C> {
    /// What holds the word.
    pub cell: C,
    /// What it takes on the device.
    pub bytes: Bytes,
    /// The order of birth: breaks ties among victims.
    pub age: u64,
    /// Allocated never to move.
    pub fixed: bool,
    /// Not this crate's memory: counted apart.
    pub foreign: bool,
    /// How many exports live.
    pub exports: u32,
    /// Operations decided whose work is not queued yet; no pin is taken meanwhile.
    pub ops: u32,
    /// Host writes into the host copy under way; no restore starts meanwhile.
    pub holds: u32,
    /// Of its pins: those of launches that wait in a queue of their own, and will end by themselves.
    pub keepers: u32,
    /// How many requests that keep their buffers wait in the queue for it.
    pub wanted: u32,
    /// The stamp that the last hint gave it: as long as it has that, hints are not to spill it.
    pub hinted: Option<u64>,
    /// Has not had device memory yet: not counted as spilled, though its word says so.
    pub unborn: bool,
    /// In the decided book.
    pub present: bool,
    /// Holds device memory.
    pub memory: bool,
    /// Chosen to be spilled, and for whom.
    pub claimed: Option<Claim>,
    /// Its host copy was made ahead of need: a copy was not avoided, only made early.
    pub cleaned: bool,
    /// The copy out under way, by its token.
    pub copying: Option<u64>,
    /// The host copy.
    pub host: HostCopy,
    /// A grant that will bring it back is queued or issued.
    pub coming: bool,
    /// Has device memory with nothing in it, for a launch of this request that will overwrite it whole.
    pub room: Option<RequestId>,
    /// Had such room to itself, until another request came for the bytes that were there.
    pub lent: Option<RequestId>,
    /// A launch that holds a pin will write it, though it waits for nothing.
    pub written: bool,
    /// Requests that wait for it to be restored.
    pub waiters: Vec<RequestId>,
    /// Requests that wait for it to be spilled.
    pub spill_waiters: Vec<RequestId>,
    /// Where it stands with the search for victims.
    pub place: Place,
    /// Its trips to the host and back.
    pub trips: Trips,
    /// Its last handle is gone.
    pub dropped: bool,
    /// And every request asked for before that has been admitted: it is out of the decided book.
    pub departed: bool,
    /// And it is out of the books.
    pub settled: bool,
}

/// Why a buffer was chosen to be spilled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// The request that needs its room; none if asked for by name, or since the budget fell.
    pub request: Option<RequestId>,
    /// The refused grant that its room is for, by its serial.
    pub grant: Option<u64>,
    /// The order of claims.
    pub serial: u64,
    /// Its copy out for this claim has ended, or none is needed.
    pub copied: bool,
}

impl<C> Record<C> {
    pub(super) fn new(cell: C, bytes: Bytes, age: u64) -> Record<C> {
        Record {
            cell,
            bytes,
            age,
            fixed: false,
            foreign: false,
            exports: 0,
            ops: 0,
            holds: 0,
            keepers: 0,
            wanted: 0,
            hinted: None,
            unborn: false,
            present: true,
            memory: true,
            claimed: None,
            cleaned: false,
            copying: None,
            host: HostCopy::None,
            coming: false,
            room: None,
            lent: None,
            written: false,
            waiters: Vec::new(),
            spill_waiters: Vec::new(),
            place: Place::Off,
            trips: Trips::default(),
            dropped: false,
            departed: false,
            settled: false,
        }
    }
}

impl<C: WordCell> Record<C> {
    /// Whether it is on the device, and may leave that as far as it itself goes.
    pub(super) fn moves(&self) -> bool {
        let is_here = self.present && self.cell.load().phase() != Phase::Spilled;
        is_here && !self.fixed && !self.foreign && self.bytes > Bytes::ZERO
    }
}
