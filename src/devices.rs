//! The devices that can be opened by name.

use crate::{
    driver::{
        Driver,
        cpu::Cpu,
        sim::{Config, Sim},
    },
    error::{Error, ErrorKind, Result},
    residency::Bytes,
};
use std::{fmt, sync::Arc};

/// A device that [`Device::open`](crate::Device::open) knows by name; or why there is none of a kind.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct DeviceInfo {
    /// What to open it by.
    pub name: String,
    /// Its kind: `cuda`, `sim` or `cpu`.
    pub backend: &'static str,
    /// What it is, in its driver's words.
    pub description: String,
    /// Its memory in bytes, where the driver can say.
    pub total_bytes: Option<u64>,
    /// What of that is free now, where the driver can say.
    pub free_bytes: Option<u64>,
    /// Whether its buffers can be spilled to host memory.
    pub spills: bool,
    /// Why it cannot be opened, if it cannot.
    pub unavailable: Option<String>,
}

/// The devices of this machine, those with GPUs first, then the simulated one and the host's own memory; and, for each kind
/// of driver that is not here, one entry that says what was tried.
///
/// A device is opened and closed again to ask it what is free.
///
/// ```
/// use tack_residency::{Device, DeviceInfo, devices};
///
/// let found: Vec<DeviceInfo> = devices();
/// for device in &found {
///     println!("{device}");
///     assert_eq!(Device::open(&device.name).is_ok(), device.unavailable.is_none());
/// }
/// let spilling = found.iter().find(|device| device.spills); // at least the simulated one
/// assert!(spilling.is_some_and(|device| device.total_bytes > Some(0)));
/// ```
pub fn devices() -> Vec<DeviceInfo> {
    let always = ["sim", "cpu"].map(|name| DeviceInfo::of(name.to_owned(), name, open(name)));
    cuda_devices().into_iter().chain(always).collect()
}

#[cfg(not(feature = "cuda"))]
fn cuda_devices() -> Vec<DeviceInfo> {
    Vec::new()
}

#[cfg(feature = "cuda")]
fn cuda_devices() -> Vec<DeviceInfo> {
    use crate::driver::cuda::Cuda;
    let opened = |ordinal| Cuda::open(ordinal).map(|driver| driver as Arc<dyn Driver>);
    match Cuda::count() {
        Ok(count) => (0..count)
            .map(|ordinal| {
                DeviceInfo::of(format!("cuda:{ordinal}"), "cuda", opened(ordinal).map_err(Error::from))
            })
            .collect(),
        Err(error) => vec![DeviceInfo::of("cuda".to_owned(), "cuda", Err(error.into()))],
    }
}

/// The driver of a device by its name.
pub(crate) fn open(name: &str) -> Result<Arc<dyn Driver>> {
    Ok(match name.split_once(':').map_or((name, None), |(kind, which)| (kind, Some(which))) {
        ("sim", None) => Sim::open(Config::new())?,
        ("sim", Some(profile)) => Sim::open(Config::profile(profile)?)?,
        ("cpu", None) => Cpu::open(),
        #[cfg(feature = "cuda")]
        ("cuda", which) if which.is_none_or(|which| which.parse::<u32>().is_ok()) => {
            crate::driver::cuda::Cuda::open(which.and_then(|which| which.parse().ok()).unwrap_or(0))?
        }
        _ => {
            let cuda = if cfg!(feature = "cuda") { "`cuda`, `cuda:ORDINAL`, " } else { "" };
            let what = format!(
                "no device is called {name:?}: there are {cuda}`sim`, `sim:PROFILE`, `cpu` and `auto`"
            );
            return Err(Error::new(ErrorKind::Unavailable, what));
        }
    })
}

/// The first GPU, and its name, if it opens; the simulated one if there is none, which is said aloud.
pub(crate) fn open_first() -> Result<(&'static str, Arc<dyn Driver>)> {
    #[cfg(feature = "cuda")]
    match open("cuda") {
        Ok(driver) => return Ok(("cuda:0", driver)),
        Err(error) => tracing::warn!(target: "tack_residency", %error, "no GPU: its memory is simulated"),
    }
    Ok(("sim", open("sim")?))
}

impl DeviceInfo {
    fn of(name: String, backend: &'static str, opened: Result<Arc<dyn Driver>>) -> DeviceInfo {
        match opened {
            Ok(driver) => {
                let memory = driver.memory();
                DeviceInfo {
                    name,
                    backend,
                    description: driver.description(),
                    total_bytes: memory.total,
                    free_bytes: memory.free,
                    spills: driver.caps().spills,
                    unavailable: None,
                }
            }
            Err(error) => DeviceInfo {
                name,
                backend,
                description: String::new(),
                total_bytes: None,
                free_bytes: None,
                spills: false,
                unavailable: Some(error.to_string()),
            },
        }
    }
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DeviceInfo { name, description, total_bytes, free_bytes, spills, unavailable, .. } = self;
        if let Some(why) = unavailable {
            return write!(f, "{name:<8} unavailable: {why}");
        }
        write!(f, "{name:<8} {description}")?;
        if let Some(total) = total_bytes {
            write!(f, ", {}", Bytes(*total))?;
        }
        if let Some(free) = free_bytes {
            write!(f, ", {} free", Bytes(*free))?;
        }
        if *spills { Ok(()) } else { f.write_str(", counts and never spills") }
    }
}
