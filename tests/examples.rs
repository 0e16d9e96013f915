//! The examples that have no tests of their own: what they do with their command lines and their output.

use full::Full;
use std::{ffi::OsString, io::Write};

#[cfg(feature = "serde")]
#[allow(dead_code)]
#[path = "../examples/devices.rs"]
mod devices;
#[path = "common/full.rs"]
mod full;
#[allow(dead_code)]
#[path = "../examples/overlap.rs"]
mod overlap;
#[path = "common/readme.rs"]
mod readme;

/// Does what a command line asks one of them for; its problem, if it has one.
type Perform = fn(&[OsString], &mut dyn Write) -> Option<String>;

fn examples() -> Vec<Perform> {
    vec![
        |words, out| overlap::perform(words, out).err().map(|problem| problem.to_string()),
        #[cfg(feature = "serde")]
        |words, out| devices::perform(words, out).err(),
    ]
}

#[test]
fn an_output_that_was_closed_or_full_ended_an_example_with_a_panic() {
    for perform in examples() {
        for room in [0, 1, 50] {
            for words in [&[][..], &["--help".into()]] {
                let full = perform(words, &mut Full(room));
                assert!(full.is_some() || (room == 50 && !words.is_empty()), "{room} bytes, {words:?}");
            }
        }
    }
}

#[test]
fn the_readme_showed_what_was_not_printed_any_more() {
    let mut out = Vec::new();
    assert_eq!(overlap::perform(&[], &mut out).map_err(|problem| problem.to_string()), Ok(()));
    readme::assert_shown("cargo run --release --example overlap", &String::from_utf8_lossy(&out));
}

#[test]
fn an_argument_that_means_nothing_was_ignored() {
    for perform in examples() {
        let mut out = Vec::new();
        assert_eq!(perform(&["--help".into()], &mut out), None);
        assert!(out.starts_with(b"usage: "));
        out.clear();
        for word in ["--nothing", "x", ""] {
            let problem = perform(&[word.into()], &mut out).expect("refused");
            assert!(problem.contains("see --help"), "{problem}");
        }
        assert_eq!(out, [0; 0]);
        assert_eq!(perform(&[], &mut out), None);
        assert!(out.len() > 50);
    }
}
