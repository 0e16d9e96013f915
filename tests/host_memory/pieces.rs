//! Copies ahead of need are queued piece by piece: what is needed goes before the rest, and the rest may come to nothing.

use crate::bench::{Bench, CLOCKS, MIB, SPILL, assert_bytes, finish, pattern, poll_once};
use std::{pin::pin, time::Duration};
use tack_residency::{
    Buffer, Device, ErrorKind, Options, Use,
    driver::{
        Arg, DriverErrorKind,
        fault::{Call, Effect, Fault, Step},
        sim::{Clock, Config, Contents, Sim},
    },
};

/// What the buffers of these tests take: eight pieces, of a sixteenth of the budget each.
const BYTES: u64 = 8 * PIECE;
const PIECE: u64 = 16 << 10;
const PIECES: u64 = 8;

/// Buffers are cleaned as soon as there are any.
fn options() -> Options {
    Device::options().budget(16 * PIECE).write_back(100, 100)
}

#[test]
fn a_spill_in_need_stood_behind_the_whole_of_a_copy_ahead_of_need() {
    let config = Config::profile("pcie4").expect("a profile").with_contents(Contents::NotHeld);
    let fault = Fault::new(Sim::open(config).expect("a device"), []);
    let options = Device::options().budget(280 * MIB).write_back(10, 20);
    let device = options.open_driver("pieces", fault.clone()).expect("a device");
    let calls = || fault.calls(Call::CopyOut);
    let large = finish(device.alloc(256 * MIB).uninitialised()).expect("room");
    let small = finish(device.alloc(MIB).uninitialised()).expect("room");
    let took = |buffer: &Buffer| {
        let before = device.driver().now();
        finish(buffer.spill()).expect("spilled");
        device.driver().now() - before
    };
    let copy = |bytes: u64| Duration::from_micros(10) + Duration::from_secs_f64(bytes as f64 / 24e9);
    let most = 2 * copy(4 * MIB) + copy(MIB) + Duration::from_micros(60);
    let (spill, queued) = (took(&small), calls());
    println!("a spill of 1 MiB took {spill:?}, beside a copy ahead of need that takes {:?}", copy(256 * MIB));
    assert!(queued > 2, "nothing was copied ahead of need");
    assert!(spill < most, "{spill:?} is more than two pieces and its own copy, {most:?}");
    let (spill, before) = (took(&large), calls());
    let whole = copy(256 * MIB) + Duration::from_micros(100);
    assert!(spill < whole, "{spill:?} is more than the whole copy in one call, {whole:?}");
    assert_eq!(before - queued, 1, "what is needed now is one call");
    assert_eq!(device.memory_info().copied_out_bytes, 257 * MIB);
}

/// What happens to a buffer in the midst of its copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    Nothing,
    Spill,
    Launch,
    Write,
    Discard,
    Drop,
    SpillAndDrop,
}

impl Change {
    pub const ALL: [Change; 7] = [
        Change::Nothing,
        Change::Spill,
        Change::Launch,
        Change::Write,
        Change::Discard,
        Change::Drop,
        Change::SpillAndDrop,
    ];

    /// Makes it; then what the buffer must hold is found in it, spilled and restored.
    pub fn make(self, what: &str, bench: &Bench, buffer: Buffer, mut expected: Vec<u8>) {
        match self {
            Change::Nothing => {}
            Change::Spill => _ = finish(buffer.spill()).expect("spilled"),
            Change::Launch => {
                let launch = finish(bench.device.prepare([Use::read_write(&buffer)])).expect("resident");
                let kernel = |args: &mut [Arg<'_>]| args[0].bytes_mut().fill(7);
                launch.submit(|run| run.host_kernel(Duration::ZERO, kernel)).expect("queued");
                expected.fill(7);
            }
            Change::Write => {
                let at = expected.len() / 3;
                let part = buffer.view(at as u64, 3).expect("a part");
                finish(part.write(vec![9; 3])).expect("handed over");
                expected[at..at + 3].fill(9);
            }
            Change::Discard => {
                buffer.discard();
                expected = pattern(buffer.len(), 3);
                finish(buffer.write(expected.clone())).expect("handed over");
            }
            Change::Drop => return,
            Change::SpillAndDrop => {
                let _ = poll_once(pin!(buffer.spill()));
                return;
            }
        }
        finish(buffer.spill()).expect("spilled");
        assert_bytes(what, &buffer, &expected);
        finish(bench.device.prepare([Use::read(&buffer)])).map(drop).expect("restored");
        assert_bytes(what, &buffer, &expected);
    }
}

#[test]
fn a_buffer_used_between_two_pieces_lost_bytes() {
    // Its copy is in memory that is pinned, or goes through the ring.
    let ways = [options(), options().pinned_limit(8 * PIECE)];
    for (clock, steps) in CLOCKS.into_iter().flat_map(|clock| (0..2 * PIECES).map(move |step| (clock, step)))
    {
        for (change, way) in Change::ALL.into_iter().flat_map(|change| [(change, 0), (change, 1)]) {
            let what = format!("{clock:?}, {steps}, {way}: {change:?}");
            let bench = Bench::new(clock, ways[way].clone(), &[]);
            let buffer = finish(bench.device.alloc(BYTES).uninitialised()).expect("room");
            finish(buffer.write(pattern(BYTES, 1))).expect("handed over");
            // On a real clock, whatever the threads come to meanwhile.
            (0..steps).for_each(|_| _ = poll_once(pin!(bench.device.idle())));
            (0..steps).for_each(|_| _ = bench.device.driver().advance());
            change.make(&what, &bench, buffer, pattern(BYTES, 1));
            bench.check_gone();
        }
    }
}

#[test]
fn a_rewritten_buffer_was_copied_to_the_end_all_the_same() {
    let bench = Bench::new(Clock::Computed, options(), &[]);
    let buffer = finish(bench.device.alloc(BYTES).uninitialised()).expect("room");
    let launch = finish(bench.device.prepare([Use::read_write(&buffer)])).expect("resident");
    assert_eq!(bench.fault.calls(Call::CopyOut), 2, "two pieces are queued");
    launch.submit(|run| run.host_kernel(Duration::from_millis(5), |_| {})).expect("queued");
    finish(bench.device.idle()).expect("idle");
    // The first copy ended with the two pieces, and the second is whole.
    let (calls, copied) = (bench.fault.calls(Call::CopyOut), bench.info().copied_out_bytes);
    assert_eq!((calls, copied), (2 + PIECES, 2 * PIECE + BYTES));
    assert_eq!(bench.info().clean, BYTES);
    drop(buffer);
    bench.check_gone();
}

#[test]
fn a_piece_that_was_refused_or_found_the_device_lost_left_the_copy_half_way() {
    let calls = [Call::AllocateHost, Call::Wait, Call::CopyOut, Call::Record, Call::IsPassed];
    for (clock, call) in CLOCKS.into_iter().flat_map(|clock| calls.map(|call| (clock, call))) {
        for nth in 0..12 {
            for effect in [Effect::Refuse(DriverErrorKind::Refused), Effect::Lose] {
                one_refused(clock, options(), Step::new(call, nth, effect));
                one_refused(clock, options().pinned_limit(8 * PIECE), Step::new(call, nth, effect));
            }
        }
    }
}

/// Two buffers are cleaned ahead of need, and one call fails; then both are spilled.
fn one_refused(clock: Clock, options: Options, step: Step) {
    let what = format!("{clock:?}, {options:?}, {step:?}");
    let bench = Bench::new(clock, options, &[step]);
    let made: Vec<Buffer> = [1, 2]
        .into_iter()
        .filter_map(|seed| {
            let buffer = finish(bench.device.alloc(BYTES).uninitialised()).ok()?;
            let written = finish(buffer.write(pattern(BYTES, seed)));
            let written = written.or_else(|_| finish(buffer.write(pattern(BYTES, seed))));
            written.ok().map(|()| buffer)
        })
        .collect();
    let idle = finish(bench.device.idle());
    let lost = |error: tack_residency::Error| {
        assert_eq!(error.kind(), ErrorKind::DeviceLost, "{what}: {error}");
        assert_eq!(step.effect, Effect::Lose, "{what}");
    };
    let _ = idle.map_err(lost);
    for (buffer, seed) in made.iter().zip([1, 2]) {
        let spilled = finish(buffer.spill());
        // The call that fails may be one of these.
        match spilled.or_else(|_| finish(buffer.spill())) {
            Ok(_) => assert_bytes(&what, buffer, &pattern(BYTES, seed)),
            Err(error) => lost(error),
        }
    }
    bench.check_after(&what, made, step);
}

#[test]
fn pieces_in_the_queue_kept_another_buffer_from_being_cleaned_once_one_was_dropped() {
    for clock in CLOCKS {
        let bench = Bench::new(clock, options(), &[]);
        bench.sim.hold(SPILL).expect("a queue");
        let [first, second] = [(); 2].map(|()| finish(bench.device.alloc(BYTES)).expect("room"));
        drop(first);
        bench.sim.release(SPILL).expect("a queue");
        finish(bench.device.idle()).expect("idle");
        assert_eq!(bench.info().clean, BYTES, "{clock:?}");
        drop(second);
        bench.check_gone();
    }
}
