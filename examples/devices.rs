//! Lists the devices of this machine, and why others are not among them.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let found = tack_residency::devices();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => found.iter().for_each(|device| println!("{device}")),
        ["--json"] => println!("{}", serde_json::to_string_pretty(&found).expect("plain data")),
        ["--help"] => println!("usage: devices [--json]"),
        _ => {
            eprintln!("usage: devices [--json]");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
