//! Buffers handed out: they stay, and their ends order what others have queued before what comes next.

use crate::{
    backend::{BUSY, Check, Rig},
    rows::{array, bytes, end, is, open},
};
use tack_residency::{Buffer, ErrorKind, driver::QueueRole};

pub const CHECKS: &[Check] = &[
    ("an export stays, and is named", exported),
    ("an export whose foreign work still writes at its end", foreign_writer),
];

fn exported(rig: &Rig) -> String {
    let (device, _second) = open(rig, 2);
    let buffer = array(rig, &device, 1);
    let export = buffer.export().wait().expect("resident");
    let ptr = export.ptr();
    let others: Vec<Buffer> = (2..6).map(|number| array(rig, &device, number)).collect();
    assert_eq!(
        (buffer.spill().wait().expect("it stays"), buffer.is_spilled(), export.ptr()),
        (0, false, ptr)
    );
    let error = device.alloc(2 * bytes(rig)).wait().expect_err("there is room for one");
    assert_eq!(error.kind(), ErrorKind::Blocked, "{error}");
    assert!(error.to_string().contains("array 1"), "{error}");
    drop(export);
    drop(device.alloc(2 * bytes(rig)).wait().expect("it may go now"));
    is(rig, "the exported one", &buffer, 1);
    drop(others);
    end(device);
    String::new()
}

fn foreign_writer(rig: &Rig) -> String {
    let (device, second) = open(rig, 2);
    let driver = device.driver();
    // A stream that the device knows nothing of, where it is drained at the end of an export of which nobody says more.
    let stranger = driver.create_queue(QueueRole::Compute).expect("a stream");
    let drained = driver.caps().drains.then_some((stranger, None));
    let known = [(second.id(), None), (second.id(), Some(&second))];
    for (stream, told) in known.into_iter().chain(drained) {
        let [spilled, read] = [1, 2].map(|number| array(rig, &device, number));
        for buffer in [&spilled, &read] {
            let export = buffer.export().wait().expect("resident");
            // The pointer is good behind what is queued on the device's own queue.
            let fence = driver.record(device.queue().id()).expect("a fence");
            driver.wait(stream, fence).expect("a wait");
            rig.spin(&**driver, stream, BUSY);
            driver.fill(stream, export.ptr(), bytes(rig), 7).expect("a foreign write");
            match told {
                Some(queue) => export.end_after(queue).expect("its queue"),
                None => drop(export),
            }
        }
        is(rig, "what was read", &read, 0x0707_0707);
        assert_eq!(spilled.spill().wait().expect("spilled"), bytes(rig));
        is(rig, "what was spilled", &spilled, 0x0707_0707);
    }
    end(device);
    if drained.is_some() { String::new() } else { "no wait for streams of others".to_owned() }
}
