//! The device is lost while all kinds of calls wait for it.

use crate::{
    World,
    bounded::{poll, watched},
    culprit,
    script::UNIT,
};
use futures::future::{BoxFuture, FutureExt, join_all, poll_immediate};
use std::sync::Arc;
use tack_residency::{
    Device, ErrorKind, Result, Use,
    driver::{
        DriverError, DriverErrorKind, QueueId,
        sim::{Clock, Config, Sim},
    },
};

/// The queue of copies out: the second one that a device makes.
const SPILL: QueueId = QueueId(1);
const READ: QueueId = QueueId(4);

fn open(world: World) -> (Arc<Sim>, Device) {
    let config = Config::profile("pcie4").expect("a profile").with_clock(world.clock).with_pool(world.pool);
    let sim = Sim::open(config).expect("a device");
    let device = Device::options().budget(2 * UNIT).open_driver("sim", sim.clone()).expect("a device");
    (sim, device)
}

async fn works(device: &Device) -> Result<()> {
    let buffers = [device.alloc(UNIT).await?, device.alloc(UNIT).await?, device.alloc(UNIT).await?];
    for (value, buffer) in (1u8..).zip(&buffers) {
        buffer.fill(value).await?;
    }
    device.spill_all().await?;
    for (value, buffer) in (1u8..).zip(&buffers) {
        drop(buffer.ensure_resident().await?);
        assert_eq!(buffer.read().await?, [value; UNIT as usize]);
    }
    Ok(())
}

async fn lose_under_waiters(world: World) {
    let (sim, device) = open(world);
    let (_, other) = open(world);
    let (a, b) = (device.alloc(UNIT).await.expect("room"), device.alloc(UNIT).await.expect("room"));
    let spilled = device.alloc(UNIT).await.expect("room"); // `a` goes
    drop(device.prepare([Use::read(&a)]).await.expect("room")); // `b` goes
    drop(device.prepare([Use::read(&b)]).await.expect("room")); // `spilled` goes
    assert!(spilled.is_spilled());
    a.fill(1).await.expect("written");
    b.fill(2).await.expect("written");
    [SPILL, READ].into_iter().for_each(|queue| sim.hold(queue).expect("a queue"));
    let mut waiting: Vec<(&str, BoxFuture<'_, Result<()>>)> = vec![
        ("spill", async { a.spill().await.map(drop) }.boxed()),
        ("prepare", async { device.prepare([Use::read(&spilled)]).await.map(drop) }.boxed()),
        ("alloc", async { device.alloc(UNIT).await.map(drop) }.boxed()),
        ("ensure_resident", async { spilled.ensure_resident().await.map(drop) }.boxed()),
        ("make_room", async { device.make_room(2 * UNIT).await }.boxed()),
        ("read", async { b.read().await.map(drop) }.boxed()),
        ("idle", async { device.idle().await }.boxed()),
    ];
    for (name, future) in &mut waiting {
        assert!(poll_immediate(future).await.is_none(), "{name} does not wait");
    }
    sim.lose(DriverError::new(DriverErrorKind::Lost, "a_kernel", 719, "it went astray"));
    let (names, futures): (Vec<_>, Vec<_>) = waiting.into_iter().unzip();
    for (name, outcome) in names.into_iter().zip(join_all(futures).await) {
        let error = outcome.err().unwrap_or_else(|| panic!("{name} on a lost device went well"));
        assert_eq!(error.kind(), ErrorKind::DeviceLost, "{name}: {error}");
        assert_eq!(culprit(&error), Some("a_kernel"), "{name}: {error:?}");
    }
    assert_eq!(spilled.read().await.expect("its host copy"), [0; UNIT as usize]);
    assert_eq!(a.read().await.unwrap_err().kind(), ErrorKind::DeviceLost);
    device.check().expect("balanced books");
    works(&other).await.expect("another device goes on");
}

#[test]
fn every_waiter_learns_of_a_lost_device_and_others_go_on() {
    for world in crate::WORLDS {
        let what = format!("{world:?}");
        match world.clock {
            Clock::Computed => poll(&what, lose_under_waiters(world)),
            Clock::Real => watched(&what, move || futures::executor::block_on(lose_under_waiters(world))),
        }
    }
}
