//! Tests that numbers, signatures and layouts written here are those of a vendor's headers, where they are installed.

use std::{
    fmt::Write as _,
    io::Write as _,
    process::{Command, Stdio},
};

/// What a compiler is asked to agree with.
pub(super) struct Headers {
    /// The package they come in, for whoever lacks it.
    package: &'static str,
    include: &'static str,
    program: String,
}

/// Widths of what a function gives and takes, as a type.
const WIDTHS: &str = "
template <unsigned... N> struct widths {};
template <class A, class B> struct same { static constexpr bool value = false; };
template <class A> struct same<A, A> { static constexpr bool value = true; };
template <class R, class... A> widths<sizeof(R), sizeof(A)...> of(R (*)(A...));
";

impl Headers {
    pub(super) fn new(package: &'static str, include: &'static str) -> Headers {
        Headers { package, include, program: format!("{include}{WIDTHS}") }
    }

    /// A constant expression of the headers has this value.
    pub(super) fn number(&mut self, expression: &str, value: impl Into<i128>) {
        let value = value.into();
        _ = writeln!(
            self.program,
            "static_assert((__int128)({expression}) == (__int128){value}LL, \"{expression} is not {value}\");"
        );
    }

    /// Functions give and take what is as wide, in bytes.
    pub(super) fn calls(&mut self, calls: &[(&'static str, Vec<usize>)]) {
        for (name, widths) in calls {
            let widths: Vec<String> = widths.iter().map(usize::to_string).collect();
            let widths = widths.join(", ");
            _ = writeln!(
                self.program,
                "static_assert(same<decltype(of(&{name})), widths<{widths}>>::value, \"{name}: not {widths}\");"
            );
        }
    }

    /// Panics with what the compiler disagrees with. Without the headers or a compiler it says that nothing was checked.
    pub(super) fn check(self) {
        if let Err(said) = compile(self.include) {
            let said = said.lines().next().unwrap_or_default().to_owned();
            // Past the test harness, which keeps what a passing test prints.
            _ = writeln!(std::io::stderr(), "SKIPPED: no headers of {} to check by: {said}", self.package);
            return;
        }
        if let Err(said) = compile(&self.program) {
            panic!("the headers of {} say otherwise:\n{said}", self.package);
        }
    }
}

fn compile(program: &str) -> Result<(), String> {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let mut child = Command::new(&compiler)
        .args(["-std=c++17", "-fsyntax-only", "-w", "-x", "c++", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{compiler}: {error}"))?;
    let mut input = child.stdin.take().expect("it is piped");
    input.write_all(program.as_bytes()).map_err(|error| error.to_string())?;
    drop(input);
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}
