//! What every asynchronous call gives: one future, with a waiting twin, a trying one and a deadline.

use crate::{
    device::Device,
    engine::{Wait, assert_may_block, block_on},
    error::{Error, ErrorKind, Result},
};
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

/// The steps of one kind of call. Sealed: the crate's calls are all there are.
///
/// ```
/// use tack_residency::{Device, Operation, Result, Steps};
///
/// /// One more try for any call that may succeed later.
/// fn wait_twice<S: Steps>(mut call: impl FnMut() -> Operation<S>) -> Result<S::Output> {
///     call().wait().or_else(|error| if error.is_retryable() { call().wait() } else { Err(error) })
/// }
/// let device = Device::open("sim")?;
/// assert_eq!(wait_twice(|| device.alloc(4096))?.len(), 4096);
/// # Ok::<(), tack_residency::Error>(())
/// ```
pub trait Steps: sealed::Steps {}

impl<S: sealed::Steps> Steps for S {}

pub(crate) mod sealed {
    use super::*;

    /// How a call goes on at each poll.
    pub trait Steps: Unpin {
        /// What the call gives.
        type Output;
        /// The call's name, for messages.
        const NAME: &'static str;

        /// Goes on.
        fn poll_steps(
            &mut self,
            cx: &mut Context<'_>,
            patience: Option<Duration>,
        ) -> Poll<Result<Self::Output>>;
    }
}

/// A call that is asked for when it is first polled.
///
/// # Cancel safety
///
/// Dropping it ends the wait: its place in the queue and what it reserved are gone, and copies already started go on
/// harmlessly. Nothing it was given is lost.
///
/// ```
/// use tack_residency::{Device, ErrorKind};
/// use std::time::Duration;
///
/// let device = Device::open("sim")?;
/// let waited = device.alloc(4096).wait()?;                               // without a runtime
/// let tried = device.alloc(4096).try_now()?;                             // no wait at all
/// let soon = device.alloc(4096).within(Duration::from_secs(1)).wait()?;  // no longer than a second
/// futures::executor::block_on(async {
///     let awaited = device.alloc(4096).await?;
///     assert_eq!(awaited.len(), 4096);
///     Ok::<(), tack_residency::Error>(())
/// })?;
/// # Ok::<(), tack_residency::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is asked for until this is awaited, or `wait` is called"]
pub struct Operation<S> {
    steps: S,
    patience: Option<Duration>,
}

impl<S: Steps> Operation<S> {
    #[inline]
    pub(crate) fn new(steps: S) -> Operation<S> {
        Operation { steps, patience: None }
    }

    pub(crate) fn map(mut self, change: impl FnOnce(&mut S)) -> Operation<S> {
        change(&mut self.steps);
        self
    }

    /// Goes on, for a call that is a part of another.
    pub(crate) fn poll_inner(
        &mut self,
        cx: &mut Context<'_>,
        patience: Option<Duration>,
    ) -> Poll<Result<S::Output>> {
        self.steps.poll_steps(cx, patience)
    }

    /// Waits for it on this thread; needs no runtime.
    ///
    /// ```
    /// # use tack_residency::Device;
    /// let device = Device::open("sim")?;
    /// let buffer = device.alloc(4096).wait()?;
    /// buffer.fill(7).wait()?;
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// On a thread that is polling an async task, at the caller's line.
    ///
    /// # Errors
    ///
    /// The call's own.
    #[track_caller]
    pub fn wait(self) -> Result<S::Output> {
        assert_may_block(&format!("`{}(..).await`", S::NAME));
        block_on(self)
    }

    /// Does it now, if that needs no wait.
    ///
    /// ```
    /// # use tack_residency::{Device, ErrorKind};
    /// let device = Device::options().budget(4096).open("sim")?;
    /// let buffer = device.alloc(4096).try_now()?;
    /// let guard = buffer.ensure_resident().try_now()?;
    /// assert_eq!(device.alloc(4096).try_now().unwrap_err().kind(), ErrorKind::WouldBlock);
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `WouldBlock` if it would have to wait: nothing is asked for then, but by [`LaunchQueue::push`](crate::LaunchQueue::push). The call's own besides.
    pub fn try_now(mut self) -> Result<S::Output> {
        match self.steps.poll_steps(&mut Context::from_waker(Waker::noop()), None) {
            Poll::Ready(output) => output,
            Poll::Pending => Err(Error::new(
                ErrorKind::WouldBlock,
                format!("{} would have to wait: await it, or call its `wait`", S::NAME),
            )),
        }
    }

    /// Gives it no longer than `patience` from its first poll; then it fails as `TimedOut`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tack_residency::{Device, ErrorKind};
    ///
    /// # futures::executor::block_on(async {
    /// let device = Device::options().budget(4096).open("sim")?;
    /// let buffer = device.alloc(4096).await?;
    /// let guard = buffer.ensure_resident().await?;
    /// let late = device.alloc(4096).within(Duration::from_millis(1)).await;
    /// assert_eq!(late.unwrap_err().kind(), ErrorKind::TimedOut);
    /// # Ok::<(), tack_residency::Error>(())
    /// # })?;
    /// # Ok::<(), tack_residency::Error>(())
    /// ```
    pub fn within(mut self, patience: Duration) -> Operation<S> {
        self.patience = Some(patience);
        self
    }
}

impl<S: Steps> Future for Operation<S> {
    type Output = Result<S::Output>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        // A task that has used up its budget yields first. The calls of one task keep their order: all of them yield.
        let step = ready!(tokio::task::coop::poll_proceed(cx));
        let output = ready!(this.steps.poll_steps(cx, this.patience));
        step.made_progress();
        Poll::Ready(output)
    }
}

/// Waits for a request, asking first if that has not been done.
pub(crate) fn poll_request(
    slot: &mut Option<Box<Wait>>,
    ask: impl FnOnce() -> Wait,
    device: &Device,
    name: &str,
    cx: &mut Context<'_>,
    patience: Option<Duration>,
) -> Poll<Result<Wait>> {
    let wait = slot.get_or_insert_with(|| {
        let wait = ask();
        if let Some(patience) = patience {
            wait.within(patience);
        }
        Box::new(wait)
    });
    let outcome = ready!(wait.poll(cx));
    let Some(wait) = slot.take() else { return Poll::Pending };
    Poll::Ready(match outcome {
        Ok(_) => Ok(*wait),
        Err(failure) => {
            drop(wait);
            Err(Error::from_failure(device, name, failure))
        }
    })
}
