//! What the reports say: figures, tags, peaks, and the plain data they are.

use crate::bench::{Bench, CLOCKS, UNIT, config, finish};
use tack_residency::{Device, HolderInfo, MemoryInfo, driver::sim::Clock};

#[test]
fn a_peak_scope_disturbed_another_or_missed_what_was_restored() {
    for clock in CLOCKS {
        let bench = Bench::new(config(clock, 8), Device::options().budget(4 * UNIT));
        let device = &bench.device;
        let kept = bench.buffer(1);
        let outer = device.peak_scope();
        drop(finish(device.alloc(2 * UNIT)).expect("room"));
        finish(device.idle()).expect("idle");
        let inner = device.peak_scope();
        assert_eq!((outer.peak(), inner.peak()), (3 * UNIT, UNIT));
        device.reset_peak_memory();
        assert_eq!((device.memory_info().peak, outer.peak()), (UNIT, 3 * UNIT), "scopes keep theirs");
        let overlapping = device.peak_scope();
        let two = finish(device.alloc(UNIT)).expect("room");
        drop(outer); // not nested: the others go on
        finish(kept.spill()).expect("spilled");
        drop(finish(kept.ensure_resident()).expect("resident"));
        assert_eq!((inner.finish(), device.memory_info().peak), (2 * UNIT, 2 * UNIT));
        drop(two);
        let late = device.peak_scope();
        assert_eq!((late.finish(), overlapping.finish()), (UNIT, 2 * UNIT));
        drop(kept);
        bench.check_empty();
    }
    // On several threads at a time: each sees what all of them hold, and at least its own.
    let bench = Bench::new(config(Clock::Real, 64), Device::options());
    std::thread::scope(|threads| {
        for units in 1..=4 {
            let device = &bench.device;
            threads.spawn(move || {
                for _ in 0..50 {
                    let scope = device.peak_scope();
                    drop(finish(device.alloc(units * UNIT)).expect("room"));
                    let peak = scope.finish();
                    assert!((units * UNIT..=10 * UNIT).contains(&peak), "{peak}");
                }
            });
        }
    });
    bench.check_empty();
}

#[test]
fn the_largest_holders_were_not_the_largest() {
    let options = Device::options().budget(16 * UNIT).tag("by default");
    let bench = Bench::new(config(Clock::Computed, 16), options);
    let alloc = |units: u64, tag: Option<&str>| {
        let alloc = bench.device.alloc(units * UNIT);
        finish(if let Some(tag) = tag { alloc.tag(tag) } else { alloc }).expect("room")
    };
    let meshes = [alloc(2, Some("mesh")), alloc(3, Some("mesh"))];
    let (field, plain, equal) = (alloc(4, Some("field")), alloc(1, None), alloc(1, Some("another")));
    assert_eq!((field.tag(), plain.tag()), (Some("field"), Some("by default")));
    let of = |holders: &[HolderInfo]| -> Vec<(String, u64, u64)> {
        holders.iter().map(|holder| (holder.tag.clone(), holder.bytes / UNIT, holder.buffers)).collect()
    };
    let expected = [("mesh", 5, 2), ("field", 4, 1), ("another", 1, 1), ("by default", 1, 1)];
    let expected = expected.map(|(tag, units, buffers)| (tag.to_owned(), units, buffers));
    assert_eq!(of(&bench.device.largest_holders(9)), expected);
    assert_eq!(of(&bench.device.largest_holders(2)), expected[..2]);
    assert!(bench.device.largest_holders(0).is_empty());
    finish(meshes[1].spill()).expect("spilled");
    let holders = bench.device.largest_holders(9);
    assert_eq!(of(&holders)[..2], [("field".to_owned(), 4, 1), ("mesh".to_owned(), 2, 2)]);
    assert!(holders.iter().all(|holder| holder.stays.is_none()));
    assert_eq!(holders[1].to_string(), "mesh (8.0 KiB in 2 buffers)");
    let guard = finish(field.ensure_resident()).expect("resident");
    assert_eq!(bench.device.largest_holders(1)[0].stays.as_deref(), Some("pinned"));
    let pins = bench.device.pin_holders();
    assert_eq!((pins.len(), pins[0].bytes), (1, 4 * UNIT));
    assert!(pins[0].place.as_deref().is_some_and(|place| place.contains("reports.rs")), "{pins:?}");
    assert!(pins[0].to_string().contains("field"), "{}", pins[0]);
    drop(guard);
    assert!(bench.device.pin_holders().is_empty());
    drop((plain, equal));
    bench.check();
}

#[test]
fn a_figure_was_not_a_number() {
    let empty = MemoryInfo::default().to_string();
    assert!(!empty.contains("NaN") && !empty.contains("inf"), "{empty}");
    for clock in CLOCKS {
        let bench = Bench::tight(clock, 2);
        let texts = [bench.info().to_string(), {
            let buffers = [1, 2, 3].map(|seed| bench.buffer(seed));
            let _export = finish(buffers[2].export()).expect("resident");
            bench.info().to_string()
        }];
        assert!(texts.iter().all(|text| !text.contains("NaN") && !text.contains("inf")), "{texts:?}");
        assert!(texts[1].contains("budget 8.0 KiB") && texts[1].contains("spilled 4.0 KiB"), "{}", texts[1]);
        assert!(texts[1].contains("exported 4.0 KiB"), "{}", texts[1]);
    }
}

#[cfg(feature = "serde")]
#[test]
fn a_report_did_not_survive_being_written_down() {
    let bench = Bench::tight(Clock::Computed, 2);
    let buffers = [1, 2, 3].map(|seed| bench.buffer(seed));
    let info = bench.info();
    let text = serde_json::to_string(&info).expect("it serialises");
    assert_eq!(serde_json::from_str::<MemoryInfo>(&text).expect("it is what was written"), info);
    let value: serde_json::Value = serde_json::from_str(&text).expect("an object");
    assert_eq!((&value["spilled"], &value["budget"]), (&UNIT.into(), &(2 * UNIT).into()));
    let holders = bench.device.largest_holders(9);
    let text = serde_json::to_string(&holders).expect("it serialises");
    assert_eq!(serde_json::from_str::<Vec<HolderInfo>>(&text).expect("it is what was written"), holders);
    let kind = serde_json::to_string(&tack_residency::ErrorKind::OutOfMemory).expect("it serialises");
    assert_eq!(kind, "\"out_of_memory\"");
    drop(buffers);
}
