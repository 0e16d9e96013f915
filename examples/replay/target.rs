//! The device that a program is replayed on.

use crate::options::{Bytes, Mode, Options, WriteBack};
use std::{sync::Arc, time::Duration};
use tack_residency::{
    Device, Options as DeviceOptions, blocking,
    driver::{
        Driver,
        sim::{Clock, Config, Contents, Sim, Trace},
    },
};

/// Room on a simulated device for any program: what ends it is the budget.
const CAPACITY: u64 = 1 << 60;

/// Requests wait for as long as the program takes: the launches that stand in their way are its own.
const PATIENCE: Duration = Duration::from_secs(1_000_000);

/// With write-back, buffers are cleaned from less than the first percentage free or clean, until the second is.
const MARKS: (u8, u8) = (10, 20);

/// An open device, by the API that it is called through.
#[derive(Clone, Debug)]
pub enum Target {
    Async(Device),
    Facade(blocking::Device),
}

impl Target {
    /// Opens the device of the command line under a budget.
    ///
    /// # Errors
    ///
    /// There is none of that name, or it cannot do what is asked.
    pub fn open(options: &Options, budget: Option<u64>) -> Result<Target, String> {
        let set = |device: DeviceOptions| {
            let device = device.maybe_budget(budget).policy(options.policy).victims(options.victims);
            let device = device.stall_after(PATIENCE);
            if options.write_back == WriteBack::On { device.write_back(MARKS.0, MARKS.1) } else { device }
        };
        let driver = simulated(options)?;
        let (name, set_up) = (&options.device, (Device::options(), blocking::Device::options()));
        match (options.mode, driver) {
            (Mode::Async, Some(driver)) => set(set_up.0).open_driver(name, driver).map(Target::Async),
            (Mode::Async, None) => set(set_up.0).open(name).map(Target::Async),
            (Mode::Facade, Some(driver)) => set_up.1.with(set).open_driver(name, driver).map(Target::Facade),
            (Mode::Facade, None) => set_up.1.with(set).open(name).map(Target::Facade),
        }
        .map_err(|error| error.to_string())
    }

    /// What does not wait is the same in both.
    pub fn device(&self) -> &Device {
        match self {
            Target::Async(device) => device,
            Target::Facade(device) => device,
        }
    }

    /// What a simulated device knows more.
    pub fn sim(device: &Device) -> Option<&Sim> {
        device.driver().as_any().downcast_ref()
    }
}

/// The driver of a simulated device, none for another.
fn simulated(options: &Options) -> Result<Option<Arc<dyn Driver>>, String> {
    let config = match options.device.split_once(':') {
        None if options.device == "sim" => Config::new().with_granularity(1),
        Some(("sim", profile)) => {
            Config::profile(profile).map_err(|error| tack_residency::Error::from(error).to_string())?
        }
        _ if options.clock == Some(Clock::Computed) => {
            return Err(format!("--clock computed: {} has no such clock, sim has", options.device));
        }
        _ if options.bytes == Some(Bytes::None) => {
            return Err(format!("--bytes none: {} holds its bytes, sim need not", options.device));
        }
        _ => return Ok(None),
    };
    let contents = if options.holds() { Contents::Held } else { Contents::NotHeld };
    let clock = options.clock.unwrap_or(config.clock);
    let config = config.with_capacity(CAPACITY).with_contents(contents).with_clock(clock);
    let sim = Sim::open(config.with_trace(Trace::Recorded)).map_err(|error| error.to_string())?;
    Ok(Some(sim))
}
