//! Carves memory that others own: offsets and lengths, and no memory, lock or driver.

mod slabs;

pub use slabs::{BLOCK, Run, Slabs};
