//! How far the sweep is, on the standard error: a bar where that is a terminal, a line now and then where not.

use crate::units::Size;
use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

/// Cells of the bar.
const WIDTH: usize = 24;

/// How long a run may be silent where there is no terminal.
const SILENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
enum To {
    Terminal,
    Lines,
    #[cfg(test)]
    Nothing,
}

/// Shows the steps of two runs.
#[derive(Debug)]
pub struct Progress {
    to: To,
    run: String,
    total: usize,
    done: usize,
    last: Option<Instant>,
}

impl Progress {
    pub fn on_stderr() -> Progress {
        Progress::new(if io::stderr().is_terminal() { To::Terminal } else { To::Lines })
    }

    #[cfg(test)]
    pub fn nowhere() -> Progress {
        Progress::new(To::Nothing)
    }

    fn new(to: To) -> Progress {
        Progress { to, run: String::new(), total: 0, done: 0, last: None }
    }

    /// A run of `total` steps begins.
    pub fn begin(&mut self, run: impl Into<String>, total: usize) {
        self.run = run.into();
        (self.total, self.done) = (total, 0);
    }

    /// The next step begins, with `in_use` bytes on the device.
    pub fn show(&mut self, step: &str, in_use: u64) {
        let (done, total, run) = (self.done.min(self.total), self.total.max(1), &self.run);
        self.done += 1;
        // What cannot be shown is not worth failing for.
        let _ = match self.to {
            To::Terminal => {
                let full = WIDTH * done / total;
                let bar = format!("{}{}", "█".repeat(full), "░".repeat(WIDTH - full));
                let mut stderr = io::stderr().lock();
                write!(stderr, "\r\x1b[K{run:12} {bar} {done:2}/{total} {step}, {} in use", Size(in_use))
                    .and_then(|()| stderr.flush())
            }
            To::Lines if self.last.is_none_or(|last| last.elapsed() >= SILENCE) => {
                self.last = Some(Instant::now());
                writeln!(io::stderr(), "{run}: step {done} of {total}, {step}, {} in use", Size(in_use))
            }
            _ => Ok(()),
        };
    }

    /// Clears the bar.
    pub fn end(&mut self) {
        if matches!(self.to, To::Terminal) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
