//! HIP's compiler, opened at run time: source to code of the current device.

use super::library::{Calls, call, check, open, versions};
use libloading::Library;
use std::{
    env,
    ffi::{CString, c_char, c_int, c_void},
    path::{Path, PathBuf},
    ptr::{null, null_mut},
};

type Program = *mut c_void;

/// Compiles a source for the device that is current on this thread.
///
/// # Errors
///
/// No compiler was found, or what it says of the source.
pub fn compile(hip: &Calls, source: &str) -> Result<Vec<u8>, String> {
    // Some releases have the compiler in HIP's own library.
    let opened = open(&files());
    let library = match &opened {
        Ok(library) => library,
        Err(_) => &hip.library,
    };
    let compiler = Compiler::find(library).map_err(|error| match opened.as_ref().err() {
        Some(tried) => format!("no run-time compiler was found: {tried}"),
        None => error,
    })?;
    let source = CString::new(source).map_err(|error| error.to_string())?;
    let code = compiler.compile(&source, &[]);
    // What it has started may run on.
    std::mem::forget(opened);
    code
}

/// Where the compiler is looked for: beside HIP's library, where that is named, and in the loader's path.
fn files() -> Vec<PathBuf> {
    let named = env::var_os("TACK_HIP_LIBRARY");
    let beside =
        named.as_deref().and_then(|name| Path::new(name).parent()).filter(|folder| *folder != Path::new(""));
    let names = versions("libhiprtc.so");
    let beside = beside.into_iter().flat_map(|folder| names.iter().map(|name| folder.join(name)));
    beside.chain(names.iter().map(PathBuf::from)).collect()
}

struct Compiler {
    create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int,
    code_bytes: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    code: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    log_bytes: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    log: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    destroy: unsafe extern "C" fn(*mut Program) -> c_int,
}

impl Compiler {
    fn find(library: &Library) -> Result<Compiler, String> {
        Ok(Compiler {
            create: call!(library, "hiprtcCreateProgram"),
            compile: call!(library, "hiprtcCompileProgram"),
            code_bytes: call!(library, "hiprtcGetCodeSize"),
            code: call!(library, "hiprtcGetCode"),
            log_bytes: call!(library, "hiprtcGetProgramLogSize"),
            log: call!(library, "hiprtcGetProgramLog"),
            destroy: call!(library, "hiprtcDestroyProgram"),
        })
    }

    fn compile(&self, source: &CString, options: &[*const c_char]) -> Result<Vec<u8>, String> {
        let count = options.len() as c_int;
        let mut program = null_mut();
        let name = c"gpu_check.hip".as_ptr();
        // SAFETY: both texts end with a zero, and there are no headers.
        let code = unsafe { (self.create)(&mut program, source.as_ptr(), name, 0, null(), null()) };
        check("hiprtcCreateProgram", code)?;
        // SAFETY: the program was made above, and the options are texts; without one of an architecture it is compiled for
        // the current device.
        let code = unsafe { (self.compile)(program, count, options.as_ptr()) };
        let compiled = check("hiprtcCompileProgram", code);
        let made = match compiled {
            Ok(()) => self.bytes(program, "hiprtcGetCode", (self.code_bytes, self.code)),
            Err(error) => {
                let log = self.bytes(program, "hiprtcGetProgramLog", (self.log_bytes, self.log));
                let log = log.unwrap_or_default();
                Err(format!("{error}: {}", String::from_utf8_lossy(&log).trim_end_matches('\0').trim()))
            }
        };
        // SAFETY: it was made above, and is not used any more.
        let _ = unsafe { (self.destroy)(&mut program) };
        made
    }

    /// What a program has of a kind: first how long it is, then its bytes.
    fn bytes(
        &self,
        program: Program,
        name: &str,
        (long, take): (
            unsafe extern "C" fn(Program, *mut usize) -> c_int,
            unsafe extern "C" fn(Program, *mut c_char) -> c_int,
        ),
    ) -> Result<Vec<u8>, String> {
        let mut bytes = 0;
        // SAFETY: the program lives, and `bytes` is where the number goes.
        check(name, unsafe { long(program, &mut bytes) })?;
        let mut taken = vec![0u8; bytes];
        // SAFETY: there is room for as many bytes as the call has just said.
        check(name, unsafe { take(program, taken.as_mut_ptr().cast()) })?;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn amds_compiler_takes_the_kernels_where_it_is_installed() {
        let names = [versions("libhiprtc.so"), versions("libamdhip64.so")].concat();
        let found = open(&names).and_then(|library| Ok((Compiler::find(&library)?, library)));
        let (compiler, library) = match found {
            Ok(found) => found,
            Err(why) => return println!("SKIPPED: {why}"),
        };
        let source = CString::new(super::super::KERNELS).expect("no zero is in it");
        let code = compiler.compile(&source, &[c"--gpu-architecture=gfx90a".as_ptr()]).expect("it compiles");
        assert!(code.len() > 1000 && code.windows(7).any(|name| name == b"add_one"), "{} bytes", code.len());
        let wrong = compiler.compile(&c"__global__ void wrong( {".to_owned(), &[]).expect_err("it does not");
        assert!(wrong.contains("hiprtcCompileProgram says"), "{wrong}");
        std::mem::forget(library);
    }
}
