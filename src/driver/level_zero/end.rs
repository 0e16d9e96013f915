//! What a device leaves behind: given up once all that is queued has run.

use super::{
    super::{DevicePtr, Result, cache::Cache, queues::Held, queues::Queues, symbols::Handle},
    context::Context,
    list::{List, address},
};
use std::{sync::Arc, time::Duration};

/// How often it is looked whether what is queued has run.
const PAUSE: Duration = Duration::from_millis(1);

/// What belongs to a device that nobody has any more.
#[derive(Debug)]
pub(super) struct End {
    pub(super) queues: Queues<List>,
    pub(super) held: Vec<Held>,
    pub(super) cache: Cache,
    pub(super) context: Arc<Context>,
}

impl End {
    /// Gives it up, now if the device is idle, else on a thread of its own. What cannot be known to have run is left as it
    /// is until the process ends: its memory must not be used for anything else.
    pub(super) fn begin(self) {
        let Some(events) = self.events() else { return std::mem::forget(self) };
        match self.is_over(&events) {
            Some(true) => self.finish(),
            Some(false) => self.wait(events),
            None => std::mem::forget(self),
        }
    }

    fn wait(self, events: Vec<Handle>) {
        // A thread that is not started drops what it was to run, so it is handed over only once it runs.
        let (give, take) = std::sync::mpsc::channel::<End>();
        let thread = std::thread::Builder::new().name("tack end".to_owned());
        let started = thread.spawn(move || {
            let Ok(end) = take.recv() else { return };
            loop {
                match end.is_over(&events) {
                    Some(true) => return end.finish(),
                    Some(false) => std::thread::sleep(PAUSE),
                    None => return std::mem::forget(end),
                }
            }
        });
        if started.is_err() {
            return std::mem::forget(self);
        }
        if let Err(back) = give.send(self) {
            std::mem::forget(back.0);
        }
    }

    /// An event behind all that was queued, for each queue that was used; none if the driver takes no more.
    fn events(&self) -> Option<Vec<Handle>> {
        let used = self.queues.all().map(|(_, queue)| &queue.stream).filter(|list| list.is_used());
        used.map(|list| {
            let event = self.context.new_event().ok()?;
            list.signal_end(&self.context, event).then_some(event)
        })
        .collect()
    }

    /// Whether all of them are signalled; none if the driver does not say.
    fn is_over(&self, events: &[Handle]) -> Option<bool> {
        events.iter().try_fold(true, |over, &event| Some(over & self.context.query(event).ok()?))
    }

    fn finish(self) {
        for (_, queue) in self.queues.all() {
            queue.stream.destroy(&self.context);
        }
        // Kernels, pinned memory.
        drop((self.queues, self.held));
        for ptr in self.cache.drain() {
            // What is refused now is refused for good.
            let _ = release(&self.context, ptr);
        }
    }
}

/// Gives a block that the cache keeps back to the device.
pub(super) fn release(context: &Context, ptr: DevicePtr) -> Result<()> {
    context.free(Handle(address(ptr)))
}
