use super::{super::sim::Config, *};

/// Makes one call of each kind; which of them failed, with what.
fn all(device: &dyn Driver) -> Vec<(Call, DriverErrorKind)> {
    let mut failed = Vec::new();
    let mut note = |call, error: Option<DriverError>| failed.extend(error.map(|error| (call, error.kind)));
    let made = device.create_queue(QueueRole::Compute);
    note(Call::CreateQueue, made.as_ref().err().cloned());
    let queue = made.unwrap_or(QueueId(0));
    let ptr = device.allocate(queue, 1024);
    note(Call::Allocate, ptr.as_ref().err().cloned());
    let host = device.allocate_host(8);
    note(Call::AllocateHost, host.as_ref().err().cloned());
    let host = host.unwrap_or_else(|_| HostMemory::ordinary(8).expect("host memory"));
    let host = HostRange::whole(Arc::new(host));
    let fence = device.record(queue);
    note(Call::Record, fence.as_ref().err().cloned());
    if let Ok(fence) = fence {
        note(Call::Wait, device.wait(queue, fence).err());
        note(Call::IsPassed, device.is_passed(fence).err());
    }
    if let Ok(ptr) = ptr {
        note(Call::Fill, device.fill(queue, ptr, 1024, 1).err());
        note(Call::CopyOut, device.copy_out(queue, ptr, &host).err());
        note(Call::CopyIn, device.copy_in(queue, &host, ptr).err());
        note(Call::Copy, device.copy(queue, ptr, ptr.offset(512), 512).err());
        let across = device.copy_to_peer(queue, ptr, device, ptr.offset(512), 512).err();
        // A simulated device has no peer.
        note(Call::Drain, device.drain().err());
        note(Call::CopyToPeer, across.filter(|error| error.kind != DriverErrorKind::Unsupported));
        let kernel = HostKernel::new(Duration::ZERO, |_| {});
        note(Call::LaunchHost, device.launch_host(queue, kernel).err());
        if let Err(error) = device.free(queue, ptr) {
            note(Call::Free, Some(error));
        }
    }
    note(Call::Trim, device.trim().err());
    failed
}

fn computed() -> Arc<Sim> {
    Sim::open(Config::profile("pcie4").expect("a profile")).expect("it opens")
}

#[test]
fn each_kind_of_call_can_be_refused_and_only_that_one_is() {
    for call in Call::ALL {
        let kind = DriverErrorKind::Refused;
        let sim = computed();
        sim.create_queue(QueueRole::Compute).expect("a queue");
        let device = Fault::new(sim.clone(), [Step::new(call, 1, Effect::Refuse(kind))]);
        assert_eq!(all(&*device), []);
        assert_eq!(all(&*device), [(call, kind)]);
        assert_eq!((device.calls(call), device.refused()), (2, 1));
        assert_eq!(sim.faults(), []);
    }
}

#[test]
fn once_lost_every_call_finds_the_device_lost_and_memory_is_still_accounted_for() {
    for call in Call::ALL {
        let sim = computed();
        let device = Fault::new(sim.clone(), [Step::new(call, 0, Effect::Lose)]);
        all(&*device);
        let failed = all(&*device);
        assert!(failed.iter().all(|(_, kind)| *kind == DriverErrorKind::Lost), "{failed:?}");
        assert!(failed.iter().any(|(call, _)| *call == Call::Trim));
        assert_eq!((sim.live_allocations(), sim.faults()[0].call), (0, call.name()));
    }
}

#[test]
fn a_delay_is_charged_on_a_computed_clock() {
    let device = computed();
    let slow = Step::new(Call::CreateQueue, 0, Effect::Delay(Duration::from_secs(5)));
    let device = Fault::new(device, [slow]);
    device.create_queue(QueueRole::Compute).expect("a queue");
    assert_eq!(device.now(), Duration::from_secs(5));
    assert!(device.as_any().downcast_ref::<Sim>().is_some());
}

#[test]
fn a_seed_refuses_its_share_and_the_same_calls_each_time() {
    let run = |seed| {
        let device = Fault::random(computed(), seed, 10, &[Call::Trim]);
        let refused: Vec<_> = (0..1000).filter(|_| device.trim().is_err()).collect();
        refused
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    assert!((50..150).contains(&run(1).len()));
}
