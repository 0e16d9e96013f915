//! What was found: the object that `--json` prints.

use crate::{figures::Figure, job::Ended, replay::Replay};
use serde::Serialize;

/// All of it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    pub device: String,
    /// What the driver says that it is.
    pub description: String,
    pub kernels: String,
    /// Figures of small arrays and few rounds say little.
    pub short: bool,
    pub seconds: f64,
    /// The names of what failed.
    pub failed: Vec<String>,
    /// What was run, in its order, the replay and the figures with it.
    pub checks: Vec<Ended>,
    pub replay: Option<Replay>,
    pub figures: Vec<Figure>,
}

impl Report {
    /// Adds what became of a check.
    pub fn add(&mut self, ended: Ended) {
        if ended.outcome.is_failure() {
            self.failed.push(ended.name.clone());
        }
        self.checks.push(ended);
    }
}
