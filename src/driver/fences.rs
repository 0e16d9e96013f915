//! Fences over pooled events: recorded, passed, given back; and what the work before them still uses.

use super::{Fence, queues::Held, symbols::Handle};
use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// All fences of one device. A fence is a place here, and how often that place has been used.
#[derive(Debug, Default)]
pub(super) struct Fences(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Events of no fence.
    spare: Vec<Handle>,
    /// For each queue, its fences that are not known to have passed, in their order.
    outstanding: Vec<VecDeque<Fence>>,
}

#[derive(Debug)]
struct Slot {
    event: Handle,
    generation: u32,
    state: State,
    queue: usize,
    held: Vec<Held>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Free,
    Recorded,
    Passed,
}

impl Fences {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An event of no fence, if there is one.
    pub(super) fn spare(&self) -> Option<Handle> {
        self.lock().spare.pop()
    }

    /// Keeps an event that is no fence's.
    pub(super) fn keep(&self, event: Handle) {
        self.lock().spare.push(event);
    }

    /// A fence of an event that was just recorded on `queue`, which keeps what `held` names until it has passed; and
    /// whether no other was outstanding.
    pub(super) fn add(&self, event: Handle, queue: usize, held: Vec<Held>) -> (Fence, bool) {
        let mut table = self.lock();
        let first = table.outstanding.iter().all(VecDeque::is_empty);
        let index = table.free.pop().unwrap_or_else(|| {
            table.slots.push(Slot { event, generation: 0, state: State::Free, queue, held: Vec::new() });
            table.slots.len() - 1
        });
        let slot = &mut table.slots[index];
        let generation = slot.generation.wrapping_add(1).max(1);
        *slot = Slot { event, generation, state: State::Recorded, queue, held };
        let fence = Fence(u64::from(generation) << 32 | index as u64);
        if table.outstanding.len() <= queue {
            table.outstanding.resize_with(queue + 1, VecDeque::new);
        }
        table.outstanding[queue].push_back(fence);
        (fence, first)
    }

    /// A fence's event, and whether it is known to have passed; none if there is no such fence.
    pub(super) fn find(&self, fence: Fence) -> Option<(Handle, bool)> {
        self.lock().slot(fence).map(|slot| (slot.event, slot.state == State::Passed))
    }

    /// Notes that a fence has passed. What it held is given back, to be dropped without the lock.
    pub(super) fn pass(&self, fence: Fence) -> Vec<Held> {
        let mut table = self.lock();
        let Some(slot) = table.slot(fence) else { return Vec::new() };
        slot.state = State::Passed;
        let (queue, held) = (slot.queue, std::mem::take(&mut slot.held));
        match table.outstanding.get_mut(queue) {
            Some(outstanding) if outstanding.front() == Some(&fence) => _ = outstanding.pop_front(),
            Some(outstanding) => outstanding.retain(|&other| other != fence),
            None => {}
        }
        held
    }

    /// Gives a fence's event back for reuse. One that has not passed is no fence any more, but its event is not used
    /// again, and what it holds stays.
    pub(super) fn retire(&self, fence: Fence) {
        let mut table = self.lock();
        let Some(slot) = table.slot(fence) else { return };
        if slot.state != State::Passed {
            return;
        }
        slot.state = State::Free;
        let event = slot.event;
        table.spare.push(event);
        table.free.push(fence.0 as u32 as usize);
    }

    /// The oldest fence of each queue that is not known to have passed, with its event.
    pub(super) fn next(&self, to: &mut Vec<(Fence, Handle)>) {
        to.clear();
        let mut table = self.lock();
        for queue in 0..table.outstanding.len() {
            let Some(&fence) = table.outstanding[queue].front() else { continue };
            to.extend(table.slot(fence).map(|slot| (fence, slot.event)));
        }
    }

    /// Whether a copy on `queue` may still use host memory.
    #[cfg(any(test, feature = "cuda", feature = "hip"))]
    pub(super) fn holds(&self, queue: usize) -> bool {
        self.lock().slots.iter().any(|slot| slot.queue == queue && !slot.held.is_empty())
    }

    /// Fences not yet given back.
    #[cfg(test)]
    pub(super) fn live(&self) -> usize {
        let table = self.lock();
        table.slots.len() - table.free.len()
    }

    /// Every event, to be destroyed, and all that was held.
    pub(super) fn drain(&self) -> (Vec<Handle>, Vec<Held>) {
        let table = std::mem::take(&mut *self.lock());
        let mut events = table.spare;
        let mut held = Vec::new();
        for slot in table.slots {
            if slot.state != State::Free {
                events.push(slot.event);
            }
            held.extend(slot.held);
        }
        (events, held)
    }
}

impl Table {
    fn slot(&mut self, fence: Fence) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(fence.0 as u32 as usize)?;
        (u64::from(slot.generation) == fence.0 >> 32 && slot.state != State::Free).then_some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{HostMemory, HostRange},
        *,
    };
    use std::sync::Arc;

    fn event(number: usize) -> Handle {
        Handle(std::ptr::without_provenance_mut(number))
    }

    fn range() -> HostRange {
        HostRange::whole(Arc::new(HostMemory::ordinary(8).expect("host memory")))
    }

    #[test]
    fn an_event_is_used_again_only_once_its_fence_has_passed_and_is_given_back() {
        let fences = Fences::default();
        let (first, alone) = fences.add(event(1), 0, Vec::new());
        assert!(alone);
        fences.retire(first);
        assert_eq!(fences.spare(), None, "a fence that has not passed gave its event back");
        let (second, alone) = fences.add(event(2), 1, Vec::new());
        assert!(!alone);
        fences.pass(second);
        assert_eq!(fences.find(second), Some((event(2), true)));
        fences.retire(second);
        assert_eq!((fences.find(second), fences.spare()), (None, Some(event(2))));
        let (third, _) = fences.add(event(2), 1, Vec::new());
        assert_ne!(second, third);
        assert_eq!(fences.find(second), None);
        assert_eq!(fences.live(), 2);
    }

    #[test]
    fn host_memory_is_held_until_the_fence_behind_its_copy_has_passed() {
        let fences = Fences::default();
        let range = range();
        let (fence, _) = fences.add(event(1), 2, vec![range.memory.clone()]);
        assert_eq!((Arc::strong_count(&range.memory), fences.holds(2), fences.holds(1)), (2, true, false));
        drop(fences.pass(fence));
        assert_eq!((Arc::strong_count(&range.memory), fences.holds(2)), (1, false));
    }

    #[test]
    fn the_oldest_of_each_queue_is_looked_at_next() {
        let fences = Fences::default();
        let (first, _) = fences.add(event(1), 0, Vec::new());
        let (second, _) = fences.add(event(2), 0, Vec::new());
        let (other, _) = fences.add(event(3), 3, Vec::new());
        let mut next = Vec::new();
        fences.next(&mut next);
        assert_eq!(next, [(first, event(1)), (other, event(3))]);
        fences.pass(first);
        fences.pass(other);
        fences.next(&mut next);
        assert_eq!(next, [(second, event(2))]);
        let (events, _) = fences.drain();
        assert_eq!(events.len(), 3);
    }
}
