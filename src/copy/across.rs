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
    /// The target's device had done the launches that used it, before it was held.
    is_unused: bool,
    wait: CrossWait,
}

impl Across {
    pub(super) fn new(place: &'static Location<'static>) -> Across {
        Across {
            // The target counts as written once the copy is queued.
            takes: [(); 2].map(|()| TakeHold::reading("copy to another device", place)),
            holds: [None, None],
            is_tried: false,
            is_unused: false,
            wait: CrossWait::default(),
        }
    }

    /// Goes on, for no longer than `left` from now. None if the target is not let go of.
    pub(super) fn poll(
        &mut self,
        views: [&View; 2],
        cx: &mut Context<'_>,
        left: Option<Duration>,
    ) -> Poll<Result<Option<Arc<Arrival>>>> {
        let devices = views.map(|view| view.buffer().device());
        // Whichever way copies go, they hold on one device before the other: none holds what another waits for that holds
        // what it waits for.
        let mut order = [0, 1];
        order.sort_by_key(|&of| Arc::as_ptr(devices[of].owner()).addr());
        let is_first = !std::mem::replace(&mut self.is_tried, true);
        let told = |failure, of| Error::from_failure(&devices[of], CopyTo::NAME, failure);
        loop {
            if !self.is_unused {
                // A device's launches may take any time: nothing is held meanwhile.
                let unused = self.wait.poll_unused(devices[1].owner(), views[1].buffer().cell(), cx, left);
                self.is_unused = ready!(unused).map_err(|failure| told(failure, 1))?;
                if !self.is_unused {
                    return Poll::Ready(Ok(None));
                }
            }
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
            let queued = self.wait.poll(devices[1].owner(), (from, to, views[0].len()), cx, left);
            let queued = ready!(queued).map_err(|(failure, of)| told(failure, usize::from(of)))?;
            if queued.is_some() {
                return Poll::Ready(Ok(queued));
            }
            (self.is_unused, self.holds) = (false, [None, None]);
        }
    }
}
