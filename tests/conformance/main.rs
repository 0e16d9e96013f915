//! One suite for every backend: the simulated device, and each vendor's over a library that simulates its driver.
//!
//! This program runs itself as a child for each backend, with the simulated libraries where its loader looks. It prints a
//! line for each backend and check. Arguments choose the lines that contain all of them: `cargo test --test conformance --
//! cuda park`.
#![allow(unsafe_code)]

mod astray;
mod backend;
mod backends;
mod beside;
mod calls;
mod children;
mod control;
#[cfg(feature = "cuda")]
mod cuda;
mod dropped;
mod exports;
#[cfg(feature = "hip")]
mod hip;
mod host_kernels;
#[cfg(feature = "level-zero")]
mod level_zero;
#[path = "../common/mixing.rs"]
mod mixing;
mod order;
mod pair;
mod peers;
mod program;
#[path = "../common/random.rs"]
mod random;
mod refused;
mod rows;
mod symbols;
mod transfers;
mod workplace;

use backend::{Check, Rig};
use backends::{BACKENDS, Opened};
use control::Control;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
    time::Instant,
};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [child, name, work, rest @ ..] = &args[..]
        && child == "--child"
    {
        return as_child(name, work, rest);
    }
    if args.iter().any(|arg| arg == "--list") {
        println!("conformance: test");
        return ExitCode::SUCCESS;
    }
    let chosen: Vec<String> = args.into_iter().filter(|arg| !arg.starts_with('-')).collect();
    let begun = Instant::now();
    let failed = children::run_all(&chosen);
    println!("done in {:.1} s, {failed} failed", begun.elapsed().as_secs_f64());
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// One backend, in a process of its own.
fn as_child(name: &str, work: &str, chosen: &[String]) -> ExitCode {
    let entry = BACKENDS.iter().find(|entry| entry.name == name).expect("a backend's name");
    let file = entry.library.map(|library| library.path());
    let opened = Opened { entry, control: file.and_then(|file| Control::open(&file)), ordinal: 0 };
    match work {
        "checks" => checks(opened, chosen),
        "open" => children::open(&opened),
        "refused" => {
            refused::run(&opened);
            ExitCode::SUCCESS
        }
        _ => panic!("a child does no {work:?}"),
    }
}

/// Every check, with a line for each; those of kernels only where the backend has kernels of the crate's own.
fn checks(opened: Opened, chosen: &[String]) -> ExitCode {
    let (name, control, kernels) = (opened.entry.name, opened.control, opened.runs_kernels());
    let rig = opened.rig();
    let mut failed = 0;
    let mut check_all = |checks: &[Check], skipped: Option<&str>| {
        for (what, check) in checks {
            let line = format!("{name:<18} {what}");
            if chosen.iter().all(|part| line.contains(part.as_str())) {
                failed += usize::from(!run_one(&line, *check, &rig, control, skipped));
            }
        }
    };
    for checks in [calls::CHECKS, order::CHECKS, transfers::CHECKS] {
        check_all(checks, None);
    }
    let alone = rig.other().is_none().then_some("there is one device");
    check_all(peers::CHECKS, alone);
    check_all(astray::CHECKS, alone);
    check_all(beside::CHECKS, alone);
    check_all(dropped::CHECKS, control.is_none().then_some("it does not begin what is queued when it goes"));
    check_all(exports::CHECKS, None);
    check_all(rows::CHECKS, (!kernels).then_some("it runs no kernels whose bodies are closures"));
    check_all(program::CHECKS, (!kernels).then_some("it runs no kernels whose bodies are closures"));
    drop(rig);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs one check, after which nothing of the library's is open; whether it went well.
fn run_one(
    line: &str,
    check: fn(&Rig) -> String,
    rig: &Rig,
    control: Option<Control>,
    skipped: Option<&str>,
) -> bool {
    if let Some(why) = skipped {
        println!("SKIPPED {line}: {why}");
        return true;
    }
    let begun = Instant::now();
    let found = catch_unwind(AssertUnwindSafe(|| {
        let found = check(rig);
        if let Some(control) = control {
            backend::until("all is given up", || control.open_handles() + control.held_contexts() == 0);
        }
        found
    }));
    let (word, found) = match &found {
        Ok(found) => ("ok", found.as_str()),
        Err(_) => ("FAILED", ""),
    };
    println!("{word:<7} {line:<66} {:>6.2} s  {found}", begun.elapsed().as_secs_f64());
    word == "ok"
}
