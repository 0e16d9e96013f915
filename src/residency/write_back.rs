//! Write-back ahead of need: the buffers that would be spilled next are cleaned while they stay usable, so that making
//! room is a release and not a copy. Decides nothing about who is spilled.

use super::{Bytes, Core, Decision, Pace, Phase, Policy, Slot, Victims, WordCell, record::HostCopy};

/// The copies of write-back under way at a time: enough to keep the copy engine busy, few enough that a spill in need
/// does not stand behind many.
const AT_ONCE: usize = 2;

/// What the rest of a copy out ahead of need is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// Nothing: the buffer was written meanwhile, or dropped.
    Nothing,
    /// A spill that may come.
    Later,
    /// A spill that waits for it.
    Now,
}

impl<C: WordCell + Clone> Core<C> {
    /// Sets the marks, in percent of the budget, or switches write-back off: it starts when less than the first is free
    /// or can be released without a copy, and goes on until as much as the second is, so that it does not flutter.
    pub fn set_write_back(&mut self, marks: Option<(u8, u8)>) {
        self.marks = marks;
        self.cleaning = false;
    }

    fn share(&self, percent: u8) -> Bytes {
        let part = u128::from(self.budget().0).saturating_mul(u128::from(percent)).checked_div(100);
        Bytes(part.and_then(|part| u64::try_from(part).ok()).unwrap_or(u64::MAX))
    }

    /// Starts to clean the coldest buffers, as far as the marks ask for it.
    pub(super) fn write_back(&mut self) {
        let is_on = self.spills
            && self.policy == Policy::Aware
            && self.budget() != Bytes::MAX
            && !self.is_write_back_refused;
        let Some((low, high)) = self.marks.filter(|_| is_on) else { return };
        let (low, high) = (self.share(low), self.share(high));
        let free = self.budget().minus(self.books.decided);
        if free >= high || self.books.decided == Bytes::ZERO {
            self.cleaning = false;
            return;
        }
        let mut released = free;
        let mut under_way = 0usize;
        let mut dirty = Vec::new();
        for slot in self.order.coldest() {
            if released >= high || under_way.saturating_add(dirty.len()) >= AT_ONCE {
                break;
            }
            let Some(record) = self.records.get(slot) else { continue };
            let word = record.cell.load();
            let is_spared = self.victims == Victims::NextUse && record.wanted > 0;
            if is_spared
                || word.pins() > 0
                || word.is_exported()
                || record.ops > 0
                || word.phase() != Phase::Resident
            {
                continue;
            }
            if record.copying.is_some() {
                under_way = under_way.saturating_add(1);
            } else if word.is_dirty() {
                dirty.push(slot);
            } else if record.host == HostCopy::None {
                continue;
            }
            released = released.plus(record.bytes);
            if dirty.is_empty() && under_way == 0 && released >= low && !self.cleaning {
                return;
            }
        }
        self.cleaning = !dirty.is_empty() || under_way > 0;
        for slot in dirty {
            let token = self.number();
            let Some(record) = self.records.get_mut(slot) else { continue };
            let cleaned = record.cell.update(|word| {
                (word.pins() == 0 && word.is_dirty() && !word.is_closed()).then_some(word.with_dirty(false))
            });
            if cleaned.is_some() {
                record.copying = Some(token);
                self.decide(Decision::CopyOut { slot, token, pace: Pace::InPieces });
            }
        }
    }

    /// What the rest of a copy out ahead of need is for, now.
    pub fn need_of_copy(&self, slot: Slot, token: u64) -> Need {
        let copied = |record: &&super::Record<C>| record.copying == Some(token);
        match self.records.get(slot).filter(copied) {
            Some(record) if record.departed || record.cell.load().is_dirty() => Need::Nothing,
            Some(record) if record.claimed.is_some() => Need::Now,
            Some(_) => Need::Later,
            None => Need::Nothing,
        }
    }

    /// Whether a copy out is still to end.
    pub fn is_copying(&self, slot: Slot, token: u64) -> bool {
        self.records.get(slot).is_some_and(|record| record.copying == Some(token))
    }

    /// A copy out ahead of need was given up behind the first `copied` bytes, since nothing needs it any more.
    pub fn cut_short(&mut self, slot: Slot, token: u64, copied: Bytes) {
        self.books.totals.copied_out = self.books.totals.copied_out.plus(copied);
        let Some(record) = self.records.get_mut(slot).filter(|record| record.copying == Some(token)) else {
            return;
        };
        record.copying = None;
        record.cell.set(|word| word.with_dirty(true));
        self.drop_host(slot);
        self.try_release(slot);
        self.finish_drop(slot);
    }
}
