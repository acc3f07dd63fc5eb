//! Counts and times by group of requests: by host, URL template and stage of the rate. Bounded in size, exact to
//! merge.
//!
//! Recorded by the engine, merged by the report; only in a crawl of several groups.

use serde::{Deserialize, Serialize};

use super::table::counters;
use super::{CoarseTimes, Count};
use crate::sample::{Attempt, Outcome};

/// Groups that are counted one by one, in the order of their numbers; the others are counted
/// together.
pub const MOST_GROUPS: usize = 64;

counters! {
    /// Counts and times of one group.
    pub struct GroupCounts {
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
        /// Times of good and not-found answers after the warm-up; of stages in it as well.
        times: CoarseTimes,
        /// Service times of good and not-found answers in an open loop, whose `times` are response
        /// times.
        service: CoarseTimes,
        /// Requests that met the objectives.
        met: u64,
        /// Requests that were due and never went; of stages only.
        dropped: u64,
        /// Limits that held its requests back; of hosts only.
        limits: HostTimes,
    }
}

counters! {
    /// Time for which each limit held back the requests to one of several hosts, summed over the
    /// shards.
    #[derive(Copy)]
    pub struct HostTimes {
        /// Its own rate, ns.
        own_rate_ns: u64,
        /// Its own connections, ns.
        own_connections_ns: u64,
        /// A throttle pause, ns.
        pause_ns: u64,
        /// Its quota, or adaptation, ns.
        quota_ns: u64,
        /// The rate of the run while none of its own limits did, ns.
        rate_ns: u64,
        /// The connections of the run while none of its own limits did, ns.
        connections_ns: u64,
    }
}

/// Times of an attempt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupTimes {
    /// Response time in an open loop, service time in a closed one.
    pub(crate) waited_ns: u64,
    /// Service time, in an open loop.
    pub(crate) service_ns: Option<u64>,
}

/// Counts and times by the numbers of the groups.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Groups(Vec<GroupCounts>);

/// True if the target said that it does not have what was asked for: HTTP's 404 and 410, gRPC's
/// `NOT_FOUND`.
const fn is_missing(attempt: &Attempt) -> bool {
    matches!(attempt.status, Some(404 | 410 | 5))
}

impl Groups {
    /// Empty, for `groups` groups.
    #[must_use]
    pub fn new(groups: u32) -> Self {
        let count = if groups > 1 {
            (groups as usize).min(MOST_GROUPS + 1)
        } else {
            0
        };
        Self(vec![GroupCounts::default(); count])
    }

    /// Count an attempt that ended and met the objectives or not, with its times if it is timed. `group` is called only if there
    /// are several.
    pub(crate) fn record(
        &mut self,
        attempt: &Attempt,
        is_met: bool,
        took: Option<GroupTimes>,
        group: impl FnOnce() -> u32,
    ) {
        let Some(counts) = self.of(group) else { return };
        counts.attempts += 1;
        counts.met += u64::from(is_met);
        match attempt.outcome {
            // An element of a list that the target does not have: its item goes on without it.
            Outcome::Stepped if is_missing(attempt) => counts.not_found += 1,
            Outcome::Ok | Outcome::NotModified | Outcome::Stepped => counts.ok += 1,
            Outcome::NotFound => counts.not_found += 1,
            Outcome::Throttled => counts.throttled += 1,
            Outcome::Redirected => {}
            Outcome::SoftBlocked | Outcome::Rejected | Outcome::Error(_) => counts.errors += 1,
        }
        if let Some(took) = took {
            counts.times.record(took.waited_ns / 1_000);
            if let Some(ns) = took.service_ns {
                counts.service.record(ns / 1_000);
            }
        }
    }

    /// Count a request that was due and never went.
    pub(crate) fn drop_request(&mut self, group: impl FnOnce() -> u32) {
        if let Some(counts) = self.of(group) {
            counts.dropped += 1;
        }
    }

    /// Count an attempt that was cut off.
    pub(crate) fn abort(&mut self, group: impl FnOnce() -> u32) {
        if let Some(counts) = self.of(group) {
            counts.attempts += 1;
            counts.errors += 1;
        }
    }

    /// Add the times of limits, by host; those beyond the groups that are counted one by one are
    /// left out.
    pub(crate) fn add_limits(&mut self, times: &[HostTimes]) {
        self.0
            .iter_mut()
            .zip(times)
            .take(MOST_GROUPS)
            .for_each(|(counts, times)| counts.limits.merge(times));
    }

    /// Merge with `other`.
    pub fn merge(&mut self, other: &Self) {
        self.0.add(&other.0);
    }

    /// Each group by its number, and at [`MOST_GROUPS`] all others together.
    #[must_use]
    pub fn as_slice(&self) -> &[GroupCounts] {
        &self.0
    }

    fn of(&mut self, group: impl FnOnce() -> u32) -> Option<&mut GroupCounts> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get_mut((group() as usize).min(MOST_GROUPS))
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
        fn groups_of_all_shards_add_up_to_the_totals_however_they_are_merged(
            attempts in prop::collection::vec((any_sample(), 0..100_u32, 0..3_usize, any::<bool>()), 0..80), many in 2..100_u32,
        ) {
            let mut stats = ShardStats::new(bounds());
            let mut shards = [(); 3].map(|()| Groups::new(many));
            let mut all = Groups::new(many);
            for (sample, group, shard, is_cut) in &attempts {
                let group = || group % many;
                if *is_cut {
                    stats.counters.abort(0, None);
                    shards[*shard].abort(group);
                    all.abort(group);
                } else {
                    stats.record(sample);
                    let took = sample.attempt.outcome.is_answer().then(|| GroupTimes {
                        waited_ns: sample.response_ns(),
                        service_ns: Some(sample.service_ns()),
                    });
                    shards[*shard].record(&sample.attempt, false, took, group);
                    all.record(&sample.attempt, false, took, group);
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
            let sum = all.as_slice().iter().fold(GroupCounts::default(), GroupCounts::plus);
            let requests = &stats.counters.requests;
            prop_assert_eq!((sum.attempts, sum.throttled), (requests.attempts, requests.throttled));
            prop_assert_eq!(sum.attempts, sum.ok + sum.not_found + sum.throttled + sum.errors);
            prop_assert_eq!(sum.times.count(), sum.ok + sum.not_found);
            prop_assert!(all.as_slice().len() <= MOST_GROUPS + 1);
        }
    }
}
