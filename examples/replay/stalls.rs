//! Where a run stood still: time in which no kernel ran, some copy did, and launches were left.

use crate::{player::KERNEL, program::Program, units::Size};
use std::time::Duration;
use tack_residency::driver::sim::{Lane, Span};

/// How many stalls are told one by one.
const WORST: usize = 5;

/// What kept a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// A buffer came in.
    CopyIn,
    /// A buffer went out, to make room.
    CopyOut,
}

/// One gap before a kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct Stall {
    pub start: Duration,
    pub end: Duration,
    /// The part of it in which some copy ran.
    pub copying: Duration,
    /// The launch that came late, among the launches.
    pub launch: usize,
    pub cause: Cause,
    /// Copies of that direction within it.
    pub copies: usize,
    /// The buffer of the one that took the most of it, if it is known, and that copy's bytes.
    pub buffer: Option<usize>,
    pub bytes: u64,
}

/// All of a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Stalls {
    pub total: Duration,
    /// The part in which copies ran in, but not out; the other way round; and both ways.
    pub in_alone: Duration,
    pub out_alone: Duration,
    pub both_ways: Duration,
    pub gaps: Vec<Stall>,
    /// Between the first and the last kernel: neither kernels nor copies ran.
    pub idle: Duration,
}

impl Stalls {
    /// Finds them in what a device did. `buffer_at` tells which buffer was at an address.
    pub fn find(spans: &[Span], buffer_at: impl Fn(u64) -> Option<usize>) -> Stalls {
        let lane = |lane: Lane| {
            let mut spans: Vec<&Span> = spans.iter().filter(|span| span.lane == lane).collect();
            spans.sort_by_key(|span| (span.start, span.end));
            spans
        };
        let compute = lane(Lane::Compute);
        let copies = [lane(Lane::CopyIn), lane(Lane::CopyOut)];
        let ways = [&copies[0], &copies[1]].map(|lane| union(lane.iter()));
        let busy = union(copies.iter().flatten());
        let mut stalls = Stalls::default();
        let (mut launch, mut free) = (0, None);
        for span in compute {
            if let Some(free) = free.filter(|free| *free < span.start) {
                let copying = within(&busy, free, span.start);
                stalls.idle += span.start - free - copying;
                if copying > Duration::ZERO {
                    let [inward, outward] = [&ways[0], &ways[1]].map(|way| within(way, free, span.start));
                    stalls.total += copying;
                    stalls.in_alone += copying - outward;
                    stalls.out_alone += copying - inward;
                    stalls.both_ways += inward + outward - copying;
                    let stall = stall(&copies, free, span.start, &buffer_at);
                    stalls.gaps.extend(stall.map(|stall| Stall { copying, launch, ..stall }));
                }
            }
            launch += usize::from(span.label == KERNEL);
            // What comes before the first kernel is the program's beginning.
            if span.label == KERNEL || free.is_some() {
                free = free.max(Some(span.end));
            }
        }
        stalls
    }

    /// The longest, longest first.
    pub fn worst(&self) -> Vec<&Stall> {
        let mut worst: Vec<&Stall> = self.gaps.iter().collect();
        worst.sort_by_key(|stall| (std::cmp::Reverse(stall.copying), stall.launch));
        worst.truncate(WORST);
        worst
    }
}

impl Stall {
    /// In words, without its length.
    pub fn describe(&self, program: &Program) -> String {
        let launch = program.launches().nth(self.launch);
        let launch = launch.map_or_else(String::new, |(step, launch)| {
            format!("launch {} ({}, line {})", self.launch, launch.name, step + 1)
        });
        let buffer = self.buffer.and_then(|number| program.ids.get(number));
        let buffer = buffer.map_or_else(|| "a buffer".to_owned(), |id| format!("buffer {id}"));
        let way = if self.cause == Cause::CopyIn { "in" } else { "out, for room" };
        let of = if self.copies == 1 { "" } else { ", the longest of " };
        let count = if self.copies == 1 { String::new() } else { self.copies.to_string() };
        format!("{launch} waits for {buffer} ({}) to come {way}{of}{count}", Size(self.bytes))
    }
}

/// Stretches in which any of the spans ran, in order.
fn union<'a>(spans: impl Iterator<Item = &'a &'a Span>) -> Vec<(Duration, Duration)> {
    let mut spans: Vec<_> = spans.map(|span| (span.start, span.end)).collect();
    spans.sort_unstable();
    let mut union: Vec<(Duration, Duration)> = Vec::new();
    for (start, end) in spans {
        match union.last_mut().filter(|last| last.1 >= start) {
            Some(last) => last.1 = last.1.max(end),
            None => union.push((start, end)),
        }
    }
    union
}

/// How much of the time from `start` to `end` is in the stretches.
fn within(stretches: &[(Duration, Duration)], start: Duration, end: Duration) -> Duration {
    let first = stretches.partition_point(|stretch| stretch.1 <= start);
    let inside = stretches[first..].iter().take_while(|stretch| stretch.0 < end);
    inside.map(|stretch| stretch.1.min(end) - stretch.0.max(start)).sum()
}

/// What a gap in which copies ran was for: the direction of the copy that ended last before its end.
fn stall(
    lanes: &[Vec<&Span>; 2],
    start: Duration,
    end: Duration,
    buffer_at: &impl Fn(u64) -> Option<usize>,
) -> Option<Stall> {
    // Copies of one lane run one after the other.
    let inside = lanes.each_ref().map(|lane| {
        let first = lane.partition_point(|copy| copy.end <= start);
        let last = lane.partition_point(|copy| copy.start < end);
        lane.get(first..last).unwrap_or_default()
    });
    let [inward, outward] = inside.map(|copies| copies.last().map(|copy| copy.end.min(end)));
    let (cause, copies) =
        if inward >= outward { (Cause::CopyIn, inside[0]) } else { (Cause::CopyOut, inside[1]) };
    let part = |copy: &&&Span| copy.end.min(end).saturating_sub(copy.start.max(start));
    let longest = copies.iter().max_by_key(part)?;
    let (buffer, bytes) = (buffer_at(longest.ptr.as_raw()), longest.bytes);
    let (copying, launch) = (Duration::ZERO, 0);
    Some(Stall { start, end, copying, launch, cause, copies: copies.len(), buffer, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{options::Request, read, run::run};
    use std::ffi::OsString;

    #[test]
    fn stalls_fill_what_kernels_leave_and_no_more() {
        for line in ["--mode facade", "--look-ahead 4", "--device sim:pcie5 --look-ahead 16"] {
            let Ok(Request::Replay(options)) = Request::parse(line.split(' ').map(OsString::from)) else {
                panic!("these are options: {line}")
            };
            let program = read(&options).expect("the small trace");
            let budget = program.needs(1).peak / 2;
            let run = run(&options, Some(budget), &program, &mut |_, _| {}).expect("a run");
            let record = run.record.expect("a record");
            let (stalls, kernels) =
                (&record.stalls, || record.spans.iter().filter(|span| span.label == KERNEL));
            let first = kernels().map(|span| span.start).min().expect("a kernel");
            let last = kernels().map(|span| span.end).max().expect("a kernel");
            let busy: Duration = kernels().map(|span| span.end - span.start).sum();
            assert_eq!(stalls.total + stalls.idle + busy, last - first, "{line}");
            assert_eq!(stalls.in_alone + stalls.out_alone + stalls.both_ways, stalls.total, "{line}");
            assert_eq!(stalls.gaps.iter().map(|stall| stall.copying).sum::<Duration>(), stalls.total);
            let named = stalls.gaps.iter().filter(|stall| stall.buffer.is_some()).count();
            assert!(named * 10 > stalls.gaps.len() * 9, "{line}: few buffers are known: {stalls:?}");
        }
    }
}
