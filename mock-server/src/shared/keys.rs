//! Words of a limit's keys, in a table of fixed size that all processes share: buckets of slots,
//! each bucket with a lock, so that a decision is as exact over many processes as in one.
//!
//! A key keeps its slot while the limit has something to remember about it: until its word is idle
//! and the wait that it was promised is over. A key that finds no slot in its bucket shares a word
//! with all such keys (the crowd): together they get what one of them should have. It must not know
//! what the words mean.

use super::lock::{Lock, LockGuard, Word};
use crate::limit::{Algorithm, KeyHash, LimitDecision};
use std::cell::Cell;

/// Buckets of a table. A key can be in one of them only.
const BUCKETS: usize = 1 << 10;

/// Slots in a bucket. While half of the table is busy, a full bucket is a freak event: 32 keys
/// expected, 5.6 standard deviations below 64.
const WAYS: usize = 64;

/// Table of one limit.
#[repr(C, align(4096))]
pub(crate) struct Keys {
    buckets: [Bucket; BUCKETS],
}

#[repr(C, align(64))]
struct Bucket {
    lock: Lock,
    /// The slot behind the last is the crowd's.
    slots: [Slot; WAYS + 1],
}

/// Words of one key, on a cache line of their own.
#[repr(C, align(64))]
struct Slot {
    /// Hash of the key; 0 before the first one, and in the crowd's slot.
    key: Word,
    state: Word,
    /// End of the latest wait that was promised, nanoseconds on the common clock; 0 before the
    /// first.
    promised_until_ns: Word,
    /// Instant at which the running promise was first made.
    promise_made_ns: Word,
}

/// Place of a key when it was last looked up. It may have been given to another key since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotIndex {
    bucket: usize,
    way: usize,
}

impl SlotIndex {
    /// Not looked up yet.
    pub(crate) const UNKNOWN: Self = Self {
        bucket: 0,
        way: usize::MAX,
    };

    /// True if the key found no slot.
    pub(crate) fn is_crowd(self) -> bool {
        self.way == WAYS
    }
}

/// One request for a decision about a key.
#[derive(Clone, Copy)]
pub(crate) struct KeyQuery<'a> {
    pub(crate) algorithm: &'a Algorithm,
    pub(crate) key: KeyHash,
    pub(crate) now_ns: u64,
    /// Place of the key last time; kept up to date.
    pub(crate) place: &'a Cell<SlotIndex>,
}

/// Refusal that tells how long to wait. All on the common clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_field_names,
    reason = "the unit belongs to the name of every instant"
)]
pub(crate) struct Telling {
    /// When its request came.
    pub(crate) asked_ns: u64,
    /// When it is answered, not earlier than that.
    pub(crate) answered_ns: u64,
    /// End of the wait that the client is told.
    pub(crate) until_ns: u64,
}

/// The words of a key, held by one process among all until this is dropped.
pub(crate) struct HeldSlot<'a> {
    pub(crate) place: SlotIndex,
    slot: &'a Slot,
    _held: LockGuard<'a>,
}

impl Keys {
    /// Hold the words of a key. It gets a slot if it has none and there is one.
    pub(crate) fn hold(&self, query: &KeyQuery<'_>) -> HeldSlot<'_> {
        #[expect(clippy::cast_possible_truncation, reason = "10 bits")]
        let index = query.key.0 as usize % BUCKETS;
        let bucket = &self.buckets[index];
        let held = bucket.lock.hold();
        let place = SlotIndex {
            bucket: index,
            way: bucket.way(query),
        };
        query.place.set(place);
        HeldSlot {
            place,
            slot: &bucket.slots[place.way],
            _held: held,
        }
    }

    /// Count one less open. The slot is still its key's: while something is open it is not idle.
    pub(crate) fn release(&self, place: SlotIndex) {
        let bucket = &self.buckets[place.bucket];
        let _held = bucket.lock.hold();
        let slot = &bucket.slots[place.way];
        slot.state.set(slot.state.get().saturating_sub(1));
    }
}

impl HeldSlot<'_> {
    /// Decide about one request. Nothing is taken until the state is set.
    pub(crate) fn decide(&self, query: &KeyQuery<'_>) -> LimitDecision {
        if self.place.is_crowd() && query.algorithm.counts_open() {
            return LimitDecision::Rejected { retry_after_ns: 1 };
        }
        query.algorithm.step(self.slot.state.get(), query.now_ns)
    }

    /// Set the state that an admission leaves behind.
    pub(crate) fn set(&self, state: u64) {
        self.slot.state.set(state);
    }

    /// Return when the promise was first made that runs at `now_ns`; none if none does, or in the
    /// crowd, where it is not known which client received it.
    pub(crate) fn promise_made_ns(&self, now_ns: u64) -> Option<u64> {
        let runs = self.slot.promised_until_ns.get() > now_ns;
        (runs && !self.place.is_crowd()).then(|| self.slot.promise_made_ns.get())
    }

    /// Note that the key is told to wait. A promise runs from its first making until the end of the
    /// latest wait that was told while it ran; what is told after that is a new promise. Of two
    /// that begin at the same time in two processes one comes about, made at the earlier instant.
    pub(crate) fn promise(&self, telling: Telling) {
        let Telling {
            asked_ns,
            answered_ns,
            until_ns,
        } = telling;
        let (made, until) = (&self.slot.promise_made_ns, &self.slot.promised_until_ns);
        let begun_ns = answered_ns.min(until_ns.saturating_sub(1));
        let is_new = until.get() <= asked_ns;
        made.set(if is_new {
            begun_ns
        } else {
            made.get().min(begun_ns)
        });
        until.set(until.get().max(until_ns));
    }
}

impl Bucket {
    /// Find the slot of a key, or give it one; the crowd's if there is none.
    fn way(&self, query: &KeyQuery<'_>) -> usize {
        let key = query.key.0.max(1);
        let known = query.place.get().way;
        if self
            .slots
            .get(known)
            .is_some_and(|slot| slot.key.get() == key)
        {
            return known;
        }
        // Each key in an order of its own, so that it is found at once while there is room. It is
        // never behind a slot that was never used.
        let first = (key >> 10) as usize % WAYS;
        let ways = || (0..WAYS).map(move |step| (first + step) % WAYS);
        let found = ways().find(|way| {
            matches!(self.slots[*way].key.get(), 0) || self.slots[*way].key.get() == key
        });
        if let Some(way) = found
            && self.slots[way].key.get() == key
        {
            return way;
        }
        let Some(way) = ways().find(|way| self.slots[*way].is_free(query)) else {
            return WAYS;
        };
        let slot = &self.slots[way];
        // It may have been one of the crowd, and brings along what that has taken.
        slot.state.set(self.slots[WAYS].state.get());
        slot.promised_until_ns.set(0);
        slot.key.set(key);
        way
    }
}

impl Slot {
    fn is_free(&self, query: &KeyQuery<'_>) -> bool {
        query.algorithm.is_idle(self.state.get(), query.now_ns)
            && self.promised_until_ns.get() <= query.now_ns
    }
}

#[cfg(test)]
mod tests;
