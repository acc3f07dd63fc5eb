//! One second of the run, as a row.

use serde::{Deserialize, Serialize};

use super::budget::offered;
use super::schedule::gone;
use super::totals::reads_as;
use super::{BindingReport, Spread};
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::shard::INTERVAL;
use crawlmark_harness::stats::{Percentile, SecondCounts, Series};
use crawlmark_harness::supervisor::{Interval, RunRecord, ShardSecond};

/// One second over all shards. What is counted is in the second in which it ended; `scheduled` and the times are in the second in
/// which a request was intended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IntervalRow {
    /// Since the common start.
    pub start_s: u64,
    /// Requests that the budget offered in it, or that an open loop's timetable held, without those of a shard that was no
    /// longer there; null without a rate.
    pub offered: Option<f64>,
    /// Requests intended in it: attempts, and those of an open loop that never went. Null of an older version, which counted
    /// everything in the second in which it was intended.
    #[serde(default)]
    pub scheduled: Option<u64>,
    /// Scheduled requests with a good or not-found answer. Null in results of older versions.
    #[serde(default)]
    pub scheduled_good: Option<u64>,
    /// Scheduled requests that failed: rejected, challenged, or without a valid answer; not those for which this machine had no
    /// port or descriptor. Null of an older version.
    #[serde(default)]
    pub scheduled_failed: Option<u64>,
    /// Counts of what ended in it.
    #[serde(flatten)]
    pub counts: SecondCounts,
    /// Requests under way at its end.
    pub in_flight: u32,
    /// Median service time of what was intended in it.
    pub p50_us: Option<f64>,
    /// 90th percentile of the service time.
    pub p90_us: Option<f64>,
    /// 99th percentile of the service time.
    pub p99_us: Option<f64>,
    /// Median response time; null in a closed loop.
    pub response_p50_us: Option<f64>,
    /// 90th percentile of the response time, or the least that it can be; null in a closed loop.
    pub response_p90_us: Option<f64>,
    /// 99th percentile of the response time, or the least that it can be; null in a closed loop.
    pub response_p99_us: Option<f64>,
    /// Slowest of what was intended in it, or the least that it can be: the response time in an open loop, the service time in a closed one. Null of an
    /// older version.
    #[serde(default)]
    pub max_us: Option<f64>,
    /// The client's greatest lateness.
    pub max_sched_lag_us: f64,
    /// CPU used by the shards.
    pub cpu_us: u64,
    /// Limits that held the shards back in it, as parts of their time.
    pub binding: BindingReport,
    /// Requests in flight that adaptive shards allowed themselves at its end; null unless they are adaptive.
    pub limit: Option<u32>,
    /// Requests per second that they allowed themselves then; null unless they have learnt of a pace.
    pub pace_per_s: Option<f64>,
    /// Distribution of the times of good answers: the response time in an open loop, the service time in a closed one.
    /// Null when there was none.
    pub spread: Option<Spread>,
    /// Course of each shard in it, on its way to [`ShardReport::course`](super::ShardReport::course): the report has it there.
    #[serde(skip)]
    pub shards: Vec<ShardSecond>,
}

reads_as!(IntervalRow, counts: SecondCounts);

impl IntervalRow {
    /// The row with what the rate offered in it, in a run of `duration_s`: the last second is cut off.
    pub(super) fn with_offer(mut self, plan: &RunPlan, record: &RunRecord, duration_s: f64) -> Self {
        let start_s = self.start_s as f64;
        let end_s = (start_s + INTERVAL.as_secs_f64()).min(duration_s).max(start_s);
        let missing = |(gone_s, part): (f64, f64)| offered(plan, gone_s.max(start_s), gone_s.max(end_s)) * part;
        let missing: f64 = gone(record).map(missing).sum();
        self.offered = Some(offered(plan, start_s, end_s) - missing);
        self
    }

    /// The row of a merged interval.
    #[must_use]
    pub fn new(interval: &Interval) -> Self {
        let counters = &interval.merged.counters;
        let percentile = |series, q| match interval.merged.timing(series).map(|timing| timing.percentile(q)) {
            Some(Percentile::Exact(ns) | Percentile::AtLeast(ns)) => Some(ns as f64 / 1e3),
            Some(Percentile::TooFew) | None => None,
        };
        Self {
            start_s: interval.index,
            offered: None,
            scheduled: Some(interval.scheduled.requests),
            scheduled_good: Some(interval.scheduled.good),
            scheduled_failed: Some(interval.scheduled.failed),
            counts: SecondCounts::of(&counters.items, &counters.requests),
            in_flight: interval.in_flight,
            p50_us: percentile(Series::ServiceOk, 0.5),
            p90_us: percentile(Series::ServiceOk, 0.9),
            p99_us: percentile(Series::ServiceOk, 0.99),
            response_p50_us: percentile(Series::ResponseOk, 0.5),
            response_p90_us: percentile(Series::ResponseOk, 0.9),
            response_p99_us: percentile(Series::ResponseOk, 0.99),
            max_us: [Series::ResponseOk, Series::ServiceOk]
                .iter()
                .find_map(|series| Some(interval.merged.timing(*series)?.exact().greatest_ns()? as f64 / 1e3)),
            max_sched_lag_us: interval.max_sched_lag_ns as f64 / 1e3,
            cpu_us: interval.cpu_us,
            binding: BindingReport::new(interval.binding),
            limit: interval.standing.map(|standing| standing.limit),
            pace_per_s: interval.standing.and_then(|standing| standing.pace_per_s),
            spread: [Series::ResponseOk, Series::ServiceOk]
                .iter()
                .find_map(|series| Spread::of(interval.merged.timing(*series)?)),
            shards: interval.seconds.clone(),
        }
    }
}
