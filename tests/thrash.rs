//! Thrash: named in the report and told once, and not called where all must come and go.

use std::{cell::RefCell, collections::BTreeMap, fmt, sync::Once, time::Duration};
use tack_residency::{
    Buffer, Device, Use,
    driver::sim::{Config, Contents, Sim},
};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

const BYTES: u64 = 1 << 20;

/// Notes the warnings of each thread. One for all threads: what one of them was told by none is not asked for again.
struct Heard;

/// A warning as it was told, field by field.
type Told = BTreeMap<&'static str, String>;

thread_local! {
    static TOLD: RefCell<Vec<Told>> = const { RefCell::new(Vec::new()) };
}

impl Heard {
    fn while_running<T>(run: impl FnOnce() -> T) -> (T, Vec<Told>) {
        static HEARS: Once = Once::new();
        HEARS.call_once(|| tracing::subscriber::set_global_default(Heard).expect("the only one"));
        TOLD.take();
        let output = run();
        (output, TOLD.take())
    }
}

struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl Subscriber for Heard {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "tack_residency" && *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(BTreeMap::new());
        event.record(&mut fields);
        TOLD.with_borrow_mut(|told| told.push(fields.0));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

fn device(profile: &str, budget: Option<u64>, capacity: u64) -> Device {
    let config = Config::profile(profile).expect("a profile").with_contents(Contents::NotHeld);
    let sim = Sim::open(config.with_capacity(capacity)).expect("a device");
    Device::options().maybe_budget(budget).open_driver("sim", sim).expect("opened")
}

fn buffers(device: &Device, count: usize) -> Vec<Buffer> {
    let buffer = |number| device.alloc(BYTES).uninitialised().tag(format!("block {number}")).wait();
    (0..count).map(|number| buffer(number).expect("a buffer")).collect()
}

/// Launches on one buffer after the other.
fn launches(device: &Device, look_ahead: usize, buffers: impl IntoIterator<Item = Buffer>) {
    let mut queue = device.launch_queue(look_ahead);
    for buffer in buffers {
        let work = |run: &tack_residency::Run<'_>| run.host_kernel(Duration::from_micros(20), |_| ());
        queue.push([Use::read_write(&buffer)], work).wait().expect("a launch");
    }
    queue.flush().wait().expect("all launches");
    drop(queue);
    device.idle().wait().expect("idle");
    device.check().expect("the books balance");
}

fn sweeps(held: &[Buffer], passes: usize) -> impl Iterator<Item = Buffer> {
    held.iter().cycle().take(held.len() * passes).cloned()
}

#[test]
fn a_working_set_a_little_over_the_budget_is_named_and_told_once() {
    let mut figures = Vec::new();
    for (profile, look_ahead) in [("pcie4", 0), ("pcie4", 4), ("pcie5", 16)] {
        let ((), events) = Heard::while_running(|| {
            let device = device(profile, Some(16 * BYTES), 64 * BYTES);
            let held = buffers(&device, 18);
            launches(&device, look_ahead, sweeps(&held, 10));
            let (info, all) = (device.memory_info(), device.thrash(usize::MAX));
            assert_eq!(all.len(), 18, "{info}");
            assert_eq!(info.thrash_trips, all.iter().map(|of| of.trips).sum::<u64>());
            assert_eq!(info.thrash_bytes, info.thrash_trips * BYTES);
            assert_eq!(info.thrash_episodes, 1);
            assert!(info.thrash_trips >= 18 * 8 && info.thrash_trips <= info.restores, "{info:?}");
            assert!(info.to_string().contains(", thrash "), "{info}");
            let worst = device.thrash(2);
            assert_eq!(worst, all[..2]);
            assert!(worst[0].tag.starts_with("block "), "{worst:?}");
            drop(held);
            device.idle().wait().expect("idle");
            assert_eq!(device.thrash(1), []);
            assert_eq!(device.memory_info().thrash_trips, info.thrash_trips, "totals last");
            figures.push((info.thrash_trips, all));
        });
        assert_eq!(events.len(), 1, "{events:?}");
        let names: Vec<_> = events[0].keys().copied().collect();
        assert_eq!(names, ["buffer", "bytes", "device", "message", "tag", "trips"]);
        let event = |name| events[0][name].as_str();
        assert_eq!(
            [event("message"), event("device"), event("trips"), event("bytes")],
            ["thrash", "sim", "3", "1048576"]
        );
        assert!(event("tag").starts_with("block "));
    }
    figures.windows(2).for_each(|pair| assert_eq!(pair[0], pair[1], "looking ahead changes no figure"));
}

/// Each byte must come and go in any case, or comes back later than it could be kept.
#[test]
fn where_all_must_come_and_go_nothing_thrashes() {
    let there_and_back = |held: &[Buffer]| -> Vec<Buffer> {
        let pass: Vec<Buffer> = held.iter().chain(held.iter().rev()).cloned().collect();
        pass.iter().cycle().take(pass.len() * 10).cloned().collect()
    };
    for (what, count, back) in
        [("a sweep", 32, false), ("a long one", 100, false), ("there and back", 24, true)]
    {
        for look_ahead in [0, 4] {
            let ((), events) = Heard::while_running(|| {
                let device = device("pcie4", Some(16 * BYTES), 64 * BYTES);
                let held = buffers(&device, count);
                let program = if back { there_and_back(&held) } else { sweeps(&held, 10).collect() };
                launches(&device, look_ahead, program);
                let info = device.memory_info();
                assert!(info.restores > 50, "{what}: {info}");
                assert_eq!((info.thrash_trips, device.thrash(1)), (0, Vec::new()), "{what}, {look_ahead}");
            });
            assert_eq!(events, [], "{what}");
        }
    }
}

#[test]
fn thrash_after_a_rest_is_told_again() {
    let ((), events) = Heard::while_running(|| {
        let device = device("pcie4", Some(16 * BYTES), 64 * BYTES);
        let held = buffers(&device, 18);
        launches(&device, 4, sweeps(&held, 6));
        launches(&device, 4, sweeps(&held[..12], 40));
        launches(&device, 4, sweeps(&held, 6));
        assert_eq!(device.memory_info().thrash_episodes, 2);
    });
    assert_eq!(events.len(), 2, "{events:?}");
}

#[test]
fn thrash_without_a_budget_is_named() {
    let device = device("pcie4", None, 16 * BYTES);
    let held = buffers(&device, 18);
    launches(&device, 0, sweeps(&held, 10));
    assert_eq!((device.memory_info().thrash_episodes, device.thrash(usize::MAX).len()), (1, 18));
}

#[test]
fn who_spills_by_name_is_not_told() {
    let device = device("pcie4", Some(16 * BYTES), 64 * BYTES);
    let held = buffers(&device, 1);
    for _ in 0..20 {
        held[0].spill().wait().expect("spilled");
        launches(&device, 0, sweeps(&held, 1));
    }
    let info = device.memory_info();
    assert_eq!((info.restores, info.thrash_trips), (20, 0));
}

#[cfg(feature = "serde")]
#[test]
fn the_report_serialises() {
    let device = device("pcie4", Some(BYTES), 64 * BYTES);
    let held = buffers(&device, 2);
    launches(&device, 0, sweeps(&held, 5));
    let named = device.thrash(1);
    let text = serde_json::to_string(&named).expect("JSON");
    assert_eq!(serde_json::from_str::<Vec<tack_residency::ThrashInfo>>(&text).expect("the same"), named);
    let info = device.memory_info();
    let text = serde_json::to_string(&info).expect("JSON");
    assert_eq!(serde_json::from_str::<tack_residency::MemoryInfo>(&text).expect("the same"), info);
}
