//! The target's own books: what really arrived and what was really answered, the second witness to whatever a client
//! claims. The server records into [`Books`] on its hot path; anyone may read a [`Ledger`].
//!
//! It must not influence an answer, and it must not know about HTTP beyond the number of a status.

mod times;

pub use times::Times;

use crate::fault::Fault;
use crate::shared::{Counters, KeyIndex, KeySlot, Shared, Sighting, SourceIndex, UnderWay};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering;

/// A copy of the books, summed over all processes.
///
/// While requests are under way its numbers are each right for a moment, not all for the same one. At rest, when every
/// request has its answer or the end of its connection, they agree:
/// `requests = unique_ids + duplicate_ids + ids_beyond_tracking = sum of by_source`
/// `= sum of by_status + the faults without a status + the requests whose client left while its answer was held back`.
/// The faults without a status are `drop`, `reset`, `garbage` and `silence`; over HTTP/2 also `malformed_chunk`,
/// `truncated`, `short_length` and `long_length`, which are a reset or silent stream there.
///
/// Requests to `/__admin` are not in it, nor what never became a request: bytes that are not HTTP are answered with
/// 400 by the HTTP library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Requests for items, whatever became of them; counted as they arrive, so before their answer is written.
    pub requests: u64,
    /// Answers by status; counted just before they are written, those that do not come to a good end, too.
    pub by_status: BTreeMap<u16, u64>,
    /// How many different ids were requested. A request counts here whatever its answer.
    pub unique_ids: u64,
    /// How many requests were for an id that had been requested before: retries, too.
    pub duplicate_ids: u64,
    /// How many requests were for ids of 2^30 and more, which are not told apart; paths without a numeric id are among
    /// them.
    pub ids_beyond_tracking: u64,
    /// Whether `unique_ids` and `duplicate_ids` cover all requests: no id was beyond tracking.
    pub uniqueness_exact: bool,
    /// The greatest number of requests that the limiter let through within any 1000 consecutive milliseconds of the
    /// target's clock.
    pub max_admitted_in_1s: u64,
    /// Whether `max_admitted_in_1s` covers all requests: none came more than four hours after the start or the last
    /// reset.
    pub window_exact: bool,
    /// Requests from an address to which a `Retry-After` had been promised that had not passed yet. Requests that were
    /// on their way when the promise was made are among them; the target cannot know.
    pub early_retries: u64,
    /// Requests that a stub was found for.
    pub stub_answers: u64,
    /// Requests that no stub was found for, and that got a 404 for that.
    pub unmatched: u64,
    /// Requests that the journal had no room for.
    pub journal_missed: u64,
    /// How often each fault was committed, by its [name](Fault::name).
    pub faults: BTreeMap<String, u64>,
    /// The holds that were served out, as they were intended.
    pub held_us: Times,
    /// How much longer each of them took: what the answers' `x-mock-held-us` says above their `x-mock-hold-us`. Never
    /// negative, for no hold ends early; `held_us.sum_us` plus this `sum_us` is what was really held.
    pub hold_error_us: Times,
    /// Connections that carried at least one request for an item.
    pub connections: u64,
    /// Requests by client address; beyond 64 addresses the rest is under `other`.
    pub by_source: BTreeMap<String, u64>,
}

impl Ledger {
    /// Reads the books of all processes that share `shared`.
    #[must_use]
    pub fn read(shared: &Shared) -> Self {
        let region = shared.region();
        let mut ledger = Self::default();
        for counters in shared.all_counters() {
            ledger.add(counters, shared);
        }
        ledger.uniqueness_exact = ledger.ids_beyond_tracking == 0;
        ledger.max_admitted_in_1s = region.window.busiest_second();
        ledger.window_exact = region.window.is_exact();
        ledger.held_us.finish();
        ledger.hold_error_us.finish();
        ledger
    }

    /// Zeroes the books of all processes that share `shared`.
    ///
    /// Reset at rest. A request that is under way is not waited for: its arrival may be forgotten while its answer, its
    /// hold or its fault is counted after the reset. The limiter goes on as before, for a reset must not hand out
    /// budget, and so do the waits that were promised. A connection that was counted before is not counted again.
    pub fn reset(shared: &Shared) {
        for counters in shared.all_counters() {
            counters.zero();
        }
        shared.forget(shared.clock().now_ns());
    }

    fn add(&mut self, counters: &Counters, shared: &Shared) {
        self.requests += counters.requests.get();
        self.connections += counters.connections.get();
        self.unique_ids += counters.unique_ids.get();
        self.duplicate_ids += counters.duplicate_ids.get();
        self.ids_beyond_tracking += counters.ids_beyond_tracking.get();
        self.early_retries += counters.early_retries.get();
        self.stub_answers += counters.stub_answers.get();
        self.unmatched += counters.unmatched.get();
        self.journal_missed += counters.journal_missed.get();
        for (status, counter) in (0..).zip(&counters.by_status) {
            add_to(&mut self.by_status, status, counter.get());
        }
        for (name, counter) in Fault::NAMES.into_iter().zip(&counters.faults) {
            add_to(&mut self.faults, name.to_owned(), counter.get());
        }
        let by_source = |source: SourceIndex| counters.by_source[source.get()].get();
        for (source, address) in shared.region().sources.addresses() {
            add_to(&mut self.by_source, address.to_string(), by_source(source));
        }
        add_to(&mut self.by_source, "other".to_owned(), by_source(SourceIndex::OTHER));
        self.held_us.add(&counters.holds);
        self.hold_error_us.add(&counters.hold_errors);
    }
}

/// Adds to an entry; a zero makes none.
fn add_to<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K, count: u64) {
    if count > 0 {
        *counts.entry(key).or_default() += count;
    }
}

/// One process's pen. All of it is safe to call on the hot path: a handful of uncontended atomic additions per request.
#[derive(Clone, Debug)]
pub struct Books {
    shared: Shared,
    counters: usize,
}

/// One connection's place in the books and in the limiter's table.
#[derive(Debug)]
pub(crate) struct Peer {
    source: SourceIndex,
    key: KeyIndex,
    is_counted: Cell<bool>,
}

impl Books {
    /// Opens the books for one process, which counts into memory of its own from here on. Call it after the fork.
    #[must_use]
    pub fn open(shared: &Shared) -> Self {
        Self { shared: shared.clone(), counters: shared.claim_counters() }
    }

    /// The memory that the books are kept in.
    #[must_use]
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Looks up a client address, once per connection.
    pub(crate) fn peer(&self, address: IpAddr) -> Peer {
        let region = self.shared.region();
        Peer { source: region.sources.find(address), key: region.keys.find(address), is_counted: Cell::new(false) }
    }

    /// The limiter's words for `peer`.
    pub(crate) fn key(&self, peer: &Peer) -> &KeySlot {
        self.shared.region().keys.slot(peer.key)
    }

    /// A request for item `id` arrived at `now_ns`. Returns how many came for that item before, `0..=15`, 15 for more.
    pub(crate) fn arrived(&self, peer: &Peer, id: u64, now_ns: u64) -> u8 {
        let counters = self.counters();
        counters.requests.increment();
        if !peer.is_counted.replace(true) {
            counters.connections.increment();
        }
        counters.count_source(peer.source);
        let sighting = self.shared.region().seen.mark(id);
        match sighting {
            Sighting::First => &counters.unique_ids,
            Sighting::Again(_) => &counters.duplicate_ids,
            Sighting::Beyond => &counters.ids_beyond_tracking,
        }
        .increment();
        if now_ns < self.key(peer).promised_ns.load(Ordering::Relaxed) {
            counters.early_retries.increment();
        }
        sighting.attempt()
    }

    /// The limiter let a request through that arrived at `now_ns`.
    pub(crate) fn admitted(&self, now_ns: u64) {
        self.shared.region().window.admit(now_ns);
    }

    /// A request was turned away and told to come back not before `until_ns`.
    pub(crate) fn promised(&self, peer: &Peer, until_ns: u64) {
        self.key(peer).promised_ns.fetch_max(until_ns, Ordering::Relaxed);
    }

    /// A request is under way, among all processes, until what this returns is dropped.
    pub(crate) fn enter(&self) -> UnderWay<'_> {
        self.shared.region().in_flight.enter()
    }

    /// An answer that was to be held back for `intended_us` was held for `actual_us`.
    pub(crate) fn held(&self, intended_us: u64, actual_us: u64) {
        let counters = self.counters();
        counters.holds.record(intended_us);
        counters.hold_errors.record(actual_us.saturating_sub(intended_us));
    }

    /// The number of the latest request in this process, different from that of any other in all processes.
    pub(crate) fn ordinal(&self) -> u64 {
        (self.counters as u64) << 48 | self.counters().requests.get()
    }

    /// A stub was found for a request.
    pub(crate) fn played(&self) {
        self.counters().stub_answers.increment();
    }

    /// No stub was found for a request that needs one.
    pub(crate) fn unmatched(&self) {
        self.counters().unmatched.increment();
    }

    /// A request could not be kept.
    pub(crate) fn missed_in_journal(&self) {
        self.counters().journal_missed.increment();
    }

    /// A fault is about to be committed.
    pub(crate) fn failed(&self, fault: Fault) {
        self.counters().faults[fault.index()].increment();
    }

    /// An answer is about to be written.
    pub(crate) fn answered(&self, status: u16) {
        self.counters().count_status(status);
    }

    fn counters(&self) -> &Counters {
        self.shared.counters(self.counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([127, 0, 0, last])
    }

    #[test]
    fn everything_recorded_is_in_the_ledger_and_gone_after_a_reset() {
        let shared = Shared::new().unwrap();
        let one = Books::open(&shared);
        let two = Books::open(&shared);
        let first = one.peer(address(1));
        let second = two.peer(address(2));
        for (books, peer, id) in [(&one, &first, 7), (&two, &second, 7), (&one, &first, 8), (&two, &second, 1 << 30)] {
            books.arrived(peer, id, 1_000_000);
        }
        one.admitted(1_000_000);
        two.admitted(1_500_000);
        two.promised(&second, 10_000_000);
        two.arrived(&second, 9, 9_999_999);
        two.arrived(&second, 9, 10_000_000);
        one.arrived(&first, 9, 9_999_999);
        for hold_us in [0, 1, 3, 4] {
            one.held(hold_us, hold_us + 60);
        }
        two.held(4, 1004);
        one.played();
        two.played();
        two.unmatched();
        one.missed_in_journal();
        one.failed(Fault::Drop);
        two.failed(Fault::Status(503));
        two.failed(Fault::Status(503));
        one.answered(200);
        two.answered(200);
        two.answered(503);

        let expected = Ledger {
            requests: 7,
            by_status: BTreeMap::from([(200, 2), (503, 1)]),
            unique_ids: 3,
            duplicate_ids: 3,
            ids_beyond_tracking: 1,
            uniqueness_exact: false,
            max_admitted_in_1s: 2,
            window_exact: true,
            early_retries: 1,
            stub_answers: 2,
            unmatched: 1,
            journal_missed: 1,
            faults: BTreeMap::from([("drop".to_owned(), 1), ("error".to_owned(), 2)]),
            held_us: Times {
                count: 5,
                sum_us: 12,
                max_us: 4,
                p50_at_most_us: Some(3),
                p99_at_most_us: Some(4),
                buckets: vec![1, 1, 1, 2],
            },
            hold_error_us: Times {
                count: 5,
                sum_us: 1240,
                max_us: 1000,
                p50_at_most_us: Some(63),
                p99_at_most_us: Some(1000),
                buckets: vec![0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 1],
            },
            connections: 2,
            by_source: BTreeMap::from([("127.0.0.1".to_owned(), 3), ("127.0.0.2".to_owned(), 4)]),
        };
        assert_eq!(Ledger::read(&shared), expected);

        Ledger::reset(&shared);
        let empty = Ledger { uniqueness_exact: true, window_exact: true, ..Ledger::default() };
        assert_eq!(Ledger::read(&shared), empty);
    }

    #[test]
    fn a_reset_keeps_budgets_and_promises_but_forgets_ids() {
        let shared = Shared::new().unwrap();
        let books = Books::open(&shared);
        let peer = books.peer(address(1));
        books.arrived(&peer, 7, 0);
        books.key(&peer).tat.store(5, Ordering::Relaxed);
        books.promised(&peer, 100);
        Ledger::reset(&shared);
        books.arrived(&peer, 7, 50);
        let ledger = Ledger::read(&shared);
        assert_eq!((ledger.unique_ids, ledger.early_retries), (1, 1));
        assert_eq!(books.key(&peer).tat.load(Ordering::Relaxed), 5);
    }

    #[test]
    fn sources_beyond_the_table_are_others() {
        let shared = Shared::new().unwrap();
        let books = Books::open(&shared);
        for last in 0..70 {
            books.arrived(&books.peer(address(last)), 1, 0);
        }
        let ledger = Ledger::read(&shared);
        assert_eq!(ledger.by_source.len(), 65);
        assert_eq!(ledger.by_source["other"], 6);
    }

    #[test]
    fn a_ledger_survives_json() {
        let shared = Shared::new().unwrap();
        let books = Books::open(&shared);
        books.arrived(&books.peer(address(1)), 7, 0);
        books.answered(429);
        books.held(20_000, 20_060);
        let ledger = Ledger::read(&shared);
        let json = serde_json::to_string(&ledger).unwrap();
        assert!(json.contains(r#""by_status":{"429":1}"#), "{json}");
        assert_eq!(serde_json::from_str::<Ledger>(&json).unwrap(), ledger);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn requests_add_up(ids in proptest::collection::vec(prop_oneof![0_u64..50, any::<u64>()], 0..300)) {
            let shared = Shared::new().unwrap();
            let pens: Vec<Books> = (0..3).map(|_| Books::open(&shared)).collect();
            for (turn, id) in ids.iter().enumerate() {
                let books = &pens[turn % 3];
                books.arrived(&books.peer(address(u8::try_from(turn % 5).unwrap())), *id, 0);
            }
            let ledger = Ledger::read(&shared);
            prop_assert_eq!(ledger.requests, ids.len() as u64);
            prop_assert_eq!(ledger.requests, ledger.unique_ids + ledger.duplicate_ids + ledger.ids_beyond_tracking);
            prop_assert_eq!(ledger.requests, ledger.by_source.values().sum::<u64>());
            let distinct = ids.iter().filter(|id| **id < 1 << 30).collect::<std::collections::HashSet<_>>();
            prop_assert_eq!(ledger.unique_ids, distinct.len() as u64);
        }
    }
}
