//! Recounts every byte from the buffers and compares the books with it.

use super::{
    Bytes, Core, Phase, WordCell,
    record::{HostCopy, Place},
};
use std::fmt;

/// A figure of the books that a recount does not bear out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Imbalance {
    /// Which figure.
    pub what: &'static str,
    /// What the books say.
    pub booked: u64,
    /// What the recount says.
    pub counted: u64,
}

impl fmt::Display for Imbalance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: the books say {}, a recount {}", self.what, self.booked, self.counted)
    }
}

impl<C: WordCell + Clone> Core<C> {
    /// Recounts the books. Cost: one look at every buffer.
    ///
    /// # Errors
    ///
    /// The first figure that does not agree.
    pub fn check(&self) -> Result<(), Imbalance> {
        let (mut decided, mut in_use, mut spilled) = (self.asked, Bytes::ZERO, Bytes::ZERO);
        let (mut listed, mut claimed, mut fixed, mut exported) =
            (Bytes::ZERO, 0u64, Bytes::ZERO, Bytes::ZERO);
        let (mut foreign, mut for_requests) = (Bytes::ZERO, Bytes::ZERO);
        for (_, record) in self.records.iter().filter(|(_, record)| !record.settled) {
            if record.foreign {
                foreign = foreign.plus(record.bytes);
                continue;
            }
            let word = record.cell.load();
            let phase = word.phase();
            if record.present {
                decided = decided.plus(record.bytes);
            }
            if record.memory {
                in_use = in_use.plus(record.bytes);
            }
            if phase == Phase::Spilled {
                spilled = spilled.plus(if record.unborn { Bytes::ZERO } else { record.bytes });
                same(
                    "device memory of a spilled buffer",
                    record.memory && record.room.is_none() && !record.coming,
                    false,
                )?;
            } else {
                same("device memory of a resident buffer", record.memory, true)?;
            }
            if let Place::Listed(_) = record.place {
                listed = listed.plus(record.bytes);
                same("a candidate that is claimed", record.claimed.is_some(), false)?;
                let is_spilled = phase == Phase::Spilled && record.keepers == 0;
                same("a candidate that is spilled", is_spilled, false)?;
            }
            let movable = !record.fixed && record.bytes > Bytes::ZERO && record.exports == 0;
            if record.place == Place::Off && movable && phase != Phase::Spilled && !record.departed {
                same("a resident buffer out of sight", record.claimed.is_some(), true)?;
            }
            if record.claimed.is_some_and(|claim| claim.request.is_some()) {
                for_requests = for_requests.plus(record.bytes);
            }
            if record.claimed.is_some() {
                claimed = claimed.saturating_add(1);
                same("a claimed buffer open", word.is_closed(), true)?;
                same("a claimed buffer pinned", word.pins() > 0, false)?;
            }
            if record.fixed {
                fixed = fixed.plus(record.bytes);
            } else if record.exports > 0 {
                exported = exported.plus(record.bytes);
            }
            if phase == Phase::Spilled && !word.is_closed() {
                same("a spilled buffer dirty", word.is_dirty(), false)?;
            }
            if phase == Phase::Restoring {
                same("a restoring buffer without a host copy", record.host == HostCopy::None, false)?;
            }
        }
        let totals = &self.books.totals;
        let flow = totals.spilled.minus(totals.restored).minus(totals.dropped_spilled);
        for (what, booked, counted) in [
            ("decided", self.books.decided, decided),
            ("in use", self.books.in_use, in_use),
            ("spilled", self.books.spilled, spilled),
            ("spilled in all, less restored and dropped", flow, spilled),
            ("candidates", self.order.bytes(), listed),
            ("claims", Bytes(self.claims.len() as u64), Bytes(claimed)),
            ("claimed for requests", self.claimed, for_requests),
            ("fixed", self.books.fixed, fixed),
            ("exported", self.exported, exported),
            ("foreign", self.books.foreign, foreign),
        ] {
            same_bytes(what, booked, counted)?;
        }
        Ok(())
    }
}

fn same(what: &'static str, booked: bool, counted: bool) -> Result<(), Imbalance> {
    same_bytes(what, Bytes(u64::from(booked)), Bytes(u64::from(counted)))
}

fn same_bytes(what: &'static str, booked: Bytes, counted: Bytes) -> Result<(), Imbalance> {
    if booked == counted { Ok(()) } else { Err(Imbalance { what, booked: booked.0, counted: counted.0 }) }
}
