//! A copy from one buffer to another: on the device; to a device that is its peer; or through the host.

mod across;

use crate::{
    access::{Read, Write},
    device::Device,
    engine::{Arrival, ArrivalWait, Wait},
    error::{Error, Result},
    launch::Prepare,
    operation::{Operation, sealed::Steps},
    usage::Use,
    view::View,
};
use across::Across;
use std::{
    panic::Location,
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
    place: &'static Location<'static>,
}

/// How far a copy is.
#[derive(Debug)]
enum Stage {
    Unasked,
    /// On one device: its launch is waited for.
    Within(Option<Box<Wait>>),
    /// Between two devices, since this time of the first one's clock.
    Between(Box<Part>, Duration),
}

/// How far a copy between two devices is.
#[derive(Debug)]
enum Part {
    /// To a peer: it is not queued yet.
    Across(Across),
    /// It is queued, and goes on by itself.
    Arriving(Arc<Arrival>, ArrivalWait),
    /// To the host.
    Out(Operation<Read>),
    /// From the host to the other device.
    In(Operation<Write<Vec<u8>>>),
}

impl CopyTo {
    #[track_caller]
    pub(crate) fn new(from: View, to: View) -> CopyTo {
        CopyTo { from, to, stage: Stage::Unasked, place: Location::caller() }
    }

    fn begin(&self, device: &Device) -> Result<Stage> {
        if Arc::ptr_eq(self.from.buffer().cell(), self.to.buffer().cell()) {
            return Err(Error::misuse("a copy within one buffer: use another").on(device));
        }
        if !self.to.is_within() || self.to.len() != self.from.len() {
            let room = self.to.len().min(self.to.buffer().len());
            let what = format!(
                "{} bytes are to be copied to where there are {room}: copy views that are as long as each other",
                self.from.len()
            );
            return Err(Error::misuse(what).on(device));
        }
        if device.is_of(self.to.buffer().cell()) {
            return Ok(Stage::Within(None));
        }
        let is_peer = device.driver().is_peer(&**self.to.buffer().device().driver());
        let part = match is_peer && !self.from.is_empty() {
            true => Part::Across(Across::new(self.place)),
            false => Part::Out(self.from.read()),
        };
        Ok(Stage::Between(Box::new(part), device.driver().now()))
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
        let Stage::Between(part, since) = &mut self.stage else { return Poll::Pending };
        let passed = device.driver().now().saturating_sub(*since);
        let left = patience.map(|patience| patience.saturating_sub(passed));
        loop {
            **part = match &mut **part {
                Part::Across(across) => match ready!(across.poll([&self.from, &self.to], cx, left))? {
                    Some(arrival) => Part::Arriving(arrival, ArrivalWait::default()),
                    None => Part::Out(self.from.read()),
                },
                Part::Arriving(arrival, wait) => {
                    let to = self.to.buffer().device();
                    let ended = ready!(wait.poll(to.owner(), arrival, cx, left));
                    return Poll::Ready(
                        ended.map_err(|failure| Error::from_failure(&to, Self::NAME, failure)),
                    );
                }
                Part::Out(read) => Part::In(self.to.write(ready!(read.poll_inner(cx, left))?)),
                Part::In(write) => return write.poll_inner(cx, left),
            };
        }
    }
}
