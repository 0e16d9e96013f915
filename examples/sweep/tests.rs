//! Tests of the whole program: two runs compared, what must not go unnoticed, and what it says when it cannot run.

use super::{Verdict, perform};
use crate::{filters::tests::known, mesh::mixed_sample, progress::Progress};
use serde_json::Value;
use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

/// Runs the program with the words of `line`, and `mesh` if there is one; what it wrote.
fn sweep(mesh: Option<&Path>, line: &str) -> Result<(Verdict, String), String> {
    let words = line.split_whitespace().map(OsString::from).chain(mesh.map(OsString::from));
    let mut out = Vec::new();
    let verdict = perform(words, &mut out, &mut Progress::nowhere())?;
    Ok((verdict, String::from_utf8(out).expect("the report is text")))
}

fn json(mesh: Option<&Path>, line: &str) -> (Verdict, Value) {
    let (verdict, out) =
        sweep(mesh, &format!("--json {line}")).unwrap_or_else(|error| panic!("{line}: {error}"));
    (verdict, serde_json::from_str(&out).expect("one JSON object and nothing else"))
}

fn number(report: &Value, path: &str) -> u64 {
    report.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path} in {report}"))
}

/// A file of its own for one test, removed with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, bytes: &[u8]) -> Scratch {
        let path = std::env::temp_dir().join(format!("sweep-{}-{name}", std::process::id()));
        fs::write(&path, bytes).expect("a file in the temporary folder");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn meshes_nobody_here_drew_come_out_the_same_under_a_budget() {
    for (path, (file, [points, cells, links, faces, edges], volume, digit)) in known() {
        for line in ["", "--facade", "--device sim:rtx6000ada"] {
            let (verdict, report) = json(Some(&path), line);
            assert_eq!(verdict, Verdict::Identical, "{file} {line}");
            let figures = ["points", "cells", "point_links", "boundary_faces", "edges"]
                .map(|figure| number(&report, &format!("/mesh/{figure}")) as usize);
            assert_eq!(figures, [points, cells, links, faces, edges], "{file} {line}");
            let found = report.pointer("/mesh/volume").and_then(Value::as_f64).expect("a volume");
            assert!((found - volume).abs() <= digit, "{file} {line}: the volume is {found}");
            assert!(number(&report, "/budget/spills") > 0 && number(&report, "/budget/restores") > 0);
            assert!(number(&report, "/budget/peak_bytes") <= number(&report, "/budget/bytes"));
            let part = number(&report, "/unlimited/peak_bytes") * 2 / 5;
            assert_eq!(number(&report, "/budget/bytes"), part, "{file} {line}");
        }
    }
}

#[test]
fn scripts_find_the_keys_they_rely_on() {
    let (_, out) = sweep(None, "--size 4 --json").expect("a report");
    let keys = |value: &Value| value.as_object().map(|object| object.keys().cloned().collect::<Vec<_>>());
    let report: Value = serde_json::from_str(&out).expect("JSON");
    let wanted = |names: &str| {
        let mut names: Vec<_> = names.split(' ').map(str::to_owned).collect();
        names.sort();
        Some(names)
    };
    for (path, names) in [
        ("", "device facade identical mesh unlimited budget steps"),
        ("/mesh", "points cells point_links boundary_faces edges volume"),
        ("/unlimited", "seconds peak_bytes outputs"),
        ("/unlimited/outputs/0", "name bytes digest"),
        ("/budget", "bytes seconds peak_bytes spills restores spilled_bytes restored_bytes outputs"),
        ("/budget/outputs/0", "name bytes digest"),
        ("/steps/0", "name seconds peak_bytes spills restores"),
    ] {
        assert_eq!(report.pointer(path).and_then(keys), wanted(names), "{path}");
    }
    assert_eq!(out.lines().count(), 1);
}

#[test]
fn a_flipped_bit_of_a_spilled_array_is_noticed() {
    for line in ["", "--facade", "--budget none", "--device sim:mi300x"] {
        let (verdict, out) = sweep(None, &format!("--size 4 --self-test corrupt {line}")).expect("a report");
        assert_eq!(verdict, Verdict::Different, "{line}");
        assert!(out.contains("NOT identical: links/offsets\n"), "{line}: {out}");
    }
    let refused = sweep(None, "--device cpu --self-test corrupt").expect_err("cpu does not spill");
    assert!(refused.contains("cpu"), "{refused}");
}

#[test]
fn a_budget_of_one_launch_is_enough_and_less_is_told() {
    for line in ["", "--facade"] {
        let line = format!("--size 4 {line}");
        let told = sweep(None, &format!("{line} --budget 1KiB")).expect_err("too small");
        let least: u64 = told
            .split_whitespace()
            .skip_while(|word| *word != "needs")
            .nth(1)
            .and_then(|bytes| bytes.parse().ok())
            .unwrap_or_else(|| panic!("{told}"));
        assert!(sweep(None, &format!("{line} --budget {}", least - 1)).is_err());
        let (verdict, report) = json(None, &format!("{line} --budget {least}"));
        assert_eq!(verdict, Verdict::Identical);
        assert!(number(&report, "/budget/peak_bytes") <= least);
    }
}

#[test]
fn without_a_budget_nothing_is_spilled() {
    for line in ["--budget none", "--budget 100%", "--device cpu"] {
        let (verdict, report) = json(None, &format!("--size 4 {line}"));
        assert_eq!((verdict, number(&report, "/budget/spills")), (Verdict::Identical, 0), "{line}");
        assert_eq!(report.pointer("/budget/bytes").map(Value::is_null), Some(line != "--budget 100%"));
    }
}

#[test]
fn computed_time_is_the_same_each_time() {
    for line in ["--size 4 --device sim:pcie4", "--size 4 --device sim:pcie4 --facade"] {
        let [first, second] = [0; 2].map(|_| json(None, line).1);
        assert_eq!(first, second, "{line}");
    }
}

#[test]
fn the_table_of_steps_adds_up() {
    let csv = Scratch::new("steps.csv", b"");
    let (_, report) = json(None, &format!("--size 5 --csv {}", csv.0.display()));
    let table = fs::read_to_string(&csv.0).expect("the table");
    let mut lines = table.lines();
    assert_eq!(lines.next(), Some("step,seconds,peak_bytes,spills,restores,spilled_bytes,restored_bytes"));
    let mut sums = [0; 4];
    for line in lines {
        for (sum, part) in sums.iter_mut().zip(line.split(',').skip(3)) {
            *sum += part.parse::<u64>().expect(line);
        }
    }
    let totals = ["spills", "restores", "spilled_bytes", "restored_bytes"];
    assert_eq!(sums, totals.map(|total| number(&report, &format!("/budget/{total}"))));
    let refused = sweep(None, "--size 4 --csv /no/such/folder/steps.csv").expect_err("no such folder");
    assert!(refused.contains("/no/such/folder/steps.csv"), "{refused}");
}

#[test]
fn what_is_no_mesh_is_named_with_its_place() {
    let whole = mixed_sample();
    let cuts = [0, 1, 20, whole.len() / 3, whole.len() / 2];
    for cut in cuts {
        let file = Scratch::new(&format!("cut-{cut}.vtk"), &whole[..cut]);
        let error = sweep(Some(&file.0), "").expect_err("a part of a mesh");
        assert!(error.starts_with(&file.0.display().to_string()), "{error}");
    }
    let error = sweep(Some(Path::new("no-such.vtk")), "").expect_err("no such file");
    assert!(error.contains("no-such.vtk"), "{error}");
    for line in ["--device tpu", "--size 1", "--device sim:pcie9"] {
        sweep(None, line).expect_err(line);
    }
    assert!(sweep(None, "--help").expect("help").1.contains("usage"));
}
