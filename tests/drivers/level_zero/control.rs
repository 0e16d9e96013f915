//! What a test asks of the library besides its vendor's calls; and what is said at the process's end.

use crate::{call::export, list, settings::settings, state::Library};
use std::{ffi::c_int, time::Duration};
use tack_residency::driver::{Driver, HostKernel};

/// How much is open besides contexts.
#[unsafe(no_mangle)]
unsafe extern "C" fn tack_sim_open() -> u64 {
    Library::get().lock().open()[1..].iter().map(|(_, count)| *count as u64).sum()
}

/// How many contexts are open.
#[unsafe(no_mangle)]
unsafe extern "C" fn tack_sim_held() -> u64 {
    Library::get().lock().contexts.len() as u64
}

export! {
    // Keeps a list busy for `nanos` nanoseconds.
    tack_sim_spin(list: usize, nanos: u64) => |library| {
        let kernel = HostKernel::new(Duration::from_nanos(nanos), |_| {});
        list::append(library, list, |sim, queue| sim.launch_host(queue, kernel)).map(drop)
    };
}

unsafe extern "C" {
    fn atexit(call: extern "C" fn()) -> c_int;
}

extern "C" fn report() {
    let library = Library::get();
    eprintln!("tack_sim: called: {}", library.refusals.called().join(" "));
    let open = library.lock().open();
    let open: Vec<String> =
        open.iter().filter(|(_, count)| *count > 0).map(|(what, count)| format!("{count} {what}")).collect();
    let open = if open.is_empty() { "nothing".to_owned() } else { open.join(", ") };
    eprintln!("tack_sim: open at the end: {open}");
}

/// Has the process say at its end what was called and what is open, if it is to.
pub fn report_at_exit() {
    if settings().report {
        // SAFETY: the library is never unloaded, and what is called there takes no argument.
        let _ = unsafe { atexit(report) };
    }
}
