//! A copy from one buffer to another: on the device, or through the host to another device.

use crate::{
    access::{Read, Write},
    device::Device,
    engine::Wait,
    error::{Error, Result},
    launch::Prepare,
    operation::{Operation, sealed::Steps},
    usage::Use,
    view::View,
};
use std::{
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

/// The steps of [`Buffer::copy_to`](crate::Buffer::copy_to).
#[derive(Debug)]
pub struct CopyTo {
    from: View,
    to: View,
    stage: Stage,
}

/// How far a copy is.
#[derive(Debug)]
enum Stage {
    Unasked,
    /// On one device: its launch is waited for.
    Within(Option<Box<Wait>>),
    /// To another device: to the host, since this time of the first device's clock.
    Out(Operation<Read>, Duration),
    /// From the host to the other device.
    In(Operation<Write<Vec<u8>>>, Duration),
}

impl CopyTo {
    pub(crate) fn new(from: View, to: View) -> CopyTo {
        CopyTo { from, to, stage: Stage::Unasked }
    }

    fn begin(&self, device: &Device) -> Result<Stage> {
        if Arc::ptr_eq(self.from.buffer().cell(), self.to.buffer().cell()) {
            return Err(Error::misuse("a copy within one buffer: use another").on(device));
        }
        if !self.to.is_within() || self.to.len() != self.from.len() {
            let room = self.to.len().min(self.to.buffer().len());
            let what = format!(
                "{} bytes are not as many as {room}, to which they are to be copied",
                self.from.len()
            );
            return Err(Error::misuse(what).on(device));
        }
        let is_within = device.is_of(self.to.buffer().cell());
        Ok(if is_within { Stage::Within(None) } else { Stage::Out(self.from.read(), device.driver().now()) })
    }
}

/// Waits for the launch of a copy on one device, and submits it.
fn poll_within(
    (from, to): (&View, &View),
    device: &Device,
    wait: &mut Option<Box<Wait>>,
    cx: &mut Context<'_>,
    patience: Option<Duration>,
) -> Poll<Result<()>> {
    let mut prepare = Prepare::again(device, [Use::read(from), Use::write(to)], wait.take());
    let launch = match prepare.poll_steps(cx, patience) {
        Poll::Ready(launch) => launch?,
        Poll::Pending => {
            *wait = prepare.wait.take();
            return Poll::Pending;
        }
    };
    Poll::Ready(launch.submit(|run| {
        if run.bytes(0) > 0 {
            run.driver().copy(run.queue(), run.ptr(0), run.ptr(1), run.bytes(0))?;
        }
        Ok(())
    }))
}

impl Steps for CopyTo {
    type Output = ();
    const NAME: &'static str = "copy_to";

    fn poll_steps(&mut self, cx: &mut Context<'_>, patience: Option<Duration>) -> Poll<Result<()>> {
        let device = self.from.buffer().device();
        if let Stage::Unasked = self.stage {
            self.stage = self.begin(&device)?;
        }
        if let Stage::Within(wait) = &mut self.stage {
            return poll_within((&self.from, &self.to), &device, wait, cx, patience);
        }
        if let Stage::Out(read, since) = &mut self.stage {
            let since = *since;
            let bytes = ready!(read.poll_inner(cx, patience))?;
            self.stage = Stage::In(self.to.write(bytes), since);
        }
        let Stage::In(write, since) = &mut self.stage else { return Poll::Pending };
        let passed = device.driver().now().saturating_sub(*since);
        write.poll_inner(cx, patience.map(|patience| patience.saturating_sub(passed)))
    }
}
