//! A graph that a program captures and launches again and again, while the crate moves what is not in it.

use crate::{job::Job, subject::Subject};
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};
use tack_residency::{Buffer, Device, Use, driver::DevicePtr};

/// What captures graphs.
pub trait Graphs {
    /// Captures and launches on a stream of its own, in the mode that forbids other threads most.
    fn run(&self, plan: &Plan<'_>) -> Outcome;
}

pub type Outcome = Result<(), Box<dyn std::error::Error>>;

/// A graph that adds one to each number of some arrays.
#[cfg_attr(not(any(feature = "cuda", feature = "hip")), allow(dead_code, reason = "nobody captures"))]
pub struct Plan<'a> {
    /// Where they are, of `BYTES` bytes each.
    pub arrays: [DevicePtr; 2],
    pub captures: u32,
    /// Called within each capture.
    pub meanwhile: &'a dyn Fn(),
    /// How often the last is launched, and then waited for.
    pub launches: u32,
}

pub const BYTES: u64 = 1 << 20;
const CAPTURES: u32 = 20;
const LAUNCHES: u32 = 50;

/// The check, of any device.
pub fn job(subject: &Arc<dyn Subject>) -> Job {
    let skipped = subject.graphs().is_none().then_some("it captures no graphs");
    let subject = subject.clone();
    Job { skipped, ..Job::new("a captured graph holds exports", move || captured(&*subject)) }
}

/// With room for what is in the graph, and for half of what is not.
fn captured(subject: &dyn Subject) -> String {
    let device = Device::options().budget(5 * BYTES).open_driver("graphs", subject.open()).expect("it opens");
    let array = || device.alloc(BYTES).wait().expect("room is made");
    let inside = [array(), array()];
    let others: Vec<Buffer> = (0..6).map(|_| array()).collect();
    let exports = inside.each_ref().map(|buffer| buffer.export().wait().expect("resident"));
    let arrays = exports.each_ref().map(|export| export.ptr());
    let is_over = AtomicBool::new(false);
    let (launched, rounds) = thread::scope(|scope| {
        let busy = scope.spawn(|| use_others(subject, &device, &others, &is_over));
        // Others call the device while a capture goes on.
        let meanwhile = &|| thread::sleep(Duration::from_millis(2));
        let plan = Plan { arrays, captures: CAPTURES, meanwhile, launches: LAUNCHES };
        let graphs = subject.graphs().expect("it is not skipped");
        let capture = AssertUnwindSafe(|| graphs.run(&plan));
        let launched = catch_unwind(capture);
        is_over.store(true, Ordering::Relaxed);
        (launched.unwrap_or_else(|panic| resume_unwind(panic)), busy.join().expect("the other thread"))
    });
    launched.expect("captures go on, whatever else is called meanwhile");
    let spills = device.memory_info().spills;
    // The graph's launches are over, and it is gone: from here on the buffers may move again.
    drop(exports);
    for buffer in &inside {
        assert_eq!(buffer.spill().wait().expect("it moves again"), BYTES);
        is_all(buffer, LAUNCHES);
    }
    others.iter().for_each(|buffer| is_all(buffer, rounds));
    device.check().expect("the books balance");
    format!("{CAPTURES} captures and {LAUNCHES} launches beside {spills} spills")
}

fn is_all(buffer: &Buffer, number: u32) {
    let read = buffer.read().wait().expect("read");
    assert!(read.chunks(4).all(|found| found == number.to_le_bytes()), "not all are {number}");
}

/// Adds one to every buffer, which takes spills and restores, round after round; how many rounds.
fn use_others(subject: &dyn Subject, device: &Device, others: &[Buffer], is_over: &AtomicBool) -> u32 {
    let mut rounds = 0;
    while rounds < 3 || !is_over.load(Ordering::Relaxed) {
        for buffer in others {
            let launch = device.prepare([Use::read_write(buffer)]).wait().expect("room is made");
            launch.submit(|run| subject.add_one(run, 0)).expect("queued");
        }
        // What is dropped is freed, and what is new allocated, while a capture goes on.
        drop(device.alloc(BYTES).wait().expect("room is made"));
        rounds += 1;
    }
    rounds
}
