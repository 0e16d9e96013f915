//! Where a run stood still: time in which the next launch was submitted or could have been, and no kernel ran since a
//! buffer had to come or to go first. What the program itself waits for, as the bytes that its host reads, is none of it.

use crate::{
    content::How,
    player::KERNEL,
    program::{Program, Step},
    units::Size,
};
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
    /// When the copy that was waited for had ended.
    pub end: Duration,
    /// The part of it in which some copy ran.
    pub copying: Duration,
    /// The launch that came late, among the launches.
    pub launch: usize,
    pub cause: Cause,
    /// Copies of that direction that ended within it.
    pub copies: usize,
    /// The buffer of the last of them, if it is known, and that copy's bytes.
    pub buffer: Option<usize>,
    pub bytes: u64,
}

/// What a launch may wait for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Needs {
    /// The buffers that it uses.
    pub uses: Vec<usize>,
    /// It, or an allocation just before it, takes memory without a copy in.
    pub takes_room: bool,
    /// The buffers that the host reads just before it.
    pub reads: Vec<usize>,
}

impl Needs {
    /// Those of each launch of a program.
    pub fn all(program: &Program) -> Vec<Needs> {
        let (mut all, mut next) = (Vec::new(), Needs::default());
        for step in &program.steps {
            match step {
                Step::Alloc { .. } => next.takes_room = true,
                Step::HostRead(buffer) => next.reads.push(*buffer),
                Step::Launch(launch) => {
                    next.uses = launch.uses.iter().map(|(buffer, _)| *buffer).collect();
                    next.takes_room |= launch.uses.iter().any(|(_, how)| *how == How::Write);
                    all.push(std::mem::take(&mut next));
                }
                Step::Free(_) => {}
            }
        }
        all
    }
}

/// A piece of work that the device did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    pub lane: Lane,
    pub start: Duration,
    pub end: Duration,
    pub is_launch: bool,
    /// Of a copy, where on the device, and its bytes.
    pub address: u64,
    pub bytes: u64,
}

impl From<&Span> for Piece {
    fn from(span: &Span) -> Piece {
        let &Span { lane, start, end, bytes, .. } = span;
        Piece { lane, start, end, is_launch: span.label == KERNEL, address: span.ptr.as_raw(), bytes }
    }
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
    /// Between the first and the last kernel: what no kernel and no stall fills.
    pub idle: Duration,
}

impl Stalls {
    /// Finds them in what a device did for launches with these needs. `buffer_at` tells which buffer was at an address.
    pub fn find(
        pieces: impl IntoIterator<Item = Piece>,
        needs: &[Needs],
        buffer_at: impl Fn(u64) -> Option<usize>,
    ) -> Stalls {
        let mut pieces: Vec<Piece> = pieces.into_iter().collect();
        pieces.sort_by_key(|piece| (piece.start, piece.end));
        let lane = |lane: Lane| -> Vec<Copied> {
            let pieces = pieces.iter().filter(|piece| piece.lane == lane);
            pieces.map(|&piece| Copied { piece, buffer: buffer_at(piece.address) }).collect()
        };
        let copies = [lane(Lane::CopyIn), lane(Lane::CopyOut)];
        let ways = [&copies[0], &copies[1]].map(|lane| union(lane.iter()));
        let busy = union(copies.iter().flatten());
        let mut stalls = Stalls::default();
        let (mut launch, mut free) = (0, None);
        for piece in pieces.iter().filter(|piece| piece.lane == Lane::Compute) {
            if let Some(free) = free.filter(|free| *free < piece.start) {
                stalls.idle += piece.start - free;
                let needs = needs.get(launch);
                if let Some(stall) = needs.and_then(|needs| stall(&copies, (free, piece.start), needs)) {
                    let copying = within(&busy, stall.start, stall.end);
                    let [inward, outward] =
                        [&ways[0], &ways[1]].map(|way| within(way, stall.start, stall.end));
                    stalls.idle -= copying;
                    stalls.total += copying;
                    stalls.in_alone += copying - outward;
                    stalls.out_alone += copying - inward;
                    stalls.both_ways += inward + outward - copying;
                    stalls.gaps.push(Stall { copying, launch, ..stall });
                }
            }
            launch += usize::from(piece.is_launch);
            // What comes before the first kernel is the program's beginning.
            if piece.is_launch || free.is_some() {
                free = free.max(Some(piece.end));
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
        let of = if self.copies == 1 { "" } else { ", the last of " };
        let count = if self.copies == 1 { String::new() } else { self.copies.to_string() };
        format!("{launch} waits for {buffer} ({}) to come {way}{of}{count}", Size(self.bytes))
    }
}

/// Stretches in which any of the copies ran, in order.
fn union<'a>(copies: impl Iterator<Item = &'a Copied>) -> Vec<(Duration, Duration)> {
    let mut spans: Vec<_> = copies.map(|copy| (copy.piece.start, copy.piece.end)).collect();
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

/// A copy, and which buffer's it was, if that is known.
#[derive(Clone, Copy, Debug)]
struct Copied {
    piece: Piece,
    buffer: Option<usize>,
}

/// What a launch waited for in a gap, if it waited for a copy. One that still runs when the kernel starts is none.
fn stall(lanes: &[Vec<Copied>; 2], gap: (Duration, Duration), needs: &Needs) -> Option<Stall> {
    let ended = |lane: &[Copied], after: Duration| -> Vec<Copied> {
        // Copies of one lane run one after the other.
        let first = lane.partition_point(|copy| copy.piece.end <= after);
        let last = lane.partition_point(|copy| copy.piece.end <= gap.1);
        lane.get(first..last).unwrap_or_default().to_vec()
    };
    let is_read = |copy: &Copied| copy.buffer.is_some_and(|buffer| needs.reads.contains(&buffer));
    // The host could not go on before it had the bytes that it reads.
    let outward = ended(&lanes[1], gap.0);
    let read = outward.iter().filter(|copy| is_read(copy)).map(|copy| copy.piece.end).max();
    let start = read.map_or(gap.0, |read| read.max(gap.0));
    let (inward, outward) = (ended(&lanes[0], start), ended(&lanes[1], start));
    let is_its = |copy: &Copied| copy.buffer.is_none_or(|buffer| needs.uses.contains(&buffer));
    let came = inward.iter().rposition(is_its).and_then(|last| inward.get(..=last));
    let went = Some(&outward[..]).filter(|_| needs.takes_room);
    let (cause, copies) =
        came.map(|came| (Cause::CopyIn, came)).or(went.map(|went| (Cause::CopyOut, went)))?;
    let Copied { piece, buffer } = *copies.last()?;
    let (copying, launch) = (Duration::ZERO, 0);
    Some(Stall {
        start,
        end: piece.end,
        copying,
        launch,
        cause,
        copies: copies.len(),
        buffer,
        bytes: piece.bytes,
    })
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

    /// A piece of work in microseconds; of copies, the address is the buffer's number.
    fn piece(lane: Lane, start: u64, end: u64, buffer: usize) -> Piece {
        let micros = Duration::from_micros;
        let (is_launch, address) = (lane == Lane::Compute, buffer as u64);
        Piece { lane, start: micros(start), end: micros(end), is_launch, address, bytes: 100 }
    }

    fn find(pieces: &[Piece], needs: &[Needs]) -> Stalls {
        Stalls::find(pieces.iter().copied(), needs, |address| Some(address as usize))
    }

    /// Total, in alone, out alone, both ways and idle, in microseconds.
    fn figures(stalls: &Stalls) -> [u128; 5] {
        [stalls.total, stalls.in_alone, stalls.out_alone, stalls.both_ways, stalls.idle]
            .map(|time| time.as_micros())
    }

    fn needs(uses: &[usize]) -> Needs {
        Needs { uses: uses.to_vec(), ..Needs::default() }
    }

    /// The second launch waits for its own buffer 2, for which 1 had to go, while 3 goes for later launches, and is still
    /// going when its kernel starts.
    #[test]
    fn a_launch_waits_for_its_own_buffer_and_not_for_what_runs_beside() {
        let pieces = [
            piece(Lane::Compute, 0, 10, 0),
            piece(Lane::CopyOut, 5, 12, 1),
            piece(Lane::CopyIn, 12, 20, 2),
            piece(Lane::CopyOut, 18, 30, 3),
            piece(Lane::Compute, 22, 30, 0),
        ];
        let stalls = find(&pieces, &[needs(&[1]), needs(&[2])]);
        assert_eq!(figures(&stalls), [10, 6, 2, 2, 2]);
        let [stall] = &stalls.gaps[..] else { panic!("one stall: {stalls:?}") };
        assert_eq!((stall.launch, stall.cause, stall.buffer, stall.copies), (1, Cause::CopyIn, Some(2), 1));
        assert_eq!((stall.start, stall.end), (Duration::from_micros(10), Duration::from_micros(20)));
    }

    #[test]
    fn what_the_host_reads_is_waited_for_by_the_program_itself() {
        let pieces = [
            piece(Lane::Compute, 0, 10, 0),
            piece(Lane::CopyOut, 10, 16, 1),
            piece(Lane::CopyIn, 17, 19, 2),
            piece(Lane::Compute, 20, 30, 0),
        ];
        let reads = Needs { reads: vec![1], ..needs(&[1]) };
        assert_eq!(figures(&find(&pieces[..], &[needs(&[1]), reads.clone()])), [0, 0, 0, 0, 10]);
        let stalls = find(&pieces, &[needs(&[1]), Needs { uses: vec![1, 2], ..reads }]);
        assert_eq!(figures(&stalls), [2, 2, 0, 0, 8]);
        assert_eq!(stalls.gaps[0].start, Duration::from_micros(16));
    }

    #[test]
    fn only_a_launch_that_takes_room_waits_for_what_goes() {
        let pieces = [
            piece(Lane::Compute, 0, 10, 0),
            piece(Lane::CopyOut, 10, 13, 1),
            piece(Lane::CopyOut, 13, 17, 2),
            piece(Lane::CopyIn, 13, 18, 3),
            piece(Lane::Compute, 20, 30, 0),
        ];
        let takes_room = Needs { takes_room: true, ..needs(&[4]) };
        let stalls = find(&pieces, &[needs(&[1]), takes_room]);
        assert_eq!(figures(&stalls), [7, 0, 3, 4, 3]);
        let stall = &stalls.gaps[0];
        assert_eq!((stall.cause, stall.buffer, stall.copies), (Cause::CopyOut, Some(2), 2));
        // One that has all it uses waited for neither: the host was busy with something else.
        assert_eq!(figures(&find(&pieces, &[needs(&[1]), needs(&[4])])), [0, 0, 0, 0, 10]);
    }

    #[test]
    fn what_comes_before_the_first_kernel_or_after_the_last_is_no_stall() {
        let pieces =
            [piece(Lane::CopyIn, 0, 9, 1), piece(Lane::Compute, 10, 20, 0), piece(Lane::CopyOut, 15, 40, 1)];
        assert_eq!(find(&pieces, &[needs(&[1])]), Stalls::default());
    }
}
