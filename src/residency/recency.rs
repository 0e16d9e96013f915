//! The candidates in order of last use. The order is repaired lazily: a use stamps the word alone, and the search
//! that meets an entry older than its word moves it to where it belongs.

use super::{Bytes, Record, Slot, Table, WordCell, record::Place};
use std::collections::BTreeSet;

/// The order of candidates: least recently used first, ties by age.
#[derive(Debug, Default)]
pub struct Recency {
    order: BTreeSet<(u64, u64, Slot)>,
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
    /// exported are set aside; one whose pins will end by themselves is next in turn, and none is taken before it.
    pub fn take<C: WordCell>(&mut self, records: &mut Table<Record<C>>) -> Option<Slot> {
        while let Some((stamp, age, slot)) = self.order.pop_first() {
            let Some(record) = records.get_mut(slot) else { continue };
            let word = record.cell.load();
            if word.stamp() != stamp {
                self.order.insert((word.stamp(), age, slot));
                record.place = Place::Listed(word.stamp());
                continue;
            }
            let closed = record.cell.update(|word| {
                if word.stamp() != stamp {
                    None
                } else if word.is_exported() {
                    Some(word)
                } else if word.pins() > 0 {
                    Some(word.with_watched(true))
                } else {
                    Some(word.with_closed(true))
                }
            });
            let Some((before, _)) = closed else {
                // Used between the look and the step: back in line.
                let stamp = record.cell.load().stamp();
                self.order.insert((stamp, age, slot));
                record.place = Place::Listed(stamp);
                continue;
            };
            if !before.is_exported() && before.pins() > 0 && before.pins() == u64::from(record.keepers) {
                self.order.insert((stamp, age, slot));
                return None;
            }
            self.bytes = self.bytes.minus(record.bytes);
            if before.is_exported() || before.pins() > 0 {
                record.place = Place::Aside;
                continue;
            }
            record.place = Place::Off;
            return Some(slot);
        }
        None
    }
}
