//! All that the library knows, and what is current on a thread.

use super::{
    allocation::Allocation,
    block::Block,
    capture::{Capture, Launches},
    code::{self, Answer},
    context::Context,
    device::{Device, is_lost},
    event::Event,
    handles::Handles,
    kernels::Kernel,
    module::Module,
    open::{self, Open},
    pool::Pool,
    refusals::Refusals,
    settings::settings,
    stream::Stream,
};
use crate::VENDOR;
use std::{
    cell::Cell,
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};
use tack_residency::driver::{DevicePtr, sim::Sim};

thread_local! {
    /// The current context's handle, or, where contexts are implicit, the current device's number.
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// What is current on this thread. "Context Management": each thread has a stack of contexts of its own.
pub fn current() -> usize {
    CURRENT.get()
}

/// Makes something current on this thread.
pub fn set_current(what: usize) {
    CURRENT.set(what);
}

/// The library, once it is first called.
#[derive(Debug)]
pub struct Library {
    pub refusals: Refusals,
    state: Mutex<State>,
    /// Taken before the state, and kept while a context's device is waited for.
    contexts: Mutex<()>,
}

/// All that is open.
#[derive(Debug)]
pub struct State {
    pub initialised: bool,
    /// Those with a context that is held.
    pub devices: Vec<Option<Device>>,
    pub contexts: Handles<Context>,
    pub streams: Handles<Stream>,
    pub events: Handles<Event>,
    pub pools: Handles<Pool>,
    pub modules: Handles<Module>,
    pub functions: Handles<(usize, Kernel)>,
    /// Both kinds: as they were captured, and executable.
    pub graphs: Handles<Arc<Launches>>,
    /// By stream.
    pub captures: BTreeMap<usize, Capture>,
    pub allocations: BTreeMap<DevicePtr, Allocation>,
    pub pinned: BTreeMap<usize, Block>,
    /// What contexts still had when they were given up.
    pub abandoned: Open,
}

/// Where a call is: in a context of a device that is not lost.
#[derive(Clone, Debug)]
pub struct Here {
    pub context: usize,
    pub device: usize,
    pub sim: Arc<Sim>,
}

impl Library {
    pub fn get() -> &'static Library {
        static LIBRARY: OnceLock<Library> = OnceLock::new();
        LIBRARY.get_or_init(|| {
            open::report_at_exit();
            let refusals = Refusals::parse(&settings().refuse);
            Library { refusals, state: Mutex::new(State::new()), contexts: Mutex::default() }
        })
    }

    /// Never held while the device is waited for.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps others from holding or giving up a context meanwhile.
    pub fn turn_of_contexts(&self) -> MutexGuard<'_, ()> {
        self.contexts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn init(&self, flags: u32) -> Answer {
        // "Initialization", cuInit: flags must be zero.
        if flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        if settings().devices == 0 {
            return Err(VENDOR.without_device.0);
        }
        self.lock().initialised = true;
        Ok(())
    }

    pub fn check_initialised(&self) -> Answer {
        match settings().devices {
            0 if VENDOR.implicit => Err(VENDOR.without_device.1),
            _ if VENDOR.implicit || self.lock().initialised => Ok(()),
            _ => Err(code::NOT_INITIALISED),
        }
    }

    /// Where this call is, and the state.
    pub fn enter(&self) -> Answer<(MutexGuard<'_, State>, Here)> {
        let mut state = self.lock();
        let here = state.here()?;
        Ok((state, here))
    }
}

impl State {
    fn new() -> State {
        let mut contexts = Handles::new(1);
        let devices = settings().devices;
        for device in 0..devices {
            contexts.add(Context::new(device, true));
        }
        State {
            initialised: false,
            devices: (0..devices).map(|_| None).collect(),
            contexts,
            streams: Handles::new(2),
            events: Handles::new(3),
            pools: Handles::new(4),
            modules: Handles::new(5),
            functions: Handles::new(6),
            graphs: Handles::new(7),
            captures: BTreeMap::new(),
            allocations: BTreeMap::new(),
            pinned: BTreeMap::new(),
            abandoned: Open::default(),
        }
    }

    /// The handle of a device's primary context.
    pub fn primary(&self, device: usize) -> Answer<usize> {
        let mut contexts = self.contexts.iter();
        let found = contexts.find(|(_, context)| context.primary && context.device == device);
        found.map(|(handle, _)| handle).ok_or(code::INVALID_DEVICE)
    }

    /// The handle of a device's primary context, held from now on if nobody holds it yet.
    pub fn implicit(&mut self, device: usize) -> Answer<usize> {
        let context = self.primary(device)?;
        if self.contexts.get(context)?.held == 0 {
            self.hold(context)?;
        }
        Ok(context)
    }

    /// A device that is in use, brought up if it is not.
    pub fn device(&mut self, device: usize) -> Answer<&mut Device> {
        let found = self.devices.get_mut(device).ok_or(code::INVALID_DEVICE)?;
        if found.is_none() {
            *found = Some(Device::open(device).map_err(|error| code::of(&error))?);
        }
        found.as_mut().ok_or(code::UNKNOWN)
    }

    /// "Error Handling", CUDA_ERROR_ILLEGAL_ADDRESS and its like leave the process in an inconsistent state: every later
    /// call says the same, until the context is gone.
    fn here(&mut self) -> Answer<Here> {
        let context = match (VENDOR.implicit, current()) {
            (true, device) => self.implicit(device)?,
            (false, 0) => return Err(code::INVALID_CONTEXT),
            (false, context) => context,
        };
        let known = self.contexts.get(context).map_err(|_| code::CONTEXT_IS_DESTROYED)?;
        if known.held == 0 {
            return Err(code::CONTEXT_IS_DESTROYED);
        }
        let device = known.device;
        let sim = Arc::clone(&self.device(device)?.sim);
        if is_lost(&sim) {
            return Err(code::ILLEGAL_ADDRESS);
        }
        Ok(Here { context, device, sim })
    }
}
