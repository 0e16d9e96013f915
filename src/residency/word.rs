//! The 64 bits that say where a buffer is, who uses it and when it was last used.
//!
//! Every change is one function from word to word, so that a compare-exchange can make it one step.

use std::fmt;

/// Where a buffer's bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Phase {
    /// In device memory.
    Resident,
    /// In host memory, with a copy to device memory queued.
    Restoring,
    /// In host memory.
    Spilled,
}

/// A buffer's word.
///
/// | bits | what |
/// |---|---|
/// | 0–1 | phase |
/// | 2 | dirty: newer than any host copy |
/// | 3 | watched: whoever drops the last pin tells the engine |
/// | 4 | exported, or fixed: never a victim |
/// | 5 | closed: pins are taken under the engine's lock only |
/// | 6–19 | pins |
/// | 20–63 | recency stamp |
///
/// Stamps end at 2⁴⁴: at one launch a microsecond, after two hundred days. From there on recency stands still and
/// victims go by age; no byte is at risk.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Word(pub u64);

const PHASE: u64 = 0b11;
const RESTORING: u64 = 1;
const SPILLED: u64 = 2;
const DIRTY: u64 = 1 << 2;
const WATCHED: u64 = 1 << 3;
const EXPORTED: u64 = 1 << 4;
const CLOSED: u64 = 1 << 5;
const PIN_SHIFT: u32 = 6;
const PIN: u64 = 1 << PIN_SHIFT;
const PINS: u64 = ((1 << 14) - 1) << PIN_SHIFT;
const STAMP_SHIFT: u32 = 20;
const LOW: u64 = (1 << STAMP_SHIFT) - 1;
/// The last stamp: from there on recency stands still.
pub const STAMP_MAX: u64 = u64::MAX >> STAMP_SHIFT;

/// Why a pin was not taken without the engine's lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoPin {
    /// It is spilled, or being spilled or worked on: ask the engine.
    AskEngine,
    /// It has as many pins as a word counts.
    TooMany,
}

impl Word {
    /// What one pin adds, for the decrement that drops it.
    pub const PIN: u64 = PIN;

    /// A new buffer: resident, dirty, not pinned.
    pub fn fresh(stamp: u64) -> Word {
        Word(DIRTY).stamped(stamp)
    }

    /// The word after a use at `stamp` takes a pin, if that needs no lock.
    #[inline(always)]
    pub fn pinned(self, stamp: u64, writes: bool) -> Result<Word, NoPin> {
        if self.0 & (SPILLED | CLOSED) != 0 {
            return Err(NoPin::AskEngine);
        }
        if self.0 & PINS == PINS {
            return Err(NoPin::TooMany);
        }
        let dirty = if writes { DIRTY } else { 0 };
        // The stamp is on top, and the rest is the same in both: the larger word has the later stamp.
        let kept = (self.0 | dirty) + PIN;
        Ok(Word(kept.max(kept & LOW | stamp << STAMP_SHIFT)))
    }

    /// The word with one pin more, whatever else it says; none if it has as many as it counts.
    pub fn with_pin(self) -> Option<Word> {
        (self.0 & PINS != PINS).then_some(Word(self.0.wrapping_add(PIN)))
    }

    /// The word with one pin less.
    pub fn without_pin(self) -> Word {
        Word(if self.pins() == 0 { self.0 } else { self.0.wrapping_sub(PIN) })
    }

    /// Where the bytes are.
    pub fn phase(self) -> Phase {
        match self.0 & PHASE {
            RESTORING => Phase::Restoring,
            SPILLED => Phase::Spilled,
            _ => Phase::Resident,
        }
    }

    /// The word in another phase.
    #[must_use]
    pub fn with_phase(self, phase: Phase) -> Word {
        let bits = match phase {
            Phase::Resident => 0,
            Phase::Restoring => RESTORING,
            Phase::Spilled => SPILLED,
        };
        Word(self.0 & !PHASE | bits)
    }

    /// Newer than any host copy.
    pub fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    /// The last pin's drop tells the engine.
    pub fn is_watched(self) -> bool {
        self.0 & WATCHED != 0
    }

    /// Handed out, or fixed.
    pub fn is_exported(self) -> bool {
        self.0 & EXPORTED != 0
    }

    /// Pins are taken under the engine's lock only.
    pub fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    /// The word, dirty or clean.
    #[must_use]
    pub fn with_dirty(self, on: bool) -> Word {
        self.with(DIRTY, on)
    }

    /// The word, watched or not.
    #[must_use]
    pub fn with_watched(self, on: bool) -> Word {
        self.with(WATCHED, on)
    }

    /// The word, exported or not.
    #[must_use]
    pub fn with_exported(self, on: bool) -> Word {
        self.with(EXPORTED, on)
    }

    /// The word, closed or open.
    #[must_use]
    pub fn with_closed(self, on: bool) -> Word {
        self.with(CLOSED, on)
    }

    /// How many pins hold it.
    pub fn pins(self) -> u64 {
        (self.0 & PINS) >> PIN_SHIFT
    }

    /// When it was last used.
    pub fn stamp(self) -> u64 {
        self.0 >> STAMP_SHIFT
    }

    /// The word with the later of its own stamp and `stamp`.
    #[inline]
    #[must_use]
    pub fn stamped(self, stamp: u64) -> Word {
        let later = self.stamp().max(stamp.min(STAMP_MAX));
        Word(self.0 & LOW | later << STAMP_SHIFT)
    }

    /// The word as of a buffer that was never used.
    #[must_use]
    pub fn unstamped(self) -> Word {
        Word(self.0 & LOW)
    }

    fn with(self, bit: u64, on: bool) -> Word {
        Word(if on { self.0 | bit } else { self.0 & !bit })
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.phase())?;
        for (on, name) in [
            (self.is_dirty(), "dirty"),
            (self.is_watched(), "watched"),
            (self.is_exported(), "exported"),
            (self.is_closed(), "closed"),
        ] {
            if on {
                write!(f, " {name}")?;
            }
        }
        write!(f, " pins={} stamp={}", self.pins(), self.stamp())
    }
}

/// A place that holds a word and changes it in one step.
pub trait WordCell {
    /// The word now.
    fn load(&self) -> Word;

    /// Replaces the word by what `change` makes of it, again and again until no one came between; gives the word
    /// before and after, or none if `change` said none.
    fn update(&self, change: impl Fn(Word) -> Option<Word>) -> Option<(Word, Word)>;

    /// As [`update`](WordCell::update), for a change that is always possible.
    fn set(&self, change: impl Fn(Word) -> Word) {
        self.update(|word| Some(change(word)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_keeps_the_later_stamp_and_marks_dirty() {
        let word = Word::fresh(9).with_dirty(false);
        let read = word.pinned(7, false).unwrap();
        assert_eq!((read.stamp(), read.pins(), read.is_dirty()), (9, 1, false));
        let write = read.pinned(12, true).unwrap();
        assert_eq!((write.stamp(), write.pins(), write.is_dirty()), (12, 2, true));
        assert_eq!(write.without_pin().pins(), 1);
    }

    #[test]
    fn only_open_words_on_the_device_are_pinned_without_the_lock() {
        let word = Word::fresh(1);
        assert_eq!(word.with_phase(Phase::Spilled).pinned(2, false), Err(NoPin::AskEngine));
        assert_eq!(word.with_closed(true).pinned(2, false), Err(NoPin::AskEngine));
        assert!(word.with_phase(Phase::Restoring).pinned(2, false).is_ok());
    }

    #[test]
    fn pins_never_spill_into_the_stamp() {
        let full = Word(Word::fresh(5).0 | PINS);
        assert_eq!(full.pinned(6, true), Err(NoPin::TooMany));
        assert_eq!(full.with_pin(), None);
        assert_eq!(full.stamp(), 5);
        assert_eq!(Word::fresh(1).without_pin(), Word::fresh(1));
    }

    #[test]
    fn a_stamp_beyond_the_last_stands_still() {
        assert_eq!(Word::fresh(u64::MAX).stamp(), STAMP_MAX);
        assert_eq!(Word::fresh(u64::MAX).stamped(3).stamp(), STAMP_MAX);
    }
}
