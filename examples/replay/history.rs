//! What the pictures of a run are drawn from: its lanes, its stalls, and memory in use over time.

use crate::{
    player::KERNEL,
    program::Program,
    run::Run,
    units::{Seconds, Size},
};
use std::time::Duration;
use tack_residency::driver::sim::Lane;

/// A device's memory in use at a time, after a step of the program.
pub type Sample = (Duration, u64);

/// One run, drawn.
#[derive(Debug)]
pub struct History<'a> {
    pub run: &'a Run,
    pub samples: &'a [Sample],
}

/// One stretch of a lane, with what there is to tell of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Stretch {
    pub start: Duration,
    pub end: Duration,
    pub name: String,
}

impl History<'_> {
    pub fn title(&self) -> String {
        self.run.budget.map_or_else(|| "unlimited".to_owned(), |bytes| format!("budget {}", Size(bytes)))
    }

    /// The queues and the stalls, by name.
    pub fn lanes(&self, program: &Program) -> [(&'static str, Vec<Stretch>); 4] {
        let mut lanes = ["kernels", "copies in", "copies out", "stalls"].map(|name| (name, Vec::new()));
        let Some(record) = &self.run.record else { return lanes };
        let mut launches = program.launches();
        let mut spans: Vec<_> = record.spans.iter().collect();
        spans.sort_by_key(|span| (span.start, span.end));
        for span in spans {
            let (lane, name) = match span.lane {
                Lane::Compute if span.label == KERNEL => {
                    let launch = launches.next();
                    (
                        0,
                        launch.map_or_else(String::new, |(step, launch)| {
                            format!("{}, line {}", launch.name, step + 1)
                        }),
                    )
                }
                Lane::Compute => (0, span.label.to_owned()),
                Lane::CopyIn => (1, "copy in".to_owned()),
                Lane::CopyOut => (2, "copy out".to_owned()),
            };
            let name = format!("{name}, {}", Size(span.bytes));
            lanes[lane].1.push(Stretch { start: span.start, end: span.end, name });
        }
        for stall in &record.stalls.gaps {
            let copying = Seconds(stall.copying.as_secs_f64());
            let name = format!("{}, {copying} of it beside copies", stall.describe(program));
            lanes[3].1.push(Stretch { start: stall.start, end: stall.end, name });
        }
        lanes
    }
}
