//! Finds public items that no example of their own file shows.

use super::{sources, src};
use std::{collections::HashSet, fs, path::Path};

/// A public item, and whether an example must name it: it has none of its own.
type Item = (String, bool);

/// The code of a file's examples, and its public items. The steps of a call are what its future is made of: the call
/// has the example.
fn read(text: &str) -> (String, Vec<Item>) {
    let (mut shown, mut items) = (String::new(), Vec::new());
    let (mut is_covered, mut in_example, mut in_trait) = (false, false, false);
    for line in text.lines() {
        let code = line.trim_start();
        if let Some(doc) = code.strip_prefix("///").or(code.strip_prefix("//!")) {
            let doc = doc.trim_start();
            if doc.starts_with("```") {
                in_example = !in_example;
            } else if in_example {
                shown.extend([doc, "\n"]);
            }
            is_covered |= in_example || doc.starts_with("The steps of ");
            continue;
        }
        if code.starts_with("#[") {
            continue;
        }
        let is_public = code.starts_with("pub ") || in_trait && code.starts_with("fn ");
        let mut words = words(code).filter(|word| !["pub", "const"].contains(word));
        let kind = words.next().unwrap_or_default();
        if is_public && ["fn", "struct", "enum", "trait", "type"].contains(&kind) {
            items.push((words.next().unwrap_or_default().to_owned(), !is_covered));
        }
        in_trait = line.starts_with("pub trait") && !line.ends_with("{}") || in_trait && line != "}";
        is_covered = false;
    }
    (shown, items)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The items that no example names, of those that one must name.
fn unshown(text: &str) -> Vec<String> {
    let (shown, items) = read(text);
    let shown: HashSet<&str> = words(&shown).collect();
    items.into_iter().filter(|(name, must)| *must && !shown.contains(&**name)).map(|(name, _)| name).collect()
}

/// Whether a file's module is public, or its parent shows what is in it. What another file adds to a public type is not
/// seen here.
fn is_public(module: &Path) -> bool {
    let (Some(parent), Some(name)) = (module.parent(), module.file_name().and_then(|name| name.to_str()))
    else {
        return false;
    };
    let is_root = parent == src();
    let files = [parent.join(if is_root { "lib.rs" } else { "mod.rs" }), parent.with_extension("rs")];
    let text: String = files.iter().filter_map(|file| fs::read_to_string(file).ok()).collect();
    let is_shown = text.contains(&format!("pub mod {name};")) || text.contains(&format!("pub use {name}::"));
    is_shown && (is_root || is_public(parent))
}

#[test]
fn every_public_item_is_shown_in_an_example_of_its_file() {
    let (mut count, mut missing) = (0, Vec::new());
    for path in sources(&src()) {
        let module = if path.ends_with("mod.rs") { path.with_file_name("") } else { path.with_extension("") };
        if !is_public(&module) {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source file");
        count += read(&text).1.len();
        missing.extend(unshown(&text).iter().map(|name| format!("{}: {name}", path.display())));
    }
    assert!(count > 200, "only {count} public items were found");
    assert!(missing.is_empty(), "no example shows:\n{}", missing.join("\n"));
}

#[test]
fn an_item_without_an_example_is_seen() {
    let text = "/// Shown.\n///\n/// ```\n/// Named::new();\n/// ```\n#[inline]\npub const fn shown() {}\n\
                /// The steps of `shown`.\npub struct Steps;\n/// Named.\npub enum Named {}\n\
                pub(crate) fn hidden() {}\n/// Shown.\npub trait Lonely {\n    /// Of it.\n    fn alone();\n}\n\
                fn private() {}\n";
    assert_eq!(read(text).1.len(), 5);
    assert_eq!(unshown(text), ["Lonely", "alone"]);
}
