//! A copy from one buffer to another, on the device.

use crate::{
    engine::Wait,
    error::{Error, ErrorKind, Result},
    launch::Prepare,
    operation::sealed::Steps,
    usage::Use,
    view::View,
};
use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

/// The steps of [`Buffer::copy_to`](crate::Buffer::copy_to).
#[derive(Debug)]
pub struct CopyTo {
    from: View,
    to: View,
    wait: Option<Box<Wait>>,
}

impl CopyTo {
    pub(crate) fn new(from: View, to: View) -> CopyTo {
        CopyTo { from, to, wait: None }
    }
}

impl Steps for CopyTo {
    type Output = ();
    const NAME: &'static str = "copy_to";

    fn poll_steps(&mut self, cx: &mut Context<'_>, patience: Option<Duration>) -> Poll<Result<()>> {
        let device = self.from.buffer().device();
        if Arc::ptr_eq(self.from.buffer().cell(), self.to.buffer().cell()) {
            return Poll::Ready(Err(Error::misuse("a copy within one buffer: use another").on(&device)));
        }
        if !device.is_of(self.to.buffer().cell()) {
            let what = "a copy to another device: read it to the host and write it there";
            return Poll::Ready(Err(Error::new(ErrorKind::Unsupported, what).on(&device)));
        }
        if !self.to.is_within() || self.to.len() != self.from.len() {
            let what = format!("{} bytes do not fit into {}", self.from.len(), self.to.buffer().len());
            return Poll::Ready(Err(Error::misuse(what).on(&device)));
        }
        let uses = [Use::read(&self.from), Use::write(&self.to)];
        let mut prepare = Prepare::again(&device, uses, self.wait.take());
        let launch = match prepare.poll_steps(cx, patience) {
            Poll::Ready(launch) => launch?,
            Poll::Pending => {
                self.wait = prepare.wait.take();
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
}
