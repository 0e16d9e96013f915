//! A hold: a buffer is on its device, and pinned there, until the hold is dropped.

use crate::{
    buffer::Buffer,
    engine::{Cell, Holder, Wait},
    error::Result,
    operation::poll_request,
    residency::{Ask, Want},
};
use std::{
    panic::Location,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

/// What asks for a hold.
#[derive(Debug)]
pub(crate) struct TakeHold {
    writes: bool,
    wait: Option<Box<Wait>>,
    what: &'static str,
    place: &'static Location<'static>,
}

impl TakeHold {
    /// For someone who may write the buffer: `what`, asked for at `place`.
    pub(crate) fn writing(what: &'static str, place: &'static Location<'static>) -> TakeHold {
        TakeHold { writes: true, wait: None, what, place }
    }

    /// For someone who does not, or says so when it is written: a host copy stays what it is.
    pub(crate) fn reading(what: &'static str, place: &'static Location<'static>) -> TakeHold {
        TakeHold { writes: false, ..TakeHold::writing(what, place) }
    }

    /// Goes on. `name` is the call's, for messages.
    pub(crate) fn poll(
        &mut self,
        buffer: &Buffer,
        name: &str,
        cx: &mut Context<'_>,
        patience: Option<Duration>,
    ) -> Poll<Result<Hold>> {
        let (device, cell) = (buffer.device(), buffer.cell());
        let engine = device.engine();
        let ask = || {
            let wants = vec![Want { slot: cell.slot(), writes: self.writes, overwrites: false, kept: false }];
            Wait::new(device.owner(), Ask::Uses(wants), engine.stamp(), None)
        };
        let wait = ready!(poll_request(&mut self.wait, ask, &device, name, cx, patience))?;
        engine.end_request(wait.into_id());
        let (what, place, thread) = (self.what, self.place, std::thread::current().id());
        let (bytes, tag) = (cell.bytes, cell.tag.clone());
        let holder = engine.add_holder(Holder { what, place, thread, bytes, tag });
        Poll::Ready(Ok(Hold { cell: cell.clone(), holder }))
    }
}

/// A buffer that is held.
#[derive(Debug)]
pub(crate) struct Hold {
    cell: Arc<Cell>,
    /// Its entry among those that hold pins.
    holder: u64,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let engine = &self.cell.engine;
        engine.remove_holder(self.holder);
        if self.cell.unpin() {
            engine.unpinned(&self.cell);
        }
    }
}
