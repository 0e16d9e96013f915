//! What a piece of work does to bytes: a copy in pieces, a fill, a kernel's body.
//!
//! Never looks at queues or time. Locks blocks in the order of their addresses, and a block before host memory.

use super::{
    block::{Block, Lazy, Reach},
    table::Place,
};
use crate::driver::{
    Arg, ArgAccess, DriverError, DriverErrorKind, HostKernel, HostRange,
    aligned::ALIGN,
    kernel::{Body, panic_text},
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, RwLockReadGuard, RwLockWriteGuard},
};

/// What is to be done with the places of a [`Job`].
pub(in crate::driver) enum Work {
    /// From the first place to the host.
    CopyOut(HostRange),
    /// From the host to the first place.
    CopyIn(HostRange),
    /// From the first place to the second.
    Copy,
    /// To the first place.
    Fill(u8),
    /// With every place as an argument.
    Kernel(Body, Vec<ArgAccess>),
    /// Nothing is left to do.
    Done,
}

/// A place and the bytes of the allocation it is in.
pub(in crate::driver) struct Operand {
    pub(in crate::driver) place: Place,
    pub(in crate::driver) block: Option<Arc<Block>>,
}

impl Operand {
    /// The part of its allocation that the place is.
    fn range(&self) -> std::ops::Range<usize> {
        let start = self.place.offset as usize;
        start..start + self.place.bytes as usize
    }

    fn read(&self) -> Option<RwLockReadGuard<'_, Lazy>> {
        self.block.as_deref().map(Block::read)
    }

    fn write(&self, reach: Reach) -> Option<RwLockWriteGuard<'_, Lazy>> {
        self.block.as_deref().map(|block| block.write(reach))
    }
}

/// Work with the bytes it touches.
pub(in crate::driver) struct Job {
    pub(in crate::driver) work: Work,
    pub(in crate::driver) operands: Vec<Operand>,
    /// The length of the allocation that a copy in or a fill writes to.
    pub(in crate::driver) target_bytes: u64,
    /// Flips one bit of what a copy out gives.
    pub(in crate::driver) corrupt: bool,
}

impl Job {
    /// Does piece `index` of `cuts`; why it failed, if it did.
    pub(in crate::driver) fn step(&mut self, index: u32, cuts: u32) -> Result<(), String> {
        catch_unwind(AssertUnwindSafe(|| self.run(index, cuts))).map_err(panic_text)
    }

    fn run(&mut self, index: u32, cuts: u32) {
        let Some(first) = self.operands.first() else {
            if let Work::Kernel(body, _) = std::mem::replace(&mut self.work, Work::Done) {
                body(&mut []);
            }
            return;
        };
        let range = first.range();
        let (from, to) = (cut(range.len(), index, cuts), cut(range.len(), index + 1, cuts));
        let piece = range.start + from..range.start + to;
        let reach = if first.place.bytes == self.target_bytes { Reach::Whole } else { Reach::Part };
        match &mut self.work {
            Work::CopyOut(host) => {
                let Some(bytes) = first.read() else { return };
                host.memory.with_bytes_mut(host.offset + from, to - from, |host| {
                    host.copy_from_slice(&bytes[piece]);
                    if let (true, Some(byte)) = (std::mem::take(&mut self.corrupt), host.first_mut()) {
                        *byte ^= 1;
                    }
                });
            }
            Work::CopyIn(host) => {
                let Some(mut bytes) = first.write(reach) else { return };
                host.memory.with_bytes(host.offset + from, to - from, |host| {
                    bytes[piece].copy_from_slice(host);
                });
            }
            Work::Fill(value) => {
                if let Some(mut bytes) = first.write(reach) {
                    bytes[piece].fill(*value);
                }
            }
            Work::Copy => self.copy(piece, from),
            Work::Kernel(..) => {
                if let Work::Kernel(body, access) = std::mem::replace(&mut self.work, Work::Done) {
                    launch(body, &access, &self.operands);
                }
            }
            Work::Done => {}
        }
    }

    fn copy(&self, from: std::ops::Range<usize>, done: usize) {
        let [source, target] = self.operands.as_slice() else { return };
        let to = target.range().start + done;
        if source.place.base == target.place.base {
            if let Some(mut bytes) = target.write(Reach::Part) {
                bytes.copy_within(from, to);
            }
            return;
        }
        let to = to..to + from.len();
        let (read, write);
        if source.place.base < target.place.base {
            read = source.read();
            write = target.write(Reach::Part);
        } else {
            write = target.write(Reach::Part);
            read = source.read();
        }
        if let (Some(read), Some(mut write)) = (read, write) {
            write[to].copy_from_slice(&read[from]);
        }
    }
}

/// Where piece `index` of `cuts` starts in `len` bytes.
fn cut(len: usize, index: u32, cuts: u32) -> usize {
    (len as u128 * u128::from(index) / u128::from(cuts.max(1))) as usize
}

enum Guard<'a> {
    Read(RwLockReadGuard<'a, Lazy>),
    Write(RwLockWriteGuard<'a, Lazy>),
}

/// No bytes, at an aligned address.
#[repr(align(64))]
struct Nothing([u8; 0]);

const _: () = assert!(align_of::<Nothing>() == ALIGN);

/// Runs a kernel's body on its arguments, each block locked once for all of them.
fn launch(body: Body, access: &[ArgAccess], operands: &[Operand]) {
    let mut order: Vec<usize> = (0..operands.len()).filter(|&arg| operands[arg].place.bytes > 0).collect();
    order.sort_by_key(|&arg| {
        (operands[arg].place.base, operands[arg].place.offset, operands[arg].place.bytes)
    });
    let blocks: Vec<&[usize]> =
        order.chunk_by(|&a, &b| operands[a].place.base == operands[b].place.base).collect();
    let lock = |args: &&[usize]| {
        let writes = args.iter().any(|&arg| access[arg] == ArgAccess::Write);
        let first = &operands[args[0]];
        if writes { first.write(Reach::Part).map(Guard::Write) } else { first.read().map(Guard::Read) }
    };
    let Some(mut guards) = blocks.iter().map(lock).collect::<Option<Vec<_>>>() else { return };
    // An argument without bytes is aligned as the others are: bodies take them for slices of larger elements.
    let mut nothing: Vec<Nothing> = access.iter().map(|_| Nothing([])).collect();
    let mut args: Vec<Arg<'_>> = Vec::with_capacity(access.len());
    args.extend(access.iter().zip(&mut nothing).map(|(access, nothing)| match access {
        ArgAccess::Read => Arg::Read(&nothing.0),
        ArgAccess::Write => Arg::Write(&mut nothing.0),
    }));
    for (guard, block) in guards.iter_mut().zip(blocks) {
        match guard {
            Guard::Read(bytes) => {
                for &arg in block {
                    args[arg] = Arg::Read(&bytes[operands[arg].range()]);
                }
            }
            Guard::Write(bytes) => carve(bytes, block, access, operands, &mut args),
        }
    }
    body(&mut args);
}

/// Cuts one block into its arguments, sorted by offset. Those that overlap are all read: a launch checks that.
fn carve<'a>(
    bytes: &'a mut [u8],
    block: &[usize],
    access: &[ArgAccess],
    operands: &[Operand],
    args: &mut [Arg<'a>],
) {
    let (mut rest, mut at) = (bytes, 0);
    let mut block = block.iter().copied().peekable();
    while let Some(first) = block.next() {
        let mut cluster = vec![first];
        let std::ops::Range { start, mut end } = operands[first].range();
        while let Some(next) = block.next_if(|&next| operands[next].range().start < end) {
            end = end.max(operands[next].range().end);
            cluster.push(next);
        }
        let (_, from_start) = std::mem::take(&mut rest).split_at_mut(start - at);
        let (part, behind) = from_start.split_at_mut(end - start);
        (rest, at) = (behind, end);
        if access[first] == ArgAccess::Write {
            args[first] = Arg::Write(part);
            continue;
        }
        let part: &'a [u8] = part;
        for arg in cluster {
            let range = operands[arg].range();
            args[arg] = Arg::Read(&part[range.start - start..range.end - start]);
        }
    }
}

/// Refuses a kernel two of whose arguments overlap, unless both are only read.
pub(in crate::driver) fn check_kernel(kernel: &HostKernel) -> Result<(), DriverError> {
    let args: Vec<_> = kernel.args.iter().map(|&(ptr, bytes, access)| (ptr.0, bytes, access)).collect();
    if clash(&args) {
        let message = "two arguments overlap and one of them is written";
        return Err(DriverError::new(DriverErrorKind::Invalid, "launch_host", 1, message));
    }
    Ok(())
}

/// Whether two arguments overlap and one of them is written.
fn clash(args: &[(u64, u64, ArgAccess)]) -> bool {
    let mut sorted: Vec<_> = args.iter().filter(|(_, bytes, _)| *bytes > 0).collect();
    sorted.sort_by_key(|(at, ..)| *at);
    let (mut end, mut written) = (0, 0);
    sorted.into_iter().any(|&(at, bytes, access)| {
        let writes = access == ArgAccess::Write;
        let clash = at < written || (writes && at < end);
        end = end.max(at.saturating_add(bytes));
        if writes {
            written = end;
        }
        clash
    })
}

#[cfg(test)]
mod tests {
    use super::{super::block::Spares, *};

    fn operand(block: &Arc<Block>, offset: u64, bytes: u64) -> Operand {
        Operand { place: Place { base: 4096, offset, bytes }, block: Some(Arc::clone(block)) }
    }

    #[test]
    fn one_block_serves_a_written_part_between_read_ones_that_overlap() {
        let block = Arc::new(Block::new(100, Some(7), &Arc::new(Spares::default())));
        let operands = [operand(&block, 50, 20), operand(&block, 0, 10), operand(&block, 60, 40)];
        let access = [ArgAccess::Read, ArgAccess::Write, ArgAccess::Read];
        let body: Body = Box::new(|args| {
            assert_eq!((args[0].bytes().len(), args[2].bytes().len()), (20, 40));
            args[1].bytes_mut().fill(1);
        });
        launch(body, &access, &operands);
        assert_eq!(block.read()[8..12], [1, 1, 7, 7]);
    }

    #[test]
    fn arguments_without_bytes_are_aligned_too() {
        let none = || Operand { place: Place { base: 0, offset: 0, bytes: 0 }, block: None };
        let body: Body = Box::new(|args| {
            for arg in args {
                let (at, bytes) = (arg.bytes().as_ptr().addr(), arg.bytes().len());
                assert_eq!((at % 64, bytes), (0, 0));
            }
        });
        launch(body, &[ArgAccess::Read, ArgAccess::Write], &[none(), none()]);
    }

    #[test]
    fn only_overlaps_with_a_write_clash() {
        use ArgAccess::{Read, Write};
        assert!(!clash(&[(0, 10, Read), (5, 10, Read), (15, 5, Write)]));
        assert!(clash(&[(0, 10, Read), (9, 10, Write)]));
        assert!(clash(&[(0, 100, Write), (10, 5, Read), (50, 5, Read)]));
        assert!(!clash(&[(0, 10, Write), (5, 0, Write)]));
    }
}
