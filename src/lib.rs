//! Keeps more GPU arrays alive than a GPU can hold.

pub mod driver;
mod engine;
mod residency;
