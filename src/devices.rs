//! The devices that can be opened by name.

use crate::{
    driver::{
        self, Driver,
        cpu::Cpu,
        sim::{Config, Sim},
    },
    engine::{Engine, Owner},
    error::{Error, ErrorKind, Result},
    residency::Bytes,
};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::{Duration, Instant},
};

/// A device that [`Device::open`](crate::Device::open) knows by name; or why there is none of a kind.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct DeviceInfo {
    /// What to open it by.
    pub name: String,
    /// Its kind: `cuda`, `hip`, `level_zero`, `sim`, `cpu` or `metal`.
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

/// A kind of GPU, known by its driver.
struct Kind {
    name: &'static str,
    /// How many devices there are of it.
    count: fn() -> driver::Result<u32>,
    open: fn(u32) -> driver::Result<Arc<dyn Driver>>,
}

/// The kinds of GPUs, in the order in which `auto` looks for one.
const KINDS: &[Kind] = &[
    #[cfg(feature = "cuda")]
    Kind {
        name: "cuda",
        count: driver::cuda::Cuda::count,
        open: |which| Ok(driver::cuda::Cuda::open(which)?),
    },
    #[cfg(feature = "hip")]
    Kind { name: "hip", count: driver::hip::Hip::count, open: |which| Ok(driver::hip::Hip::open(which)?) },
    #[cfg(feature = "level-zero")]
    Kind {
        name: "level_zero",
        count: driver::level_zero::LevelZero::count,
        open: |which| Ok(driver::level_zero::LevelZero::open(which)?),
    },
];

impl Kind {
    fn open(&self, which: u32) -> Result<Arc<dyn Driver>> {
        (self.open)(which).map_err(Error::from)
    }

    /// Its devices; or why there are none.
    fn devices(&self) -> Vec<DeviceInfo> {
        match (self.count)() {
            Ok(count) => (0..count)
                .map(|which| DeviceInfo::of(format!("{}:{which}", self.name), self.name, self.open(which)))
                .collect(),
            Err(error) => vec![DeviceInfo::of(self.name.to_owned(), self.name, Err(error.into()))],
        }
    }
}

/// What needs no vendor's library.
const ALWAYS: &[&str] =
    if cfg!(target_vendor = "apple") { &["sim", "cpu", "metal"] } else { &["sim", "cpu"] };

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
    let always = ALWAYS.iter().map(|name| DeviceInfo::of((*name).to_owned(), name, open(name)));
    KINDS.iter().flat_map(Kind::devices).chain(always).collect()
}

/// The name of a device that another is near to: in capitals, or with a hyphen.
fn meant(name: &str) -> Option<String> {
    let near = name.to_lowercase().replace('-', "_");
    let kind = near.split(':').next().unwrap_or_default();
    let is_known = KINDS.iter().any(|known| known.name == kind) || ALWAYS.contains(&kind) || kind == "auto";
    (is_known && near != name).then_some(near)
}

/// An ordinal, as it is written: a device has one name.
fn ordinal(text: &str) -> Option<u32> {
    text.parse().ok().filter(|which: &u32| which.to_string() == text)
}

/// The driver of a device by its name.
pub(crate) fn open(name: &str) -> Result<Arc<dyn Driver>> {
    let (kind, which) = name.split_once(':').map_or((name, None), |(kind, which)| (kind, Some(which)));
    if let Some(kind) = KINDS.iter().find(|known| known.name == kind)
        && let Some(which) = which.map_or(Some(0), ordinal)
    {
        return kind.open(which);
    }
    Ok(match (kind, which) {
        ("sim", None) => Sim::open(Config::new())?,
        ("sim", Some(profile)) => Sim::open(Config::profile(profile)?)?,
        ("cpu", None) => Cpu::open(),
        #[cfg(target_vendor = "apple")]
        ("metal", None) => driver::metal::Metal::open()?,
        _ => {
            let gpus: String =
                KINDS.iter().map(|Kind { name, .. }| format!("`{name}`, `{name}:ORDINAL`, ")).collect();
            let counting = if cfg!(target_vendor = "apple") {
                "`cpu`, `metal`"
            } else {
                "`cpu` (`metal` on Apple's systems alone)"
            };
            let meant = meant(name).map(|meant| format!(" (is `{meant}` meant?)")).unwrap_or_default();
            let what = format!(
                "no device is called {name:?}{meant}: there are {gpus}`sim`, `sim:PROFILE`, {counting} and `auto`"
            );
            return Err(Error::new(ErrorKind::Unavailable, what));
        }
    })
}

/// Who manages a device, and what has its memory for as long as that lives.
type Manager = (Weak<Owner>, Weak<Engine>);

/// What manages each physical device of this process.
static MANAGED: Mutex<BTreeMap<String, Manager>> = Mutex::new(BTreeMap::new());

/// How long a device that was closed at work is waited for before it is opened again.
const CLOSING: Duration = Duration::from_secs(10);

/// The manager of a device: the one there is, if it is a physical one, or what `open` gives.
///
/// Two that do not know of each other's memory would each spill for what the other holds. One that is closed and still has
/// work is waited for: what it holds is not free yet.
pub(crate) fn managed(
    identity: Option<String>,
    is_plain: bool,
    open: impl FnOnce() -> Result<Arc<Owner>>,
) -> Result<Arc<Owner>> {
    let Some(identity) = identity else { return open() };
    let end = Instant::now() + CLOSING;
    loop {
        let mut managed = MANAGED.lock().unwrap_or_else(PoisonError::into_inner);
        let (owner, engine) = managed.get(&identity).cloned().unwrap_or_default();
        // One whose device was lost manages nothing any more.
        match owner.upgrade().filter(|owner| owner.engine.lost().is_none()) {
            Some(owner) if is_plain => return Ok(owner),
            Some(owner) => {
                let what = format!(
                    "{identity} is managed in this process already, as {:?}: clone that device, or open it with no \
                     options to share it",
                    owner.engine.settings.name
                );
                return Err(Error::misuse(what));
            }
            None if owner.strong_count() == 0 && engine.strong_count() > 0 && Instant::now() < end => {}
            None => {
                let owner = open()?;
                managed.insert(identity, (Arc::downgrade(&owner), Arc::downgrade(&owner.engine)));
                return Ok(owner);
            }
        }
        drop(managed);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The first GPU, and its name, if one opens; the simulated one if there is none, which is said aloud.
pub(crate) fn open_first() -> Result<(String, Arc<dyn Driver>)> {
    let mut reasons = Vec::new();
    for kind in KINDS {
        match kind.open(0) {
            Ok(driver) => return Ok((format!("{}:0", kind.name), driver)),
            Err(error) => reasons.push(format!("{}: {error}", kind.name)),
        }
    }
    if !reasons.is_empty() {
        let error = reasons.join("; ");
        tracing::warn!(target: "tack_residency", error, "no GPU: its memory is simulated");
    }
    Ok(("sim".to_owned(), open("sim")?))
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

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;
    use crate::Device;

    fn open(identity: Option<&str>, is_plain: bool) -> Result<Device> {
        let another = || Ok(Device::open("sim")?.owner().clone());
        managed(identity.map(str::to_owned), is_plain, another).map(Device::from_owner)
    }

    #[test]
    fn a_physical_device_has_one_manager_at_a_time() {
        let first = open(Some("test:0"), false).expect("nobody has it");
        let buffer = first.alloc(4096).wait().expect("room");
        let second = open(Some("test:0"), true).expect("it is shared");
        assert_eq!(second.memory_info().in_use, 4096);
        let other = open(Some("test:1"), true).expect("another device");
        assert_eq!(other.memory_info().in_use, 0);
        let error = open(Some("test:0"), false).expect_err("it is open with other options");
        assert_eq!(error.kind(), ErrorKind::Misuse);
        assert!(error.to_string().contains("test:0") && error.to_string().contains("\"sim\""), "{error}");
        drop((first, second));
        assert!(open(Some("test:0"), false).is_err(), "its buffer lives");
        drop(buffer);
        let again = open(Some("test:0"), false).expect("it was given up");
        assert_eq!(again.memory_info().in_use, 0);
    }

    #[test]
    fn an_ordinal_is_written_in_one_way() {
        for kind in KINDS {
            for which in ["", "+0", "00", " 0", "-1", "4294967296", "0:0"] {
                let error =
                    super::open(&format!("{}:{which}", kind.name)).expect_err("no device is called so");
                assert!(error.to_string().contains("no device is called"), "{error}");
            }
        }
    }

    #[test]
    fn simulated_devices_are_each_their_own() {
        let [first, second] = [(); 2].map(|()| open(None, true).expect("a device"));
        drop(first.alloc(4096).wait().expect("room"));
        assert_eq!(second.memory_info().peak, 0);
    }
}
