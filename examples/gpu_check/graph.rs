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
    /// Captures, on a stream of its own and in the mode that forbids other threads most, what adds one to each number of
    /// these arrays of `BYTES` bytes, `captures` times over; launches the last graph `launches` times, and waits for it.
    fn capture_and_launch(
        &self,
        arrays: &[DevicePtr],
        captures: u32,
        launches: u32,
    ) -> Result<(), Box<dyn std::error::Error>>;
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

/// How long each capture goes on while others call the device.
pub fn linger() {
    thread::sleep(Duration::from_millis(2));
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
        let graphs = subject.graphs().expect("it is not skipped");
        let capture = AssertUnwindSafe(|| graphs.capture_and_launch(&arrays, CAPTURES, LAUNCHES));
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
