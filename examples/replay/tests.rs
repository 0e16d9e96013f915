//! Tests of the whole program: the same bytes at every budget, the figures that scripts rely on, and what it says when
//! it cannot run.

#[path = "../../tests/common/readme.rs"]
mod readme;

use super::{Run, Verdict, options::Request, perform, program::Program, progress::Progress, read, run};
use crate::{outcome::Report, target::Target};
use serde_json::Value;
use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

/// Runs the program with the words of `line`, and a trace if there is one; what it wrote, and what it noted.
fn replay(trace: Option<&Path>, line: &str) -> Result<(Verdict, String, String), String> {
    let words = trace.map(OsString::from).into_iter().chain(line.split_whitespace().map(OsString::from));
    let (mut out, mut notes) = (Vec::new(), Vec::new());
    let verdict = perform(words, &mut out, &mut notes, &mut Progress::nowhere())?;
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Ok((verdict, text(out), text(notes)))
}

fn json(trace: Option<&Path>, line: &str) -> Value {
    let (verdict, out, _) =
        replay(trace, &format!("--json {line}")).unwrap_or_else(|error| panic!("{trace:?} {line}: {error}"));
    assert_eq!(verdict, Verdict::Agree, "{trace:?} {line}: {out}");
    serde_json::from_str(&out).expect("one JSON object and nothing else")
}

fn rows(report: &Value) -> &[Value] {
    report["rows"].as_array().expect("rows")
}

fn number(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or_else(|| panic!("{key} in {row}"))
}

/// The traces of real programs, where this machine has them.
fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/traces");
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("SKIPPED: the traces of real programs are not at {}", folder.display());
    None
}

/// A file of its own for one test, removed with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, bytes: impl AsRef<[u8]>) -> Scratch {
        let path = std::env::temp_dir().join(format!("replay-{}-{name}", std::process::id()));
        fs::write(&path, bytes).expect("a file in the temporary folder");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

const WAYS: [&str; 4] = ["--mode facade", "--look-ahead 0", "--look-ahead 4", "--look-ahead 64"];

/// Looking ahead changes no victim. One that the program frees before its copy out has begun needs none.
fn assert_same_victims(rows: &[Value], by_turns: &[Value], place: &str) {
    for (row, by_turns) in rows.iter().zip(by_turns) {
        for key in ["spills", "spilled_bytes", "restores", "restored_bytes", "copied_in_bytes"] {
            assert_eq!(row[key], by_turns[key], "{place}: {key}");
        }
        let key = "copied_out_bytes";
        assert!(number(row, key) <= number(by_turns, key), "{place}: {key} of {row}, and of {by_turns}");
    }
}

/// Replays the small trace in every way; the digest that all have in common.
fn digest_in_every_way(line: &str) -> String {
    let mut digests = Vec::new();
    for policy in ["plain", "aware"] {
        let facade = json(None, &format!("{line} --mode facade --policy {policy}"));
        for way in WAYS {
            let report = json(None, &format!("{line} {way} --policy {policy}"));
            assert_same_victims(rows(&report), rows(&facade), &format!("{way} {policy}"));
            for row in rows(&report) {
                let place = format!("{way} {policy}: {row}");
                let digest = row["digest"].as_str().unwrap_or_else(|| panic!("no digest: {place}"));
                digests.push((digest.to_owned(), place));
                assert!(number(row, "peak_bytes") <= number(row, "budget_bytes"), "{row}");
            }
            assert!(number(&rows(&report)[1], "restores") > 0, "nothing came back: {report}");
        }
    }
    for (digest, place) in &digests {
        assert_eq!(*digest, digests[0].0, "{place} and {}", digests[0].1);
    }
    digests.swap_remove(0).0
}

#[test]
fn the_readme_shows_what_is_printed() {
    let (_, out, _) = replay(None, "").expect("it runs");
    readme::assert_shown("cargo run --release --example replay", &out);
}

#[test]
fn no_byte_is_lost_or_stale_at_any_budget_in_any_way() {
    let computed = digest_in_every_way("--budgets 100%,50%,30%");
    // As fast as memory is, with another pace and other granules.
    for line in [
        "--device sim",
        "--device sim:a100-40",
        "--device sim:mi300x --look-ahead 16",
        "--write-back on",
        "--write-back on --look-ahead 0 --policy plain",
        "--write-back on --mode facade",
    ] {
        let report = json(None, &format!("--budgets 30% {line}"));
        assert_eq!(rows(&report)[0]["digest"], computed.as_str(), "{line}");
    }
    assert_eq!(rows(&json(None, "--device cpu"))[0]["digest"], computed.as_str());
    let copied =
        |line: &str| number(&rows(&json(None, &format!("--budgets 30% {line}")))[0], "copied_out_bytes");
    assert_ne!(copied("--write-back on"), copied(""), "nothing was written back ahead of need");
}

#[test]
fn real_programs_leave_the_same_bytes_at_every_budget() {
    let Some(folder) = folder() else { return };
    let small = ["minimalloc_A", "starpu_sim_chol20"];
    let others =
        ["starpu_qrm_qr", "et_resnet50", "et_gpt2", "g10_bert_base_256", "kineto_mem_v100", "somas_pangu26b"];
    // The others move gigabytes: too much for a build that is not optimised.
    let tested = small.iter().chain(others.iter().filter(|_| !cfg!(debug_assertions)));
    for name in tested {
        let file = folder.join(format!("{name}.jsonl.gz"));
        let line = "--scale 1/256 --bytes held --budgets 100%,50%";
        let digests = ["--mode facade", "--look-ahead 16"].map(|way| {
            let report = json(Some(&file), &format!("{line} {way}"));
            assert!(number(&rows(&report)[1], "restores") > 0, "nothing came back: {report}");
            rows(&report)[1]["digest"].clone()
        });
        assert!(digests[0].is_string() && digests[0] == digests[1], "{name}: {digests:?}");
    }
}

#[test]
fn a_flipped_bit_of_a_spilled_buffer_is_noticed() {
    let Ok(Request::Replay(mut options)) = Request::parse(["--budgets", "50%"].map(OsString::from)) else {
        panic!("these are options")
    };
    let program = read(&options).expect("the small trace");
    options.settle(program.needs(1).peak);
    let budget = Some(program.needs(1).peak / 2);
    let run = |corrupt: bool| -> Run {
        let mut watch = |device: &tack_residency::Device, place: usize| {
            if corrupt && place == program.end / 2 {
                Target::sim(device).expect("a simulated device").corrupt_next_copy_out();
            }
        };
        run::run(&options, budget, &program, &mut watch).expect("a run")
    };
    let (right, wrong) = (run(false), run(true));
    assert!(Report::new(&options, "small", &right, &[run(false)]).agrees());
    assert!(!Report::new(&options, "small", &right, &[wrong]).agrees());
}

#[test]
fn scripts_find_the_keys_they_rely_on() {
    let (_, out, _) = replay(None, "--json").expect("a report");
    assert_eq!(out.lines().count(), 1);
    let report: Value = serde_json::from_str(&out).expect("JSON");
    let keys = |value: &Value| {
        let mut keys: Vec<String> = value.as_object().expect("an object").keys().cloned().collect();
        keys.sort();
        keys
    };
    let wanted = |names: &str| {
        let mut names: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
        names.sort();
        names
    };
    assert_eq!(keys(&report), wanted("trace device mode policy look_ahead rows"));
    for row in rows(&report) {
        let names = "budget_bytes seconds slowdown spills restores spilled_bytes restored_bytes copied_out_bytes \
                     copied_in_bytes kernel_seconds copy_out_seconds copy_in_seconds hidden stall_seconds \
                     copies_avoided peak_bytes digest";
        assert_eq!(keys(row), wanted(names));
    }
}

#[test]
fn computed_runs_print_the_same_to_the_nanosecond() {
    for way in WAYS {
        let line = format!("--json --budgets 50%,30% {way}");
        assert_eq!(replay(None, &line), replay(None, &line), "{way}");
    }
}

#[test]
fn figures_add_up() {
    let report = json(None, "--budgets none,50% --bytes none");
    let (unlimited, half) = (&rows(&report)[0], &rows(&report)[1]);
    assert!(unlimited["budget_bytes"].is_null() && unlimited["digest"].is_null());
    let figure = |row: &Value, key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key} in {row}"));
    assert_eq!(figure(unlimited, "slowdown"), 1.0);
    assert!(figure(half, "slowdown") > 1.0);
    assert_eq!(figure(half, "kernel_seconds"), figure(unlimited, "kernel_seconds"));
    assert!((0.0..=1.0).contains(&figure(half, "hidden")));
    let (seconds, stalls) = (figure(half, "seconds"), figure(half, "stall_seconds"));
    assert!(stalls > 0.0 && stalls <= seconds - figure(half, "kernel_seconds"), "{half}");
    // At the links' speed, and what each copy takes besides.
    for (key, bytes) in [("copy_out_seconds", "copied_out_bytes"), ("copy_in_seconds", "copied_in_bytes")] {
        assert!(figure(half, key) >= figure(half, bytes) / 24e9, "{half}");
    }
    let alone =
        Scratch::new("alone.jsonl", r#"{"op":"launch","name":"k","reads":[],"writes":[],"cost_us":0}"#);
    let nothing = &json(Some(&alone.0), "")["rows"][0];
    assert!(nothing["hidden"].is_null(), "no copies, no share of them: {nothing}");
}

#[test]
fn a_budget_too_small_is_raised_and_that_is_said() {
    let (verdict, out, notes) = replay(None, "--budgets 1,100%").expect("a report");
    assert_eq!(verdict, Verdict::Agree);
    assert!(notes.contains("raised to 322380, which the launch of backward in line 89 needs"), "{notes}");
    assert!(out.contains("* raised"), "{out}");
    let (_, out, notes) = replay(None, "--budgets 100%").expect("a report");
    assert!(!out.contains("raised") && notes.is_empty(), "{out}{notes}");
}

#[test]
fn odd_programs_run() {
    let text = r#"{"op":"alloc","buf":1,"bytes":0}
{"op":"alloc","buf":2,"bytes":3}
{"op":"alloc","buf":3,"bytes":5,"init":"host"}
{"op":"launch","name":"fill","reads":[2,2,3],"writes":[2,1],"cost_us":1.5}
{"op":"free","buf":2}
{"op":"alloc","buf":2,"bytes":1}
{"op":"host_read","buf":2}
{"op":"launch","name":"</script>","reads":[],"writes":[3],"cost_us":0}
{"op":"alloc","buf":9,"bytes":8}
{"op":"launch","name":"","reads":[],"writes":[],"cost_us":0}
{"op":"host_read","buf":3}
"#;
    let trace = Scratch::new("odd.jsonl", text);
    for way in WAYS {
        json(Some(&trace.0), &format!("{way} --budgets 100%,1"));
        json(Some(&trace.0), &format!("{way} --device cpu"));
    }
}

#[test]
fn what_cannot_be_replayed_is_named_with_its_place() {
    let line = |text: &str| format!("{{\"op\":\"alloc\",\"buf\":1,\"bytes\":4}}\n{text}\n");
    for (text, named) in [
        ("{}", "line 2"),
        (
            r#"{"op":"launch","name":"k","reads":[2],"writes":[],"cost_us":1}"#,
            "line 2: buffer 2 is not alive",
        ),
        (r#"{"op":"free","buf":2}"#, "line 2: buffer 2 is not alive"),
        (r#"{"op":"host_read","buf":2}"#, "line 2: buffer 2 is not alive"),
        (r#"{"op":"alloc","buf":1,"bytes":4}"#, "line 2: buffer 1 is alive already"),
        (
            r#"{"op":"alloc","buf":2,"bytes":18446744073709551615}"#,
            "line 2: a buffer of 18446744073709551615",
        ),
        (
            r#"{"op":"launch","name":"k","reads":[],"writes":[],"cost_us":-1}"#,
            "line 2: a kernel cannot take -1",
        ),
        (r#"{"op":"free","buf":1}"#, "no launch"),
    ] {
        let trace = Scratch::new("wrong.jsonl", line(text));
        let error = replay(Some(&trace.0), "").expect_err(text);
        assert!(error.starts_with(&trace.0.display().to_string()) && error.contains(named), "{error}");
    }
    for (name, bytes) in
        [("empty.jsonl", &b""[..]), ("torn.jsonl.gz", &[0x1f, 0x8b, 8, 0]), ("not.jsonl.gz", b"{}")]
    {
        let trace = Scratch::new(name, bytes);
        let error = replay(Some(&trace.0), "").expect_err(name);
        assert!(error.contains(name), "{error}");
    }
    for (line, named) in [
        ("no-such.jsonl", "no-such.jsonl"),
        ("--device tpu", "tpu"),
        ("--device sim:pcie9", "pcie9"),
        ("--device cpu --clock computed", "cpu has no such clock"),
        ("--device cpu --bytes none", "cpu holds its bytes"),
        ("--timeline /no/such/folder/t.html", "/no/such/folder/t.html"),
        ("--trace /no/such/folder/t.json", "/no/such/folder/t.json"),
    ] {
        let error = replay(None, line).expect_err(line);
        assert!(error.contains(named), "{line}: {error}");
    }
    assert!(replay(None, "--help").expect("help").1.contains("usage"));
}

#[test]
fn the_pictures_are_whole_and_need_nothing_else() {
    let (page, events) = (Scratch::new("t.html", ""), Scratch::new("t.json", ""));
    let line = format!("--timeline {} --trace {}", page.0.display(), events.0.display());
    replay(None, &line).expect("a report");
    let page = fs::read_to_string(&page.0).expect("a page");
    assert!(
        !page.contains("http:") && !page.contains("https:") && !page.contains(" src="),
        "it asks for more"
    );
    assert!(!page.contains("DATA*/") && page.contains("copies out") && page.trim_end().ends_with("</html>"));
    let events: Value = serde_json::from_slice(&fs::read(&events.0).expect("events")).expect("JSON");
    let events = events["traceEvents"].as_array().expect("events");
    let kernels = |pid: u64| {
        let is_kernel =
            |event: &&Value| event["cat"] == "kernels" && event["ph"] == "X" && event["pid"] == pid;
        events.iter().filter(is_kernel).count()
    };
    assert_eq!((kernels(0), kernels(1), kernels(2)), (180, 180, 180));
}

#[test]
fn what_is_read_before_it_is_written_is_cleared() {
    use crate::program::{Content, Step};
    let text = r#"{"op":"alloc","buf":1,"bytes":4}
{"op":"alloc","buf":2,"bytes":4}
{"op":"alloc","buf":3,"bytes":4}
{"op":"launch","name":"k","reads":[1],"writes":[1,2],"cost_us":1}"#;
    let trace = Scratch::new("cleared.jsonl", text);
    let trace = crate::trace::Trace::open(&trace.0).expect("a trace");
    let program = Program::new(&trace).expect("a program");
    let contents: Vec<_> = program
        .steps
        .iter()
        .filter_map(|step| match step {
            Step::Alloc { content, .. } => Some(*content),
            _ => None,
        })
        .collect();
    assert_eq!(contents, [Content::Cleared, Content::Nothing, Content::Nothing]);
    assert_eq!(program.left, [0, 1], "nobody gave the third contents");
}
