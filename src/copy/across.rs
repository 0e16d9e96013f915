//! A copy from one device's memory to another's, up to where it is queued: both buffers are held until then.

use super::CopyTo;
use crate::{
    engine::{Arrival, CrossWait, Spot},
    error::{Error, Result},
    hold::{Hold, TakeHold},
    operation::sealed::Steps,
    view::View,
};
use std::{
    panic::Location,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

/// How far such a copy is. Of each pair, the source's comes first.
#[derive(Debug)]
pub(super) struct Across {
    takes: [TakeHold; 2],
    holds: [Option<Hold>; 2],
    is_tried: bool,
    wait: CrossWait,
}

impl Across {
    pub(super) fn new(place: &'static Location<'static>) -> Across {
        Across {
            // The target counts as written once the copy is queued.
            takes: [(); 2].map(|()| TakeHold::reading("copy to another device", place)),
            holds: [None, None],
            is_tried: false,
            wait: CrossWait::default(),
        }
    }

    /// Goes on, for no longer than `left` from now.
    pub(super) fn poll(
        &mut self,
        views: [&View; 2],
        cx: &mut Context<'_>,
        left: Option<Duration>,
    ) -> Poll<Result<Arc<Arrival>>> {
        let devices = views.map(|view| view.buffer().device());
        // Whichever way copies go, they hold on one device before the other: none holds what another waits for that holds
        // what it waits for.
        let mut order = [0, 1];
        order.sort_by_key(|&of| Arc::as_ptr(devices[of].owner()).addr());
        let is_first = !std::mem::replace(&mut self.is_tried, true);
        for of in order {
            if self.holds[of].is_none() {
                let held = ready!(self.takes[of].poll(views[of].buffer(), CopyTo::NAME, cx, left))?;
                self.holds[of] = Some(held);
            }
        }
        if is_first {
            // It always waits, since it is queued only now: who tries once has not asked for anything.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let [from, to] = views.map(|view| Spot { cell: view.buffer().cell(), offset: view.offset() });
        let started = ready!(self.wait.poll(devices[1].owner(), (from, to, views[0].len()), cx, left));
        Poll::Ready(
            started.map_err(|(failure, of)| {
                Error::from_failure(&devices[usize::from(of)], CopyTo::NAME, failure)
            }),
        )
    }
}
