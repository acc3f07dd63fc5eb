//! Counters of one process, in memory of its own, which the ledger sums up, and the requests in
//! flight over all processes.
//!
//! It must not know what is counted when.

use super::atomics::{AtomicU64, Ordering};
use crate::fault::KINDS;
use crate::limit::MAX_LIMITS;

/// Powers of two of microseconds that times are sorted into; the last also takes everything longer.
const TIME_BUCKETS: usize = 40;

/// HTTP statuses have three digits.
const STATUSES: usize = 1000;

/// Client addresses that are counted apart; the rest is counted as `other`.
pub(crate) const NAMED: usize = 64;

/// Something that a reset of the ledger zeroes.
pub(super) trait Zero {
    fn zero(&self);
}

impl<T: Zero, const N: usize> Zero for [T; N] {
    fn zero(&self) {
        self.iter().for_each(T::zero);
    }
}

/// Define a struct of counters that are zeroed together: one list, so that no counter can be
/// forgotten.
macro_rules! counters {
    ($(#[$meta:meta])+ $name:ident { $($(#[$doc:meta])* $field:ident: $kind:ty,)+ }) => {
        $(#[$meta])+
        pub(crate) struct $name {
            $($(#[$doc])* pub(crate) $field: $kind,)+
        }

        impl Zero for $name {
            fn zero(&self) {
                $(self.$field.zero();)+
            }
        }
    };
}

counters! {
    /// Counters of one process, on cache lines of their own so that processes do not take them from
    /// one another.
    #[repr(C, align(128))]
    Counters {
        requests: Counter,
        connections: Counter,
        unique_ids: Counter,
        duplicate_ids: Counter,
        ids_beyond_tracking: Counter,
        early_retries: Counter,
        crossed_promises: Counter,
        stub_answers: Counter,
        unmatched: Counter,
        journal_missed: Counter,
        queue_full: Counter,
        abandoned: Counter,
        rejected: Counter,
        limiter_overflows: Counter,
        connections_refused: Counter,
        by_limit: [LimitCounters; MAX_LIMITS],
        tls_connections: Counter,
        tls_handshake_failures: Counter,
        http2_connections: Counter,
        /// Holds as planned.
        holds: Times,
        /// Lateness of their ends.
        hold_errors: Times,
        faults: [Counter; KINDS.len()],
        by_source: [Counter; NAMED + 1],
        by_status: [Counter; STATUSES],
    }
}

counters! {
    /// Counters of one limit.
    #[repr(C)]
    LimitCounters {
        admitted: Counter,
        rejected: Counter,
        delayed: Counter,
    }
}

counters! {
    /// Distribution of times.
    #[repr(C)]
    Times {
        count: Counter,
        sum_us: Counter,
        max_us: Counter,
        buckets: [Counter; TIME_BUCKETS],
    }
}

/// Number that only grows, until it is zeroed.
#[repr(transparent)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn increment(&self) {
        self.add(1);
    }

    pub(crate) fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Zero for Counter {
    fn zero(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl Times {
    pub(crate) fn record(&self, time_us: u64) {
        self.count.increment();
        self.sum_us.add(time_us);
        self.max_us.0.fetch_max(time_us, Ordering::Relaxed);
        // The number of bits: 0 is bucket 0, 1 is bucket 1, 2 and 3 are bucket 2, 4 to 7 are
        // bucket 3.
        let bucket = (u64::BITS - time_us.leading_zeros()) as usize;
        self.buckets[bucket.min(TIME_BUCKETS - 1)].increment();
    }
}

impl Counters {
    /// Count one answer.
    pub(crate) fn count_status(&self, status: u16) {
        if let Some(counter) = self.by_status.get(usize::from(status)) {
            counter.increment();
        }
    }

    /// Zero all of them.
    pub(crate) fn reset(&self) {
        self.zero();
    }
}

/// The number of requests under way, which a reset of the ledger does not change, on cache lines of its own: every process writes it.
#[repr(C, align(128))]
pub(crate) struct InFlight {
    requests: AtomicU64,
}

impl InFlight {
    /// Counts a request until what this returns is dropped, however the request ends.
    pub(crate) fn enter(&self) -> UnderWay<'_> {
        UnderWay {
            others: self.requests.fetch_add(1, Ordering::Relaxed),
            of: self,
        }
    }
}

/// One request under way.
#[must_use]
pub(crate) struct UnderWay<'a> {
    /// Number of others under way when it came: exact, for additions to one number have an order.
    pub(crate) others: u64,
    of: &'a InFlight,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.of.requests.fetch_sub(1, Ordering::Relaxed);
    }
}
