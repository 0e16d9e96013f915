//! HIP: AMD's library, opened at run time, behind symbols of this crate's own.

mod api;
mod library;

use super::{
    Result,
    cuda_like::{CudaLike, Found},
};
use api::Api;
use library::library;
use std::sync::Arc;

/// An AMD GPU.
///
/// Opened by name (`hip` or `hip:1`). The library is the one that the environment variable `TACK_HIP_LIBRARY` names, else
/// ROCm's, of version 5, 6 or 7. Each call makes the device the calling thread's own, and puts back which was before.
///
/// Memory comes from `hipMalloc`, and what is freed is kept by its size to be allocated again: HIP's pools have lost data
/// across streams.
///
/// ```
/// use tack_residency::{Device, ErrorKind};
///
/// match Device::open("hip") {
///     // the GPU's name, its compute capability and HIP's version
///     Ok(device) => println!("{}", device.driver().description()),
///     // [...] no HIP library could be opened: libamdhip64.so.7: cannot open shared object file [...]
///     Err(error) => {
///         assert_eq!(error.kind(), ErrorKind::Unavailable);
///         println!("{error}");
///     }
/// }
/// ```
///
/// A kernel of the program's own is launched on the queue's stream, which `Run::raw_queue` gives as a `hipStream_t`:
///
/// ```no_run
/// use std::{error::Error, ffi::{c_uint, c_void}, ptr::null_mut};
/// use tack_residency::{Device, Use};
///
/// type Launch = unsafe extern "C" fn(
///     *mut c_void, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, *mut c_void, *mut *mut c_void, *mut *mut c_void,
/// ) -> i32;
/// /// With hipModuleLaunchKernel, and what hipModuleGetFunction gave.
/// fn run(launch: Launch, kernel: *mut c_void) -> Result<(), Box<dyn Error>> {
///     let device = Device::options().budget(8 << 30).open("hip")?;
///     let buffer = device.alloc(4 << 20).wait()?;
///     device.prepare([Use::read_write(&buffer)]).wait()?.submit(|run| {
///         let (stream, mut ptr) = (run.raw_queue()?, run.ptr(0).as_raw());
///         let mut params = [(&raw mut ptr).cast::<c_void>()];
///         // SAFETY: the kernel takes one pointer to a million numbers, and the stream's device is current.
///         match unsafe { launch(kernel, 4096, 1, 1, 256, 1, 1, 0, stream, params.as_mut_ptr(), null_mut()) } {
///             0 => Ok(()),
///             code => Err(format!("hipModuleLaunchKernel says {code}").into()),
///         }
///     })
/// }
/// ```
pub type Hip = CudaLike<Api>;

/// What sizes are rounded up to: the pages that a device's memory is mapped by.
const GRANULARITY: u64 = 4096;

impl Hip {
    /// The device with this ordinal, as `HIP_VISIBLE_DEVICES` leaves them.
    ///
    /// ```
    /// use tack_residency::driver::{DriverErrorKind, hip::Hip};
    ///
    /// let error = Hip::open(4_000_000_000).expect_err("nobody has so many");
    /// assert_eq!(error.kind, DriverErrorKind::Unavailable);
    /// assert_eq!(Hip::count().unwrap_or(0) > 0, Hip::open(0).is_ok());
    /// ```
    ///
    /// # Errors
    ///
    /// `Unavailable`, with what was tried, if there is no library, no such device, or a symbol is missing.
    pub fn open(ordinal: u32) -> Result<Arc<Hip>> {
        let library = library()?;
        let device = library.ordinal(ordinal)?;
        let found = Found {
            description: format!("{} behind {}", library.describe(device), version(library.version())),
            identity: format!("hip:{ordinal}"),
            total_bytes: library.total(device)?,
            granularity: GRANULARITY,
            pools: None,
        };
        CudaLike::new(Api::new(library, device), found)
    }

    /// How many devices there are, as `HIP_VISIBLE_DEVICES` leaves them.
    ///
    /// # Errors
    ///
    /// `Unavailable`, with what was tried, if there is no library, no device, or a symbol is missing.
    pub fn count() -> Result<u32> {
        library()?.count()
    }
}

/// HIP's version in words. Some releases give a build's number instead.
fn version(number: i32) -> String {
    match (number / 10_000_000, number / 100_000 % 100) {
        (0, _) => format!("HIP (build {number})"),
        (major, minor) => format!("HIP {major}.{minor}"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_version_is_told_from_a_build() {
        assert_eq!(super::version(60_443_484), "HIP 6.4");
        assert_eq!(super::version(50_221_153), "HIP 5.2");
        assert_eq!(super::version(3_182), "HIP (build 3182)");
    }
}
