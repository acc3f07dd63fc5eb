//! Counts and times by host: bounded in size, exact to merge.
//!
//! Recorded by the engine, merged by the report; only in a crawl of several hosts.

use serde::{Deserialize, Serialize};

use super::CoarseTimes;
use super::table::counters;
use crate::sample::{Attempt, Outcome};

/// Hosts that are counted one by one, in the order of their numbers; the others are counted together.
pub const MOST_HOSTS: usize = 64;

counters! {
    /// Counts and times of one host.
    pub struct HostCounts {
        /// Requests tried, the failed ones and those cut off at the end included.
        attempts: u64,
        /// Good answers.
        ok: u64,
        /// Answers that there is no such item.
        not_found: u64,
        /// Throttled answers.
        throttled: u64,
        /// Requests that were neither good, nor not found, nor throttled.
        errors: u64,
        /// Times of good and not-found answers.
        times: CoarseTimes,
    }
}

/// Counts and times by the numbers of the hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hosts(Vec<HostCounts>);

impl Hosts {
    /// Empty, for `hosts` hosts.
    #[must_use]
    pub fn new(hosts: u32) -> Self {
        let count = if hosts > 1 { (hosts as usize).min(MOST_HOSTS + 1) } else { 0 };
        Self(vec![HostCounts::default(); count])
    }

    /// Count an attempt that ended after `ns`. `host` is called only if there are several.
    pub(crate) fn record(&mut self, attempt: &Attempt, ns: u64, host: impl FnOnce() -> u32) {
        let Some(counts) = self.of(host) else { return };
        counts.attempts += 1;
        match attempt.outcome {
            Outcome::Ok => counts.ok += 1,
            Outcome::NotFound => counts.not_found += 1,
            Outcome::Throttled => counts.throttled += 1,
            Outcome::SoftBlocked | Outcome::Rejected | Outcome::Error(_) => counts.errors += 1,
        }
        if matches!(attempt.outcome, Outcome::Ok | Outcome::NotFound) {
            counts.times.record(ns / 1_000);
        }
    }

    /// Count an attempt that was cut off.
    pub(crate) fn abort(&mut self, host: impl FnOnce() -> u32) {
        if let Some(counts) = self.of(host) {
            counts.attempts += 1;
            counts.errors += 1;
        }
    }

    /// Merge with `other`.
    pub fn merge(&mut self, other: &Self) {
        let Self(others) = other;
        if self.0.len() < others.len() {
            self.0.resize_with(others.len(), HostCounts::default);
        }
        self.0.iter_mut().zip(others).for_each(|(own, other)| own.merge(other));
    }

    /// Each host by its number, and at [`MOST_HOSTS`] all others together.
    #[must_use]
    pub fn as_slice(&self) -> &[HostCounts] {
        &self.0
    }

    fn of(&mut self, host: impl FnOnce() -> u32) -> Option<&mut HostCounts> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get_mut((host() as usize).min(MOST_HOSTS))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stats::ShardStats;
    use crate::stats::tests::{any_sample, bounds};

    proptest! {
        #[test]
        fn hosts_of_all_shards_add_up_to_the_totals_however_they_are_merged(
            attempts in prop::collection::vec((any_sample(), 0..100_u32, 0..3_usize, any::<bool>()), 0..80), many in 2..100_u32,
        ) {
            let mut stats = ShardStats::new(bounds());
            let mut shards = [(); 3].map(|()| Hosts::new(many));
            let mut all = Hosts::new(many);
            for (sample, host, shard, is_cut) in &attempts {
                let host = || host % many;
                if *is_cut {
                    stats.abort(0, None);
                    shards[*shard].abort(host);
                    all.abort(host);
                } else {
                    stats.record(sample);
                    shards[*shard].record(&sample.attempt, sample.service_ns(), host);
                    all.record(&sample.attempt, sample.service_ns(), host);
                }
            }
            let [a, b, c] = &shards;
            let (mut left, mut right) = (a.clone(), c.clone());
            left.merge(b);
            left.merge(c);
            right.merge(b);
            right.merge(a);
            prop_assert_eq!(&left, &all);
            prop_assert_eq!(&right, &all);
            let sum = all.as_slice().iter().fold(HostCounts::default(), HostCounts::plus);
            let requests = &stats.counters.requests;
            prop_assert_eq!((sum.attempts, sum.throttled), (requests.attempts, requests.throttled));
            prop_assert_eq!(sum.attempts, sum.ok + sum.not_found + sum.throttled + sum.errors);
            prop_assert_eq!(sum.times.count(), sum.ok + sum.not_found);
            prop_assert!(all.as_slice().len() <= MOST_HOSTS + 1);
        }
    }
}
