//! The limiter's words: for each limit a table with one slot per key, in which idle keys make room for new ones. The
//! limiter decides through it about requests.
//!
//! It must not know what a word means, and asks the limit's algorithm; and it must never let a key have two words, nor
//! two keys one, except for the crowd (below).
//!
//! # How a slot changes hands
//!
//! Three words are all there is to agree on: a slot's `owner` (fingerprint, generation, [`Kind`]), its `state` (the
//! algorithm's word, or one of the marks above [`LARGEST`]) and its bucket's `commit` (version, way, generation).
//!
//! 1. Whoever needs a slot reads the bucket's commit, completes it (below), and sees that the key is in none of the
//!    bucket's slots. It picks a slot that is empty, or whose state is idle, and changes this very state to [`CLAIMED`]
//!    by compare-and-swap. In that instant the old key is gone, having been as good as fresh, and the slot is its own.
//! 2. It names itself there as pending, of a new generation, and marks the state as [`born`] with that generation.
//! 3. It changes the bucket's commit from what it read to its own way and generation. If that fails, another key has come
//!    into the bucket since, maybe the same: it clears its slot and starts over. So no key is ever there twice.
//! 4. It turns pending into member. Everybody who reads the commit does this for it, if it has not happened.
//!
//! A user changes the state of a member by compare-and-swap and looks at the owner afterwards: if that is still the
//! member of the same generation, the change was made to this key's word. If not, it looks its key up again.
//!
//! # The crowd
//!
//! If all slots of a bucket are busy, further keys share the crowd's word; all of them together are then let through
//! what one should be. For a key not to have the crowd's share and a fresh one of its own besides, a slot's state begins
//! as a copy of the crowd's: whoever meets a born slot copies it. And whoever has taken from the crowd looks once more
//! whether its key has come into the bucket meanwhile, and if so takes there instead. What is given back when it ends
//! (requests in flight, connections) has no such copy: there a key without a slot is turned away.

use crate::limit::{Algorithm, KeyHash, LARGEST, Step};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many keys of a limit have words of their own.
const KEYS: usize = BUCKETS * WAYS;

/// A key can be in one bucket only.
const BUCKETS: usize = 1 << 10;

/// Slots in a bucket. While half of the table is busy, a full bucket is a freak event: 32 keys expected, 5.6 standard
/// deviations below 64.
const WAYS: usize = 64;

/// The key's process owns the slot alone.
const CLAIMED: u64 = u64::MAX;

/// Marks the state of a slot whose key is new, by its generation.
const fn born(owner: Owner) -> u64 {
    CLAIMED - 1 - owner.generation()
}
const _: () = assert!(LARGEST < CLAIMED - 1 - GENERATIONS);

/// The first of the marks.
const MARKS: u64 = LARGEST + 1;

const GENERATIONS: u64 = 0xffff;

/// Who a slot belongs to: 46 bits of fingerprint, 16 of generation, 2 of kind. With the 10 bits that choose the bucket,
/// two of 64 keys in a bucket share a fingerprint with a probability of 3 in 10^11.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner(u64);

/// What an owner says about its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Nobody's. All-zero memory is empty.
    Empty = 0,
    /// Of a key that may or may not get it.
    Pending = 1,
    /// Of a key.
    Member = 2,
}

impl Owner {
    const NOBODY: Self = Self(0);

    const fn new(key: KeyHash, generation: u64, kind: Kind) -> Self {
        Self(key.0 >> 18 << 18 | (generation & GENERATIONS) << 2 | kind as u64)
    }

    const fn generation(self) -> u64 {
        self.0 >> 2 & GENERATIONS
    }

    const fn as_kind(self, kind: Kind) -> Self {
        Self(self.0 & !3 | kind as u64)
    }

    const fn is(self, kind: Kind) -> bool {
        self.0 & 3 == kind as u64
    }

    /// A member that stands for `key`.
    const fn is_member(self, key: KeyHash) -> bool {
        self.is(Kind::Member) && self.0 >> 18 == key.0 >> 18
    }
}

/// The latest key of a bucket: 42 bits of version, 6 of way, 16 of generation.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Commit(u64);

impl Commit {
    const fn next(self, way: usize, owner: Owner) -> Self {
        Self(((self.0 >> 22) + 1) << 22 | (way as u64) << 16 | owner.generation())
    }

    #[expect(clippy::cast_possible_truncation, reason = "6 bits")]
    const fn way(self) -> usize {
        (self.0 >> 16 & 63) as usize
    }

    const fn generation(self) -> u64 {
        self.0 & GENERATIONS
    }
}

/// Where a key's words were when they were last looked up. The slot may have changed hands since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    slot: usize,
    owner: Owner,
}

impl Place {
    /// Not looked up yet.
    pub(crate) const UNKNOWN: Self = Self { slot: KEYS, owner: Owner::NOBODY };

    /// With the keys that found no slot.
    const CROWD: Self = Self { slot: KEYS, owner: Owner(3) };

    pub(crate) fn is_crowd(self) -> bool {
        self == Self::CROWD
    }
}

/// The words of one key, on a cache line of their own.
#[repr(C, align(64))]
struct Slot {
    owner: AtomicU64,
    state: AtomicU64,
    /// The end of the latest wait that was promised to the key, nanoseconds on the common clock.
    promised_ns: AtomicU64,
}

/// The table of one limit.
#[repr(C, align(4096))]
pub(crate) struct Keys {
    /// The slot behind the last is the crowd's.
    slots: [Slot; KEYS + 1],
    commits: [AtomicU64; BUCKETS],
}

/// One request for a decision.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) algorithm: &'a Algorithm,
    pub(crate) key: KeyHash,
    pub(crate) now_ns: u64,
    /// Where the key was last time; kept up to date.
    pub(crate) place: &'a Cell<Place>,
}

/// Whether a decision takes anything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Take,
    Look,
}

/// What was decided, and what the state is after it: that of the admission, or that which stood against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decided {
    pub(crate) step: Step,
    pub(crate) state: u64,
}

impl Keys {
    /// Decides about one request, and takes what it takes.
    pub(crate) fn take(&self, asked: &Asked<'_>) -> Decided {
        self.decide(asked, Mode::Take)
    }

    /// What [`take`](Self::take) would decide. Nothing is taken.
    pub(crate) fn look(&self, asked: &Asked<'_>) -> Decided {
        self.decide(asked, Mode::Look)
    }

    fn decide(&self, asked: &Asked<'_>, mode: Mode) -> Decided {
        let mut place = self.settle(asked);
        loop {
            let decided = self.decide_at(place, asked, mode);
            if let Some(decided) = decided {
                if self.is_still(place, asked.key) {
                    return decided;
                }
                if mode == Mode::Take
                    && matches!(decided.step, Step::Admitted { .. })
                    && asked.algorithm.counts_what_is_open()
                {
                    // Counted at another key, whose slot cannot change hands before this is taken back. Any other
                    // admission is left where it is: it makes that key's limit stricter for once, where giving back
                    // could meet yet another key.
                    self.release(place);
                }
            }
            place = self.find(asked);
            asked.place.set(place);
        }
    }

    /// One decision at one place; none if the slot is changing hands.
    fn decide_at(&self, place: Place, asked: &Asked<'_>, mode: Mode) -> Option<Decided> {
        if place.is_crowd() && asked.algorithm.counts_what_is_open() {
            return Some(Decided { step: Step::Rejected { retry_after_ns: 1 }, state: LARGEST });
        }
        let slot = &self.slots[place.slot];
        loop {
            let state = slot.state.load(Ordering::SeqCst);
            if state == born(place.owner) {
                self.raise(slot, state);
                continue;
            }
            if state >= MARKS {
                return None;
            }
            match asked.algorithm.step(state, asked.now_ns) {
                step @ Step::Rejected { .. } => return Some(Decided { step, state }),
                step @ Step::Admitted { next, .. } => {
                    // SeqCst, here and wherever slots change hands: that this change was made, and what the owner or
                    // the commit was afterwards, must have one order for all.
                    if mode == Mode::Look
                        || slot.state.compare_exchange(state, next, Ordering::SeqCst, Ordering::SeqCst).is_ok()
                    {
                        return Some(Decided { step, state: next });
                    }
                }
            }
        }
    }

    /// Gives the state of a born slot to its key. Only a member's: its commit came before this look at the crowd.
    fn raise(&self, slot: &Slot, born: u64) {
        let crowd = self.slots[KEYS].state.load(Ordering::SeqCst);
        // Whoever was faster did the same.
        let _ = slot.state.compare_exchange(born, crowd, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Whether a place that was looked up before can be that of `key`.
    fn may_be(&self, place: Place, key: KeyHash) -> bool {
        place.owner.is_member(key) && place.slot / WAYS == bucket_of(key) && self.is_still(place, key)
    }

    /// Whether the key is still where it was. For one in the crowd: whether it is nowhere else.
    fn is_still(&self, place: Place, key: KeyHash) -> bool {
        if place.is_crowd() {
            let bucket = bucket_of(key);
            self.complete(bucket, Commit(self.commits[bucket].load(Ordering::SeqCst)));
            return self.seen(key).is_none();
        }
        self.slots[place.slot].owner.load(Ordering::SeqCst) == place.owner.0
    }

    /// The place of a key, which gets a slot if it has none and there is one.
    fn find(&self, asked: &Asked<'_>) -> Place {
        let bucket = bucket_of(asked.key);
        if let Some(place) = self.seen(asked.key) {
            return place;
        }
        loop {
            let commit = Commit(self.commits[bucket].load(Ordering::SeqCst));
            self.complete(bucket, commit);
            if let Some(place) = self.seen(asked.key) {
                return place;
            }
            let Some(picked) = self.pick(asked) else { return Place::CROWD };
            if let Some(place) = self.move_in(picked, asked.key, commit) {
                return place;
            }
        }
    }

    /// The place of a key that has one.
    fn seen(&self, key: KeyHash) -> Option<Place> {
        ways(key).find_map(|slot| {
            let owner = Owner(self.slots[slot].owner.load(Ordering::SeqCst));
            // A slot that is claimed says for a moment still who had it.
            let is_there = owner.is_member(key) && self.slots[slot].state.load(Ordering::SeqCst) != CLAIMED;
            is_there.then_some(Place { slot, owner })
        })
    }

    /// A slot that can be had, and the state to claim it by: an empty one rather than an idle one.
    fn pick(&self, asked: &Asked<'_>) -> Option<(usize, u64)> {
        let mut idle = None;
        for index in ways(asked.key) {
            let slot = &self.slots[index];
            let owner = Owner(slot.owner.load(Ordering::SeqCst));
            let state = slot.state.load(Ordering::SeqCst);
            if state >= MARKS || owner.is(Kind::Pending) || !asked.algorithm.is_idle(state, asked.now_ns) {
                // An empty slot, too, may have been changed by somebody who took it for what it was.
                continue;
            }
            if owner.is(Kind::Empty) {
                return Some((index, state));
            }
            if idle.is_none() && slot.promised_ns.load(Ordering::Relaxed) <= asked.now_ns {
                idle = Some((index, state));
            }
        }
        idle
    }

    /// Takes over a slot; none if somebody else was faster, there or anywhere in the bucket.
    fn move_in(&self, (index, state): (usize, u64), key: KeyHash, commit: Commit) -> Option<Place> {
        let slot = &self.slots[index];
        slot.state.compare_exchange(state, CLAIMED, Ordering::SeqCst, Ordering::SeqCst).ok()?;
        let generation = Owner(slot.owner.load(Ordering::SeqCst)).generation() + 1;
        let pending = Owner::new(key, generation, Kind::Pending);
        slot.promised_ns.store(0, Ordering::Relaxed);
        slot.owner.store(pending.0, Ordering::SeqCst);
        slot.state.store(born(pending), Ordering::SeqCst);
        let next = commit.next(index % WAYS, pending);
        let word = &self.commits[index / WAYS];
        if word.compare_exchange(commit.0, next.0, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            slot.owner.store(pending.as_kind(Kind::Empty).0, Ordering::SeqCst);
            slot.state.store(0, Ordering::SeqCst);
            return None;
        }
        self.complete(index / WAYS, next);
        Some(Place { slot: index, owner: pending.as_kind(Kind::Member) })
    }

    /// Makes the key of a commit a member, if it is not one yet.
    fn complete(&self, bucket: usize, commit: Commit) {
        let slot = &self.slots[bucket * WAYS + commit.way()];
        let owner = Owner(slot.owner.load(Ordering::SeqCst));
        if owner.is(Kind::Pending) && owner.generation() == commit.generation() {
            let member = owner.as_kind(Kind::Member);
            let _ = slot.owner.compare_exchange(owner.0, member.0, Ordering::SeqCst, Ordering::SeqCst);
        }
    }

    /// Takes back an admission that made the state `taken`. `now_ns` is read after the state.
    pub(crate) fn give_back(&self, asked: &Asked<'_>, taken: u64, now_ns: impl Fn() -> u64) {
        let place = asked.place.get();
        if asked.algorithm.counts_what_is_open() {
            return self.release(place);
        }
        let slot = &self.slots[place.slot];
        loop {
            let state = slot.state.load(Ordering::SeqCst);
            if state >= MARKS || (!place.is_crowd() && slot.owner.load(Ordering::SeqCst) != place.owner.0) {
                return;
            }
            let Some(next) = asked.algorithm.give_back(state, taken, now_ns()) else { return };
            if slot.state.compare_exchange(state, next, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                return;
            }
        }
    }

    /// Counts one less open. The slot is still its key's: while something is open it is not idle.
    pub(crate) fn release(&self, place: Place) {
        if !place.is_crowd() {
            self.slots[place.slot].state.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Until when the key was told to wait; 0 in the crowd, where nobody knows whom it was told.
    pub(crate) fn promised_ns(&self, place: Place) -> u64 {
        if place.is_crowd() { 0 } else { self.slots[place.slot].promised_ns.load(Ordering::Relaxed) }
    }

    /// The key is told to wait until `until_ns`.
    pub(crate) fn promise(&self, place: Place, until_ns: u64) {
        if !place.is_crowd() {
            self.slots[place.slot].promised_ns.fetch_max(until_ns, Ordering::Relaxed);
        }
    }

    /// Looks a key up ahead of its decision.
    pub(crate) fn settle(&self, asked: &Asked<'_>) -> Place {
        let place = asked.place.get();
        if self.may_be(place, asked.key) {
            return place;
        }
        let place = self.find(asked);
        asked.place.set(place);
        place
    }
}

#[expect(clippy::cast_possible_truncation, reason = "10 bits")]
const fn bucket_of(key: KeyHash) -> usize {
    (key.0 as usize) % BUCKETS
}

/// The slots of a key's bucket, each key's in an order of its own, so that it is found at once while there is room.
#[expect(clippy::cast_possible_truncation, reason = "6 bits")]
fn ways(key: KeyHash) -> impl Iterator<Item = usize> {
    let first = (key.0 >> 10) as usize % WAYS;
    let start = bucket_of(key) * WAYS;
    (0..WAYS).map(move |step| start + (first + step) % WAYS)
}
