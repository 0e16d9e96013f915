//! Which calls fail, and how: as a script says, or by a seed.

use crate::driver::DriverErrorKind;
use std::time::Duration;

/// A kind of call that may fail.
///
/// ```
/// use tack_residency::driver::fault::Call;
///
/// assert_eq!(Call::CopyOut.name(), "copy_out");
/// assert_eq!(Call::ALL.len(), 15);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)]
pub enum Call {
    CreateQueue,
    Allocate,
    Free,
    Trim,
    AllocateHost,
    CopyOut,
    CopyIn,
    Copy,
    Fill,
    LaunchHost,
    Record,
    Wait,
    IsPassed,
    CopyToPeer,
    Drain,
}

impl Call {
    /// Every kind.
    pub const ALL: [Call; 15] = [
        Call::CreateQueue,
        Call::Allocate,
        Call::Free,
        Call::Trim,
        Call::AllocateHost,
        Call::CopyOut,
        Call::CopyIn,
        Call::Copy,
        Call::Fill,
        Call::LaunchHost,
        Call::Record,
        Call::Wait,
        Call::IsPassed,
        Call::CopyToPeer,
        Call::Drain,
    ];

    /// The call as the trait names it.
    pub const fn name(self) -> &'static str {
        match self {
            Call::CreateQueue => "create_queue",
            Call::Allocate => "allocate",
            Call::Free => "free",
            Call::Trim => "trim",
            Call::AllocateHost => "allocate_host",
            Call::CopyOut => "copy_out",
            Call::CopyIn => "copy_in",
            Call::Copy => "copy",
            Call::Fill => "fill",
            Call::LaunchHost => "launch_host",
            Call::Record => "record",
            Call::Wait => "wait",
            Call::IsPassed => "is_passed",
            Call::CopyToPeer => "copy_to_peer",
            Call::Drain => "drain",
        }
    }
}

/// What happens to a call.
///
/// ```
/// use std::time::Duration;
/// use tack_residency::driver::{DriverErrorKind, fault::{Call, Effect, Step}};
///
/// let script = [
///     Step::new(Call::CopyOut, 0, Effect::Delay(Duration::from_millis(1))),
///     Step::new(Call::CopyOut, 1, Effect::Refuse(DriverErrorKind::Refused)),
///     Step::new(Call::CopyOut, 2, Effect::Lose),
/// ];
/// # let _ = script;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Effect {
    /// It is refused with an error of this kind, and does nothing.
    Refuse(DriverErrorKind),
    /// It is made after this long: a sleep on a real clock, a charge on a computed one.
    Delay(Duration),
    /// It finds the device lost, and so does every later call.
    Lose,
}

/// What happens to one call: the `nth` of its kind, the first being number 0.
///
/// ```
/// use tack_residency::{Device, ErrorKind, driver::{fault::{Call, Effect, Fault, Step}, sim::{Config, Sim}}};
///
/// let driver = Fault::new(Sim::open(Config::new())?, [Step::new(Call::CopyOut, 0, Effect::Lose)]);
/// let device = Device::options().open_driver("sim", driver)?;
/// let buffer = device.alloc(4096).wait()?;
/// assert_eq!(buffer.spill().wait().unwrap_err().kind(), ErrorKind::DeviceLost);
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Step {
    /// The kind of call.
    pub call: Call,
    /// Which of them.
    pub nth: u64,
    /// What happens to it.
    pub effect: Effect,
}

impl Step {
    /// What happens to the `nth` call of a kind.
    pub const fn new(call: Call, nth: u64, effect: Effect) -> Step {
        Step { call, nth, effect }
    }
}

#[derive(Debug)]
pub(super) enum Plan {
    Script(Vec<Step>),
    Random { seed: u64, one_in: u64, calls: Vec<Call> },
}

impl Plan {
    /// What happens to the `nth` call of a kind.
    pub(super) fn effect(&self, call: Call, nth: u64) -> Option<Effect> {
        match self {
            Plan::Script(steps) => {
                steps.iter().find(|step| (step.call, step.nth) == (call, nth)).map(|step| step.effect)
            }
            Plan::Random { seed, one_in, calls } => {
                let chosen = calls.contains(&call) && mix(*seed, call, nth).is_multiple_of(*one_in);
                let kind = match call {
                    Call::Allocate | Call::AllocateHost => DriverErrorKind::OutOfMemory,
                    _ => DriverErrorKind::Refused,
                };
                chosen.then_some(Effect::Refuse(kind))
            }
        }
    }
}

/// A number that looks random, for one call (the finalizer of splitmix64).
fn mix(seed: u64, call: Call, nth: u64) -> u64 {
    let step = nth.wrapping_mul(Call::ALL.len() as u64).wrapping_add(call as u64 + 1);
    let mut mixed = seed.wrapping_add(step.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
