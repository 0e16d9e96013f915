//! Buffers cleaned ahead of need: making room is then a release and not a copy, and no byte is lost by it.

use std::time::Duration;
use tack_residency::{
    Buffer, Device, MemoryInfo, Use,
    driver::sim::{Config, Contents, Sim},
};

const BYTES: u64 = 1 << 20;

fn device(write_back: bool, contents: Contents, cuts: u32) -> Device {
    let config = Config::profile("pcie4").expect("a profile").with_contents(contents).with_copy_cuts(cuts);
    let options = Device::options().budget(16 * BYTES);
    let options = if write_back { options.write_back(10, 30) } else { options };
    options.open_driver("sim", Sim::open(config).expect("a device")).expect("opened")
}

async fn buffers(device: &Device, count: usize) -> Vec<Buffer> {
    let mut made = Vec::new();
    for value in 0..count {
        let buffer = device.alloc(BYTES).await.expect("a buffer");
        buffer.fill(value as u8).await.expect("a fill");
        made.push(buffer);
    }
    made
}

/// Uses 24 buffers in turn on a device for 16, each launch waited for before the next is prepared.
fn turns(write_back: bool) -> (Duration, MemoryInfo) {
    futures::executor::block_on(async {
        let device = device(write_back, Contents::NotHeld, 1);
        let held = buffers(&device, 24).await;
        device.idle().await.expect("idle");
        let start = device.driver().now();
        for index in 0..96 {
            let launch = device.prepare([Use::read_write(&held[index % 24])]).await.expect("room");
            launch.submit(|run| run.host_kernel(Duration::from_micros(20), |_| ())).expect("a launch");
        }
        device.idle().await.expect("idle");
        device.check().expect("the books balance");
        (device.driver().now() - start, device.memory_info())
    })
}

#[test]
fn making_room_is_a_release_and_not_a_copy() {
    let ((without, plain), (with, ahead)) = (turns(false), turns(true));
    println!("without {without:?}, with write-back {with:?}");
    assert_eq!((plain.spills, plain.restores), (ahead.spills, ahead.restores), "victims changed");
    assert_eq!(plain.copies_avoided, ahead.copies_avoided, "a copy made early was called avoided");
    assert!(with * 10 < without * 9, "{with:?} is not much less than {without:?}");
}

#[test]
fn nothing_is_cleaned_while_nothing_presses() {
    futures::executor::block_on(async {
        let device = device(true, Contents::Held, 1);
        let held = buffers(&device, 8).await;
        device.idle().await.expect("idle");
        let info = device.memory_info();
        assert_eq!((info.copied_out_bytes, info.spills), (0, 0), "{info}");
        drop(held);
    });
}

/// A launch that writes while its buffer is being cleaned: the copy is thrown away, at whatever place it is cut.
#[test]
fn a_write_during_the_copy_is_not_lost() {
    for cuts in [1, 2, 7, 16] {
        futures::executor::block_on(async {
            let device = device(true, Contents::Held, cuts);
            let held = buffers(&device, 20).await;
            let mut expected: Vec<u8> = (0..20).collect();
            let mut random = 1u64;
            for _ in 0..300 {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let index = (random >> 33) as usize % 20;
                let launch = device.prepare([Use::read_write(&held[index])]).await.expect("room");
                let cost = Duration::from_micros(random >> 57);
                launch
                    .submit(move |run| {
                        run.host_kernel(cost, |args| {
                            args[0].bytes_mut().iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
                        })
                    })
                    .expect("a launch");
                expected[index] = expected[index].wrapping_add(1);
                device.check().expect("the books balance");
                assert!(device.memory_info().in_use <= 16 * BYTES);
            }
            for (buffer, value) in held.iter().zip(expected) {
                assert!(
                    buffer.read().await.expect("a read").iter().all(|&byte| byte == value),
                    "cuts {cuts}"
                );
            }
        });
    }
}
