//! Throttling during the run, and the limits that held it back.

use serde::{Deserialize, Serialize};

use super::{IntervalRow, Totals, share};
use crawlmark_harness::supervisor::RunRecord;
use crawlmark_harness::wire::{BindingTimes, ThrottlingCounts};

/// Throttling during the run: pauses, waits that the target asked for, and recoveries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThrottlingReport {
    /// Throttled attempts over all attempts.
    pub throttled_share: f64,
    /// Attempts that brought no item, over all attempts: throttled, failed, or tried again.
    pub wasted_share: f64,
    /// Number of times that the target made all shards wait.
    pub pauses: u64,
    /// Time in which nothing was allowed to go because of that: the mean over the shards.
    pub paused_s: f64,
    /// Throttled answers that said how long to wait.
    pub promises: u64,
    /// The longest wait that such an answer asked for; 0 without one.
    pub longest_promise_s: f64,
    /// Rate that the target took from `--adaptive`, per second: its good and not-found answers in
    /// the second half of the seconds in which a limit was known, for it searches above the limit
    /// first. Null unless it took 20 there and throttled few.
    pub learnt_per_s: Option<f64>,
    /// Waits that the target asked for in which nothing was sent, counted by each shard that knew
    /// of them.
    pub honoured: u64,
    /// Waits in which something was sent although its shard knew of them.
    pub violated: u64,
    /// Attempts sent in the violated waits.
    pub early_attempts: u64,
    /// Waits that were cut to `--max-pause`.
    pub cut_pauses: u64,
    /// Number of times that good answers came again after throttling, counted by each shard.
    pub recoveries: u64,
    /// From a throttled answer, of whichever shard, to a shard's first good one after the pause, in
    /// the mean; null without a recovery.
    pub recovery_mean_s: Option<f64>,
    /// The longest of them; null without a recovery.
    pub recovery_max_s: Option<f64>,
    /// Items that were not tried again: the retry budget was empty, or as many waited already as
    /// may.
    pub retries_denied: u64,
}

/// Answers that a rate is told from at the least: the error of their number is then a fifth.
const LEAST_TAKEN: u64 = 20;

/// Throttled requests for each answer from which on the rate was not found: a target that mostly
/// refuses does not show what it takes.
const MOST_THROTTLED: f64 = 0.25;

fn learnt_per_s(intervals: &[IntervalRow]) -> Option<f64> {
    let known: Vec<&IntervalRow> = intervals
        .iter()
        .filter(|row| row.pace_per_s.is_some())
        .collect();
    // The last second is not a whole one.
    let late = &known[known.len() / 2..known.len().saturating_sub(1).max(known.len() / 2)];
    let taken: u64 = late.iter().map(|row| row.ok + row.not_found).sum();
    let throttled: u64 = late.iter().map(|row| row.throttled).sum();
    let is_known = taken >= LEAST_TAKEN && throttled as f64 <= taken as f64 * MOST_THROTTLED;
    is_known.then(|| taken as f64 / late.len() as f64)
}

impl ThrottlingReport {
    pub(super) fn new(
        record: &RunRecord,
        intervals: &[IntervalRow],
        totals: &Totals,
        items: u64,
    ) -> Self {
        let all = record
            .shards
            .iter()
            .fold(ThrottlingCounts::default(), |all, shard| {
                all.plus(&shard.courtesy)
            });
        let ThrottlingCounts {
            promises,
            longest_promise_ns,
            honoured,
            violated,
            early_attempts,
            cut_pauses,
            recoveries,
            retries_denied,
            ..
        } = all;
        let shards = record.shards.len().max(1) as f64;
        let recovered = recoveries > 0;
        Self {
            throttled_share: share(totals.throttled as f64, totals.attempts as f64),
            wasted_share: share(
                totals.attempts.saturating_sub(items) as f64,
                totals.attempts as f64,
            ),
            pauses: record.pauses,
            paused_s: all.paused_ns as f64 / 1e9 / shards,
            promises,
            longest_promise_s: longest_promise_ns as f64 / 1e9,
            learnt_per_s: learnt_per_s(intervals),
            honoured,
            violated,
            early_attempts,
            cut_pauses,
            recoveries,
            recovery_mean_s: recovered
                .then(|| all.recovery_sum_ns as f64 / 1e9 / recoveries as f64),
            recovery_max_s: recovered.then_some(all.recovery_max_ns as f64 / 1e9),
            retries_denied,
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
    pub(crate) fn new(times: BindingTimes) -> Self {
        let BindingTimes {
            rate_ns,
            concurrency_ns,
            pause_ns,
            target_ns,
            storage_ns,
            idle_ns,
        } = times;
        let part = |ns: u64| share(ns as f64, times.sum_ns() as f64);
        Self {
            rate: part(rate_ns),
            concurrency: part(concurrency_ns),
            pause: part(pause_ns),
            target: part(target_ns),
            storage: part(storage_ns),
            idle: part(idle_ns),
        }
    }
}
