//! One thing to check or measure, run on a thread of its own, so that a hang or a panic of it ends nothing else.

use serde::Serialize;
use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

/// Something to run.
pub struct Job {
    pub name: &'static str,
    pub work: Box<dyn FnOnce() -> String + Send>,
    /// Why it is not run, if it is not.
    pub skipped: Option<&'static str>,
}

impl Job {
    pub fn new(name: &'static str, work: impl FnOnce() -> String + Send + 'static) -> Job {
        Job { name, work: Box::new(work), skipped: None }
    }
}

/// What became of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Ok,
    Skipped,
    Failed,
    /// It is running still: nothing else can be told of the device.
    Hung,
}

impl Outcome {
    pub fn is_failure(self) -> bool {
        matches!(self, Outcome::Failed | Outcome::Hung)
    }
}

/// What a job found out, or why it failed or was not run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Ended {
    pub name: String,
    pub outcome: Outcome,
    pub seconds: f64,
    pub said: String,
}

/// Runs something, and waits for it no longer than `patience`; what it gave, if it went well.
pub fn run<T: Send + 'static>(
    name: &str,
    patience: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> (Ended, Option<T>) {
    let begun = Instant::now();
    let (tell, told) = mpsc::channel();
    let worker = thread::Builder::new().name(name.to_owned()).spawn(move || {
        // Nobody listens any more if it took too long.
        let _ = tell.send(catch_unwind(AssertUnwindSafe(work)));
    });
    let (outcome, said, value) = match worker {
        Err(error) => (Outcome::Failed, format!("no thread could be made: {error}"), None),
        Ok(_) => match told.recv_timeout(patience) {
            Ok(Ok(value)) => (Outcome::Ok, String::new(), Some(value)),
            Ok(Err(panic)) => (Outcome::Failed, said(&*panic), None),
            Err(RecvTimeoutError::Timeout) => {
                (Outcome::Hung, format!("it had not ended after {patience:?}"), None)
            }
            Err(RecvTimeoutError::Disconnected) => {
                (Outcome::Failed, "its thread ended early".to_owned(), None)
            }
        },
    };
    (Ended { name: name.to_owned(), outcome, seconds: begun.elapsed().as_secs_f64(), said }, value)
}

/// Runs a job, unless it is not to be.
pub fn run_job(job: Job, patience: Duration) -> Ended {
    if let Some(why) = job.skipped {
        return Ended {
            name: job.name.to_owned(),
            outcome: Outcome::Skipped,
            seconds: 0.0,
            said: why.to_owned(),
        };
    }
    let (ended, found) = run(job.name, patience, job.work);
    Ended { said: found.unwrap_or(ended.said), ..ended }
}

/// What a panic said.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_and_a_hang_are_outcomes() {
        let long = Duration::from_secs(60);
        let (ended, value) = run("well", long, || 7);
        assert_eq!((ended.outcome, value), (Outcome::Ok, Some(7)));
        let (ended, value) = run("panics", long, || -> u32 { panic!("on purpose") });
        assert_eq!((ended.outcome, &*ended.said, value), (Outcome::Failed, "on purpose", None));
        let (end, ending) = mpsc::channel::<()>();
        let (ended, value) = run("hangs", Duration::from_millis(1), move || ending.recv().is_ok());
        assert_eq!((ended.outcome, value), (Outcome::Hung, None));
        assert!(ended.outcome.is_failure() && ended.said.contains("1ms"));
        drop(end);
    }
}
