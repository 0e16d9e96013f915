//! Draws runs as a page of its own: memory in use over time, and the queues as lanes.

use crate::{history::History, program::Program};
use serde_json::json;
use std::{collections::BTreeMap, io::Write};

/// The page around the data. It needs nothing else.
const PAGE: &str = include_str!("timeline.html");

/// Where the data goes.
const MARK: &str = "/*DATA*/null";

/// Writes the page.
pub fn write(out: &mut dyn Write, program: &Program, histories: &[History<'_>]) -> std::io::Result<()> {
    let mut names = Names::default();
    let runs: Vec<_> = histories
        .iter()
        .map(|history| {
            let lanes = history.lanes(program).map(|(name, stretches)| {
                let stretches: Vec<_> = stretches
                    .iter()
                    .map(|stretch| {
                        (
                            nanos(stretch.start),
                            nanos(stretch.end - stretch.start),
                            names.number(&stretch.name),
                        )
                    })
                    .collect();
                json!({ "name": name, "stretches": stretches })
            });
            let samples: Vec<_> = history.samples.iter().map(|(time, bytes)| (nanos(*time), bytes)).collect();
            json!({
                "title": history.title(),
                "end": nanos(history.run.end),
                "budget": history.run.budget,
                "peak": history.run.memory.peak,
                "stall": history.run.record.as_ref().map_or(0, |record| nanos(record.stalls.total)),
                "memory": samples,
                "lanes": lanes,
            })
        })
        .collect();
    let data = json!({ "trace": program.name, "runs": runs, "names": names.list });
    // Within a script, only this ends it.
    let data = data.to_string().replace("</", "<\\/");
    let (before, after) = PAGE.split_once(MARK).expect("the page has a place for its data");
    write!(out, "{before}{data}{after}")
}

fn nanos(time: std::time::Duration) -> u64 {
    time.as_nanos() as u64
}

/// Each text once.
#[derive(Default)]
struct Names {
    list: Vec<String>,
    numbers: BTreeMap<String, usize>,
}

impl Names {
    fn number(&mut self, name: &str) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        self.list.push(name.to_owned());
        self.numbers.insert(name.to_owned(), self.list.len() - 1);
        self.list.len() - 1
    }
}
