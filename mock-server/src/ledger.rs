//! The ledger: the target's own counts of requests and responses, to compare with those of a
//! client. The server records into `LedgerWriter` on its hot path; anyone may read a [`Ledger`].
//!
//! It must not influence an answer, and it must not know about HTTP beyond the number of a status.

use crate::fault::{Fault, KINDS};
use crate::limit::Limits;
use crate::shared::{
    ArrivalCounts, Counters, Keys, Peaks, Shared, Times as TimeCounters, UnderWay,
};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A copy of the ledger, summed over all processes.
///
/// While requests are under way its numbers are each right for a moment, not all for the same one.
/// At rest, when every request has its answer or the end of its connection, they agree:
/// `requests = unique_ids + duplicate_ids + ids_beyond_tracking = sum of by_source`
/// `= sum of by_status + the faults without a status + abandoned`, but for requests whose client left as they came.
/// The faults without a status are `drop`, `reset`, `garbage` and `silence`; over HTTP/2 also
/// `malformed_chunk`, `truncated`, `short_length` and `long_length`, which are a reset or silent
/// stream there.
///
/// Requests to `/__admin` are not in it, nor what never became a request: bytes that are not HTTP
/// are answered with 400 by the HTTP library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Requests for items, whatever became of them; counted as they arrive, so before their answer
    /// is written.
    pub requests: u64,
    /// Answers by status; counted just before they are written, those that do not come to a good
    /// end, too.
    pub by_status: BTreeMap<u16, u64>,
    /// Number of different ids requested. A request counts here whatever its answer.
    pub unique_ids: u64,
    /// Number of requests for an id that had been requested before: retries, too.
    pub duplicate_ids: u64,
    /// Number of requests for ids of 2^30 and more, which are not told apart; paths without a
    /// numeric id are among them.
    pub ids_beyond_tracking: u64,
    /// True if `unique_ids` and `duplicate_ids` cover all requests: no id was beyond tracking.
    pub uniqueness_exact: bool,
    /// The greatest number of requests that the limiter let through within any 1000 consecutive
    /// milliseconds of the target's clock.
    pub max_admitted_in_1s: u64,
    /// The greatest numbers of requests within windows of three widths.
    pub busiest: Busiest,
    /// True if `busiest` and `max_admitted_in_1s` cover all requests: none came, nor went on, more
    /// than four hours after the start or the last reset.
    pub window_exact: bool,
    /// Requests of a key that came before the `Retry-After` that a limit had promised it had
    /// passed, although their client could know: on a connection on which that promise had been
    /// answered before, or on any of the key later than 50 ms after that promise was first made.
    ///
    /// A promise runs until the end of the latest wait that was told while it ran: further refusals
    /// extend it, and do not make it a new one. It is made when the refusal is answered, at the end
    /// of a stall if there is one. Streams of one HTTP/2 connection do not wait for each other's
    /// answers, and count like connections of their own. Keys that share a word for want of room
    /// (`limiter_overflows`) are promised nothing.
    pub early_retries: u64,
    /// The other requests that came before such a promise had passed: on other connections and
    /// within those 50 ms, so that they may have crossed the refusal on the way.
    pub crossed_promises: u64,
    /// Requests that a stub was found for.
    pub stub_answers: u64,
    /// Requests that no stub was found for, and that got a 404 for that.
    pub unmatched: u64,
    /// Requests that the journal had no room for.
    pub journal_missed: u64,
    /// Requests that no place was left for in the queue of the workers: they got a 503.
    #[serde(default)]
    pub queue_full: u64,
    /// Requests whose connection ended while their answer was held back. Workers did the work for
    /// them.
    #[serde(default)]
    pub abandoned: u64,
    /// Requests that a limit turned away, those on connections above a cap among them.
    pub rejected: u64,
    /// Counts of each limit, by its name; those that did nothing are there, too.
    pub by_limit: BTreeMap<String, LimitLedger>,
    /// Number of times that a limit could not tell a key from others, because its table was full of
    /// busy ones: what such keys share is what one of them should have had.
    pub limiter_overflows: u64,
    /// Connections above a cap: closed, reset, or answered with 503, as the limit says.
    pub connections_refused: u64,
    /// Count of each fault was committed, by its [name](Fault::name).
    pub faults: BTreeMap<String, u64>,
    /// The holds that were served out, as they were planned.
    pub held_us: Times,
    /// Time that each of them took longer: what the answers' `x-mock-held-us` says above their
    /// `x-mock-hold-us`. Never negative, for no hold ends early; `held_us.sum_us` plus this
    /// `sum_us` is what was really held.
    pub hold_error_us: Times,
    /// Connections that carried at least one request for an item.
    pub connections: u64,
    /// Connections whose TLS handshake was done.
    pub tls_connections: u64,
    /// Connections that ended in it: it failed, took too long, or the client left. They carried no
    /// request.
    pub tls_handshake_failures: u64,
    /// Connections that spoke HTTP/2.
    pub http2_connections: u64,
    /// Requests by client address; beyond 64 addresses the rest is under `other`.
    pub by_source: BTreeMap<String, u64>,
}

/// Counts of one limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitLedger {
    /// Requests that it let through, and all other limits, too. Of a cap on connections:
    /// connections.
    pub admitted: u64,
    /// Requests that it turned away; of several limits that would have, it is the one with the
    /// longest wait. Of a cap on connections: connections.
    pub rejected: u64,
    /// Requests that it let through and made wait.
    pub delayed: u64,
}

/// Add counters to the fields of the same name.
macro_rules! add {
    ($ledger:expr, $counters:expr, $($field:ident)+) => {
        $($ledger.$field += $counters.$field.get();)+
    };
}

impl Ledger {
    /// Reads the ledger of all processes that share `shared`.
    pub fn read(shared: &Shared) -> Self {
        let region = shared.region();
        let mut ledger = Self::default();
        for counters in shared.all_counters() {
            ledger.add(counters, shared);
        }
        ledger.uniqueness_exact = ledger.ids_beyond_tracking == 0;
        ledger.busiest = Busiest::read(&region.window);
        ledger.max_admitted_in_1s = ledger.busiest.second.admitted;
        ledger.window_exact = region.window.is_exact();
        ledger.held_us.finish();
        ledger.hold_error_us.finish();
        ledger
    }

    /// Zeroes the ledger of all processes that share `shared`.
    ///
    /// Reset at rest. A request that is under way is not waited for: its arrival may be forgotten
    /// while its answer, its hold or its fault is counted after the reset. The limiter goes on as
    /// before, for a reset must not hand out budget, and so do the waits that were promised. A
    /// connection that was counted before is not counted again.
    pub fn reset(shared: &Shared) {
        for counters in shared.all_counters() {
            counters.reset();
        }
        shared.forget(shared.clock().now_ns());
    }

    fn add(&mut self, counters: &Counters, shared: &Shared) {
        add!(self, counters, requests connections unique_ids duplicate_ids ids_beyond_tracking early_retries);
        add!(self, counters, crossed_promises stub_answers unmatched journal_missed queue_full abandoned);
        add!(self, counters, rejected limiter_overflows connections_refused tls_connections tls_handshake_failures http2_connections);
        for (index, name) in shared.region().limit_names.all() {
            let limit = self.by_limit.entry(name).or_default();
            add!(limit, counters.by_limit[index], admitted rejected delayed);
        }
        for (status, counter) in (0..).zip(&counters.by_status) {
            add_to(&mut self.by_status, status, counter.get());
        }
        for ((name, ..), counter) in KINDS.into_iter().zip(&counters.faults) {
            add_to(&mut self.faults, name.to_owned(), counter.get());
        }
        for (index, name) in shared.region().sources.all_and_other() {
            add_to(&mut self.by_source, name, counters.by_source[index].get());
        }
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

/// Writer of one process. It may be called on the hot path: a handful of uncontended atomic
/// additions per request.
#[derive(Clone, Debug)]
pub(crate) struct LedgerWriter {
    shared: Shared,
    counters: usize,
}

/// One connection's place in the ledger.
#[derive(Debug)]
pub(crate) struct ConnectionSource {
    source: usize,
    is_counted: Cell<bool>,
}

impl LedgerWriter {
    /// Opens the ledger for one process, which counts into memory of its own from here on. Call it
    /// after the fork.
    pub(crate) fn open(shared: &Shared) -> Self {
        Self {
            shared: shared.clone(),
            counters: shared.claim_counters(),
        }
    }

    /// The memory that the ledger are kept in.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Names the limits in the ledger; every process writes the same.
    pub(crate) fn name_limits(&self, limits: &Limits) {
        for limit in limits.iter() {
            self.shared.region().limit_names.find(limit.name());
        }
    }

    /// Looks up a client address, once per connection.
    pub(crate) fn peer(&self, address: IpAddr) -> ConnectionSource {
        ConnectionSource {
            source: self
                .shared
                .region()
                .sources
                .find(&address.to_canonical().to_string()),
            is_counted: Cell::new(false),
        }
    }

    /// The words of limit `index`.
    pub(crate) fn keys(&self, index: usize) -> Option<&Keys> {
        self.shared.region().keys.get(index)
    }

    /// A request for item `id` arrived at `now_ns`. Returns how many came for that item before,
    /// `0..=15`, 15 for more.
    pub(crate) fn arrived(&self, peer: &ConnectionSource, id: u64, now_ns: u64) -> u8 {
        let counters = self.counters();
        counters.requests.increment();
        self.shared.region().window.come(now_ns);
        if !peer.is_counted.replace(true) {
            counters.connections.increment();
        }
        counters.by_source[peer.source].increment();
        let before = self.shared.region().seen.mark(id);
        match before {
            Some(0) => &counters.unique_ids,
            Some(_) => &counters.duplicate_ids,
            None => &counters.ids_beyond_tracking,
        }
        .increment();
        before.unwrap_or(0)
    }

    /// The limiter let a request through, to go on at `now_ns`.
    pub(crate) fn admitted(&self, now_ns: u64) {
        self.shared.region().window.admit(now_ns);
    }

    /// Limit `index` let a request or a connection through, at once or after a delay.
    pub(crate) fn admitted_by(&self, index: usize, delay_ns: u64) {
        if let Some(counters) = self.counters().by_limit.get(index) {
            counters.admitted.increment();
            counters.delayed.add((delay_ns > 0).into());
        }
    }

    /// Limit `index` turned a request away.
    pub(crate) fn rejected_by(&self, index: usize) {
        self.counters().rejected.increment();
        if let Some(counters) = self.counters().by_limit.get(index) {
            counters.rejected.increment();
        }
    }

    /// Limit `index` turned a connection away.
    pub(crate) fn refused_by(&self, index: usize) {
        let counters = self.counters();
        counters.connections_refused.increment();
        if let Some(counters) = counters.by_limit.get(index) {
            counters.rejected.increment();
        }
    }

    /// A request is under way, among all processes, until what this returns is dropped.
    pub(crate) fn enter(&self) -> UnderWay<'_> {
        self.shared.region().in_flight.enter()
    }

    /// An answer that was to be held back for `intended_us` was held for `actual_us`.
    pub(crate) fn held(&self, intended_us: u64, actual_us: u64) {
        let counters = self.counters();
        counters.holds.record(intended_us);
        counters
            .hold_errors
            .record(actual_us.saturating_sub(intended_us));
    }

    /// Return the first number of this process's requests: far from those of the others.
    pub(crate) fn first_ordinal(&self) -> u64 {
        (self.counters as u64) << 48
    }

    /// A fault is about to be committed.
    pub(crate) fn failed(&self, fault: Fault) {
        self.counters().faults[fault.index()].increment();
    }

    /// Counters of this process.
    pub(crate) fn counters(&self) -> &Counters {
        self.shared.counters(self.counters)
    }
}

/// The busiest windows of three widths, exact at a resolution of a millisecond: a window is so many
/// consecutive milliseconds of the target's clock, and begins at any of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Busiest {
    /// Windows of 10 ms.
    #[serde(rename = "10ms")]
    pub ten_ms: Peaks,
    /// Windows of 100 ms.
    #[serde(rename = "100ms")]
    pub hundred_ms: Peaks,
    /// Windows of 1000 ms.
    #[serde(rename = "1s")]
    pub second: Peaks,
}

impl Busiest {
    fn read(window: &ArrivalCounts) -> Self {
        let [ten_ms, hundred_ms, second] = window.busiest([10, 100, 1000]);
        Self {
            ten_ms,
            hundred_ms,
            second,
        }
    }
}

/// A distribution of times, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// Number of there were.
    pub count: u64,
    /// Their sum.
    pub sum_us: u64,
    /// The longest.
    pub max_us: u64,
    /// Half of them were at most this; the buckets' resolution makes it up to twice what half of
    /// them really were at most. None if there were none.
    pub p50_at_most_us: Option<u64>,
    /// Same bound for 99 % of them.
    pub p99_at_most_us: Option<u64>,
    /// Times by powers of two: entry 0 counts those below 1 us, entry k those from 2^(k-1) us to
    /// below 2^k us. It ends with the last entry that is not zero.
    pub buckets: Vec<u64>,
}

impl Times {
    /// Adds one process's times. [`Times::finish`] ends a sum.
    fn add(&mut self, times: &TimeCounters) {
        self.count += times.count.get();
        self.sum_us += times.sum_us.get();
        self.max_us = self.max_us.max(times.max_us.get());
        self.buckets.resize(times.buckets.len(), 0);
        for (sum, counter) in self.buckets.iter_mut().zip(&times.buckets) {
            *sum += counter.get();
        }
    }

    /// Cuts off the empty end, and works out the bounds.
    fn finish(&mut self) {
        let used = self
            .buckets
            .iter()
            .rposition(|count| *count > 0)
            .map_or(0, |last| last + 1);
        self.buckets.truncate(used);
        self.p50_at_most_us = self.at_most_us(50);
        self.p99_at_most_us = self.at_most_us(99);
    }

    /// Return what `percent` of the times do not exceed: the end of the bucket that holds the
    /// ceil(n percent / 100)-th shortest.
    fn at_most_us(&self, percent: u64) -> Option<u64> {
        // By the buckets and not by `count`: under way the two need not agree.
        let rank = self
            .buckets
            .iter()
            .sum::<u64>()
            .saturating_mul(percent)
            .div_ceil(100);
        let mut up_to = 0;
        let bucket = self.buckets.iter().position(|count| {
            up_to += count;
            *count > 0 && up_to >= rank
        })?;
        // The last bucket is open: only the maximum bounds it.
        if bucket + 1 == self.buckets.len() {
            Some(self.max_us)
        } else {
            Some((1 << bucket) - 1)
        }
    }
}

#[cfg(test)]
mod tests;
