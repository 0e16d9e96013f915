//! The legal steps of a buffer's phase, in one table, and the record of the last ones taken.

use super::{Phase, Slot};
use std::collections::VecDeque;

/// One change of phase.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// The memory of a clean, unpinned buffer is given up.
    Release,
    /// A copy to the device is queued.
    Restore,
    /// The copy to the device has ended.
    Arrive,
    /// A launch overwrote the whole of it in memory given without a copy.
    Overwrite,
}

impl Step {
    /// The phase before and after.
    pub fn phases(self) -> (Phase, Phase) {
        match self {
            Step::Release => (Phase::Resident, Phase::Spilled),
            Step::Restore => (Phase::Spilled, Phase::Restoring),
            Step::Arrive => (Phase::Restoring, Phase::Resident),
            Step::Overwrite => (Phase::Spilled, Phase::Resident),
        }
    }
}

/// A step that was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepRecord {
    /// The buffer's place in the table.
    pub slot: Slot,
    /// The buffer's age.
    pub age: u64,
    /// What happened.
    pub step: Step,
    /// The buffer's bytes.
    pub bytes: u64,
}

/// The steps since they were last asked for, and no more than fit.
#[derive(Debug, Default)]
pub struct Steps {
    steps: VecDeque<StepRecord>,
}

const KEPT: usize = 1 << 12;

impl Steps {
    /// Notes a step.
    pub fn push(&mut self, step: StepRecord) {
        if self.steps.len() >= KEPT {
            self.steps.pop_front();
        }
        self.steps.push_back(step);
    }

    /// Takes the steps noted so far.
    pub fn drain(&mut self) -> impl Iterator<Item = StepRecord> + '_ {
        self.steps.drain(..)
    }
}
