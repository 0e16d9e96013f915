//! Writes runs as trace events, which Perfetto and chrome://tracing show: a process for each run, a thread for each
//! lane, and a counter of the memory in use.

use crate::{history::History, program::Program};
use serde_json::json;
use std::{io::Write, time::Duration};

/// Writes the events, one a line.
pub fn write(out: &mut dyn Write, program: &Program, histories: &[History<'_>]) -> std::io::Result<()> {
    write!(out, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    let mut first = true;
    let mut event = |event: serde_json::Value| {
        let comma = if std::mem::take(&mut first) { "" } else { "," };
        write!(out, "{comma}\n{event}")
    };
    for (pid, history) in histories.iter().enumerate() {
        let title = json!({ "name": format!("{}, {}", program.name, history.title()) });
        event(json!({ "ph": "M", "name": "process_name", "pid": pid, "args": title }))?;
        for (tid, (lane, stretches)) in history.lanes(program).into_iter().enumerate() {
            event(
                json!({ "ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": { "name": lane } }),
            )?;
            for stretch in stretches {
                let (ts, dur) = (micros(stretch.start), micros(stretch.end - stretch.start));
                event(
                    json!({ "ph": "X", "name": stretch.name, "cat": lane, "pid": pid, "tid": tid, "ts": ts, "dur": dur }),
                )?;
            }
        }
        for (time, bytes) in history.samples {
            let args = json!({ "bytes": bytes });
            event(json!({ "ph": "C", "name": "in use", "pid": pid, "ts": micros(*time), "args": args }))?;
        }
    }
    writeln!(out, "\n]}}")
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}
