//! Bytes lost or wrong: copies between device and host that lost a write, or came too early.

use crate::bench::{
    Bench, CLOCKS, COMPUTE, POOLS, READS, RESTORE, SPILL, UNIT, assert_bytes, config, finish, pattern,
    poll_once, still_waits,
};
use std::{pin::pin, time::Duration};
use tack_residency::{Buffer, Device, ErrorKind, HostMemoryKind, Use, driver::sim::Clock};

fn incremented(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| byte.wrapping_add(1)).collect()
}

#[test]
fn a_restore_was_refused_memory_after_its_host_copy_had_been_given_up() {
    for (clock, pool) in CLOCKS.into_iter().flat_map(|clock| POOLS.map(|pool| (clock, pool))) {
        let options = Device::options().stall_after(Duration::from_millis(20));
        let bench = Bench::new(config(clock, 4).with_pool(pool), options);
        let (a, other) = (bench.buffer(1), bench.buffer(2));
        finish(a.spill()).expect("spilled");
        finish(bench.device.make_room(3 * UNIT)).expect("room");
        bench.sim.set_foreign_bytes(3 * UNIT); // another program comes first
        let guard = finish(other.ensure_resident()).expect("resident");
        let refused = [
            finish(bench.device.prepare([Use::read(&a)])).map(drop),
            finish(bench.device.prepare([Use::write(&a)])).map(drop),
            finish(bench.device.prepare([Use::read_write(&a), Use::read(&other)])).map(drop),
            finish(a.ensure_resident()).map(drop),
            finish(a.copy_to(&other)),
        ];
        drop(guard);
        for error in refused.into_iter().map(Result::unwrap_err) {
            // Where a guard alone stands in the way the request waits for that.
            let kinds = [ErrorKind::OutOfMemory, ErrorKind::Stalled];
            assert!(kinds.contains(&error.kind()), "{error}");
            assert!(a.is_spilled());
            bench.check();
        }
        assert_bytes("refused", &a, &pattern(1));
        bench.sim.set_foreign_bytes(0);
        bench.increment(&bench.device.queue(), &a);
        assert_bytes("tried again", &a, &incremented(&pattern(1)));
        assert_bytes("the other", &other, &pattern(2));
        drop((a, other));
        bench.check_empty();
    }
}

/// Where a buffer may be when the host or a kernel writes it.
#[derive(Clone, Copy, Debug)]
enum Place {
    Resident,
    CopyingOut,
    Spilled,
    Restoring,
}

#[derive(Clone, Copy, Debug)]
enum Writer {
    Host,
    HostPart,
    Fill,
    Kernel,
    Copy,
}

/// Writes by `writer` while `a` is at `place`; what it must hold then.
fn write_at(bench: &Bench, a: &Buffer, other: &Buffer, place: Place, writer: Writer) -> Vec<u8> {
    let mut spill = pin!(a.spill());
    let mut spilling = false;
    match place {
        Place::Resident => {}
        Place::CopyingOut => {
            bench.hold(&[SPILL]);
            assert!(poll_once(spill.as_mut()).is_pending());
            spilling = true;
        }
        Place::Spilled => assert_eq!(finish(spill.as_mut()).expect("spilled"), UNIT),
        Place::Restoring => {
            assert_eq!(finish(spill.as_mut()).expect("spilled"), UNIT);
            bench.hold(&[RESTORE]);
            drop(finish(bench.device.prepare([Use::read(a)])).expect("queued"));
        }
    }
    let mut expected = pattern(1);
    match writer {
        Writer::Host => {
            expected = pattern(50);
            finish(a.write(&expected)).expect("written");
        }
        Writer::HostPart => {
            expected[100..107].copy_from_slice(b"changed");
            finish(a.view(100, 7).expect("within").write(b"changed")).expect("written");
        }
        Writer::Fill => {
            expected[1000..].fill(9);
            finish(a.view(1000, UNIT - 1000).expect("within").fill(9)).expect("filled");
        }
        Writer::Kernel => {
            bench.increment(&bench.device.queue(), a);
            expected = incremented(&expected);
        }
        Writer::Copy => {
            finish(other.copy_to(a)).expect("copied");
            expected = pattern(2);
        }
    }
    bench.release(&[SPILL]);
    bench.release(&[RESTORE]);
    if spilling {
        finish(spill).expect("spilled, or taken back");
    }
    expected
}

#[test]
fn a_writer_was_given_a_transient_copy_of_a_spilled_buffer() {
    for clock in CLOCKS {
        for place in [Place::Resident, Place::CopyingOut, Place::Spilled, Place::Restoring] {
            for writer in [Writer::Host, Writer::HostPart, Writer::Fill, Writer::Kernel, Writer::Copy] {
                let what = format!("{clock:?}, {place:?}, {writer:?}");
                let bench = Bench::tight(clock, 3);
                let (a, other) = (bench.buffer(1), bench.buffer(2));
                let expected = write_at(&bench, &a, &other, place, writer);
                assert_bytes(&what, &a, &expected);
                finish(a.spill()).expect("spilled");
                assert_bytes(&format!("{what}, spilled"), &a, &expected);
                let seen = bench.observe(&bench.device.queue(), &a);
                finish(bench.device.idle()).expect("idle");
                assert!(seen.lock().unwrap().as_ref() == Some(&expected), "{what}: the device's bytes");
                assert_bytes(&format!("{what}, restored"), &a, &expected);
                assert_bytes(&format!("{what}, the other"), &other, &pattern(2));
                bench.check();
            }
        }
    }
}

#[test]
fn a_staging_block_went_back_to_its_pool_before_the_copy_out_of_it_had_run() {
    for clock in CLOCKS {
        let bench = Bench::tight(clock, 4);
        let buffers = [1, 2, 3].map(|seed| bench.buffer(seed));
        // Reads: one is dropped with its copy queued, and another begins, that could get its block.
        bench.hold(&READS);
        let mut reads: Vec<_> = buffers.iter().map(|buffer| Box::pin(buffer.read())).collect();
        reads.iter_mut().for_each(|read| assert!(poll_once(read.as_mut()).is_pending()));
        drop(reads.remove(0));
        let mut late = Box::pin(buffers[0].read());
        assert!(poll_once(late.as_mut()).is_pending());
        bench.release(&READS);
        for (seed, read) in (2..).zip(reads) {
            assert!(finish(read).expect("read") == pattern(seed), "{clock:?}: a read got another's bytes");
        }
        assert!(finish(late).expect("read") == pattern(1), "{clock:?}: a read got another's bytes");
        // Writes: the next one's block is taken while the copies out of the last ones are queued.
        bench.hold(&[RESTORE]);
        for (seed, buffer) in (11..).zip(&buffers) {
            finish(buffer.write(pattern(seed))).expect("handed over");
        }
        bench.release(&[RESTORE]);
        for (seed, buffer) in (11..).zip(&buffers) {
            assert_bytes("a write", buffer, &pattern(seed));
        }
        // Spills: dropped buffers' host copies are taken by others while copies are queued.
        bench.hold(&[SPILL]);
        let mut spills: Vec<_> = buffers.iter().map(|buffer| Box::pin(buffer.spill())).collect();
        spills.iter_mut().for_each(|spill| assert!(poll_once(spill.as_mut()).is_pending()));
        bench.release(&[SPILL]);
        spills.into_iter().for_each(|spill| _ = finish(spill).expect("spilled"));
        for (seed, buffer) in (11..).zip(&buffers) {
            assert!(buffer.is_spilled());
            assert_bytes("a spill", buffer, &pattern(seed));
        }
        // Restores: the host copy of one is given back, and taken for a spill, while it is still read.
        bench.hold(&[RESTORE]);
        drop(finish(bench.device.prepare([Use::read_write(&buffers[0])])).expect("queued"));
        let fresh = finish(bench.device.alloc(UNIT)).expect("room");
        finish(buffers[1].fill(77)).expect("filled where it is");
        finish(fresh.spill()).expect("spilled");
        bench.release(&[RESTORE]);
        assert_bytes("a restore", &buffers[0], &pattern(11));
        assert_bytes("a spilled one", &buffers[1], &[77; UNIT as usize]);
        bench.check();
    }
}

#[test]
fn the_copy_out_did_not_wait_for_the_producer() {
    for clock in CLOCKS {
        for producer in ["a kernel", "a kernel elsewhere", "a copy", "a write", "a fill"] {
            let bench = Bench::tight(clock, 4);
            let (a, b) = (bench.buffer(1), bench.buffer(2));
            let further = bench.device.add_queue().expect("a queue");
            let held = [COMPUTE, further.id(), RESTORE];
            bench.hold(&held);
            let expected = match producer {
                "a kernel" => {
                    bench.increment(&bench.device.queue(), &a);
                    incremented(&pattern(1))
                }
                "a kernel elsewhere" => {
                    bench.increment(&further, &a);
                    incremented(&pattern(1))
                }
                "a copy" => {
                    finish(b.copy_to(&a)).expect("queued");
                    pattern(2)
                }
                "a write" => {
                    finish(a.write(pattern(5))).expect("handed over");
                    pattern(5)
                }
                _ => {
                    finish(a.fill(5)).expect("queued");
                    vec![5; UNIT as usize]
                }
            };
            let mut read = pin!(a.read());
            still_waits(read.as_mut());
            let mut spill = pin!(a.spill());
            still_waits(spill.as_mut());
            bench.release(&held);
            assert!(finish(read).expect("read") == expected, "{clock:?}, {producer}: old bytes were read");
            assert_eq!(finish(spill).expect("spilled"), UNIT);
            assert_bytes(&format!("{clock:?}, {producer}: spilled"), &a, &expected);
            bench.check();
        }
    }
}

#[test]
fn a_source_was_rewritten_or_freed_by_the_host_before_the_queued_copy_had_run() {
    for clock in CLOCKS {
        let bench = Bench::tight(clock, 4);
        let (a, b) = (bench.buffer(1), bench.buffer(2));
        bench.hold(&[RESTORE]);
        let mut source = pattern(3);
        finish(a.write(&source)).expect("handed over");
        source.fill(0); // the caller's bytes are the caller's again
        drop(source);
        finish(a.view(8, 8).expect("within").write([7; 8])).expect("handed over");
        bench.release(&[RESTORE]);
        let mut expected = pattern(3);
        expected[8..16].fill(7);
        assert_bytes("written twice", &a, &expected);
        // The source of a restore is rewritten by the host, or dropped with its buffer, while its copy is queued.
        finish(bench.device.spill_all()).expect("spilled");
        bench.hold(&[RESTORE]);
        let queue = bench.device.queue();
        let (of_a, of_b) = (bench.observe(&queue, &a), bench.observe(&queue, &b));
        finish(a.fill(9)).expect("queued");
        drop(b);
        let other = finish(bench.device.alloc(UNIT)).expect("room");
        let mut spill = pin!(other.spill());
        let _ = poll_once(spill.as_mut());
        bench.release(&[RESTORE]);
        finish(spill).expect("spilled");
        finish(bench.device.idle()).expect("idle");
        assert!(of_a.lock().unwrap().as_ref() == Some(&expected), "{clock:?}: the kernel saw a later write");
        assert!(of_b.lock().unwrap().as_ref() == Some(&pattern(2)), "{clock:?}: the source was gone");
        assert_bytes("the later write", &a, &[9; UNIT as usize]);
        bench.check();
    }
}

#[test]
fn the_new_location_was_published_before_the_copy_had_completed() {
    for steps in 0..24 {
        let bench = Bench::new(config(Clock::Computed, 3).with_copy_cuts(8), Device::options());
        let further = bench.device.add_queue().expect("a queue");
        let a = bench.buffer(1);
        // On the way out, a reader comes at each place the copy can be cut.
        let mut spill = pin!(a.spill());
        let _ = poll_once(spill.as_mut());
        (0..steps).for_each(|_| _ = bench.device.driver().advance());
        assert_bytes(&format!("copied out, {steps} steps on"), &a, &pattern(1));
        finish(spill).expect("spilled");
        // And on the way back: a kernel on either queue, and the host.
        drop(finish(bench.device.prepare([Use::read_write(&a)])).expect("queued"));
        (0..steps).for_each(|_| _ = bench.device.driver().advance());
        let seen = [bench.observe(&further, &a), bench.observe(&bench.device.queue(), &a)];
        assert_bytes(&format!("copied in, {steps} steps on"), &a, &pattern(1));
        finish(bench.device.idle()).expect("idle");
        for seen in seen {
            assert!(seen.lock().unwrap().as_ref() == Some(&pattern(1)), "half of it, {steps} steps on");
        }
        bench.check();
    }
}

#[test]
fn a_device_error_during_a_wait_resumed_the_waiter_as_success() {
    for clock in CLOCKS {
        let bench = Bench::tight(clock, 2);
        let (a, b) = (bench.buffer(1), bench.buffer(2));
        bench.hold(&[COMPUTE]);
        let launch = finish(bench.device.prepare([Use::write(&a)])).expect("resident");
        launch.submit(|run| run.host_kernel(Default::default(), |_| panic!("on purpose"))).expect("queued");
        let mut waiting = [
            Box::pin(async { a.read().await.map(drop) }) as std::pin::Pin<Box<dyn Future<Output = _>>>,
            Box::pin(async { a.spill().await.map(drop) }),
            Box::pin(async { bench.device.idle().await }),
            Box::pin(async { bench.device.alloc(2 * UNIT).await.map(drop) }),
        ];
        waiting.iter_mut().for_each(|wait| still_waits(wait.as_mut()));
        bench.release(&[COMPUTE]);
        for wait in waiting {
            assert_eq!(finish(wait).unwrap_err().kind(), ErrorKind::DeviceLost);
        }
        assert_eq!(finish(b.read()).unwrap_err().kind(), ErrorKind::DeviceLost);
        assert_eq!(finish(bench.device.alloc(1)).unwrap_err().kind(), ErrorKind::DeviceLost);
        bench.device.check().expect("balanced books");
    }
}

#[test]
fn an_unaligned_size_lost_the_bytes_of_its_padding() {
    for (clock, kind) in CLOCKS.into_iter().zip([HostMemoryKind::Pinned, HostMemoryKind::Ordinary]) {
        let config = config(clock, 16).with_granularity(512);
        let bench = Bench::new(config, Device::options().host_memory(kind));
        let sizes = [1u64, 2, 63, 64, 65, 511, 512, 513, 1023, 4095, 4097];
        let rounds = if clock == Clock::Computed { 50 } else { 5 };
        for round in 0..rounds {
            let mut held = 0;
            let buffers: Vec<_> = sizes
                .iter()
                .map(|&bytes| {
                    let buffer = finish(bench.device.alloc(bytes)).expect("room");
                    held += bytes.next_multiple_of(512);
                    finish(buffer.write(&pattern(round)[..bytes.min(UNIT) as usize])).expect("written");
                    if bytes > UNIT {
                        finish(buffer.view(UNIT, 1).expect("within").fill(round)).expect("filled");
                    }
                    buffer
                })
                .collect();
            assert_eq!(bench.info().in_use, held);
            assert_eq!(finish(bench.device.spill_all()).expect("spilled"), held);
            assert_eq!(bench.info().spilled, held);
            for buffer in &buffers {
                bench.increment(&bench.device.queue(), buffer);
            }
            for (buffer, &bytes) in buffers.iter().zip(&sizes) {
                let found = finish(buffer.read()).expect("read");
                assert_eq!(found.len() as u64, bytes);
                let mut expected = incremented(&pattern(round)[..bytes.min(UNIT) as usize]);
                expected.extend((UNIT < bytes).then_some(round + 1));
                assert!(found == expected, "{bytes} bytes came back wrong");
            }
            drop(buffers);
            bench.check_empty();
        }
    }
}

#[test]
fn a_copy_to_another_device_took_bytes_that_were_not_written_yet() {
    for (clock, pool) in CLOCKS.into_iter().zip(POOLS) {
        let [here, there] =
            [2, 1].map(|units| Bench::new(config(clock, units).with_pool(pool), Device::options()));
        let [from, to] = [here.buffer(1), there.buffer(2)];
        here.hold(&[COMPUTE]);
        here.increment(&here.device.queue(), &from);
        let mut copy = Box::pin(from.copy_to(&to));
        assert!(poll_once(copy.as_mut()).is_pending());
        let late = from.view(0, 8).expect("within").copy_to(&to.view(0, 8).expect("within"));
        assert_eq!(late.try_now().expect_err("its bytes are not there").kind(), ErrorKind::WouldBlock);
        let late = finish(from.copy_to(&to).within(Duration::from_millis(1)));
        assert_eq!(late.expect_err("it is late").kind(), ErrorKind::TimedOut);
        assert_bytes("nothing has come", &to, &pattern(2));
        here.release(&[COMPUTE]);
        finish(copy.as_mut()).expect("copied");
        drop(copy);
        assert_bytes("the copy", &to, &incremented(&pattern(1)));
        finish(from.spill()).expect("spilled");
        finish(to.spill()).expect("spilled");
        finish(to.view(8, 100).expect("within").copy_to(&from.view(0, 100).expect("within"))).expect("back");
        assert!(from.is_spilled() && to.is_spilled(), "the host has both");
        assert_bytes(
            "a part",
            &from,
            &[&incremented(&pattern(1))[8..108], &incremented(&pattern(1))[100..]].concat(),
        );
        drop((from, to));
        here.check_empty();
        there.check_empty();
    }
}
