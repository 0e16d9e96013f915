//! Lists the devices of this machine, and why others are not among them.

use std::{
    ffi::OsString,
    io::{self, Write},
    process::ExitCode,
};

/// Does what a command line asks for.
pub fn perform(words: &[OsString], out: &mut dyn Write) -> Result<(), String> {
    let unwritten = |error| format!("the list cannot be written: {error}");
    let written = match words {
        [] => tack_residency::devices().iter().try_for_each(|device| writeln!(out, "{device}")),
        [word] if word == "--json" => {
            let found = serde_json::to_string_pretty(&tack_residency::devices());
            found.map_err(io::Error::from).and_then(|found| writeln!(out, "{found}"))
        }
        [word] if word == "--help" => writeln!(out, "usage: devices [--json]"),
        [.., word] => return Err(format!("there is no option {}: see --help", word.display())),
    };
    written.and_then(|()| out.flush()).map_err(unwritten)
}

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    match perform(&words, &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            // With the standard error closed, the status is all there is to tell.
            let _ = writeln!(io::stderr(), "devices: {problem}");
            ExitCode::from(2)
        }
    }
}
