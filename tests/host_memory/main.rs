//! Where host copies live: pinned slabs that are cut into runs and reused.

mod bench;
mod pieces;
#[path = "../cases/random.rs"]
mod random;
mod ring;
mod runs;
mod steady;
