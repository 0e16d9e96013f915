//! The candidates in order of last use. The order is repaired lazily: a use stamps the word alone, and the search
//! that meets an entry older than its word moves it to where it belongs.

use super::{Bytes, Phase, Record, Slot, Table, WordCell, record::Place};
use std::{collections::BTreeSet, ops::Bound};

/// The order of candidates: least recently used first, ties by age.
#[derive(Debug, Default)]
pub struct Recency {
    order: BTreeSet<Entry>,
    bytes: Bytes,
}

impl Recency {
    /// Bytes of all candidates: no more than that can be spilled.
    pub fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// The candidates, least recently used first, as far as the order has been repaired.
    pub fn coldest(&self) -> impl Iterator<Item = Slot> + '_ {
        self.order.iter().map(|&(_, _, slot)| slot)
    }

    /// Puts a buffer among the candidates, under its word's stamp, unless it may not be one.
    pub fn list<C: WordCell>(&mut self, slot: Slot, record: &mut Record<C>) {
        let barred = record.fixed || record.foreign || record.departed;
        if barred || record.bytes == Bytes::ZERO || record.place != Place::Off {
            return;
        }
        let stamp = record.cell.load().stamp();
        self.order.insert((stamp, record.age, slot));
        self.bytes = self.bytes.plus(record.bytes);
        record.place = Place::Listed(stamp);
    }

    /// Takes a buffer out from among the candidates, or from where it was set aside.
    pub fn unlist<C: WordCell>(&mut self, slot: Slot, record: &mut Record<C>) {
        if let Place::Listed(stamp) = record.place {
            self.order.remove(&(stamp, record.age, slot));
            self.bytes = self.bytes.minus(record.bytes);
        } else if record.place == Place::Aside {
            record.cell.set(|word| word.with_watched(false));
        }
        record.place = Place::Off;
    }

    /// Takes out the least recently used buffer that may be spilled, and closes its word. Buffers met pinned or
    /// exported are set aside.
    pub fn take<C: WordCell>(&mut self, records: &mut Table<Record<C>>, passing: Passing) -> Option<Slot> {
        let mut from = Bound::Unbounded;
        loop {
            let entry = *self.order.range((from, Bound::Unbounded)).next()?;
            let is_spared = records.get(entry.2).is_some_and(|record| passing.spares(record));
            let met = if is_spared { Met::Kept } else { self.try_take(records, entry) };
            match met {
                Met::Taken => return Some(entry.2),
                Met::Kept if passing != Passing::None => from = Bound::Excluded(entry),
                Met::Kept => return None,
                Met::Moved => {}
            }
        }
    }

    /// Takes out this candidate and closes its word, unless it may not be spilled now.
    pub fn take_this<C: WordCell>(&mut self, records: &mut Table<Record<C>>, slot: Slot) -> Option<Slot> {
        loop {
            let record = records.get(slot)?;
            let Place::Listed(stamp) = record.place else { return None };
            match self.try_take(records, (stamp, record.age, slot)) {
                Met::Taken => return Some(slot),
                Met::Kept => return None,
                Met::Moved => {}
            }
        }
    }

    fn try_take<C: WordCell>(&mut self, records: &mut Table<Record<C>>, entry: Entry) -> Met {
        let (stamp, age, slot) = entry;
        let Some(record) = records.get_mut(slot) else {
            self.order.remove(&entry);
            return Met::Moved;
        };
        let closed = record.cell.update(|word| {
            if word.stamp() != stamp {
                None
            } else if word.is_exported() {
                Some(word)
            } else if word.pins() > 0 {
                Some(word.with_watched(word.phase() != Phase::Spilled))
            } else {
                Some(word.with_closed(true))
            }
        });
        let Some((before, _)) = closed else {
            // Used since it was listed: back in line.
            let stamp = record.cell.load().stamp();
            self.order.remove(&entry);
            self.order.insert((stamp, age, slot));
            record.place = Place::Listed(stamp);
            return Met::Moved;
        };
        if !before.is_exported() && before.pins() > 0 && before.pins() == u64::from(record.keepers) {
            return Met::Kept;
        }
        self.order.remove(&entry);
        self.bytes = self.bytes.minus(record.bytes);
        if before.phase() == Phase::Spilled {
            // On its way to the device for others too: it is a candidate again once it is there.
            record.place = Place::Off;
            return Met::Moved;
        }
        if before.is_exported() || before.pins() > 0 {
            record.place = Place::Aside;
            return Met::Moved;
        }
        record.place = Place::Off;
        Met::Taken
    }
}

/// What a search passes over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Passing {
    /// A buffer whose pins will end by themselves is next in turn, and none is taken before it.
    None,
    /// Such buffers.
    Kept,
    /// Such buffers, and those that launches wait for.
    Wanted,
    /// All of these, and those that hints are about.
    Hinted,
}

impl Passing {
    fn spares<C: WordCell>(self, record: &Record<C>) -> bool {
        let is_hinted = || record.hinted.is_some_and(|stamp| record.cell.load().stamp() == stamp);
        match self {
            Passing::None | Passing::Kept => false,
            Passing::Wanted => record.wanted > 0,
            Passing::Hinted => record.wanted > 0 || is_hinted(),
        }
    }
}

/// A candidate: its stamp when it was listed, its age, its place in the table.
type Entry = (u64, u64, Slot);

/// What came of the look at a candidate.
enum Met {
    Taken,
    /// It stays where it is.
    Kept,
    /// It stands elsewhere now, or not in line at all.
    Moved,
}
