//! All that is decided about one device's buffers. Every entry leaves the books in balance.

use super::{
    Ask, Books, Bytes, Decision, Failure, Outcome, Record, Request, RequestId, Slot, Step, StepRecord, Table,
    WordCell,
    decision::Grant,
    policy::{Policy, Victims},
    recency::Recency,
    record::{HostCopy, Place},
    requests::Requests,
    state::Steps,
    thrash::Thrash,
};
use std::collections::{BTreeMap, VecDeque};

/// The decisions of one device.
#[derive(Debug)]
pub struct Core<C> {
    pub(super) records: Table<Record<C>>,
    pub(super) order: Recency,
    pub(super) books: Books,
    pub(super) requests: Requests,
    pub(super) grants: VecDeque<Grant>,
    pub(super) issued: usize,
    /// Of those issued: allocated again after a refusal.
    pub(super) retried: usize,
    pub(super) claims: BTreeMap<u64, Slot>,
    pub(super) decisions: VecDeque<Decision<C>>,
    pub(super) steps: Steps,
    pub(super) thrash: Thrash,
    pub(super) policy: Policy,
    pub(super) spills: bool,
    pub(super) victims: Victims,
    pub(super) has_hook: bool,
    pub(super) shrink: bool,
    /// There is less room than was counted on: the budget has been lowered, or a victim stays.
    pub(super) is_overbooked: bool,
    pub(super) marks: Option<(u8, u8)>,
    /// Write-back has started and not yet reached its high mark.
    pub(super) cleaning: bool,
    /// The last copy of write-back was refused: none is tried until a copy out has succeeded.
    pub(super) is_write_back_refused: bool,
    /// The last copy out was refused: no buffer is spilled only since the budget has fallen, until something has changed.
    pub(super) is_copy_out_refused: bool,
    /// In the decided book for requests, not for a buffer.
    pub(super) asked: Bytes,
    pub(super) exported: Bytes,
    /// Requests admitted whose pins will end by themselves.
    pub(super) kept: usize,
    /// Hints admitted whose buffers are on their way: their pins end by themselves too.
    pub(super) hinting: usize,
    /// Of buffers claimed for requests and not yet released.
    pub(super) claimed: Bytes,
    /// The device is lost: nothing ends by itself.
    pub(super) is_lost: bool,
    budget: Bytes,
    total: Bytes,
    next: u64,
}

impl<C: WordCell + Clone> Core<C> {
    /// A device without buffers.
    pub fn new(budget: Bytes, policy: Policy, has_hook: bool) -> Core<C> {
        Core {
            records: Table::default(),
            order: Recency::default(),
            books: Books::default(),
            requests: Requests::default(),
            grants: VecDeque::new(),
            issued: 0,
            retried: 0,
            claims: BTreeMap::new(),
            decisions: VecDeque::new(),
            steps: Steps::default(),
            thrash: Thrash::default(),
            policy,
            spills: true,
            victims: Victims::default(),
            has_hook,
            shrink: false,
            is_overbooked: false,
            marks: None,
            cleaning: false,
            is_write_back_refused: false,
            is_copy_out_refused: false,
            asked: Bytes::ZERO,
            exported: Bytes::ZERO,
            kept: 0,
            hinting: 0,
            claimed: Bytes::ZERO,
            is_lost: false,
            budget,
            total: Bytes::MAX,
            next: 0,
        }
    }

    /// Asks for something; [`step`](Core::step) answers.
    pub fn ask(&mut self, ask: Ask, stamp: u64) -> RequestId {
        let bytes = match &ask {
            Ask::Uses(wants) => {
                wants.iter().filter_map(|want| self.records.get(want.slot)).map(|record| record.bytes).sum()
            }
            Ask::Fresh(bytes) | Ask::Room(bytes) => *bytes,
            Ask::Spill(_) | Ask::Drop(_) | Ask::Touch(_) | Ask::Cool(_) => Bytes::ZERO,
        };
        if bytes > Bytes::ZERO {
            self.try_to_shrink();
        }
        let id = self.requests.push(ask, stamp, bytes, false);
        self.count_wanted(id, true);
        id
    }

    /// Takes a request out of the queue, if it is there.
    pub(super) fn unqueue(&mut self, id: RequestId) {
        if self.requests.unqueue(id) {
            self.count_wanted(id, false);
        }
    }

    /// Puts a request that is not in the queue first.
    pub(super) fn queue_first(&mut self, id: RequestId) {
        if self.is_hint(id) {
            self.requests.hints.push_front(id);
            return;
        }
        self.requests.queue.push_front(id);
        self.count_wanted(id, true);
    }

    /// Counts a request that keeps its buffers among those that wait for them, or not any more.
    fn count_wanted(&mut self, id: RequestId, waits: bool) {
        let Some(Request { ask: Ask::Uses(wants), .. }) = self.requests.get(id) else { return };
        for want in wants.iter().filter(|want| want.kept) {
            if let Some(record) = self.records.get_mut(want.slot) {
                let wanted = record.wanted;
                record.wanted = if waits { wanted.saturating_add(1) } else { wanted.saturating_sub(1) };
            }
        }
    }

    /// Decides all that can be decided now.
    pub fn step(&mut self) {
        self.shrink_to_budget();
        self.take_hints_back();
        while self.admit_next() | self.pump_grants() | self.admit_hint() {}
        self.write_back();
    }

    /// The next thing to do.
    pub fn next_decision(&mut self) -> Option<Decision<C>> {
        self.decisions.pop_front()
    }

    /// Whether there is something to do.
    pub fn has_decisions(&self) -> bool {
        !self.decisions.is_empty()
    }

    /// Whether new requests must queue behind those that wait.
    pub fn gate_is_up(&self) -> bool {
        !self.requests.queue.is_empty() || self.is_refused()
    }

    /// Whether memory is short enough for the last use of each buffer to matter.
    pub fn is_pressed(&self) -> bool {
        self.books.spilled > Bytes::ZERO || !self.claims.is_empty() || self.gate_is_up()
    }

    /// The most bytes of live buffers the device may hold.
    pub fn budget(&self) -> Bytes {
        self.budget
    }

    /// Sets whether anything is spilled.
    pub fn set_spills(&mut self, on: bool) {
        self.spills = on;
    }

    /// Sets whom a spill takes.
    pub fn set_victims(&mut self, victims: Victims) {
        self.victims = victims;
    }

    /// Says how much memory the device has in all.
    pub fn set_total(&mut self, total: Bytes) {
        self.total = total;
    }

    /// The most bytes that can be asked for at once: more is refused before anything is spilled for it.
    pub fn most(&self) -> Bytes {
        self.budget.min(self.total)
    }

    /// Sets the budget. Lowered, it spills at once what may be spilled, and the rest as pins end.
    pub fn set_budget(&mut self, budget: Bytes) {
        self.is_overbooked |= budget < self.budget;
        self.budget = budget;
        self.shrink = true;
        self.is_copy_out_refused = false;
    }

    /// Something has changed that a spill refused before may have waited for.
    fn try_to_shrink(&mut self) {
        self.is_copy_out_refused = false;
        self.shrink |= self.is_over_budget();
    }

    /// Whether live buffers hold more than the budget.
    pub fn is_over_budget(&self) -> bool {
        self.books.decided > self.budget
    }

    /// The books.
    pub fn books(&self) -> &Books {
        &self.books
    }

    /// The books, for peaks and for copies the core does not see.
    pub fn books_mut(&mut self) -> &mut Books {
        &mut self.books
    }

    /// One buffer.
    pub fn record(&self, slot: Slot) -> Option<&Record<C>> {
        self.records.get(slot)
    }

    /// All buffers.
    pub fn records(&self) -> impl Iterator<Item = (Slot, &Record<C>)> {
        self.records.iter()
    }

    /// How many buffers there are.
    #[cfg(debug_assertions)]
    pub fn buffers(&self) -> usize {
        self.records.len()
    }

    /// A request, until it is taken.
    pub fn request(&self, id: RequestId) -> Option<&Request> {
        self.requests.get(id)
    }

    /// Takes an ended request out.
    pub fn take_request(&mut self, id: RequestId) -> Option<Request> {
        self.unqueue(id);
        self.requests.remove(id)
    }

    /// The steps taken since this was last asked.
    pub fn drain_steps(&mut self) -> impl Iterator<Item = StepRecord> + '_ {
        self.steps.drain()
    }

    pub(super) fn number(&mut self) -> u64 {
        self.next = self.next.wrapping_add(1);
        self.next
    }

    pub(super) fn decide(&mut self, decision: Decision<C>) {
        self.decisions.push_back(decision);
    }

    /// Takes one step of the table: the word, and the record of it. False if the word is not where the step starts.
    pub(super) fn take_step(
        &mut self,
        slot: Slot,
        step: Step,
        also: impl Fn(super::Word) -> Option<super::Word>,
    ) -> bool {
        let Some(record) = self.records.get(slot) else { return false };
        let (from, to) = step.phases();
        let moved = record.cell.update(|word| {
            if word.phase() == from { also(word).map(|word| word.with_phase(to)) } else { None }
        });
        if moved.is_some() {
            let (age, bytes) = (record.age, record.bytes.0);
            self.steps.push(StepRecord { slot, age, step, bytes });
        }
        moved.is_some()
    }

    pub(super) fn wake(&mut self, id: RequestId, outcome: Outcome) {
        if let Some(request) = self.requests.get_mut(id) {
            let is_hint_over = request.is_hint && matches!(outcome, Outcome::Done);
            request.outcome = outcome;
            self.decide(Decision::Wake(id));
            if is_hint_over {
                self.end_hint(id);
            }
        }
    }

    /// One thing less that a request waits for.
    pub(super) fn one_less(&mut self, id: RequestId) {
        if let Some(request) = self.requests.get_mut(id) {
            request.missing = request.missing.saturating_sub(1);
            if request.missing == 0 {
                self.wake(id, Outcome::Done);
            }
        }
    }

    /// Adds a buffer that has its memory.
    pub(super) fn add(&mut self, cell: C, bytes: Bytes, fixed: bool) -> Slot {
        let age = self.number();
        let mut record = Record::new(cell, bytes, age);
        record.fixed = fixed;
        if fixed {
            record.cell.set(|word| word.with_exported(true));
            self.books.fixed = self.books.fixed.plus(bytes);
        }
        let slot = self.records.insert(record);
        self.list(slot);
        slot
    }

    pub(super) fn list(&mut self, slot: Slot) {
        if let Some(record) = self.records.get_mut(slot) {
            self.order.list(slot, record);
        }
    }

    pub(super) fn unpin(&mut self, slot: Slot) {
        if let Some(record) = self.records.get(slot) {
            record.cell.set(super::Word::without_pin);
            self.pin_ended(slot);
        }
    }

    /// The last pin of a watched buffer, or its last export, has ended.
    pub fn unpinned(&mut self, slot: Slot) {
        self.try_to_shrink();
        self.pin_ended(slot);
    }

    fn pin_ended(&mut self, slot: Slot) {
        self.shrink |= self.is_over_budget();
        let Some(record) = self.records.get_mut(slot) else { return };
        if record.place == Place::Aside && !record.cell.load().is_exported() {
            // Pinned still, or again: whoever drops that pin tells, also if it was set aside for its export.
            let watched = record.cell.update(|word| Some(word.with_watched(word.pins() > 0)));
            if watched.is_some_and(|(_, word)| word.pins() == 0) {
                record.place = Place::Off;
                self.list(slot);
                self.shrink = true;
            }
        }
        self.finish_drop(slot);
    }

    /// Fails a request: it holds nothing any more.
    pub fn fail(&mut self, id: RequestId, failure: Failure) {
        self.abandon(id);
        self.unqueue(id);
        if self.requests.get(id).is_some_and(Request::is_note) {
            self.requests.remove(id);
        }
        self.wake(id, Outcome::Failed(failure));
    }

    /// Takes back a request that no one waits for. What is under way goes on; the rest is as if not asked.
    pub fn cancel(&mut self, id: RequestId) {
        if let Some(request) = self.requests.get(id) {
            let done = matches!(request.outcome, Outcome::Failed(_));
            if !done {
                self.abandon(id);
            }
            self.unqueue(id);
            self.requests.remove(id);
        }
    }

    /// Fails every request: the device is lost.
    pub fn lose(&mut self) {
        self.is_lost = true;
        let waiting: Vec<RequestId> = self
            .requests
            .iter()
            .filter(|(_, request)| !matches!(request.outcome, Outcome::Done | Outcome::Failed(_)))
            .map(|(id, _)| id)
            .collect();
        for id in waiting {
            self.fail(id, Failure::Lost);
        }
        let departed: Vec<Slot> =
            self.records.iter().filter(|(_, record)| record.departed).map(|(slot, _)| slot).collect();
        departed.into_iter().for_each(|slot| self.finish_drop(slot));
    }

    /// Whether the host copy of a buffer is what a reader must see: current, and the device copy not newer.
    pub fn host_is_current(&self, slot: Slot) -> bool {
        self.records.get(slot).is_some_and(|record| {
            record.host == HostCopy::Held && !record.cell.load().is_dirty() && record.copying.is_none()
        })
    }
}
