//! What broke elsewhere: one test for each kind of fault that users of comparable systems met, named for what went
//! wrong, with its neighbours.

mod aliases;
mod bench;
mod bytes;
mod calls;
mod counts;
mod deadlock;
mod drains;
mod nested;
mod overlap;
mod pressure;
mod random;
mod reads;
mod recorder;
mod reuse;
mod wakers;
