//! How an open loop kept its timetable, and what a run warmed up with.

use serde::{Deserialize, Serialize};

use super::{Totals, share};
use crate::plan::RunPlan;
use crate::supervisor::RunRecord;
use crate::wire::{TimetableUse, WarmUp};

/// How an open loop kept its timetable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScheduleReport {
    /// How requests arrived: `constant` or `poisson`.
    pub arrivals: String,
    /// The rate as asked.
    pub rate: String,
    /// The rate; the highest one when it changed.
    pub rate_per_s: f64,
    /// Requests that were intended while the run went on: attempts and dropped ones.
    pub scheduled: u64,
    /// Of these, those that never went, because none of the connections was free until the end.
    pub dropped: u64,
    /// The others, as a part of all.
    pub sent_share: f64,
    /// Attempts per second, after the warm-up and until the last request was intended.
    pub achieved_per_s: f64,
    /// By how much the timetable was put off because the target asked for patience, in the shard where it was most.
    pub shifted_s: f64,
    /// Shards that died before they could tell how they kept it.
    pub untold_shards: usize,
}

/// What was intended while the run warmed up. It is counted, and left out of the times and the rates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WarmUpReport {
    /// For how long.
    pub duration_s: f64,
    /// Attempts.
    pub attempts: u64,
    /// Items that ended by themselves.
    pub items: u64,
}

impl ScheduleReport {
    pub(super) fn new(plan: &RunPlan, record: &RunRecord, totals: &Totals) -> Option<Self> {
        let rate = plan.shaped_rate().filter(|_| !plan.has_budget())?;
        let told = || record.shards.iter().filter_map(|shard| shard.timetable);
        let scheduled = told().map(|used| used.scheduled).sum();
        Some(Self {
            arrivals: plan.arrivals.name().to_owned(),
            rate: rate.to_string(),
            rate_per_s: rate.peak.per_second(),
            scheduled,
            dropped: totals.dropped,
            sent_share: if scheduled > 0 { 1.0 - share(totals.dropped as f64, scheduled as f64) } else { 1.0 },
            achieved_per_s: totals.attempts_per_s,
            shifted_s: told().map(|TimetableUse { shifted_ns, .. }| shifted_ns).max().unwrap_or(0) as f64 / 1e9,
            untold_shards: record.shards.len() - told().count(),
        })
    }
}

impl WarmUpReport {
    pub(super) fn new(plan: &RunPlan, record: &RunRecord) -> Option<Self> {
        let WarmUp { attempts, items } =
            record.shards.iter().fold(WarmUp::default(), |all, shard| all.plus(shard.warmup));
        let duration_s = plan.warmup.as_secs_f64();
        (duration_s > 0.0).then_some(Self { duration_s, attempts, items })
    }
}
