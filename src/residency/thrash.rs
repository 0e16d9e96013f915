//! Thrash: buffers that are spilled and restored again and again. Measured in uses of the device and not in time, so that
//! the same calls give the same figures at any speed.

use super::{Bytes, Core, RequestId, Slot, WordCell};

/// So many trips in a row, each too soon, are thrash.
const ROW: u32 = 3;

/// A trip that is over within so many uses of the device, whatever they used, is too soon in any case.
const MOMENT: u64 = 4;

/// A buffer that stays for more than so many times as long as it then lies unused has done with a row.
const STAY: u64 = 4;

/// An episode is over when there was no thrash for so many times as long as its last round took.
const REST: u64 = 2;

/// A buffer's trips to the host and back. All times are stamps: one a launch, and one a use by the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Trips {
    /// When it was used last and when it was chosen, if it is away to make room.
    away: Option<(u64, u64)>,
    /// When it was asked for again.
    asked: Option<u64>,
    /// When it came back last.
    back: u64,
    /// Trips too soon, one after the other.
    row: u32,
    /// Those that were thrash.
    thrash: u64,
}

/// A trip that was thrash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Thrashed {
    /// When it was over.
    at: u64,
    /// Trips that are thrash since it: those that began the row are so too.
    trips: u64,
    /// Uses from one return to the next.
    round: u64,
}

impl Trips {
    /// How many trips were thrash so far.
    pub fn thrash(&self) -> u64 {
        self.thrash
    }

    /// Chosen to be spilled at `now`, last used at `used`.
    fn leave(&mut self, used: u64, now: u64) {
        self.away = Some((used, now.max(used)));
    }

    /// Not away to make room: taken back, or spilled since someone said so.
    pub(super) fn stay(&mut self) {
        self.away = None;
    }

    /// Asked for again, by the first of those that wait for it.
    pub(super) fn ask(&mut self, now: u64) {
        self.asked.get_or_insert(now);
    }

    /// Not asked for any more.
    pub(super) fn unask(&mut self) {
        self.asked = None;
    }

    /// Back on the device. Tells if that was thrash.
    fn arrive(&mut self) -> Option<Thrashed> {
        let asked = self.asked.take();
        let Some(((used, left), at)) = self.away.take().zip(asked) else {
            self.row = 0;
            return None;
        };
        let (unused, away) = (left.saturating_sub(used), at.saturating_sub(left));
        let (stayed, before) = (left.saturating_sub(self.back), std::mem::replace(&mut self.back, at));
        let is_soon = away.saturating_mul(2) < unused || unused.saturating_add(away) <= MOMENT;
        let goes_on = is_soon && stayed <= unused.saturating_mul(STAY);
        self.row = if goes_on { self.row.saturating_add(1) } else { u32::from(is_soon) };
        let trips = match self.row {
            ..ROW => return None,
            ROW => u64::from(ROW),
            _ => 1,
        };
        self.thrash = self.thrash.saturating_add(trips);
        Some(Thrashed { at, trips, round: at.saturating_sub(before) })
    }
}

/// A time in which a device thrashes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Episode {
    /// The first buffer that was found to.
    pub slot: Slot,
    /// Its age.
    pub age: u64,
    /// Its bytes.
    pub bytes: Bytes,
    /// Its trips so far that were thrash.
    pub trips: u64,
}

/// Whether a device thrashes.
#[derive(Debug, Default)]
pub(super) struct Thrash {
    /// When it last did, and how long that round took.
    last: Option<(u64, u64)>,
    begun: Option<Episode>,
}

impl Thrash {
    /// Notes thrash; true if an episode begins with it.
    fn note(&mut self, thrashed: Thrashed) -> bool {
        let goes_on = |(at, round): (u64, u64)| thrashed.at.saturating_sub(at) <= round.saturating_mul(REST);
        let begins = !self.last.is_some_and(goes_on);
        self.last = self.last.max(Some((thrashed.at, thrashed.round)));
        begins
    }
}

impl<C: WordCell + Clone> Core<C> {
    /// A buffer was chosen to make room for a request.
    pub(super) fn leaves_for(&mut self, slot: Slot, id: RequestId) {
        let Some(now) = self.requests.get(id).map(|request| request.stamp) else { return };
        if let Some(record) = self.records.get_mut(slot) {
            let used = record.cell.load().stamp();
            record.trips.leave(used, now);
        }
    }

    /// A buffer is back on the device.
    pub(super) fn came_back(&mut self, slot: Slot) {
        let Some(record) = self.records.get_mut(slot) else { return };
        let Some(thrashed) = record.trips.arrive() else { return };
        let (age, bytes, trips) = (record.age, record.bytes, record.trips.thrash());
        let begins = self.thrash.note(thrashed);
        self.books.thrashed(bytes, thrashed.trips, begins);
        if begins {
            self.thrash.begun = Some(Episode { slot, age, bytes, trips });
        }
    }

    /// The episode that has begun since this was last asked.
    pub fn take_episode(&mut self) -> Option<Episode> {
        self.thrash.begun.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses `buffers` in turn on a device that holds `room` of them and spills the least recently used; the trips of
    /// one that were thrash after so many rounds, and the episodes.
    fn rounds(buffers: u64, room: u64, rounds: u64) -> (u64, usize) {
        let (mut trips, mut thrash, mut episodes) = (Trips::default(), Thrash::default(), 0);
        for round in 1..=rounds {
            let used = round * buffers;
            trips.leave(used, used + room);
            trips.ask(used + buffers);
            episodes += trips.arrive().map_or(0, |thrashed| usize::from(thrash.note(thrashed)));
        }
        (trips.thrash(), episodes)
    }

    #[test]
    fn a_sweep_thrashes_if_a_little_more_room_would_do_and_not_if_all_must_come_and_go() {
        assert_eq!(rounds(110, 100, 2), (0, 0), "twice may be chance");
        assert_eq!(rounds(110, 100, 3), (3, 1));
        assert_eq!(rounds(149, 100, 50), (50, 1));
        assert_eq!(rounds(150, 100, 50), (0, 0));
        assert_eq!(rounds(200, 100, 50), (0, 0));
        assert_eq!(rounds(1000, 100, 50), (0, 0));
    }

    #[test]
    fn buffers_that_take_turns_thrash_whatever_their_size() {
        assert_eq!(rounds(2, 1, 10), (10, 1));
        assert_eq!(rounds(3, 1, 10), (10, 1));
        assert_eq!(rounds(5, 1, 10), (0, 0));
    }

    #[test]
    fn a_buffer_that_was_of_use_for_long_or_came_back_late_has_done_with_its_row() {
        let mut trips = Trips::default();
        let mut go = |used, left, at| {
            trips.leave(used, left);
            trips.ask(at);
            trips.arrive().map(|thrashed| thrashed.trips)
        };
        assert_eq!([go(10, 20, 21), go(21, 31, 32), go(32, 42, 43)], [None, None, Some(3)]);
        assert_eq!([go(43, 53, 54), go(1000, 1010, 1011)], [Some(1), None], "it was of use for long");
        assert_eq!([go(1011, 1021, 1022), go(1022, 1032, 1033)], [None, Some(3)]);
        assert_eq!([go(1033, 1043, 1143), go(1143, 1153, 1154)], [None, None], "it came back late");
    }

    #[test]
    fn what_is_spilled_since_someone_said_so_makes_no_trip() {
        let mut trips = Trips::default();
        for at in 1..100 {
            trips.stay();
            trips.ask(at);
            assert_eq!(trips.arrive(), None);
        }
    }

    #[test]
    fn thrash_after_a_rest_is_another_episode() {
        let mut thrash = Thrash::default();
        let mut note = |at| thrash.note(Thrashed { at, trips: 1, round: 10 });
        assert_eq!(
            [note(100), note(101), note(121), note(141), note(162)],
            [true, false, false, false, true]
        );
    }

    #[test]
    fn no_stamp_is_too_large() {
        let mut trips = Trips::default();
        for (used, left, at) in [(0, u64::MAX, 0), (u64::MAX, 0, u64::MAX), (u64::MAX, u64::MAX, 0)] {
            trips.leave(used, left);
            trips.ask(at);
            trips.arrive();
        }
    }
}
