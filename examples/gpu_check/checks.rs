//! The conformance suite as jobs, and what is checked of the device's kind alone.

use crate::{
    astray,
    backend::{Check, Rig},
    calls, dropped, exports, graph,
    job::Job,
    order, peers, program_checks, rows,
    subject::Opened,
    transfers,
};
use std::time::Duration;
use tack_residency::driver::{HostKernel, QueueRole, sim::Sim};

/// All checks of a device.
pub fn jobs(opened: &mut Opened) -> Vec<Job> {
    let rig = opened.rig();
    let driver = rig.open();
    let queue = driver.create_queue(QueueRole::Compute).expect("a queue");
    let closures = driver.launch_host(queue, HostKernel::new(Duration::ZERO, |_| {})).is_ok();
    let is_sim = driver.as_any().is::<Sim>();
    drop(driver);
    let alone = rig.other().is_none().then_some("there is one device");
    let lists: [(&[Check], Option<&'static str>); 9] = [
        (calls::CHECKS, None),
        (order::CHECKS, None),
        (transfers::CHECKS, None),
        (peers::CHECKS, alone),
        (astray::CHECKS, alone),
        (dropped::CHECKS, is_sim.then_some("it does not begin what is queued when it goes")),
        (exports::CHECKS, None),
        (rows::CHECKS, (!closures).then_some("it runs no kernels whose bodies are closures")),
        (program_checks::CHECKS, None),
    ];
    let every =
        lists.iter().flat_map(|(checks, skipped)| checks.iter().map(|check| job(&rig, *check, *skipped)));
    every.chain([graph::job(&opened.subject)]).chain(std::mem::take(&mut opened.own)).collect()
}

fn job(rig: &Rig, (name, check): Check, skipped: Option<&'static str>) -> Job {
    let rig = rig.clone();
    Job { skipped, ..Job::new(name, move || check(&rig)) }
}
