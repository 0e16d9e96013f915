//! The kernels that have a body here: those of the test programs, by their entries' names.

use super::{
    code::{self, Answer},
    mixing,
    state::Library,
    stream,
};
use std::{ffi::c_uint, ffi::c_void, time::Duration};
use tack_residency::driver::{ArgAccess, DevicePtr, HostKernel};

/// A kernel: how one launch of it is made of that launch's parameters, and how many bytes each of these has.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    make: fn(&Params) -> HostKernel,
    bytes: &'static [usize],
}

impl Kernel {
    fn of(&self, params: &Params) -> HostKernel {
        (self.make)(params)
    }
}

/// The addresses of a launch's parameters.
#[derive(Debug)]
#[repr(transparent)]
pub struct Params(*const *const c_void);

impl Params {
    /// The parameter at `index`, of the type that the kernel declares.
    fn at<T: Copy>(&self, index: usize) -> T {
        assert!(!self.0.is_null(), "a kernel with parameters is launched without");
        // SAFETY: who launches a kernel gives the address of each parameter that it declares.
        let param = unsafe { self.0.wrapping_add(index).read() };
        // SAFETY: as above.
        unsafe { param.cast::<T>().read_unaligned() }
    }
}

/// A launch's parameters, kept.
#[derive(Debug)]
pub struct Values(Vec<u64>);

impl Values {
    /// A launch of a kernel with them.
    pub fn launch(&self, kernel: Kernel) -> HostKernel {
        let places: Vec<*const c_void> =
            self.0.iter().map(|value| std::ptr::from_ref(value).cast()).collect();
        kernel.of(&Params(places.as_ptr()))
    }
}

impl Params {
    /// What is there now, for launches to come.
    pub fn values(&self, kernel: Kernel) -> Values {
        let value = |(index, bytes): (usize, &usize)| match bytes {
            4 => u64::from(self.at::<u32>(index)),
            _ => self.at::<u64>(index),
        };
        Values(kernel.bytes.iter().enumerate().map(value).collect())
    }
}

/// A kernel by its entry's name.
pub fn find(name: &str) -> Option<Kernel> {
    let (make, bytes): (fn(&Params) -> HostKernel, &[usize]) = match name {
        "add_one" => (add_one, &[8, 8]),
        "mix" => (mix, &[8, 8, 8, 8, 4, 4]),
        "fold" => (fold, &[8, 8, 8, 8]),
        "spin" => (spin, &[8]),
        _ => return None,
    };
    Some(Kernel { make, bytes })
}

/// Adds one to every number: `data`, `count`.
fn add_one(params: &Params) -> HostKernel {
    let (data, count) = (params.at(0), params.at(1));
    numbers(HostKernel::new(Duration::ZERO, |args| {
        let Some(data) = args.first_mut() else { return };
        mixing::add_one(data.bytes_mut());
    }))(data, count, ArgAccess::Write)
}

/// Mixes the second numbers into the first: `to`, `to_count`, `from`, `from_count`, `keeps`, `salt`.
fn mix(params: &Params) -> HostKernel {
    let (keeps, salt): (u32, u32) = (params.at(4), params.at(5));
    two(params, move |to, from| mixing::mix(to, from, keeps != 0, salt))
}

/// Adds each of the second numbers to one of the first: `to`, `to_count`, `from`, `from_count`.
fn fold(params: &Params) -> HostKernel {
    two(params, mixing::fold)
}

/// A kernel that writes numbers and reads others, or none.
fn two(params: &Params, body: impl FnOnce(&mut [u8], &[u8]) + Send + 'static) -> HostKernel {
    let kernel = numbers(HostKernel::new(Duration::ZERO, move |args| {
        let Some((to, rest)) = args.split_first_mut() else { return };
        body(to.bytes_mut(), rest.first().map_or(&[][..], |from| from.bytes()));
    }));
    let kernel = kernel(params.at(0), params.at(1), ArgAccess::Write);
    numbers(kernel)(params.at(2), params.at(3), ArgAccess::Read)
}

/// Keeps the stream busy: `nanos`.
fn spin(params: &Params) -> HostKernel {
    HostKernel::new(Duration::from_nanos(params.at(0)), |_| {})
}

/// Adds `count` numbers to a kernel's arguments, unless there are none.
fn numbers(kernel: HostKernel) -> impl FnOnce(u64, u64, ArgAccess) -> HostKernel {
    move |ptr, count, access| {
        let bytes = count.saturating_mul(4);
        if bytes == 0 { kernel } else { kernel.arg(DevicePtr::from_raw(ptr), bytes, access) }
    }
}

/// The most threads of a block.
const THREADS: u64 = 1024;

/// "Execution Control", cuLaunchKernel: INVALID_VALUE for a grid or block of nothing, or a block of too many threads;
/// the parameters are read before this returns.
pub fn launch(
    library: &Library,
    function: usize,
    grid: [c_uint; 3],
    block: [c_uint; 3],
    stream: usize,
    params: &Params,
) -> Answer {
    let threads: u64 = block.into_iter().map(u64::from).product();
    if grid.contains(&0) || threads == 0 || threads > THREADS {
        return Err(code::INVALID_VALUE);
    }
    let (mut state, _here) = library.enter()?;
    let (_, kernel) = *state.functions.get(function)?;
    if state.capture(stream, kernel, params) {
        return Ok(());
    }
    drop(state);
    stream::launch(library, stream, kernel.of(params).labelled("kernel"))
}
