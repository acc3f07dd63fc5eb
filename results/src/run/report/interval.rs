//! One second of the run, as a row.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::budget::offered;
use super::totals::reads_as;
use super::{BindingReport, Split, Spread, TargetSecond};
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::shard::INTERVAL;
use crawlmark_harness::stats::{STEPS, SecondCounts, Series};
use crawlmark_harness::supervisor::{Interval, ShardSecond};

/// One second over all shards. What is counted is in the second in which it ended; `scheduled` and
/// the times are in the second in which a request was scheduled.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct IntervalRow {
    /// Since the common start.
    pub start_s: u64,
    /// Requests that the budget offered in it, or that an open loop's timetable held; null without a
    /// rate.
    pub offered: Option<f64>,
    /// Requests scheduled in it: attempts, and those of an open loop that never went.
    pub scheduled: Option<u64>,
    /// Scheduled requests with a good or not-found answer.
    pub scheduled_good: Option<u64>,
    /// Scheduled requests that failed: rejected, challenged, or without a valid answer; not those
    /// for which this machine had no port or descriptor.
    pub scheduled_failed: Option<u64>,
    /// Answers of any status in each step of 20 ms, as one character each: the number
    /// of binary digits of their count in base 36, so `0` for none, `1` for one, `2` for two or
    /// three.
    pub answers: Option<String>,
    /// Counts of what ended in it.
    #[serde(flatten)]
    pub counts: SecondCounts,
    /// Requests under way at its end.
    pub in_flight: u32,
    /// Median service time of what was scheduled in it.
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
    /// Slowest of what was scheduled in it, or the least that it can be: the response time in an
    /// open loop, the service time in a closed one.
    pub max_us: Option<f64>,
    /// The client's greatest lateness.
    pub max_sched_lag_us: f64,
    /// CPU used by the shards.
    pub cpu_us: u64,
    /// Time for which the shards were ready to run and had no CPU, together; null when the kernel
    /// does not say.
    pub run_delay_us: Option<f64>,
    /// Limits that held the shards back in it, as parts of their time.
    pub binding: BindingReport,
    /// Requests in flight that adaptive shards allowed themselves at its end; null unless they are
    /// adaptive.
    pub limit: Option<u32>,
    /// Requests per second that they allowed themselves then; null unless they have learnt of a
    /// pace.
    pub pace_per_s: Option<f64>,
    /// Distribution of the times of good answers: the response time in an open loop, the service
    /// time in a closed one. Null when there was none.
    pub spread: Option<Spread>,
    /// The target's processes in it. Absent if they were not sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetSecond>,
    /// Parts of the response times of what was scheduled in it, means over a sample; absent without
    /// a reading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// Course of each shard in it, on its way to
    /// [`ShardReport::course`](super::ShardReport::course): the report has it there.
    #[serde(skip)]
    pub shards: Vec<ShardSecond>,
}

reads_as!(IntervalRow, counts: SecondCounts);

impl IntervalRow {
    /// The row with what the rate offered in it, in a run of `duration_s`: the last second is cut
    /// off.
    pub(crate) fn with_offer(self, plan: &RunPlan, duration_s: f64) -> Self {
        let start_s = self.start_s as f64;
        let end_s = (start_s + INTERVAL.as_secs_f64()).min(duration_s);
        Self {
            offered: Some(offered(plan, start_s, end_s.max(start_s))),
            ..self
        }
    }

    /// The row of a merged interval.
    pub fn new(interval: &Interval) -> Self {
        let counters = &interval.merged.counters;
        let merged = &interval.merged;
        let percentile = |series, q| merged.timing(series)?.percentile(q).least_us();
        let main = [Series::ResponseOk, Series::ServiceOk]
            .iter()
            .find_map(|series| merged.timing(*series));
        Self {
            start_s: interval.index,
            offered: None,
            scheduled: Some(interval.scheduled.requests),
            scheduled_good: Some(interval.scheduled.good),
            scheduled_failed: Some(interval.scheduled.failed),
            answers: Some(
                interval
                    .course
                    .steps()
                    .map(|step| digit(step.answers))
                    .collect(),
            ),
            counts: SecondCounts::of(&counters.items, &counters.requests),
            in_flight: interval.in_flight,
            p50_us: percentile(Series::ServiceOk, 0.5),
            p90_us: percentile(Series::ServiceOk, 0.9),
            p99_us: percentile(Series::ServiceOk, 0.99),
            response_p50_us: percentile(Series::ResponseOk, 0.5),
            response_p90_us: percentile(Series::ResponseOk, 0.9),
            response_p99_us: percentile(Series::ResponseOk, 0.99),
            max_us: main
                .and_then(|timing| timing.exact().greatest_ns())
                .map(|ns| ns as f64 / 1e3),
            max_sched_lag_us: interval.max_sched_lag_ns as f64 / 1e3,
            cpu_us: interval.cpu_us,
            run_delay_us: interval.run_delay_ns.map(|ns| ns as f64 / 1e3),
            binding: BindingReport::new(&interval.binding),
            limit: interval.controller.map(|controller| controller.limit),
            pace_per_s: interval
                .controller
                .and_then(|controller| controller.pace_per_s),
            spread: main.and_then(Spread::of),
            target: None,
            split: Split::of(&interval.split),
            shards: interval.seconds.clone(),
        }
    }

    /// True if the second begins after a warm-up of this length.
    pub(crate) fn is_after(&self, warmup: Duration) -> bool {
        self.start_s as f64 >= warmup.as_secs_f64()
    }

    /// Return for each of the first seconds of a run if a good answer came in it, or was under way
    /// in it and came later: a slow target is not a silent one. Requests of an open loop may have
    /// waited for their connections. The second before a silent one is silent as well if its own
    /// requests were not answered and its answers were to earlier ones: the target died at its
    /// start.
    pub(crate) fn answered(rows: &[Self]) -> Vec<bool> {
        let mut under_way = 0_i128;
        let states: Vec<(bool, bool)> = rows
            .iter()
            .map(|row| {
                let came = row.ok + row.not_found;
                under_way += i128::from(row.scheduled_good.unwrap_or(came));
                let is_answered = came > 0 || under_way > 0;
                under_way -= i128::from(came);
                let is_dying = row.scheduled_good == Some(0)
                    && row.scheduled.unwrap_or(0) > 0
                    && under_way <= 0;
                (is_answered, is_dying)
            })
            .collect();
        let next = states
            .iter()
            .skip(1)
            .map(|(is_answered, _)| *is_answered)
            .chain([true]);
        states
            .iter()
            .zip(next)
            .map(|((is_answered, is_dying), next)| *is_answered && (next || !is_dying))
            .collect()
    }

    /// Return the least number of answers in each step; none of a merged result of many parts.
    pub(crate) fn answers_in_bins(&self) -> Option<impl Iterator<Item = u64>> {
        Some(
            self.answers
                .as_ref()?
                .chars()
                .map(|digit| digit.to_digit(RADIX).map_or(0, |digits| (1 << digits) >> 1))
                .take(STEPS),
        )
    }
}

/// Base of the digits of [`IntervalRow::answers`].
const RADIX: u32 = 36;

/// The digit of a bin with `count` answers.
fn digit(count: u64) -> char {
    char::from_digit(u64::BITS - count.leading_zeros(), RADIX).unwrap_or('0')
}
