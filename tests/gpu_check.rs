//! The example `gpu_check`, as whoever carries it to a GPU runs it: on the simulated device, and over the libraries that simulate
//! vendors' drivers.
#![allow(unsafe_code)]

#[allow(dead_code, unused_imports)]
#[path = "conformance/backend.rs"]
mod backend;
#[allow(dead_code)]
#[path = "conformance/backends.rs"]
mod backends;
#[allow(dead_code)]
#[path = "conformance/control.rs"]
mod control;
#[cfg(feature = "cuda")]
#[path = "conformance/cuda.rs"]
mod cuda;
#[cfg(feature = "hip")]
#[path = "conformance/hip.rs"]
mod hip;
#[path = "conformance/host_kernels.rs"]
mod host_kernels;
#[cfg(feature = "level-zero")]
#[path = "conformance/level_zero.rs"]
mod level_zero;
#[path = "common/mixing.rs"]
mod mixing;
#[allow(dead_code)]
#[path = "conformance/symbols.rs"]
mod symbols;
#[allow(dead_code)]
#[path = "conformance/workplace.rs"]
mod workplace;

use backends::{BACKENDS, Entry};
use serde_json::Value;
use std::{
    fs,
    path::Path,
    process::Command,
    sync::{Mutex, PoisonError},
};
use symbols::File;
use workplace::{Folder, build, build_example, place};

/// The backends that are run here: one of each kind.
fn entries() -> impl Iterator<Item = &'static Entry> {
    let runs = |entry: &&Entry| entry.settings.is_empty();
    BACKENDS.iter().filter(runs).filter(|entry| entry.library.is_none() || cfg!(target_os = "linux"))
}

fn named(name: &str) -> Option<&'static Entry> {
    entries().find(|entry| entry.name == name)
}

/// A folder with a backend's library in it, if it opens one.
fn placed(entry: &Entry) -> Folder {
    let folder = Folder::new(&format!("gpu-check-{}-{:?}", entry.name, std::thread::current().id()));
    if let Some(library) = &entry.library {
        fs::copy(build(library), folder.path().join(library.file)).expect("the library is put in its place");
    }
    folder
}

fn program(entry: &Entry, folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(build_example("gpu_check").join("gpu_check"));
    command.args(args);
    place(&mut command, entry, folder);
    command
}

/// What it printed as JSON, and its exit code; all else that it said is in a panic's message.
fn report(mut command: Command) -> (Value, Option<i32>) {
    // One at a time: a check has a time limit, and machines have few cores.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let output = command.arg("--json").arg("--short").output().expect("it runs");
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let parsed = serde_json::from_str(&said);
    (parsed.unwrap_or_else(|error| panic!("{error}: {said:?}\n{errors}")), output.status.code())
}

/// Whether recorded programs take minutes here; said aloud.
fn is_slow() -> bool {
    if cfg!(debug_assertions) {
        println!("SKIPPED: without optimisation it takes minutes: cargo test --release --test gpu_check");
    }
    cfg!(debug_assertions)
}

#[test]
fn the_report_parses_and_every_pass_has_the_same_digest() {
    if is_slow() {
        return;
    }
    for entry in entries() {
        let folder = placed(entry);
        let command = program(entry, folder.path(), &["--device", entry.device]);
        let begun = std::time::Instant::now();
        let (report, code) = report(command);
        println!("{} in {:.1?}: {}", entry.name, begun.elapsed(), report["kernels"]);
        assert_eq!(
            (code, &report["failed"]),
            (Some(0), &Value::Array(Vec::new())),
            "{}: {report:#}",
            entry.name
        );
        let checks = report["checks"].as_array().expect("checks");
        assert!(checks.len() >= 42, "{report:#}");
        assert!(
            checks.iter().all(|check| check["outcome"] == "ok" || check["outcome"] == "skipped"),
            "{report:#}"
        );
        let replay = &report["replay"];
        let passes = replay["passes"].as_array().expect("passes");
        let digest = passes[0]["digest"].as_str().expect("a digest");
        assert!(digest.len() == 16 && passes.iter().all(|pass| pass["digest"] == digest), "{replay:#}");
        assert_eq!(replay["agrees"], true);
        assert!(passes.last().is_some_and(|last| last["restores"].as_u64() > Some(50)), "{replay:#}");
        let figures = report["figures"].as_array().expect("figures");
        assert!(
            figures.len() >= 21 && figures.iter().all(|figure| figure["value"].as_f64() > Some(0.0)),
            "{report:#}"
        );
    }
}

#[test]
fn kernels_are_the_devices_own_where_there_is_a_compiler_and_else_the_report_says_why() {
    if is_slow() {
        return;
    }
    let only = ["--device", "hip", "--only", "replay"];
    let Some(entry) = named("hip") else { return };
    let folder = placed(entry);
    let kernels = |folder: &Path| {
        let (report, code) = report(program(entry, folder, &only));
        assert_eq!(code, Some(0), "{report:#}");
        (
            report["kernels"].as_str().unwrap_or_default().to_owned(),
            report["replay"]["passes"][0]["digest"].clone(),
        )
    };
    let (own, digest) = kernels(folder.path());
    assert_eq!(own, "HIP, compiled at run time");
    let file = folder.path().join(entry.library.expect("a library").file);
    File::read(&file).write_without("hiprtcCompileProgram", &file);
    let (hosts, same) = kernels(folder.path());
    assert!(hosts.starts_with("the crate's host kernels: no run-time compiler was found"), "{hosts}");
    assert_eq!(digest, same, "the kernels do not do the same");
}

#[test]
fn what_failed_is_named_and_is_the_exit_code() {
    let Some(entry) = named("hip") else { return };
    let folder = placed(entry);
    let mut command = program(entry, folder.path(), &["--device", "hip", "--only", "allocate and free"]);
    command.env("TACK_SIM_REFUSE", "hipMalloc:*:2");
    let (report, code) = report(command);
    assert_eq!(code, Some(1), "{report:#}");
    assert_eq!(report["failed"], serde_json::json!(["allocate and free"]));
    assert_eq!(report["checks"][0]["outcome"], "failed");
    assert!(
        report["checks"][0]["said"].as_str().is_some_and(|said| said.contains("hipMalloc")),
        "{report:#}"
    );
}

#[test]
fn without_a_gpu_it_says_what_was_tried() {
    let (entry, empty) = (named("sim").expect("it is always there"), Folder::new("gpu-check-empty"));
    for (args, said) in [
        (&["--json"][..], "no GPU opens; tried:"),
        (&["--nothing"], "see --help"),
        (&["--device", "no"], "no does not open"),
    ] {
        let mut command = program(entry, empty.path(), args);
        let output = command.env("TACK_HIP_LIBRARY", empty.path().join("none")).output().expect("it runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{errors}");
        assert!(errors.contains(said), "{args:?}: {errors}");
        let lists = cfg!(feature = "hip") && args == ["--json"];
        assert!(!lists || errors.contains("no HIP library could be opened"), "{errors}");
    }
}
