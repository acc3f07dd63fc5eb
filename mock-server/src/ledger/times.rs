//! A distribution of times in the ledger, summed over the processes.
//!
//! It must not know what was timed.

use crate::shared;
use serde::{Deserialize, Serialize};

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
    pub(super) fn add(&mut self, times: &shared::Times) {
        self.count += times.count.get();
        self.sum_us += times.sum_us.get();
        self.max_us = self.max_us.max(times.max_us.get());
        self.buckets.resize(times.buckets.len(), 0);
        for (sum, counter) in self.buckets.iter_mut().zip(&times.buckets) {
            *sum += counter.get();
        }
    }

    /// Cuts off the empty end, and works out the bounds.
    pub(super) fn finish(&mut self) {
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
mod tests {
    use super::*;
    use crate::ledger::{Ledger, LedgerWriter};
    use crate::shared::Shared;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn bounds_hold_and_are_at_most_twice_too_high(
            // Of all magnitudes.
            times in proptest::collection::vec((0_u64..1 << 45, 0_u32..45).prop_map(|(time, less)| time >> less), 1..200),
        ) {
            let shared = Shared::new().unwrap();
            let books = LedgerWriter::open(&shared);
            let mut sorted = times.clone();
            sorted.sort_unstable();
            for time_us in times {
                books.held(time_us, time_us);
            }
            let ledger = Ledger::read(&shared);
            let max_us = sorted[sorted.len() - 1];
            for (percent, bound) in [(50, ledger.held_us.p50_at_most_us), (99, ledger.held_us.p99_at_most_us)] {
                let exact = sorted[(sorted.len() * percent).div_ceil(100) - 1];
                let bound = bound.unwrap();
                prop_assert!(exact <= bound && bound <= max_us, "{} for {}", bound, exact);
                // The last of the shared buckets takes all that is longer.
                prop_assert!(bound <= 2 * exact || exact >= 1 << 38, "{} for {}", bound, exact);
            }
            let none = Some(0);
            prop_assert_eq!((ledger.hold_error_us.p50_at_most_us, ledger.hold_error_us.p99_at_most_us), (none, none));
        }
    }

    #[test]
    fn nothing_has_no_bounds() {
        let mut times = Times::default();
        times.finish();
        assert_eq!(times, Times::default());
    }
}
