//! Walks `src` and enforces the arrows between the layers, and where `unsafe` may be.

use super::{sources, src};
use std::{fs, path::Path};

/// The first part of a path below `src`, without the extension: its layer, or the API file it is.
fn layer(path: &Path, src: &Path) -> String {
    let below = path.strip_prefix(src).expect("below src");
    let first = below.components().next().expect("a name").as_os_str().to_string_lossy().into_owned();
    first.trim_end_matches(".rs").to_owned()
}

/// Code only: comments and doc examples may name anything.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(at, line)| (at + 1, line.split("//").next().unwrap_or("")))
}

/// The crate's modules that a file uses: what follows `crate::`, in braces too.
fn uses(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_braces = false;
    let mut depth = 0i32;
    for (at, line) in code(text) {
        let mut rest = line;
        if !in_braces {
            while let Some(start) = rest.find("crate::") {
                rest = &rest[start + "crate::".len()..];
                if rest.starts_with('{') {
                    (in_braces, depth) = (true, 0);
                    break;
                }
                found.push((at, rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()));
            }
        }
        if in_braces {
            let mut word = String::new();
            for c in rest.chars() {
                if depth == 1 && (c.is_alphanumeric() || c == '_') {
                    word.push(c);
                    continue;
                }
                if !word.is_empty() {
                    found.push((at, std::mem::take(&mut word)));
                }
                depth += i32::from(c == '{') - i32::from(c == '}');
                if depth == 0 && c == '}' {
                    in_braces = false;
                }
            }
            if !word.is_empty() {
                found.push((at, word));
            }
        }
    }
    found.retain(|(_, name)| name.chars().next().is_some_and(char::is_lowercase));
    found
}

#[test]
fn nothing_below_imports_what_is_above() {
    let (src, files) = (src(), sources(&src()));
    let mut wrong = Vec::new();
    for path in &files {
        let layer = layer(path, &src);
        let allowed: &[&str] = match layer.as_str() {
            "residency" => &["residency"],
            "driver" => &["driver"],
            "pool" => &["pool"],
            "engine" => &["engine", "residency", "driver", "pool"],
            _ => continue,
        };
        let text = fs::read_to_string(path).expect("a source file");
        for (at, name) in uses(&text) {
            if !allowed.contains(&name.as_str()) {
                wrong.push(format!("{}:{at}: {layer} uses {name}", path.display()));
            }
        }
    }
    assert!(files.len() > 30, "only {} files were found", files.len());
    assert!(wrong.is_empty(), "arrows point upwards:\n{}", wrong.join("\n"));
}

#[test]
fn the_core_and_the_pool_have_no_io_clock_lock_thread_log_await_or_unsafe() {
    let files = ["residency", "pool"].map(|layer| sources(&src().join(layer))).concat();
    let mut wrong = Vec::new();
    for path in &files {
        let text = fs::read_to_string(path).expect("a source file");
        for (at, line) in code(&text) {
            for banned in [
                "std::io",
                "std::fs",
                "std::time",
                "Instant",
                "Mutex",
                "RwLock",
                "std::thread",
                "tracing",
                ".await",
                "async ",
                "unsafe",
                "HashMap",
                "HashSet",
                "println!",
                "Atomic",
                "panic!",
                "unwrap()",
                "expect(",
            ] {
                let in_tests = text.lines().take(at).any(|line| line.contains("#[cfg(test)]"));
                if line.contains(banned) && !in_tests {
                    wrong.push(format!("{}:{at}: {banned}", path.display()));
                }
            }
        }
    }
    assert!(!files.is_empty());
    assert!(wrong.is_empty(), "the core is not pure:\n{}", wrong.join("\n"));
}

#[test]
fn unsafe_is_in_the_driver_alone() {
    let (src, files) = (src(), sources(&src()));
    for path in files.iter().filter(|path| layer(path, &src) != "driver") {
        let text = fs::read_to_string(path).expect("a source file");
        for (at, line) in code(&text) {
            assert!(!line.contains("unsafe"), "{}:{at}: unsafe outside the driver", path.display());
        }
    }
}

#[test]
fn a_use_in_braces_is_seen() {
    let text =
        "use crate::{\n    device::Device,\n    driver::{Driver, sim::Sim},\n};\nlet x = crate::engine::y();";
    let names: Vec<String> = uses(text).into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["device", "driver", "engine"]);
}
