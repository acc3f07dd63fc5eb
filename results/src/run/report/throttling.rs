//! Throttling during the run, and the limits that held it back.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::totals::reads_as;
use super::{IntervalRow, Totals, share};
use crawlmark_harness::clock::seconds;
use crawlmark_harness::shard::INTERVAL;
use crawlmark_harness::supervisor::RunRecord;
use crawlmark_harness::wire::{BindingTimes, ThrottlingCounts};

/// Throttling during the run: pauses, waits that the target asked for, and recoveries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThrottlingReport {
    /// Throttled attempts over all attempts.
    pub throttled_share: f64,
    /// Attempts that brought neither an item nor its next request, over all attempts: throttled,
    /// failed, or tried again.
    pub wasted_share: f64,
    /// Number of times that the target made all shards wait.
    pub pauses: u64,
    /// Time in which nothing was allowed to go because of that: the mean over the shards.
    pub paused_s: f64,
    /// Rest of the longest wait that the target had asked for, when the run was over; 0 without one.
    #[serde(default)]
    pub wait_left_s: f64,
    /// Good and not-found answers per second after a second with throttling, the last one of the
    /// first half or the first one: what a limit has saved is used up then. Never more than the
    /// limit. Null without any, if pauses took more than half of that time, or unless it throttled.
    pub taken_per_s: Option<f64>,
    /// From a throttled answer, of whichever shard, to a shard's first good one after the pause, in
    /// the mean; null without a recovery.
    pub recovery_mean_s: Option<f64>,
    /// Counts and sums over the shards.
    #[serde(flatten)]
    pub counts: ThrottlingCounts,
}

reads_as!(ThrottlingReport, counts: ThrottlingCounts);

/// [`ThrottlingReport::taken_per_s`]. The last second is not a whole one.
fn taken_per_s(intervals: &[IntervalRow]) -> Option<f64> {
    let end = intervals
        .len()
        .saturating_sub(1)
        .max(1)
        .min(intervals.len());
    let is_throttled = |row: &IntervalRow| row.throttled > 0;
    let last = intervals[..end / 2].iter().rposition(is_throttled);
    let since = last.or_else(|| intervals[..end].iter().position(is_throttled))?;
    let late = &intervals[since + 1..end];
    let taken: u64 = late.iter().map(|row| row.ok + row.not_found).sum();
    let paused_s: f64 = late.iter().map(|row| row.binding.pause).sum();
    // What a pause in the second before has saved is taken then.
    let all_s = late.len() as f64 * INTERVAL.as_secs_f64() + intervals[since].binding.pause;
    (taken > 0 && paused_s <= all_s / 2.0).then(|| taken as f64 / all_s)
}

impl ThrottlingReport {
    /// Rest of the wait that the target asked for: what follows the run begins no request before.
    pub fn wait_left(&self) -> Duration {
        Duration::try_from_secs_f64(self.wait_left_s).unwrap_or_default()
    }

    pub(super) fn new(
        record: &RunRecord,
        intervals: &[IntervalRow],
        totals: &Totals,
        items: u64,
    ) -> Self {
        let mut all = ThrottlingCounts::default();
        for shard in &record.shards {
            all = all.plus(&shard.throttling);
        }
        let shards = record.shards.len().max(1) as f64;
        let attempts = totals.attempts as f64;
        let of_use = items + totals.steps + totals.redirects;
        Self {
            throttled_share: share(totals.throttled as f64, attempts),
            wasted_share: share(totals.attempts.saturating_sub(of_use) as f64, attempts),
            pauses: record.pauses,
            paused_s: seconds(all.paused_ns) / shards,
            wait_left_s: record.wait_left.as_secs_f64(),
            taken_per_s: taken_per_s(intervals),
            recovery_mean_s: (all.recoveries > 0)
                .then(|| seconds(all.recovery_sum_ns) / all.recoveries as f64),
            counts: all,
        }
    }
}

/// Limits that held the shards back, as parts of their time; they add up to 1, or are all 0 of no
/// time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct BindingReport {
    /// The budget: a connection was free and waited for it.
    pub rate: f64,
    /// The connections: all were in use.
    pub concurrency: f64,
    /// A pause that the target asked for.
    pub pause: f64,
    /// Limit that the target was found to sustain, or its remaining quota.
    pub target: f64,
    /// The storing of results: there was no room for more of them.
    pub storage: f64,
    /// Nothing: there was nothing to do, or only later.
    pub idle: f64,
}

impl BindingReport {
    pub(crate) fn new(times: &BindingTimes) -> Self {
        let ns = [
            times.rate_ns,
            times.concurrency_ns,
            times.pause_ns,
            times.target_ns,
            times.storage_ns,
            times.idle_ns,
        ];
        Self::of(ns.map(|ns| ns as f64))
    }

    /// The mean over times of which something is known.
    pub(crate) fn mean<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut sums = [0.0; 6];
        for one in all {
            for (sum, part) in sums.iter_mut().zip(one.parts()) {
                *sum += part;
            }
        }
        Self::of(sums)
    }

    /// Each as a part of all, in the order of the fields.
    fn of(parts: [f64; 6]) -> Self {
        let all: f64 = parts.iter().sum();
        let [rate, concurrency, pause, target, storage, idle] = parts.map(|part| share(part, all));
        Self {
            rate,
            concurrency,
            pause,
            target,
            storage,
            idle,
        }
    }

    /// The parts in the order of the fields.
    pub(crate) const fn parts(&self) -> [f64; 6] {
        [
            self.rate,
            self.concurrency,
            self.pause,
            self.target,
            self.storage,
            self.idle,
        ]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A bucket of any size before a client that pauses now and then, and else takes all.
        #[test]
        fn what_a_target_took_is_never_more_than_its_limit(
            per_s in 1..1_000_u64,
            burst in 1..3_000_u64,
            tenths in prop::collection::vec(any::<bool>(), 1..200),
        ) {
            // In tenths of a request.
            let mut saved = burst * 10;
            let rows: Vec<IntervalRow> = tenths.chunks(10).map(|tenths| {
                let mut row = IntervalRow::default();
                for is_paused in tenths {
                    saved = (saved + per_s).min(burst * 10);
                    if *is_paused {
                        row.binding.pause += 0.1;
                    } else {
                        row.counts.ok += saved / 10;
                        row.counts.throttled += 1;
                        saved %= 10;
                    }
                }
                row
            }).collect();
            // Less than one request may be left.
            prop_assert!(taken_per_s(&rows).unwrap_or(0.0) <= per_s as f64 + 1.0);
        }
    }
}
