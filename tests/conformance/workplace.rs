//! Where children run: the simulated libraries, built and under their vendors' names, in a folder of their own.

use crate::backends::{Entry, Library};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

/// A folder that goes when this does.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let folder = env::temp_dir().join(format!("tack-conformance-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder is made");
        Folder(folder)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left there is the machine's to clear.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Where cargo puts what it builds as this program was built: two folders above it.
fn profile() -> PathBuf {
    let program = env::current_exe().expect("this program");
    program.ancestors().nth(2).expect("cargo's own folders").to_owned()
}

/// Builds a library's stand-in; the file.
pub fn build(library: &Library) -> PathBuf {
    build_example(library.example).join(format!("lib{}.so", library.example.replace('-', "_")))
}

/// Builds an example, which does nothing where that is fresh; the folder that it is in.
///
/// Without a sanitizer, though this program may have one: a library that has one finds it in no other program.
pub fn build_example(example: &str) -> PathBuf {
    let profile = profile();
    let name = profile.file_name().expect("a profile").to_string_lossy().into_owned();
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    command.args(["build", "--quiet", "--locked", "--example", example]);
    command.args(["--profile", if name == "debug" { "dev" } else { &name }]);
    let above = profile.parent().expect("cargo's target folder");
    // With a target named, cargo puts a folder of its name between.
    let is_triple = |name: &std::ffi::OsStr| name.to_string_lossy().split('-').count() > 2;
    let target = match above.file_name().filter(|name| is_triple(name)) {
        Some(_) => above.with_file_name("without-a-target"),
        None => above.to_owned(),
    };
    if env::var("RUSTFLAGS").is_ok_and(|flags| flags.contains("sanitizer")) {
        command.env_remove("RUSTFLAGS");
    }
    command.arg("--target-dir").arg(&target);
    // The crate's features that this program was built with.
    let features = [
        ("serde", cfg!(feature = "serde")),
        ("cuda", cfg!(feature = "cuda")),
        ("cuda-11040", cfg!(feature = "cuda-11040")),
        ("hip", cfg!(feature = "hip")),
        ("level-zero", cfg!(feature = "level-zero")),
    ];
    let features: Vec<&str> = features.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect();
    command.args(["--no-default-features", "--features", &features.join(",")]);
    let status = command.status().expect("cargo runs");
    assert!(status.success(), "{example} was not built");
    target.join(name).join("examples")
}

/// A child of this program, for one backend.
pub fn child(entry: &Entry, folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args(["--child", entry.name]).args(args).env("TACK_SIM_REPORT", "1").env("TACK_SIM_DEVICES", "2");
    if args.contains(&"refused") {
        // What a refused call leaves behind the library itself tells.
        command.env("ASAN_OPTIONS", "detect_leaks=0:allocator_may_return_null=1");
    }
    place(&mut command, entry, folder);
    command
}

/// Has a program find a backend's library in a folder.
pub fn place(command: &mut Command, entry: &Entry, folder: &Path) {
    command.env("LD_LIBRARY_PATH", folder).envs(entry.settings.iter().copied());
    if let Some((variable, file)) = entry.library.and_then(|library| Some((library.variable?, library.file)))
    {
        command.env(variable, folder.join(file));
    }
}

/// What came of a child.
pub struct Ended {
    /// None if it had to be killed, since it had not ended in time.
    pub status: Option<ExitStatus>,
    /// All that it printed.
    pub said: String,
}

impl Ended {
    pub fn is_well(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }
}

/// Runs a child, not for longer than `patience`.
pub fn run(mut command: Command, folder: &Path, patience: Duration) -> Ended {
    static CHILDREN: AtomicUsize = AtomicUsize::new(0);
    let path = folder.join(format!("said-{}", CHILDREN.fetch_add(1, Ordering::Relaxed)));
    let said = fs::File::create(&path).expect("a file is made");
    command.stdout(said.try_clone().expect("a file")).stderr(said);
    let mut child = command.spawn().expect("the child runs");
    let end = Instant::now() + patience;
    let status = loop {
        let ended = child.try_wait().expect("the child can be asked");
        if ended.is_some() || Instant::now() > end {
            break ended;
        }
        thread::sleep(Duration::from_millis(2));
    };
    if status.is_none() {
        child.kill().expect("the child is ended");
        child.wait().expect("the child has ended");
    }
    let said = fs::read(&path).expect("what it said");
    Ended { status, said: String::from_utf8_lossy(&said).into_owned() }
}
