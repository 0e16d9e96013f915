//! What the README shows of a program's output, held to what the program prints.

const README: &str = include_str!("../../README.md");

/// Panics unless every line that the README shows of a command's output, but for those that stand for others, is one of
/// `output`'s, in that order.
#[track_caller]
pub fn assert_shown(command: &str, output: &str) {
    let shown = README.split_once(&format!("$ {command}\n")).expect("the README shows it").1;
    let shown = shown.split("```").next().unwrap_or_default();
    let mut lines = output.lines();
    for line in shown.lines().filter(|line| *line != "[...]") {
        assert!(lines.any(|printed| printed == line), "not printed, or not there: {line:?}, in\n{output}");
    }
}
