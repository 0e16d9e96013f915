//! Host reads, writes and fills of a view, wherever its buffer is.

use crate::{
    device::Device,
    engine::{Engine, HostOp, OpWait, access::Started},
    error::{Error, Result},
    operation::sealed::Steps,
    residency::{Bytes, Failure},
    view::View,
};
use std::{
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

/// The steps of [`Buffer::read`](crate::Buffer::read).
#[derive(Debug)]
pub struct Read {
    stage: Stage,
    bytes: u64,
    wait: OpWait,
}

/// How far a read is.
#[derive(Debug)]
enum Stage {
    Unasked(View),
    /// It holds no handle any more: a buffer dropped meanwhile goes once the copy has left it.
    Asked(Device, Arc<HostOp>),
}

impl Read {
    pub(crate) fn new(view: View) -> Read {
        Read { bytes: view.len(), stage: Stage::Unasked(view), wait: OpWait::default() }
    }
}

impl Steps for Read {
    type Output = Vec<u8>;
    const NAME: &'static str = "read";

    fn poll_steps(&mut self, cx: &mut Context<'_>, patience: Option<Duration>) -> Poll<Result<Vec<u8>>> {
        if let Stage::Unasked(view) = &self.stage {
            let device = view.buffer().device();
            match device.engine().start_read(view.buffer().cell(), view.offset(), self.bytes) {
                Ok(Started::Done(bytes)) => return Poll::Ready(Ok(bytes)),
                Ok(Started::Pending(op)) => self.stage = Stage::Asked(device, op),
                Err(failure) => return Poll::Ready(Err(Error::from_failure(&device, Self::NAME, failure))),
            }
        }
        let Stage::Asked(device, op) = &self.stage else { return Poll::Pending };
        let outcome = ready!(self.wait.poll(device.owner(), op, cx, patience));
        let (staging, bytes) = (op.take_staging(), self.bytes);
        let read = outcome.and_then(|()| match staging {
            Some(staging) => {
                let read = staging.to_vec(0, bytes as usize);
                read.ok_or(Failure::HostOutOfMemory { bytes: Bytes(bytes) })
            }
            None => Ok(Vec::new()),
        });
        Poll::Ready(read.map_err(|failure| Error::from_failure(device, Self::NAME, failure)))
    }
}

impl Drop for Read {
    fn drop(&mut self) {
        // A copy already queued goes on into the staging, which lives until then.
        if let Stage::Asked(_, op) = &self.stage
            && op.cancel()
        {
            op.take_staging();
        }
    }
}

/// What the two kinds of change share: started once, then waited for.
#[derive(Debug)]
struct Change {
    view: View,
    op: Option<Arc<HostOp>>,
    wait: OpWait,
}

impl Change {
    fn new(view: View) -> Change {
        Change { view, op: None, wait: OpWait::default() }
    }

    fn poll(
        &mut self,
        name: &str,
        cx: &mut Context<'_>,
        patience: Option<Duration>,
        start: impl FnOnce(&Engine, &View) -> Result<Started<()>, Failure>,
    ) -> Poll<Result<()>> {
        let device = self.view.buffer().device();
        let failed = |failure| Error::from_failure(&device, name, failure);
        if self.op.is_none() {
            match start(device.engine(), &self.view).map_err(failed)? {
                Started::Done(()) => return Poll::Ready(Ok(())),
                Started::Pending(op) => self.op = Some(op),
            }
        }
        let Some(op) = &self.op else { return Poll::Pending };
        Poll::Ready(ready!(self.wait.poll(device.owner(), op, cx, patience)).map_err(failed))
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        // What has not begun is not done.
        if let Some(op) = self.op.take() {
            op.cancel();
        }
    }
}

/// The steps of [`Buffer::write`](crate::Buffer::write).
#[derive(Debug)]
pub struct Write<D> {
    change: Change,
    data: D,
}

impl<D> Write<D> {
    pub(crate) fn new(view: View, data: D) -> Write<D> {
        Write { change: Change::new(view), data }
    }
}

impl<D: AsRef<[u8]> + Unpin> Steps for Write<D> {
    type Output = ();
    const NAME: &'static str = "write";

    fn poll_steps(&mut self, cx: &mut Context<'_>, patience: Option<Duration>) -> Poll<Result<()>> {
        let bytes = self.data.as_ref();
        let view = &self.change.view;
        if bytes.len() as u64 > view.len() {
            let what = format!("{} bytes do not fit into {}: write fewer", bytes.len(), view.len());
            return Poll::Ready(Err(Error::misuse(what).on(&view.buffer().device())));
        }
        self.change.poll(Self::NAME, cx, patience, |engine, view| {
            engine.start_write(view.buffer().cell(), view.offset(), bytes)
        })
    }
}

/// The steps of [`Buffer::fill`](crate::Buffer::fill).
#[derive(Debug)]
pub struct Fill {
    change: Change,
    value: u8,
}

impl Fill {
    pub(crate) fn new(view: View, value: u8) -> Fill {
        Fill { change: Change::new(view), value }
    }
}

impl Steps for Fill {
    type Output = ();
    const NAME: &'static str = "fill";

    fn poll_steps(&mut self, cx: &mut Context<'_>, patience: Option<Duration>) -> Poll<Result<()>> {
        let value = self.value;
        self.change.poll(Self::NAME, cx, patience, |engine, view| {
            engine.start_fill(view.buffer().cell(), view.offset(), view.len(), value)
        })
    }
}
