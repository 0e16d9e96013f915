//! One device's context in the driver library, and what of it cudarc was given.
#![allow(unsafe_code)]

use super::{
    super::{
        QueueId, Result,
        cuda_like::{PeerCopy, Vendor},
        symbols::Handle,
    },
    library::{self, Library},
};
use cudarc::driver::{CudaContext, CudaStream};
use std::{
    collections::BTreeMap,
    ffi::c_int,
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

/// What is CUDA's alone of a device.
pub struct Api {
    library: &'static Library,
    device: c_int,
    ordinal: u32,
    context: Handle,
    given: Given,
    cudarc: OnceLock<Arc<CudaContext>>,
    /// The wrappers that were handed out, by queue.
    streams: Mutex<BTreeMap<u32, Arc<CudaStream>>>,
}

/// Whose hold of the context this is.
#[derive(Debug)]
pub(super) enum Given {
    /// The primary context, retained here.
    Retained,
    /// A context of the program's.
    Context(Arc<CudaContext>),
}

impl Api {
    /// From here on the context is given up with this value.
    pub(super) fn new(
        library: &'static Library,
        device: c_int,
        ordinal: u32,
        context: Handle,
        given: Given,
    ) -> Api {
        let (cudarc, streams) = (OnceLock::new(), Mutex::default());
        Api { library, device, ordinal, context, given, cudarc, streams }
    }

    /// The context, as cudarc has it.
    pub(super) fn cudarc(&self) -> Result<Arc<CudaContext>> {
        if let Given::Context(context) = &self.given {
            return Ok(Arc::clone(context));
        }
        if let Some(context) = self.cudarc.get() {
            return Ok(Arc::clone(context));
        }
        let made = CudaContext::new(self.ordinal as usize).map_err(|error| {
            let code = error.0 as c_int;
            self.library.error(self.library.dialect.calls.context_retain.name, code)
        })?;
        Ok(Arc::clone(self.cudarc.get_or_init(|| made)))
    }

    /// A queue's stream, as cudarc has it.
    pub(super) fn wrapped(&self, queue: QueueId, stream: Handle) -> Result<Arc<CudaStream>> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = streams.get(&queue.0) {
            return Ok(Arc::clone(stream));
        }
        let context = self.cudarc()?;
        // SAFETY: the stream is this context's, and is not destroyed while anyone but this table has the wrapper. Who
        // queues on it keeps to what the driver's trait asks for.
        let wrapped = unsafe { context.wrap_borrowed_stream(stream.0.cast()) };
        streams.insert(queue.0, Arc::clone(&wrapped));
        Ok(wrapped)
    }
}

impl Vendor for Api {
    type Dialect = library::Cuda;
    type Place = Handle;

    fn library(&self) -> &Library {
        self.library
    }

    fn own(&self) -> Handle {
        self.context
    }

    fn current(&self) -> Result<Handle> {
        let (call, mut context) = (self.library.dialect.calls.context_current, Handle::NULL);
        // SAFETY: `context` is where the handle goes.
        match unsafe { (call.call)(&mut context) } {
            0 => Ok(context),
            code => Err(self.library.error(call.name, code)),
        }
    }

    fn set_current(&self, what: Handle) -> Result<()> {
        let call = self.library.dialect.calls.context_set;
        // SAFETY: the context is this device's, or was current on this thread when its call began.
        match unsafe { (call.call)(what) } {
            0 => Ok(()),
            code => Err(self.library.error(call.name, code)),
        }
    }

    fn peer_copy(&self) -> Option<PeerCopy<Handle>> {
        self.library.dialect.peer_calls.map(|calls| calls.copy)
    }

    fn place(&self) -> Handle {
        self.context
    }

    fn let_go(&self, index: usize) -> bool {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever still has the wrapper may queue on it, so its stream stays for good.
        streams.remove(&(index as u32)).is_none_or(|stream| Arc::into_inner(stream).is_some())
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        if let Given::Retained = self.given {
            // SAFETY: the context was retained once for this value.
            let _ = unsafe { (self.library.dialect.calls.context_release.call)(self.device) };
        }
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("ordinal", &self.ordinal).finish_non_exhaustive()
    }
}
