//! What the environment says of the machine that is simulated, read when the library is first called.

use crate::VENDOR;
use std::{env, ffi::c_int, str::FromStr, sync::OnceLock};

/// The simulated machine.
#[derive(Debug)]
pub struct Settings {
    /// `TACK_SIM_DEVICES`: how many devices there are; one.
    pub devices: usize,
    /// `TACK_SIM_CAPACITY`: each device's memory, in bytes; 8 GiB.
    pub capacity: u64,
    /// `TACK_SIM_POOLS`: whether they have stream-ordered pools, `1` or `0`; the first.
    pub pools: bool,
    /// `TACK_SIM_VERSION`: the driver's version, as its vendor counts.
    pub version: c_int,
    /// `TACK_SIM_REFUSE`: calls to refuse, as [`Refusals::parse`](super::refusals::Refusals::parse) takes them.
    pub refuse: String,
    /// `TACK_SIM_REPORT`: lines on standard error at the process's end say what was called and what is still open; `1` or
    /// `0`, the second.
    pub report: bool,
}

/// The settings of this process.
///
/// # Panics
///
/// If one of them is not a number.
pub fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| Settings {
        devices: number("DEVICES", 1),
        capacity: number("CAPACITY", 8 << 30),
        pools: number("POOLS", 1) == 1,
        version: number("VERSION", VENDOR.version),
        refuse: env::var("TACK_SIM_REFUSE").unwrap_or_default(),
        report: number("REPORT", 0) == 1,
    })
}

fn number<T: FromStr>(name: &str, otherwise: T) -> T {
    let name = format!("TACK_SIM_{name}");
    match env::var(&name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text:?}")),
        Err(_) => otherwise,
    }
}
