//! What the parent runs: each backend's checks, and its small programs with a library that lacks or refuses something.

use crate::{
    backend::until,
    backends::{BACKENDS, Entry, Library, Opened},
    control::Control,
    symbols::File,
    workplace::{Ended, Folder, build, child, run},
};
use std::{fs, path::Path, process::ExitCode, thread, time::Duration};
use tack_residency::{Device, ErrorKind};

/// For a whole backend's checks.
const LONG: Duration = Duration::from_secs(600);
/// For a small program.
const SHORT: Duration = Duration::from_secs(20);

const NOTHING_OPEN: &str = "tack_sim: open at the end: nothing";

/// Runs everything that `chosen` leaves; how much of it failed.
pub fn run_all(chosen: &[String]) -> usize {
    let mut failed = 0;
    for entry in BACKENDS {
        if entry.library.is_some() && !cfg!(target_os = "linux") {
            println!("SKIPPED {}: vendors' libraries are simulated on Linux alone", entry.name);
            continue;
        }
        let folder = Folder::new(entry.name);
        let file = entry.library.as_ref().map(|library| {
            let built = build(library);
            fs::copy(&built, folder.path().join(library.file)).expect("the library is put in its place");
            built
        });
        let args: Vec<&str> = ["checks"].into_iter().chain(chosen.iter().map(String::as_str)).collect();
        let ended = run(child(entry, folder.path(), &args), folder.path(), LONG);
        let lines = ended.said.lines().filter(|line| !line.starts_with("tack_sim: "));
        lines.for_each(|line| println!("{line}"));
        failed += ended.said.lines().filter(|line| line.starts_with("FAILED")).count();
        if !ended.is_well() && !ended.said.contains("FAILED") {
            println!("FAILED  {} ended with {:?}", entry.name, ended.status);
            failed += 1;
        }
        let (Some(library), Some(file)) = (&entry.library, file) else { continue };
        if ended.is_well() && ended.said.contains("ok ") && !ended.said.contains(NOTHING_OPEN) {
            println!("FAILED  {} left something open:\n{}", entry.name, ended.said);
            failed += 1;
        }
        let whole = File::read(&file);
        for (what, check) in LIBRARY_CHECKS {
            let line = format!("{:<18} {what}", entry.name);
            if !chosen.iter().all(|part| line.contains(part.as_str())) {
                continue;
            }
            match check(entry, library, &whole, folder.path()) {
                Ok(found) => println!("ok      {line:<66} {found}"),
                Err(why) => {
                    println!("FAILED  {line:<66}\n{why}");
                    failed += 1;
                }
            }
        }
    }
    failed
}

type LibraryCheck = fn(&Entry, &Library, &File, &Path) -> Result<String, String>;

const LIBRARY_CHECKS: &[(&str, LibraryCheck)] = &[
    ("without a library", no_library),
    ("without each symbol", no_symbol),
    ("without what copies to a peer", no_peers),
    ("without a device", no_device),
    ("each call refused", refusals),
];

/// What a child does that only opens the device: it says what came of that.
pub fn open(opened: &Opened) -> ExitCode {
    match Device::open(opened.entry.device) {
        Ok(device) => {
            let buffer = device.alloc(4096).wait().expect("memory");
            assert_eq!(buffer.read().wait().expect("it is read"), vec![0; 4096]);
            println!("opened {}", device.driver().description());
        }
        Err(error) => println!("{:?}: {error}", error.kind()),
    }
    until("all is given up", || opened.control.map_or(0, Control::open_handles) == 0);
    ExitCode::SUCCESS
}

fn opening(entry: &Entry, folder: &Path, change: &[(&str, &str)]) -> Result<String, String> {
    let mut command = child(entry, folder, &["open"]);
    command.envs(change.iter().copied());
    let Ended { status, said } = run(command, folder, SHORT);
    match status {
        Some(status) if status.success() => Ok(said),
        _ => Err(format!("  {status:?}: {said}")),
    }
}

fn expect(is_so: bool, said: &str) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(format!("  {said}")) }
}

fn no_library(entry: &Entry, library: &Library, _: &File, _: &Path) -> Result<String, String> {
    let empty = Folder::new("empty");
    let said = opening(entry, empty.path(), &[])?;
    expect(
        said.starts_with(&format!("{:?}: ", ErrorKind::Unavailable)) && said.contains(library.file),
        &said,
    )?;
    Ok(String::new())
}

fn no_symbol(entry: &Entry, library: &Library, whole: &File, _: &Path) -> Result<String, String> {
    let folder = Folder::new("symbol");
    let (mut needed, mut spared) = (0, Vec::new());
    for name in whole.names(library.prefix) {
        whole.write_without(&name, &folder.path().join(library.file));
        let said = opening(entry, folder.path(), &[])?;
        if said.starts_with("opened") {
            let may = library.spared.iter().any(|start| name.starts_with(start));
            expect(may && said.contains(NOTHING_OPEN), &format!("without {name}: {said}"))?;
            spared.push(name);
        } else {
            let unavailable = said.starts_with(&format!("{:?}: ", ErrorKind::Unavailable));
            expect(unavailable && said.contains(&name), &format!("without {name}: {said}"))?;
            needed += 1;
        }
    }
    expect(needed > 20, &format!("only {needed} symbols are needed"))?;
    Ok(format!("{needed} are needed, {} are not", spared.len()))
}

/// Without its call, the checks of copies between two devices find that they go through the host.
fn no_peers(entry: &Entry, library: &Library, whole: &File, _: &Path) -> Result<String, String> {
    let folder = Folder::new("peers");
    let Some(name) = library.peer else { return Ok("it has none".to_owned()) };
    whole.write_without(name, &folder.path().join(library.file));
    let Ended { status, said } = run(child(entry, folder.path(), &["checks", "peers:"]), folder.path(), LONG);
    let is_well = status.is_some_and(|status| status.success()) && said.contains(NOTHING_OPEN);
    expect(is_well && said.contains("through the host") && !said.contains("from one to the other"), &said)?;
    Ok(format!("{} checks", said.lines().filter(|line| line.starts_with("ok ")).count()))
}

fn no_device(entry: &Entry, _: &Library, _: &File, folder: &Path) -> Result<String, String> {
    let said = opening(entry, folder, &[("TACK_SIM_DEVICES", "0")])?;
    expect(said.starts_with(&format!("{:?}: ", ErrorKind::Unavailable)), &said)?;
    Ok(said.lines().next().unwrap_or_default().to_owned())
}

/// A code that nobody knows.
const UNKNOWN: &str = "99999";

/// Which calls are refused, of those from the start, and by what: a code that nobody knows; out of memory.
fn refused(library: &Library) -> [(&'static str, &'static str); 4] {
    [("1", UNKNOWN), ("3", library.full), ("*", UNKNOWN), ("*", library.full)]
}

/// The calls that the program makes.
fn called(entry: &Entry, folder: &Path) -> Result<Vec<String>, String> {
    let ended = run(child(entry, folder, &["refused"]), folder, SHORT);
    expect(ended.is_well() && ended.said.starts_with("went through\nheld: 0, open: 0\n"), &ended.said)?;
    let names = ended.said.lines().find_map(|line| line.strip_prefix("tack_sim: called: "));
    Ok(names.unwrap_or_default().split(' ').map(str::to_owned).collect())
}

/// What came of the program with one call refused.
struct Refusal {
    what: String,
    ended: Ended,
    /// The error that the program met is about this call.
    told: bool,
    well: bool,
}

fn refuse(entry: &Entry, library: &Library, folder: &Path, name: &str, (nth, code): (&str, &str)) -> Refusal {
    let mut command = child(entry, folder, &["refused"]);
    let what = format!("{name}:{nth}:{code}");
    command.env("TACK_SIM_REFUSE", &what);
    let ended = run(command, folder, SHORT);
    let (is_closing, said) = (library.closing.contains(&name), &ended.said);
    let is_full = code == library.full && library.allocating.contains(&name);
    let told =
        said.contains(&format!("by {name} with {code}:")) || is_full && said.contains("OutOfMemory by");
    // What can be done without for once, is; what is refused for ever is waited for, as long as the caller likes.
    let may_go_through = nth != "*" || is_closing || library.unheard.contains(&name);
    let well =
        told || may_go_through && said.contains("went through") || nth == "*" && said.contains("TimedOut by");
    // What is never freed, and a lost device's memory, goes with the context.
    let may_stay = nth == "*" || said.contains("DeviceLost by");
    let closed = said.contains("held: 0, open: 0\n") || may_stay && said.contains("held: 0,") || is_closing;
    let well = ended.is_well() && well && closed;
    Refusal { what, ended, told, well }
}

fn refusals(entry: &Entry, library: &Library, _: &File, folder: &Path) -> Result<String, String> {
    const AT_ONCE: usize = 4;
    let names = called(entry, folder)?;
    expect(names.len() > 20, &format!("only {names:?} are called"))?;
    let work: Vec<_> =
        names.iter().flat_map(|name| refused(library).map(|refused| (name, refused))).collect();
    // Most of their time they wait.
    let parts: Vec<Vec<Refusal>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE)
            .map(|first| {
                let mine = work.iter().skip(first).step_by(AT_ONCE);
                let refused =
                    move |&(name, refused): &(&String, _)| refuse(entry, library, folder, name, refused);
                scope.spawn(move || mine.map(refused).collect())
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).collect()
    });
    let all = || parts.iter().flatten();
    let wrong = all().filter(|refusal| !refusal.well);
    let wrong: Vec<String> = wrong
        .map(|Refusal { what, ended, .. }| format!("{what}: {:?}\n{}", ended.status, ended.said))
        .collect();
    expect(wrong.is_empty(), &wrong.join("\n  "))?;
    let told = all().filter(|refusal| refusal.told).count();
    Ok(format!("{} runs, {told} errors about that call", work.len()))
}
