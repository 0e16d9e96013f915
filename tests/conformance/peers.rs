//! Copies between two devices: from one's memory to the other's where the driver can, else through the host.

use crate::{
    backend::{Check, Rig, pattern},
    pair::{Pair, holds, runtime, way},
    random::Rng,
};
use std::{thread, time::Duration};
use tack_residency::{Buffer, Error, ErrorKind, Use, driver::fault::Call};

pub const CHECKS: &[Check] = &[
    ("peers: a copy between two devices", one_copy),
    ("peers: a part, and nothing", parts),
    ("peers: behind late kernels on both", late),
    ("peers: more than fits on both", over_budget),
    ("peers: both ways at once, with room for one", both_ways),
    ("peers: many tasks", many_tasks),
    ("peers: queues of launches on what is copied to", queued),
];

fn one_copy(rig: &Rig) -> String {
    let pair = Pair::open(rig, 4, &[]);
    let (from, to) = (pair.filled(0, 1), pair.filled(1, 2));
    let bytes = pattern(pair.bytes as usize, 5);
    from.write(bytes.clone()).wait().expect("it is written");
    from.spill().wait().expect("it is spilled");
    from.copy_to(&to).wait().expect("it is copied");
    let is_direct = pair.is_direct();
    assert_eq!(pair.across(), u64::from(is_direct));
    assert_eq!(pair.calls[0].calls(Call::CopyOut), 1, "the source was copied to the host again");
    assert_eq!(from.is_spilled(), !is_direct);
    // It was only read: its host copy is what it was.
    from.spill().wait().expect("it is spilled");
    assert_eq!(pair.calls[0].calls(Call::CopyOut), 1, "a copy has written its source");
    assert_eq!(to.spill().wait().expect("it is spilled"), pair.bytes);
    assert!(to.read().wait().expect("it is read") == bytes, "the bytes of the source");
    assert!(from.read().wait().expect("it is read") == bytes, "the source is as it was");
    pair.check();
    way(&pair)
}

fn parts(rig: &Rig) -> String {
    let pair = Pair::open(rig, 4, &[]);
    let (from, to) = (pair.filled(0, 1), pair.filled(1, 2));
    from.view(100, 50).expect("a part").write(pattern(50, 9)).wait().expect("it is written");
    let part = to.view(7, 50).expect("a part");
    from.view(100, 50).expect("a part").copy_to(&part).wait().expect("it is copied");
    let found = to.read().wait().expect("it is read");
    assert_eq!((&found[7..57], found[6], found[57]), (&*pattern(50, 9), 2, 2));
    let calls = pair.across();
    let nothing = [&from, &to].map(|buffer| buffer.view(3, 0).expect("a part of none"));
    nothing[0].copy_to(&nothing[1]).wait().expect("nothing to copy");
    assert_eq!(pair.across(), calls);
    let longer = pair.devices[1].alloc(pair.bytes - 1).wait().expect("room");
    assert_eq!(from.copy_to(&longer).wait().expect_err("it is too short").kind(), ErrorKind::Misuse);
    pair.check();
    String::new()
}

fn late(rig: &Rig) -> String {
    let pair = Pair::open(rig, 4, &[]);
    let (from, to, kept) = (pair.filled(0, 1), pair.filled(1, 2), pair.filled(1, 3));
    pair.launch(0, [Use::write(&from)], |run| run.driver().fill(run.queue(), run.ptr(0), run.bytes(0), 7));
    pair.launch(1, [Use::read(&to), Use::write(&kept)], |run| {
        run.driver().copy(run.queue(), run.ptr(0), run.ptr(1), run.bytes(0))
    });
    from.copy_to(&to).wait().expect("it is copied");
    holds(&to, 7);
    holds(&kept, 2);
    // And in front of what comes next, on both.
    pair.launch(0, [Use::read_write(&from)], |_| Ok(()));
    from.copy_to(&to).wait().expect("it is copied");
    from.fill(9).wait().expect("it is filled");
    holds(&to, 7);
    to.spill().wait().expect("it is spilled");
    from.copy_to(&to).wait().expect("it is copied");
    holds(&to, 9);
    pair.check();
    String::new()
}

fn over_budget(rig: &Rig) -> String {
    const ARRAYS: usize = 5;
    let pair = Pair::open(rig, 2, &[]);
    let arrays: Vec<Buffer> = (0..2 * ARRAYS).map(|at| pair.filled(at % 2, at as u8)).collect();
    let mut model: Vec<u8> = (0..2 * ARRAYS as u8).collect();
    let mut rng = Rng(3);
    for round in 0..60u8 {
        let [from, to] = [0; 2].map(|_| rng.below(2 * ARRAYS as u64) as usize);
        if from == to {
            continue;
        }
        arrays[from].copy_to(&arrays[to]).wait().expect("it is copied");
        model[to] = model[from];
        if round % 3 == 0 {
            arrays[to].spill().wait().expect("it is spilled");
        }
        if round % 7 == 0 {
            arrays[from].fill(100 + round).wait().expect("it is filled");
            model[from] = 100 + round;
        }
        holds(&arrays[to], model[to]);
    }
    arrays.iter().zip(model).for_each(|(array, value)| holds(array, value));
    pair.check();
    let peaks = pair.devices.each_ref().map(|device| device.memory_info().peak);
    assert!(peaks.iter().all(|peak| *peak <= 2 * pair.bytes), "{peaks:?}");
    drop(arrays);
    pair.check();
    assert!(pair.devices.iter().all(|device| device.memory_info().in_use == 0));
    way(&pair)
}

fn both_ways(rig: &Rig) -> String {
    const ROUNDS: u8 = 20;
    let pair = Pair::open(rig, 1, &[]);
    // Of each device, what is copied from it and what is copied to it.
    let arrays = [0, 1].map(|of| [pair.filled(of, 0), pair.filled(of, 0)]);
    let copies = [(&arrays[0][0], &arrays[1][1]), (&arrays[1][0], &arrays[0][1])];
    thread::scope(|scope| {
        for (from, to) in copies {
            scope.spawn(move || {
                for round in 1..=ROUNDS {
                    from.fill(round).wait().expect("it is filled");
                    from.copy_to(to).within(Duration::from_secs(20)).wait().expect("it is copied");
                    holds(to, round);
                }
            });
        }
    });
    pair.check();
    let peaks = pair.devices.each_ref().map(|device| device.memory_info().peak);
    assert!(peaks.iter().all(|peak| *peak <= pair.bytes), "{peaks:?}");
    String::new()
}

fn many_tasks(rig: &Rig) -> String {
    const TASKS: u8 = 8;
    let pair = Pair::open(rig, 6, &[]);
    let runtime = runtime();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let (devices, bytes) = (pair.devices.clone(), pair.bytes);
            runtime.spawn(async move {
                for round in 0..12u8 {
                    let value = task * 16 + round;
                    let [there, back] = if task % 2 == 0 { [0, 1] } else { [1, 0] };
                    let first = devices[there].alloc(bytes).await?;
                    first.fill(value).await?;
                    let second = devices[back].alloc(bytes).await?;
                    let launch = devices[there].prepare([Use::read(&first)]).await?;
                    launch.submit(|_| Ok::<(), Error>(()))?;
                    first.copy_to(&second).await?;
                    drop(first);
                    let third = devices[there].alloc(bytes).await?;
                    second.copy_to(&third).await?;
                    let found = third.read().await?;
                    assert!(found.iter().all(|&byte| byte == value), "task {task}, round {round}");
                }
                Ok::<(), Error>(())
            })
        })
        .collect();
    for task in tasks {
        runtime.block_on(task).expect("no panic").expect("each call succeeds");
    }
    pair.check();
    assert!(pair.devices.iter().all(|device| device.memory_info().in_use == 0));
    String::new()
}

/// Launches that are taken ahead of time have their buffers when a copy to those is queued, on both devices at once.
fn queued(rig: &Rig) -> String {
    const ROUNDS: u8 = 30;
    let pair = Pair::open(rig, 3, &[]);
    let arrays = [0, 1].map(|of| [pair.filled(of, 0), pair.filled(of, 0)]);
    let runtime = runtime();
    let copies = [(&arrays[0][0], &arrays[1][1]), (&arrays[1][0], &arrays[0][1])];
    let tasks: Vec<_> = copies
        .into_iter()
        .flat_map(|(from, to)| {
            let (copied, target, device) = (to.clone(), to.clone(), to.device());
            let from = from.clone();
            let copies = runtime.spawn(async move {
                for round in 0..ROUNDS {
                    from.fill(round).await?;
                    from.copy_to(&copied).await?;
                }
                Ok::<(), Error>(())
            });
            let launches = runtime.spawn(async move {
                let mut queue = device.launch_queue(4);
                for _ in 0..4 * ROUNDS {
                    queue
                        .push([Use::read_write(&target)], |run| {
                            Ok(run.driver().fill(run.queue(), run.ptr(0), 1, 0)?)
                        })
                        .await?;
                }
                queue.flush().await
            });
            [copies, launches]
        })
        .collect();
    for task in tasks {
        let done = async { tokio::time::timeout(Duration::from_secs(20), task).await.expect("it hangs") };
        runtime.block_on(done).expect("no panic").expect("each call succeeds");
    }
    pair.check();
    for (from, to) in copies {
        let found = to.read().wait().expect("it is read");
        assert!(found[1..].iter().all(|&byte| byte == ROUNDS - 1), "the last copy");
        holds(from, ROUNDS - 1);
    }
    String::new()
}
