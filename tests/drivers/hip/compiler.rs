//! HIP's run-time compiler: a source's kernels, by name, are its code.

use crate::simulated::{Outlet, calls::Text};
use std::{
    collections::BTreeMap,
    ffi::{c_char, c_int, c_void},
    sync::{Mutex, MutexGuard, PoisonError},
};

const INVALID_INPUT: c_int = 3;
const INVALID_PROGRAM: c_int = 4;
const COMPILATION: c_int = 6;

/// What a program's source and code are, by the program's handle.
static PROGRAMS: Mutex<BTreeMap<usize, (String, Option<String>)>> = Mutex::new(BTreeMap::new());

fn programs() -> MutexGuard<'static, BTreeMap<usize, (String, Option<String>)>> {
    PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn answer(done: Result<(), c_int>) -> c_int {
    done.err().unwrap_or(0)
}

/// "HIP RTC", hiprtcCreateProgram: without headers, here.
#[unsafe(no_mangle)]
unsafe extern "C" fn hiprtcCreateProgram(
    to: Outlet<usize>,
    source: Text,
    _name: Text,
    count: c_int,
    _headers: *const c_void,
    _names: *const c_void,
) -> c_int {
    let Ok(source) = source.get() else { return INVALID_INPUT };
    if count != 0 {
        return INVALID_INPUT;
    }
    let mut programs = programs();
    let program = programs.keys().next_back().map_or(0x1000, |last| last + 16);
    programs.insert(program, (source, None));
    to.put(program).err().unwrap_or(0)
}

/// "HIP RTC", hiprtcCompileProgram: a source without a kernel has none, and its code is of no use.
#[unsafe(no_mangle)]
unsafe extern "C" fn hiprtcCompileProgram(program: usize, _options: c_int, _texts: *const c_void) -> c_int {
    let mut programs = programs();
    let Some((source, code)) = programs.get_mut(&program) else { return INVALID_PROGRAM };
    let names = source.split("__global__ void ").skip(1).filter_map(|part| part.split('(').next());
    let entries: String = names.map(|name| format!(".entry {} ", name.trim())).collect();
    let is_empty = entries.is_empty();
    *code = Some(entries);
    if is_empty { COMPILATION } else { 0 }
}

/// A program's code, with the zero at its end.
fn with_code(program: usize, give: impl FnOnce(&[u8]) -> Result<(), c_int>) -> c_int {
    let programs = programs();
    let Some((_, Some(code))) = programs.get(&program) else { return INVALID_PROGRAM };
    answer(give(&[code.as_bytes(), b"\0"].concat()))
}

/// "HIP RTC", hiprtcGetCodeSize.
#[unsafe(no_mangle)]
unsafe extern "C" fn hiprtcGetCodeSize(program: usize, to: Outlet<usize>) -> c_int {
    with_code(program, |code| to.put(code.len()))
}

/// "HIP RTC", hiprtcGetCode: as many bytes as were told.
#[unsafe(no_mangle)]
unsafe extern "C" fn hiprtcGetCode(program: usize, to: Outlet<c_char>) -> c_int {
    with_code(program, |code| {
        code.iter().enumerate().try_for_each(|(at, byte)| to.after(at).put(*byte as c_char))
    })
}

/// "HIP RTC", hiprtcGetProgramLogSize: there is nothing to say.
#[unsafe(no_mangle)]
unsafe extern "C" fn hiprtcGetProgramLogSize(program: usize, to: Outlet<usize>) -> c_int {
    with_code(program, |_| to.put(1))
}

/// "HIP RTC", hiprtcGetProgramLog.
#[unsafe(no_mangle)]
unsafe extern "C" fn hiprtcGetProgramLog(program: usize, to: Outlet<c_char>) -> c_int {
    with_code(program, |_| to.put(0))
}

/// "HIP RTC", hiprtcDestroyProgram.
#[unsafe(no_mangle)]
unsafe extern "C" fn hiprtcDestroyProgram(program: Outlet<usize>) -> c_int {
    let known = program.get().ok().and_then(|program| programs().remove(&program));
    if known.is_some() { 0 } else { INVALID_PROGRAM }
}
