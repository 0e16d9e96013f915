//! What a run leaves, and what comes of comparing two: the object that `--json` prints.

use crate::{figures::Figures, filters::ArrayId};
use serde::Serialize;
use tack_residency::{HolderInfo, MemoryInfo};
use twox_hash::XxHash3_128;

/// One output array, read back from the device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Output {
    pub name: String,
    pub bytes: usize,
    /// XXH3-128 of the bytes, in hexadecimal.
    pub digest: String,
}

impl Output {
    pub fn new(id: &ArrayId, bytes: &[u8]) -> Output {
        let digest = format!("{:032x}", XxHash3_128::oneshot(bytes));
        Output { name: id.to_string(), bytes: bytes.len(), digest }
    }
}

/// One filter of a run, or the writing of the mesh's own arrays.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Step {
    pub name: &'static str,
    pub seconds: f64,
    pub peak_bytes: u64,
    pub spills: u64,
    pub restores: u64,
    #[serde(skip)]
    pub spilled_bytes: u64,
    #[serde(skip)]
    pub restored_bytes: u64,
}

/// The launch of a run that needs the most device memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Largest {
    pub name: &'static str,
    pub bytes: u64,
}

impl Largest {
    pub fn note(&mut self, name: &'static str, bytes: u64) {
        if bytes > self.bytes {
            *self = Largest { name, bytes };
        }
    }
}

/// What one run leaves.
#[derive(Clone, Debug)]
pub struct Run {
    pub seconds: f64,
    /// The device's memory at the end, before the outputs were read.
    pub memory: MemoryInfo,
    pub holders: Vec<HolderInfo>,
    pub outputs: Vec<Output>,
    pub figures: Figures,
    pub steps: Vec<Step>,
    pub largest: Largest,
}

/// Two runs compared.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub device: String,
    pub facade: bool,
    pub identical: bool,
    /// Reduced from the arrays of the run under the budget.
    pub mesh: Figures,
    pub unlimited: Unlimited,
    pub budget: Budgeted,
    pub steps: Vec<Step>,
}

/// The run with unlimited memory.
#[derive(Clone, Debug, Serialize)]
pub struct Unlimited {
    pub seconds: f64,
    pub peak_bytes: u64,
    pub outputs: Vec<Output>,
}

/// The run under the budget.
#[derive(Clone, Debug, Serialize)]
pub struct Budgeted {
    /// None if it was unlimited too.
    pub bytes: Option<u64>,
    pub seconds: f64,
    pub peak_bytes: u64,
    pub spills: u64,
    pub restores: u64,
    pub spilled_bytes: u64,
    pub restored_bytes: u64,
    pub outputs: Vec<Output>,
}

impl Report {
    pub fn new(device: &str, facade: bool, unlimited: Run, budgeted: Run) -> Report {
        let memory = budgeted.memory;
        Report {
            device: device.to_owned(),
            facade,
            identical: unlimited.outputs == budgeted.outputs,
            mesh: budgeted.figures,
            unlimited: Unlimited {
                seconds: unlimited.seconds,
                peak_bytes: unlimited.memory.peak,
                outputs: unlimited.outputs,
            },
            budget: Budgeted {
                bytes: memory.budget,
                seconds: budgeted.seconds,
                peak_bytes: memory.peak,
                spills: memory.spills,
                restores: memory.restores,
                spilled_bytes: memory.spilled_bytes,
                restored_bytes: memory.restored_bytes,
                outputs: budgeted.outputs,
            },
            steps: budgeted.steps,
        }
    }

    /// The names of the outputs that are not the same in both runs.
    pub fn differing(&self) -> Vec<&str> {
        let pairs = self.unlimited.outputs.iter().zip(&self.budget.outputs);
        pairs.filter(|(one, other)| one != other).map(|(one, _)| one.name.as_str()).collect()
    }
}
