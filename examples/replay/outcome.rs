//! What comes of comparing runs: the object that `--json` prints.

use crate::{
    options::{Mode, Options},
    run::Run,
};
use serde::Serialize;
use std::time::Duration;
use tack_residency::{Policy, driver::Busy};

/// One run in figures. Those that the device keeps no record of are none.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    pub budget_bytes: Option<u64>,
    pub seconds: f64,
    /// Against unlimited memory.
    pub slowdown: Option<f64>,
    pub spills: u64,
    pub restores: u64,
    pub spilled_bytes: u64,
    pub restored_bytes: u64,
    pub copied_out_bytes: u64,
    pub copied_in_bytes: u64,
    pub kernel_seconds: Option<f64>,
    pub copy_out_seconds: Option<f64>,
    pub copy_in_seconds: Option<f64>,
    /// Copy time with a kernel beside it; none without copies.
    pub hidden: Option<f64>,
    pub stall_seconds: Option<f64>,
    pub copies_avoided: u64,
    pub peak_bytes: u64,
    pub digest: Option<String>,
}

impl Row {
    pub fn new(run: &Run, unlimited: &Run) -> Row {
        let memory = &run.memory;
        let busy = memory.busy;
        let seconds = |time: fn(&Busy) -> Duration| busy.as_ref().map(|busy| time(busy).as_secs_f64());
        Row {
            budget_bytes: run.budget,
            seconds: run.seconds(),
            slowdown: ratio(run.seconds(), unlimited.seconds()),
            spills: memory.spills,
            restores: memory.restores,
            spilled_bytes: memory.spilled_bytes,
            restored_bytes: memory.restored_bytes,
            copied_out_bytes: memory.copied_out_bytes,
            copied_in_bytes: memory.copied_in_bytes,
            kernel_seconds: seconds(|busy| busy.compute),
            copy_out_seconds: seconds(|busy| busy.copy_out),
            copy_in_seconds: seconds(|busy| busy.copy_in),
            hidden: busy.and_then(|busy| busy.hidden()),
            stall_seconds: run.record.as_ref().map(|record| record.stalls.total.as_secs_f64()),
            copies_avoided: memory.copies_avoided,
            peak_bytes: memory.peak,
            digest: run.digest.map(|digest| format!("{digest:016x}")),
        }
    }
}

impl Run {
    pub fn seconds(&self) -> f64 {
        self.end.saturating_sub(self.start).as_secs_f64()
    }
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// All runs under budgets, beside what was asked for.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    pub trace: String,
    pub device: String,
    pub mode: &'static str,
    pub policy: &'static str,
    pub look_ahead: usize,
    pub rows: Vec<Row>,
    /// The run that the others are held against.
    #[serde(skip)]
    pub unlimited: Row,
}

impl Report {
    pub fn new(options: &Options, trace: &str, unlimited: &Run, runs: &[Run]) -> Report {
        Report {
            trace: trace.to_owned(),
            device: options.device.clone(),
            mode: if options.mode == Mode::Async { "async" } else { "facade" },
            policy: if options.policy == Policy::Plain { "plain" } else { "aware" },
            look_ahead: options.look_ahead(),
            rows: runs.iter().map(|run| Row::new(run, unlimited)).collect(),
            unlimited: Row::new(unlimited, unlimited),
        }
    }

    /// Whether every run left the same bytes.
    pub fn agrees(&self) -> bool {
        self.rows.iter().all(|row| row.digest == self.unlimited.digest)
    }
}
