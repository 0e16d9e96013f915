//! Level Zero's own loader and driver: what they say and refuse; and, on a driver that only records what it is asked to run
//! (Intel's, with `SetCommandStreamReceiver`), that it takes all that a program asks for.
//!
//! `.ci/level_zero` gets that driver, for which no GPU is needed.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};
use tack_residency::{
    Device, Error, Use,
    driver::{Driver, DriverErrorKind, HostKind, HostRange, QueueRole, level_zero::LevelZero},
};

/// The driver runs nothing, so that no fence ever passes.
fn records() -> bool {
    std::env::var_os("SetCommandStreamReceiver").is_some()
}

/// The first GPU; none, which is said, where there is none.
fn open() -> Option<Arc<LevelZero>> {
    static FOLDER: OnceLock<()> = OnceLock::new();
    FOLDER.get_or_init(|| {
        // A driver that records does so where it is started.
        if records() {
            let folder = std::env::temp_dir().join("tack-level-zero");
            std::fs::create_dir_all(&folder).expect("a folder");
            std::env::set_current_dir(&folder).expect("it is entered");
        }
    });
    match LevelZero::open(0) {
        Ok(device) => Some(device),
        Err(error) => {
            eprintln!("SKIPPED: {error}");
            assert!(!records(), "the driver that records is not there");
            None
        }
    }
}

#[test]
fn the_device_says_what_it_is() {
    let Some(device) = open() else { return };
    let (description, memory) = (device.description(), device.memory());
    assert!(description.contains("behind Level Zero 1."), "{description}");
    assert!(memory.total > Some(1 << 28) && memory.cached == 0, "{memory:?}");
    assert_eq!(device.caps().max_allocation, memory.total);
    assert!(!device.raw_context().is_null() && !device.raw_device().is_null());
    assert!(LevelZero::count().is_ok_and(|count| count > 0));
}

#[test]
fn memory_is_given_and_taken_back() {
    let Some(device) = open() else { return };
    let queue = device.create_queue(QueueRole::Restore).expect("a queue");
    let sizes = [1u64, 3, 64, 1 << 10].map(|pages| pages << 16);
    let ptrs = sizes.map(|bytes| device.allocate(queue, bytes).expect("memory"));
    for (index, ptr) in ptrs.iter().enumerate() {
        assert_eq!(ptr.as_raw() % 4096, 0);
        let ends =
            ptrs[..index].iter().zip(sizes).map(|(other, bytes)| other.as_raw()..other.as_raw() + bytes);
        assert!(ends.into_iter().all(|other| !other.contains(&ptr.as_raw())), "{ptrs:?}");
    }
    for ptr in ptrs {
        device.free(queue, ptr).expect("it is freed");
    }
    assert_eq!(device.memory().cached, sizes.iter().sum());
    assert_eq!(device.allocate(queue, sizes[2]), Ok(ptrs[2]));
    device.free(queue, ptrs[2]).expect("it is freed");
    assert_eq!(device.trim(), Ok(sizes.iter().sum()));
    // Above what one allocation may be, unless more is asked for: only memory may be short.
    match device.allocate(queue, 5 << 30) {
        Ok(large) => device.free(queue, large).expect("it is freed"),
        Err(error) => assert_eq!(error.kind, DriverErrorKind::OutOfMemory, "{error}"),
    }
    let error = device.allocate(queue, 1 << 46).expect_err("nobody has so much");
    assert!(matches!(error.kind, DriverErrorKind::OutOfMemory | DriverErrorKind::TooLarge), "{error}");
}

#[test]
fn what_is_wrong_is_refused() {
    let Some(device) = open() else { return };
    let queue = device.create_queue(QueueRole::Compute).expect("a queue");
    let error = LevelZero::open(4_000_000_000).expect_err("nobody has so many");
    assert_eq!(error.kind, DriverErrorKind::Unavailable, "{error}");
    let ptr = device.allocate(queue, 1 << 16).expect("memory");
    device.free(queue, ptr).expect("it is freed");
    assert_eq!(device.free(queue, ptr).expect_err("twice").kind, DriverErrorKind::Invalid);
    let error = device.allocate_host(usize::MAX >> 1).expect_err("nobody has so much");
    assert_ne!(error.kind, DriverErrorKind::Lost, "{error}");
}

#[test]
fn work_on_every_queue_is_taken() {
    let Some(device) = open() else { return };
    let roles =
        [QueueRole::Compute, QueueRole::Spill, QueueRole::Restore, QueueRole::Release, QueueRole::Compute];
    let queues = roles.map(|role| device.create_queue(role).expect("a queue"));
    let host = Arc::new(device.allocate_host(1 << 20).expect("pinned memory"));
    assert_eq!((host.kind(), host.len()), (HostKind::Pinned, 1 << 20));
    host.fill(0, 1 << 20, 5);
    let ptr = device.allocate(queues[0], 1 << 20).expect("memory");
    let part = HostRange { memory: host.clone(), offset: 4096, bytes: 1 << 19 };
    let mut last = None;
    for queue in queues {
        if let Some(fence) = last {
            device.wait(queue, fence).expect("it waits");
        }
        device.copy_in(queue, &part, ptr).expect("a copy in");
        device.copy(queue, ptr, ptr.offset(1 << 19), 1 << 19).expect("a copy");
        device.fill(queue, ptr.offset(7), 1001, 9).expect("a fill");
        device
            .copy_out(queue, ptr.offset(1 << 19), &HostRange { offset: 1 << 19, ..part.clone() })
            .expect("a copy out");
        assert!(!device.raw_queue(queue).expect("a list").is_null());
        last = Some(device.record(queue).expect("a fence"));
    }
    let fence = last.expect("there are queues");
    assert!(!device.is_passed(fence).expect("not lost") || !records(), "a driver that records ran something");
    if !records() {
        while !device.is_passed(fence).expect("not lost") {
            device.park(Duration::from_secs(60));
        }
        let mut bytes = vec![0; 1 << 19];
        host.read(1 << 19, &mut bytes);
        assert!(bytes.iter().all(|&byte| byte == 5));
    }
}

#[test]
fn a_program_goes_as_far_as_the_device_does() {
    let Some(driver) = open() else { return };
    let device = Device::options().budget(64 << 20).open_driver("level_zero:0", driver).expect("a device");
    let buffers = [0; 3].map(|_| device.alloc(8 << 20).uninitialised().wait().expect("memory"));
    let launch =
        device.prepare([0, 1, 2].map(|index| Use::read_write(&buffers[index]))).wait().expect("all fit");
    launch
        .submit(|run| Ok::<(), Error>(run.driver().fill(run.queue(), run.ptr(0), run.bytes(0), 1)?))
        .expect("it is queued");
    assert_eq!(device.memory_info().in_use, 24 << 20);
    if !records() {
        assert_eq!(buffers[0].read().wait().expect("it is read"), vec![1; 8 << 20]);
    }
}
