//! Where host copies live: pinned slabs that are cut into runs and reused.

mod bench;
mod runs;
mod steady;
