//! A vendor's library, initialised, and what is asked of it on the way to a device.
#![allow(unsafe_code)]

use super::{
    super::{
        DriverError, DriverErrorKind, Result,
        symbols::{Lookup, symbols},
    },
    symbols::{ExtraNames, Extras, Names, RELAXED, Symbols},
};
use std::{
    ffi::{CStr, c_char, c_int, c_uint},
    fmt,
};

symbols! {
    /// What is asked before there is a device.
    pub Calls, CallNames {
        init(c_uint);
        driver_version(*mut c_int);
        device_count(*mut c_int);
        device_name(*mut c_char, c_int, c_int);
        device_total(*mut usize, c_int);
        device_attribute(*mut c_int, c_int, c_int);
    }
}

/// A vendor's names of what both have.
#[derive(Debug)]
pub struct AllNames {
    pub calls: CallNames,
    pub symbols: Names,
    pub extras: ExtraNames,
}

/// What of a library differs between the vendors: its own calls, and how it speaks.
pub trait Dialect: fmt::Debug + Send + Sync + 'static {
    /// What the API is called.
    const API: &'static str;

    /// What a device is called that has no name.
    const DEVICE: &'static str;

    /// What to look at where there is no device.
    const ADVICE: &'static str;

    /// The attributes of a device's compute capability, the major part and the minor.
    const CAPABILITY: [c_int; 2];

    /// What it calls what both vendors have.
    const NAMES: AllNames;

    /// What a result code other than success asks for.
    fn kind(code: c_int) -> DriverErrorKind;

    /// A result code by its name and in words, if the library knows it.
    fn known(&self, code: c_int) -> Option<(String, String)>;
}

/// The library.
#[derive(Debug)]
pub struct Library<D> {
    pub calls: Calls,
    pub symbols: Symbols,
    pub extras: Extras,
    pub dialect: D,
}

impl<D: Dialect> Library<D> {
    /// Finds the calls that both vendors have.
    ///
    /// # Errors
    ///
    /// `Unavailable` with the first name that is not there.
    ///
    /// # Safety
    ///
    /// As for the tables: what `lookup` finds by a name is the function that the vendor documents by it, and stays loaded.
    pub unsafe fn find(dialect: D, lookup: Lookup<'_>) -> Result<Library<D>> {
        // SAFETY: the caller vouches for it.
        let calls = unsafe { Calls::resolve(&D::NAMES.calls, lookup) }?;
        // SAFETY: as above.
        let symbols = unsafe { Symbols::resolve(&D::NAMES.symbols, lookup) }?;
        // SAFETY: as above.
        let extras = unsafe { Extras::find(&D::NAMES.extras, lookup) };
        Ok(Library { calls, symbols, extras, dialect })
    }

    /// Initialises it. Called before every other call.
    pub fn init(&self) -> Result<()> {
        // SAFETY: the call takes no flags.
        let code = unsafe { (self.calls.init.call)(0) };
        self.opening(self.calls.init.name, code)
    }

    /// A call on the way to a device: refused, there is no such device.
    pub fn opening(&self, call: &'static str, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let advice = if [100, 101].contains(&code) { D::ADVICE } else { "" };
        let message = format!("{call} says {}{advice}", self.words(code));
        Err(DriverError::new(DriverErrorKind::Unavailable, call, code.into(), message))
    }

    pub fn count(&self) -> Result<u32> {
        let mut count = 0;
        // SAFETY: `count` is where the number goes.
        let code = unsafe { (self.calls.device_count.call)(&mut count) };
        self.opening(self.calls.device_count.name, code).map(|()| u32::try_from(count).unwrap_or_default())
    }

    /// A device's ordinal, if there is such a device.
    pub fn ordinal(&self, ordinal: u32) -> Result<c_int> {
        let count = self.count()?;
        let known = c_int::try_from(ordinal).ok().filter(|_| ordinal < count);
        known.ok_or_else(|| {
            let message =
                format!("there is no {} device {ordinal}: the driver has {count}, counted from 0", D::API);
            DriverError::new(DriverErrorKind::Unavailable, self.calls.device_count.name, 101, message)
        })
    }

    pub fn total(&self, device: c_int) -> Result<u64> {
        let mut bytes = 0usize;
        // SAFETY: `bytes` is where the number goes.
        let code = unsafe { (self.calls.device_total.call)(&mut bytes, device) };
        self.opening(self.calls.device_total.name, code).map(|()| bytes as u64)
    }

    pub fn attribute(&self, device: c_int, attribute: c_int) -> Option<c_int> {
        let mut value = 0;
        // SAFETY: `value` is where the number goes. A driver that does not know the attribute says so.
        let code = unsafe { (self.calls.device_attribute.call)(&mut value, attribute, device) };
        (code == 0).then_some(value)
    }

    /// A device's name and compute capability.
    pub fn describe(&self, device: c_int) -> String {
        let mut name = [0u8; 256];
        // SAFETY: `name` has as many bytes as are named, one less so that a zero ends them whatever is written.
        let code = unsafe {
            (self.calls.device_name.call)(name.as_mut_ptr().cast(), name.len() as c_int - 1, device)
        };
        let name = CStr::from_bytes_until_nul(&name).ok().filter(|name| code == 0 && !name.is_empty());
        let name = name.map_or(D::DEVICE.into(), CStr::to_string_lossy);
        let [major, minor] = D::CAPABILITY.map(|part| self.attribute(device, part).unwrap_or_default());
        format!("{name} (compute {major}.{minor})")
    }

    /// The driver's version as the vendor counts it; zero where it does not say.
    pub fn version(&self) -> c_int {
        let mut version = 0;
        // SAFETY: `version` is where the number goes.
        let _ = unsafe { (self.calls.driver_version.call)(&mut version) };
        version
    }

    /// From here on no graph that anyone captures forbids this thread a call; what was so before, if that was otherwise.
    pub fn relax(&self) -> Option<c_int> {
        self.exchange_mode(RELAXED).filter(|&before| before != RELAXED)
    }

    /// Sets which calls of this thread a capture forbids; what it was before.
    pub fn exchange_mode(&self, mut mode: c_int) -> Option<c_int> {
        let exchange = self.extras.exchange_mode?;
        // SAFETY: `mode` is where the number is, and where that of before goes.
        let code = unsafe { (exchange.call)(&mut mode) };
        (code == 0).then_some(mode)
    }

    /// A refused call, with what it says.
    pub fn error(&self, call: &'static str, code: c_int) -> DriverError {
        DriverError::new(D::kind(code), call, code.into(), self.words(code))
    }

    /// A result code in words.
    pub fn words(&self, code: c_int) -> String {
        match self.dialect.known(code) {
            Some((name, words)) if name == words => name,
            Some((name, words)) => format!("{words} ({name})"),
            None => format!("a code that this driver has no words for: {code}"),
        }
    }
}

/// A text of the vendor's, if there is one.
///
/// # Safety
///
/// What is not null ends with a zero and is never freed.
pub unsafe fn text(text: *const c_char) -> Option<String> {
    // SAFETY: the caller vouches for it.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}
