//! Which of a device's bytes may back an allocation: the stream-ordered pool's books.
//!
//! Decides on the host, when a call is made, as CUDA's pool does, and never adds a dependency between queues: a
//! byte freed on a queue serves another only if that queue is known to run behind the free. Bytes are alike;
//! where they lie does not matter, since devices map their pages.

use std::collections::VecDeque;

/// Bytes freed on a queue by a free that has not happened yet.
#[derive(Debug)]
struct Pending {
    seq: u64,
    bytes: u64,
}

/// What a queue is known to run behind: for each queue, the last of its operations.
pub(super) type Known = [u64];

/// The device's memory as its pool sees it, in bytes.
#[derive(Debug, Default)]
pub(super) struct Reserve {
    capacity: Option<u64>,
    /// Taken from the device: in use, idle or pending.
    reserved: u64,
    /// Allocated and not yet given to a free.
    in_use: u64,
    /// Free, and so for every queue.
    idle: u64,
    /// For each queue, what its frees will give once they happen.
    pending: Vec<VecDeque<Pending>>,
    foreign: u64,
}

impl Reserve {
    /// Books for `capacity` bytes; none has no end.
    pub(super) fn new(capacity: Option<u64>) -> Reserve {
        Reserve { capacity, ..Reserve::default() }
    }

    pub(super) fn add_queue(&mut self) {
        self.pending.push(VecDeque::new());
    }

    pub(super) fn in_use(&self) -> u64 {
        self.in_use
    }

    /// Held by the pool beyond use.
    pub(super) fn cached(&self) -> u64 {
        self.reserved - self.in_use
    }

    /// Neither the pool's nor another's.
    pub(super) fn unreserved(&self) -> u64 {
        self.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(self.reserved + self.foreign))
    }

    /// Bytes of the device that other programs hold.
    pub(super) fn set_foreign(&mut self, bytes: u64) {
        self.foreign = bytes;
    }

    /// Takes `bytes` for an allocation on `queue`, which runs behind all of `known`; false if there are not enough.
    pub(super) fn take(&mut self, queue: usize, bytes: u64, known: &Known) -> bool {
        let usable =
            |from: usize, seq: u64| from == queue || known.get(from).is_some_and(|&last| last >= seq);
        // What only this queue may use goes first, so that the others keep theirs.
        let fit = self.pending.iter().enumerate().map(|(from, frees)| {
            let usable = frees.iter().take_while(|free| usable(from, free.seq));
            usable.map(|free| free.bytes).sum::<u64>()
        });
        let pending: u64 =
            if bytes > self.idle.saturating_add(self.unreserved()) { fit.sum() } else { bytes };
        if bytes > pending.saturating_add(self.idle).saturating_add(self.unreserved()) {
            return false;
        }
        let mut need = bytes;
        let queues = self.pending.len();
        for from in (queue..queue + 1).chain((0..queues).filter(|&from| from != queue)) {
            let frees = &mut self.pending[from];
            while need > 0 {
                let Some(free) = frees.front_mut().filter(|free| usable(from, free.seq)) else { break };
                let part = need.min(free.bytes);
                free.bytes -= part;
                need -= part;
                if free.bytes == 0 {
                    frees.pop_front();
                }
            }
        }
        let part = need.min(self.idle);
        self.idle -= part;
        self.reserved += need - part;
        self.in_use += bytes;
        true
    }

    /// Notes that operation `seq` of `queue` will free `bytes`.
    pub(super) fn give(&mut self, queue: usize, seq: u64, bytes: u64) {
        self.in_use -= bytes;
        self.pending[queue].push_back(Pending { seq, bytes });
    }

    /// Notes that the frees of `queue` up to operation `seq` have happened.
    pub(super) fn settle(&mut self, queue: usize, seq: u64) {
        let frees = &mut self.pending[queue];
        while let Some(free) = frees.front().filter(|free| free.seq <= seq) {
            self.idle += free.bytes;
            frees.pop_front();
        }
    }

    /// Frees `bytes` for everyone, at once, and to the device.
    pub(super) fn give_back(&mut self, bytes: u64) {
        self.in_use -= bytes;
        self.reserved -= bytes;
    }

    /// Gives what is idle back to the device; how many bytes that was.
    pub(super) fn trim(&mut self) -> u64 {
        let idle = std::mem::take(&mut self.idle);
        self.reserved -= idle;
        idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> Reserve {
        let mut pool = Reserve::new(Some(100));
        pool.add_queue();
        pool.add_queue();
        assert!(pool.take(0, 100, &[0, 0]));
        pool.give(0, 7, 60);
        pool
    }

    #[test]
    fn freed_bytes_serve_their_own_queue_at_once() {
        let mut pool = full();
        assert!(pool.take(0, 60, &[0, 0]));
        assert_eq!((pool.in_use(), pool.cached(), pool.unreserved()), (100, 0, 0));
        assert!(!pool.take(0, 1, &[0, 0]));
    }

    #[test]
    fn another_queue_needs_to_run_behind_the_free_or_the_free_to_have_happened() {
        let mut pool = full();
        assert!(!pool.take(1, 1, &[6, 0]));
        assert!(pool.take(1, 20, &[7, 0]));
        assert!(!pool.take(1, 20, &[6, 0]));
        pool.settle(0, 7);
        assert!(pool.take(1, 20, &[0, 0]));
        assert_eq!((pool.in_use(), pool.cached(), pool.trim(), pool.unreserved()), (80, 20, 20, 20));
    }

    #[test]
    fn pending_bytes_are_neither_trimmed_nor_free() {
        let mut pool = full();
        assert_eq!((pool.trim(), pool.unreserved(), pool.cached()), (0, 0, 60));
        pool.set_foreign(10);
        pool.settle(0, 7);
        assert_eq!((pool.trim(), pool.unreserved()), (60, 50));
    }
}
