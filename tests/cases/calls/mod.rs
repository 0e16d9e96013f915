//! The calls of the API that the other tests meet only by the way: what each of them says, counts and refuses.

mod cpu;
mod deadlines;
mod errors;
mod foreign;
mod host_tier;
mod reports;
mod room;
