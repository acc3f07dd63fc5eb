//! The counters of one serving process. `Books` adds to its own set, `Ledger` sums all sets.
//!
//! It must not know when to count what.

use super::proxy::ProxyCounters;
use super::sources::{SOURCES, SourceIndex};
use crate::fault::KINDS;
use crate::limit::MAX_LIMITS;
use std::sync::atomic::{AtomicU64, Ordering};

/// Powers of two of microseconds that times are sorted into; the last also takes everything longer.
const TIME_BUCKETS: usize = 40;

/// HTTP statuses have three digits.
const STATUSES: usize = 1000;

/// A set of counters, on cache lines of its own so that processes do not take them from one another.
#[repr(C, align(128))]
pub(crate) struct Counters {
    pub(crate) requests: Counter,
    pub(crate) connections: Counter,
    pub(crate) unique_ids: Counter,
    pub(crate) duplicate_ids: Counter,
    pub(crate) ids_beyond_tracking: Counter,
    pub(crate) early_retries: Counter,
    pub(crate) crossed_promises: Counter,
    pub(crate) stub_answers: Counter,
    pub(crate) unmatched: Counter,
    pub(crate) journal_missed: Counter,
    pub(crate) rejected: Counter,
    pub(crate) limiter_overflows: Counter,
    pub(crate) connections_refused: Counter,
    pub(crate) by_limit: [LimitCounters; MAX_LIMITS],
    pub(crate) tls_connections: Counter,
    pub(crate) tls_handshake_failures: Counter,
    pub(crate) http2_connections: Counter,
    pub(crate) proxy: ProxyCounters,
    /// Holds as intended.
    pub(crate) holds: Times,
    /// How much later than intended they ended.
    pub(crate) hold_errors: Times,
    pub(crate) faults: [Counter; KINDS.len()],
    pub(crate) by_source: [Counter; SOURCES + 1],
    pub(crate) by_status: [Counter; STATUSES],
}

/// What one limit did.
#[repr(C)]
pub(crate) struct LimitCounters {
    pub(crate) admitted: Counter,
    pub(crate) rejected: Counter,
    pub(crate) delayed: Counter,
}

/// A number that only grows, until it is zeroed.
#[repr(transparent)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn increment(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn zero(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// A distribution of times.
#[repr(C)]
pub(crate) struct Times {
    pub(crate) count: Counter,
    sum_us: AtomicU64,
    max_us: AtomicU64,
    pub(crate) buckets: [Counter; TIME_BUCKETS],
}

impl Times {
    pub(crate) fn record(&self, time_us: u64) {
        self.count.increment();
        self.sum_us.fetch_add(time_us, Ordering::Relaxed);
        self.max_us.fetch_max(time_us, Ordering::Relaxed);
        // The number of bits: 0 is bucket 0, 1 is bucket 1, 2 and 3 are bucket 2, 4 to 7 are bucket 3.
        let bucket = (u64::BITS - time_us.leading_zeros()) as usize;
        self.buckets[bucket.min(TIME_BUCKETS - 1)].increment();
    }

    fn zero(&self) {
        let Self { count, sum_us, max_us, buckets } = self;
        for counter in buckets.iter().chain([count]) {
            counter.zero();
        }
        sum_us.store(0, Ordering::Relaxed);
        max_us.store(0, Ordering::Relaxed);
    }

    pub(crate) fn sum_us(&self) -> u64 {
        self.sum_us.load(Ordering::Relaxed)
    }

    pub(crate) fn max_us(&self) -> u64 {
        self.max_us.load(Ordering::Relaxed)
    }
}

impl Counters {
    /// Counts one request from `source`.
    pub(crate) fn count_source(&self, source: SourceIndex) {
        self.by_source[source.get()].increment();
    }

    /// Counts one answer.
    pub(crate) fn count_status(&self, status: u16) {
        if let Some(counter) = self.by_status.get(usize::from(status)) {
            counter.increment();
        }
    }

    /// Zeroes everything.
    pub(crate) fn zero(&self) {
        // Taken apart in full, so that a new counter cannot be forgotten here.
        let Self {
            requests,
            connections,
            unique_ids,
            duplicate_ids,
            ids_beyond_tracking,
            early_retries,
            crossed_promises,
            stub_answers,
            unmatched,
            journal_missed,
            rejected,
            limiter_overflows,
            connections_refused,
            by_limit,
            tls_connections,
            tls_handshake_failures,
            http2_connections,
            proxy,
            holds,
            hold_errors,
            faults,
            by_source,
            by_status,
        } = self;
        let of_ids = [unique_ids, duplicate_ids, ids_beyond_tracking];
        let of_stubs = [stub_answers, unmatched, journal_missed];
        let of_all_limits = [rejected, limiter_overflows, connections_refused];
        let of_protocols = [tls_connections, tls_handshake_failures, http2_connections];
        let of_limits =
            by_limit.iter().flat_map(|LimitCounters { admitted, rejected, delayed }| [admitted, rejected, delayed]);
        let alone = [requests, connections, early_retries, crossed_promises].into_iter().chain(of_ids).chain(of_stubs);
        let alone = alone.chain(of_all_limits).chain(of_protocols);
        let counters = alone.chain(of_limits).chain(faults).chain(by_source).chain(by_status);
        for counter in counters {
            counter.zero();
        }
        proxy.zero();
        holds.zero();
        hold_errors.zero();
    }
}
