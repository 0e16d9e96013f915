//! Checks and measures a GPU, or the simulated one: the conformance suite, a recorded program at half of its memory, and figures
//! beside the driver's own.
//!
//! One program that needs nothing but itself: `cargo build --release --example gpu_check`, carry the binary over, run it.
//! `gpu_check --help` tells the options.

#[path = "../../tests/conformance/astray.rs"]
mod astray;
#[allow(dead_code)]
#[path = "../../tests/conformance/backend.rs"]
mod backend;
#[path = "../../tests/conformance/calls.rs"]
mod calls;
mod checks;
#[allow(dead_code)]
#[path = "../replay/content.rs"]
mod content;
#[cfg(feature = "cuda")]
mod cuda;
#[path = "../../tests/conformance/dropped.rs"]
mod dropped;
#[path = "../../tests/conformance/exports.rs"]
mod exports;
mod figures;
#[cfg(test)]
#[path = "../../tests/common/full.rs"]
mod full;
mod graph;
#[cfg(feature = "hip")]
mod hip;
mod host;
#[path = "../../tests/conformance/host_kernels.rs"]
mod host_kernels;
mod job;
#[path = "../../tests/common/mixing.rs"]
mod mixing;
mod mixing_work;
mod options;
#[path = "../../tests/conformance/order.rs"]
mod order;
#[path = "../../tests/conformance/pair.rs"]
mod pair;
#[path = "../../tests/conformance/peers.rs"]
mod peers;
#[allow(dead_code, unused_imports)]
#[path = "../replay/player/mod.rs"]
mod player;
#[allow(dead_code)]
#[path = "../replay/program.rs"]
mod program;
#[path = "../../tests/conformance/program.rs"]
mod program_checks;
#[path = "../../tests/common/random.rs"]
mod random;
mod replay;
mod report;
#[path = "../../tests/conformance/rows.rs"]
mod rows;
mod run;
mod subject;
mod table;
#[allow(dead_code)]
#[path = "../replay/trace.rs"]
mod trace;
#[path = "../../tests/conformance/transfers.rs"]
mod transfers;
#[path = "../sweep/units.rs"]
mod units;

use options::Options;
use run::Verdict;
use std::{
    ffi::OsString,
    io::{self, Write},
    process::ExitCode,
};

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    #[cfg(feature = "cuda")]
    if let [child, ordinal] = &words[..]
        && child == cuda::lost::CHILD
    {
        cuda::lost::lose(
            ordinal.to_str().and_then(|ordinal| ordinal.parse().ok()).expect("a device's number"),
        );
        return ExitCode::SUCCESS;
    }
    match perform(words, &mut io::stdout().lock()) {
        Ok(Verdict::Well) => ExitCode::SUCCESS,
        Ok(Verdict::Failed) => ExitCode::FAILURE,
        Err(problem) => {
            // With the standard error closed, the status is all there is to tell.
            let _ = writeln!(io::stderr(), "gpu_check: {problem}");
            ExitCode::from(2)
        }
    }
}

/// Does what a command line asks for.
///
/// # Errors
///
/// Why nothing could be checked, or the report not be written.
fn perform(words: Vec<OsString>, out: &mut dyn Write) -> Result<Verdict, String> {
    let unwritten = |error: io::Error| format!("the report cannot be written: {error}");
    let options = Options::parse(words)?;
    if options.help {
        write!(out, "{}", options::HELP).and_then(|()| out.flush()).map_err(unwritten)?;
        return Ok(Verdict::Well);
    }
    let report = run::all(&options)?;
    let written = if options.json {
        serde_json::to_writer(&mut *out, &report).map_err(io::Error::from).and_then(|()| writeln!(out))
    } else {
        table::write(out, &report)
    };
    written.and_then(|()| out.flush()).map_err(unwritten)?;
    Ok(Verdict::of(&report))
}

#[cfg(test)]
mod tests {
    use super::*;
    use full::Full;

    #[test]
    fn an_output_that_is_full_is_a_problem_and_no_panic() {
        // Without optimisation a recorded program takes minutes.
        let only = if cfg!(debug_assertions) { "a refused allocation" } else { "replay" };
        let words = ["--device", "sim", "--short", "--only", only, "--json"].map(OsString::from).to_vec();
        let mut out = Vec::new();
        assert_eq!(perform(words.clone(), &mut out), Ok(Verdict::Well));
        let report: serde_json::Value = serde_json::from_slice(&out).expect("one object");
        assert!(report["replay"]["agrees"] == true || cfg!(debug_assertions), "{report:#}");
        let problem = perform(words, &mut Full(50)).expect_err("it is full");
        assert!(problem.contains("cannot be written"), "{problem}");
    }
}
