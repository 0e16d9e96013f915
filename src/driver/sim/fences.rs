//! The fences of a simulated device: recorded, passed, waited for, retired.
//!
//! A fence also carries what whoever has seen it pass runs behind, so that use of memory which merely happened to
//! be ready in time is told from use that was ordered.

use crate::driver::Fence;

/// All fences of one device.
#[derive(Debug, Default)]
pub(super) struct Fences {
    slots: Vec<Slot>,
    free: Vec<usize>,
    unpassed: usize,
    passes: u64,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    state: State,
    /// For each queue, the last operation that this fence is behind.
    known: Vec<u64>,
    /// Queues that rest until it passes.
    resting: Vec<usize>,
    /// Waits queued and not yet over.
    waits: u32,
    retired: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Free,
    Recorded,
    Passed(u64),
}

/// A fence that was retired too early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Early {
    NotPassed,
    WaitedFor,
}

impl Fences {
    pub(super) fn record(&mut self, known: &[u64]) -> Fence {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        let slot = &mut self.slots[index];
        slot.generation = slot.generation.wrapping_add(1).max(1);
        slot.state = State::Recorded;
        slot.retired = false;
        slot.known.clear();
        slot.known.extend_from_slice(known);
        self.unpassed += 1;
        Fence(u64::from(slot.generation) << 32 | index as u64)
    }

    /// What a fence is behind; none if it is unknown or retired.
    pub(super) fn known(&self, fence: Fence) -> Option<&[u64]> {
        self.slot(fence).filter(|slot| !slot.retired).map(|slot| slot.known.as_slice())
    }

    /// When a fence passed, if it has.
    pub(super) fn passed_at(&self, fence: Fence) -> Option<u64> {
        match self.slot(fence)?.state {
            State::Passed(at) => Some(at),
            State::Free | State::Recorded => None,
        }
    }

    /// Fences recorded and not yet passed.
    pub(super) fn unpassed(&self) -> usize {
        self.unpassed
    }

    /// Fences not yet retired.
    pub(super) fn live(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// How many fences have passed since the device was opened.
    pub(super) fn passes(&self) -> u64 {
        self.passes
    }

    /// Notes that a wait for `fence` has been queued.
    pub(super) fn add_wait(&mut self, fence: Fence) {
        if let Some(slot) = self.slot_mut(fence) {
            slot.waits += 1;
        }
    }

    /// Notes that a wait for `fence` is over.
    pub(super) fn end_wait(&mut self, fence: Fence) {
        let Some(slot) = self.slot_mut(fence) else { return };
        slot.waits = slot.waits.saturating_sub(1);
        self.reclaim(fence);
    }

    /// Notes that `queue` rests until `fence` passes.
    pub(super) fn rest(&mut self, fence: Fence, queue: usize) {
        if let Some(slot) = self.slot_mut(fence) {
            slot.resting.push(queue);
        }
    }

    /// Passes a fence; the queues that rested for it.
    pub(super) fn pass(&mut self, fence: Fence, at: u64) -> Vec<usize> {
        let Some(slot) = self.slot_mut(fence) else { return Vec::new() };
        slot.state = State::Passed(at);
        let resting = std::mem::take(&mut slot.resting);
        self.unpassed -= 1;
        self.passes += 1;
        self.reclaim(fence);
        resting
    }

    /// Retires a fence. Retired too early it lives on for those who still need it, and that is returned.
    pub(super) fn retire(&mut self, fence: Fence) -> Option<Early> {
        let slot = self.slot_mut(fence)?;
        slot.retired = true;
        let early = match slot.state {
            State::Recorded => Some(Early::NotPassed),
            State::Passed(_) if slot.waits > 0 => Some(Early::WaitedFor),
            State::Passed(_) | State::Free => None,
        };
        self.reclaim(fence);
        early
    }

    fn reclaim(&mut self, fence: Fence) {
        let Some(slot) = self.slot_mut(fence) else { return };
        if slot.retired && slot.waits == 0 && matches!(slot.state, State::Passed(_)) {
            slot.state = State::Free;
            self.free.push(fence.0 as u32 as usize);
        }
    }

    fn slot(&self, fence: Fence) -> Option<&Slot> {
        let slot = self.slots.get(fence.0 as u32 as usize)?;
        (u64::from(slot.generation) == fence.0 >> 32 && slot.state != State::Free).then_some(slot)
    }

    fn slot_mut(&mut self, fence: Fence) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(fence.0 as u32 as usize)?;
        (u64::from(slot.generation) == fence.0 >> 32 && slot.state != State::Free).then_some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retired_fence_is_another_one_when_its_place_is_used_again() {
        let mut fences = Fences::default();
        let first = fences.record(&[1]);
        fences.pass(first, 5);
        assert_eq!(fences.passed_at(first), Some(5));
        assert_eq!(fences.retire(first), None);
        let second = fences.record(&[2]);
        assert_ne!(first, second);
        assert_eq!((fences.known(first), fences.known(second)), (None, Some(&[2][..])));
        assert_eq!((fences.live(), fences.unpassed(), fences.passes()), (1, 1, 1));
    }

    #[test]
    fn retired_too_early_it_still_serves_those_who_wait() {
        let mut fences = Fences::default();
        let fence = fences.record(&[1]);
        fences.add_wait(fence);
        fences.rest(fence, 3);
        assert_eq!(fences.retire(fence), Some(Early::NotPassed));
        assert_eq!(fences.pass(fence, 9), [3]);
        assert_eq!(fences.passed_at(fence), Some(9));
        fences.end_wait(fence);
        assert_eq!(fences.live(), 0);
    }
}
