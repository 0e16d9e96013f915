//! The kernels of the checks as closures, for devices that run those.

use crate::{backend::Mix, mixing};
use std::time::Duration;
use tack_residency::{
    Error, Run,
    driver::{Arg, ArgAccess, HostKernel},
};

/// One added to every number of the use at `index`.
pub fn add_one(run: &Run<'_>, index: usize) -> Result<(), Error> {
    run.host_kernel(Duration::ZERO, move |args| mixing::add_one(args[index].bytes_mut()))
}

/// One use mixed into another, as [`Mix`] says.
pub fn mix(run: &Run<'_>, mix: Mix) -> Result<(), Error> {
    let kernel = HostKernel::new(Duration::ZERO, move |args: &mut [Arg<'_>]| {
        let Some((to, rest)) = args.split_first_mut() else { return };
        let from = rest.first().map_or(&[][..], Arg::bytes);
        let folds = from.len() > to.bytes().len();
        mixing::mix(to.bytes_mut(), if folds { &[] } else { from }, mix.keeps, mix.salt);
        if folds {
            mixing::fold(to.bytes_mut(), from);
        }
    });
    let kernel = kernel.arg(run.ptr(mix.to), run.bytes(mix.to), ArgAccess::Write);
    let kernel = match mix.from {
        Some(from) => kernel.arg(run.ptr(from), run.bytes(from), ArgAccess::Read),
        None => kernel,
    };
    Ok(run.driver().launch_host(run.queue(), kernel)?)
}
