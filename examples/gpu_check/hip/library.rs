//! The calls of HIP's library that programs make for kernels and copies of their own.

use crate::subject::Way;
use libloading::Library;
use std::{
    env,
    ffi::{CStr, c_int, c_uint, c_void},
    path::Path,
    ptr::null_mut,
};
use tack_residency::driver::DevicePtr;

/// A kernel of a module that is never unloaded.
#[derive(Clone, Copy, Debug)]
pub struct Function(*mut c_void);

// SAFETY: HIP takes a function on any thread.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

type Launch = unsafe extern "C" fn(
    *mut c_void,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    *mut c_void,
    *mut *mut c_void,
    *mut *mut c_void,
) -> c_int;

/// A call by its name, of the type that its place has: its signature, from HIP 5 on.
macro_rules! call {
    ($library:expr, $name:literal) => {
        // SAFETY: the place has the call's signature, and the library is never closed.
        unsafe { $crate::hip::library::find(&$library, $name) }?
    };
}
pub(super) use call;

/// The library's calls, and where a compiler is looked for.
pub struct Calls {
    pub library: Library,
    set_device: unsafe extern "C" fn(c_int) -> c_int,
    load: unsafe extern "C" fn(*mut *mut c_void, *const c_void) -> c_int,
    function: unsafe extern "C" fn(*mut *mut c_void, *mut c_void, *const std::ffi::c_char) -> c_int,
    launch: Launch,
    allocate_host: unsafe extern "C" fn(*mut *mut c_void, usize, c_uint) -> c_int,
    free_host: unsafe extern "C" fn(*mut c_void) -> c_int,
    copy_out: unsafe extern "C" fn(*mut c_void, u64, usize, *mut c_void) -> c_int,
    copy_in: unsafe extern "C" fn(u64, *mut c_void, usize, *mut c_void) -> c_int,
}

/// The library that the crate opens, once more. It is never closed.
///
/// # Errors
///
/// Which library or call is missing.
pub fn calls() -> Result<&'static Calls, String> {
    let named = env::var("TACK_HIP_LIBRARY").ok().filter(|name| !name.is_empty());
    let names = named.map_or_else(|| versions("libamdhip64.so"), |name| vec![name]);
    let library = open(&names)?;
    let calls = Calls {
        set_device: call!(library, "hipSetDevice"),
        load: call!(library, "hipModuleLoadData"),
        function: call!(library, "hipModuleGetFunction"),
        launch: call!(library, "hipModuleLaunchKernel"),
        allocate_host: call!(library, "hipHostMalloc"),
        free_host: call!(library, "hipHostFree"),
        copy_out: call!(library, "hipMemcpyDtoHAsync"),
        copy_in: call!(library, "hipMemcpyHtoDAsync"),
        library,
    };
    Ok(Box::leak(Box::new(calls)))
}

/// A library's names, the newest first.
pub fn versions(name: &str) -> Vec<String> {
    [".7", ".6", ".5", ""].iter().map(|version| format!("{name}{version}")).collect()
}

/// The first of these that opens.
pub fn open(names: &[impl AsRef<Path>]) -> Result<Library, String> {
    let mut said = Vec::new();
    for name in names {
        // SAFETY: whoever asks for HIP wants AMD's library, or what the environment names, to start.
        match unsafe { Library::new(name.as_ref()) } {
            Ok(library) => return Ok(library),
            Err(error) => said.push(format!("{}: {error}", name.as_ref().display())),
        }
    }
    Err(said.join("; "))
}

/// A call by its name.
///
/// # Safety
///
/// `T` is its signature, and the library is never closed while it may be called.
pub unsafe fn find<T: Copy>(library: &Library, name: &str) -> Result<T, String> {
    // SAFETY: the caller vouches for it.
    let found = unsafe { library.get::<T>(name.as_bytes()) };
    found.map(|symbol| *symbol).map_err(|error| format!("{name}: {error}"))
}

/// What a result code asks for.
pub fn check(name: &str, code: c_int) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("{name} says {code}")) }
}

impl Calls {
    /// Makes a device this thread's own.
    pub fn set_device(&self, ordinal: u32) -> Result<(), String> {
        // SAFETY: it takes any number.
        check("hipSetDevice", unsafe { (self.set_device)(ordinal as c_int) })
    }

    /// Loads what the compiler made, for good.
    pub fn load(&self, code: &[u8]) -> Result<*mut c_void, String> {
        let mut module = null_mut();
        // SAFETY: `code` is a code object, which says itself how long it is.
        check("hipModuleLoadData", unsafe { (self.load)(&mut module, code.as_ptr().cast()) })?;
        Ok(module)
    }

    /// A kernel of a module.
    pub fn function(&self, module: *mut c_void, name: &CStr) -> Result<Function, String> {
        let mut function = null_mut();
        // SAFETY: the module is loaded, and the name ends with a zero.
        check("hipModuleGetFunction", unsafe { (self.function)(&mut function, module, name.as_ptr()) })?;
        Ok(Function(function))
    }

    /// Queues a kernel.
    ///
    /// # Safety
    ///
    /// The kernel takes these parameters, each of eight bytes, and the stream's device is current.
    pub unsafe fn launch(
        &self,
        function: Function,
        (blocks, threads): (u32, u32),
        stream: *mut c_void,
        params: &[u64],
    ) -> Result<(), String> {
        let mut places: Vec<*mut c_void> =
            params.iter().map(|param| std::ptr::from_ref(param).cast_mut().cast()).collect();
        let (places, none) = (places.as_mut_ptr(), null_mut());
        // SAFETY: the caller vouches for the kernel; the parameters are read before this returns.
        let code = unsafe { (self.launch)(function.0, blocks, 1, 1, threads, 1, 1, 0, stream, places, none) };
        check("hipModuleLaunchKernel", code)
    }

    /// Pinned memory, of every device.
    pub fn allocate_host(&self, bytes: usize) -> Result<*mut c_void, String> {
        const PORTABLE: c_uint = 1;
        let mut start = null_mut();
        // SAFETY: `start` is where the address goes.
        check("hipHostMalloc", unsafe { (self.allocate_host)(&mut start, bytes, PORTABLE) })?;
        Ok(start)
    }

    /// # Safety
    ///
    /// `allocate_host` gave it, it is freed once, and no copy of it is under way.
    pub unsafe fn free_host(&self, start: *mut c_void) {
        // SAFETY: the caller vouches for it. There is nobody to tell if it is refused.
        let _ = unsafe { (self.free_host)(start) };
    }

    /// Queues a copy between pinned memory and the device's.
    ///
    /// # Safety
    ///
    /// Both have so many bytes until the copy has run, and the stream's device is current.
    pub unsafe fn copy(
        &self,
        way: Way,
        (host, ptr): (*mut c_void, DevicePtr),
        bytes: usize,
        stream: *mut c_void,
    ) -> Result<(), String> {
        let (name, code) = match way {
            // SAFETY: the caller vouches for it.
            Way::Out => ("hipMemcpyDtoHAsync", unsafe { (self.copy_out)(host, ptr.as_raw(), bytes, stream) }),
            // SAFETY: as above.
            Way::In => ("hipMemcpyHtoDAsync", unsafe { (self.copy_in)(ptr.as_raw(), host, bytes, stream) }),
        };
        check(name, code)
    }
}
