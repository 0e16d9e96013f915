//! The spilling of buffers by name.

use crate::{
    device::Device,
    engine::{Cell, Wait},
    error::Result,
    operation::{poll_request, sealed::Steps},
    residency::Ask,
};
use std::{
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

/// The steps of [`Device::spill_all`] and [`Buffer::spill`](crate::Buffer::spill).
#[derive(Debug)]
pub struct Spill {
    device: Device,
    cells: Option<Vec<Arc<Cell>>>,
    wait: Option<Box<Wait>>,
}

impl Spill {
    pub(crate) fn all(device: &Device) -> Spill {
        Spill { device: device.clone(), cells: None, wait: None }
    }

    pub(crate) fn of(cell: &Arc<Cell>) -> Spill {
        Spill { device: Device::of(cell), cells: Some(vec![cell.clone()]), wait: None }
    }
}

impl Steps for Spill {
    type Output = u64;
    const NAME: &'static str = "spill";

    fn poll_steps(&mut self, cx: &mut Context<'_>, patience: Option<Duration>) -> Poll<Result<u64>> {
        let device = &self.device;
        if !device.engine().settings.spills {
            return Poll::Ready(Ok(0));
        }
        let engine = device.engine();
        let cells = &self.cells;
        let ask = || {
            let slots = match cells {
                Some(cells) => cells.iter().map(|cell| cell.slot()).collect(),
                None => engine.with_state(|state| state.core.records().map(|(slot, _)| slot).collect()),
            };
            Wait::new(device.owner(), Ask::Spill(slots), engine.stamp(), None)
        };
        let done = ready!(poll_request(&mut self.wait, ask, device, Self::NAME, cx, patience));
        Poll::Ready(done.map(|wait| {
            let id = wait.into_id();
            let spilled = engine.with_state(|state| state.core.request(id).map(|request| request.spilled));
            engine.end_request(id);
            spilled.unwrap_or_default().0
        }))
    }
}
