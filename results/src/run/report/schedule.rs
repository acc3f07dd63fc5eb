//! Adherence of an open loop to its timetable, and the counts of a run's warm-up.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Ledger, Totals, share};
use crawlmark_harness::clock::duration_ns;
use crawlmark_harness::pacer::Curve;
use crawlmark_harness::plan::{Arrivals, RunPlan, ShardPlan, TimetablePlan};
use crawlmark_harness::stats::{Counters, ItemCounts, RequestCounts};
use crawlmark_harness::supervisor::{RunRecord, ShardRecord};
use crawlmark_harness::wire::Binding;

/// Adherence of an open loop to its timetable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScheduleReport {
    /// Arrival process: `constant`, `poisson` or `replay`.
    pub arrivals: String,
    /// The rate as asked.
    pub rate: String,
    /// The rate; the highest one when it changed.
    pub rate_per_s: f64,
    /// Requests that the timetable held until the end of the run, as far as there were items for
    /// them: attempts, dropped and postponed ones.
    pub scheduled: u64,
    /// Scheduled requests that were due and never went, because a limit held them back until the
    /// end or the queue was full; see `dropped_by`.
    pub dropped: u64,
    /// The dropped ones by the limit that they waited for, by the names of `binding`.
    pub dropped_by: BTreeMap<Binding, u64>,
    /// Those that throttle pauses moved past the end of the run: never sent.
    pub postponed: u64,
    /// Requests that the timetable held for shards that had died: no other shard took them over.
    /// Counted from when a shard was last heard, by the rate.
    pub unscheduled: u64,
    /// Those that had a connection and were sent, as a part of all that was due: scheduled, told by
    /// shards that died, and unscheduled.
    pub sent_share: f64,
    /// Attempts per second of the timetable, the warm-up included, until the last request was
    /// scheduled. Answers may take longer than that, so this is no throughput; that is
    /// `totals.attempts_per_s`.
    pub achieved_per_s: f64,
    /// Delay of the timetable by throttle pauses within the run, in the shard with the longest one.
    pub shifted_s: f64,
    /// Shards that died before they could report how they kept it.
    pub untold_shards: usize,
}

/// Requests that ended while the run warmed up: counted, and left out of rates, shares and
/// thresholds. Times leave out those that were scheduled in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WarmUpReport {
    /// Duration, s.
    pub duration_s: f64,
    /// Attempts.
    pub attempts: u64,
    /// Items that ended by themselves.
    pub items: u64,
    /// Counts of these.
    pub counted: WarmUpCounts,
}

/// Counts of the warm-up: items by state, attempts by what they came to, as in [`Ledger`] and
/// [`Totals`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WarmUpCounts {
    /// Items by state.
    #[serde(flatten)]
    pub items: ItemCounts,
    /// Attempts by outcome.
    #[serde(flatten)]
    pub requests: RequestCounts,
}

impl ScheduleReport {
    pub(super) fn new(plan: &RunPlan, record: &RunRecord, totals: &Totals) -> Option<Self> {
        let rate = plan.shaped_rate().filter(|_| !plan.has_budget())?;
        let (mut scheduled, mut postponed, mut shifted_ns) = (0, 0, 0);
        let (mut known, mut untold_shards) = (0, 0);
        let mut dropped_by = BTreeMap::new();
        for shard in &record.shards {
            let requests = &shard.stats.counters.requests;
            // A shard that died had told of its attempts, and not of its timetable.
            let Some(used) = shard.timetable else {
                known += requests.attempts + requests.dropped;
                untold_shards += 1;
                continue;
            };
            scheduled += used.scheduled;
            postponed += used.postponed;
            shifted_ns = shifted_ns.max(used.shifted_ns);
            if let Some(limit) = used.dropped_by {
                *dropped_by.entry(limit).or_default() += requests.dropped;
            }
        }
        let unscheduled: u64 = record
            .shards
            .iter()
            .filter_map(|shard| unscheduled(shard, record))
            .sum();
        let all: u64 = scheduled + known + unscheduled;
        Some(Self {
            arrivals: plan.arrivals.name().to_owned(),
            rate: rate.to_string(),
            rate_per_s: rate.peak.per_second(),
            scheduled,
            dropped: totals.dropped,
            dropped_by,
            postponed,
            unscheduled,
            sent_share: if all > 0 {
                totals.attempts_sent as f64 / all as f64
            } else {
                1.0
            },
            achieved_per_s: achieved_per_s(plan, totals),
            shifted_s: shifted_ns as f64 / 1e9,
            untold_shards,
        })
    }
}

/// Requests that the timetable held for a shard after it had died, as far as it had IDs for them:
/// until the end of the run's duration, or until the last shard was heard. None in a closed loop,
/// and of a shard that lived.
fn unscheduled(shard: &ShardRecord, record: &RunRecord) -> Option<u64> {
    let ShardPlan {
        timetable,
        shape,
        duration,
        ..
    } = &shard.plan;
    let TimetablePlan { rate, stride, .. } = (*timetable).filter(|_| shard.fault.is_some())?;
    let heard = |shard: &ShardRecord| shard.outcome.last_done.since(record.start);
    let last = record.shards.iter().map(heard).max().unwrap_or(0);
    let end = duration
        .filter(|_| !record.was_stopped())
        .map_or(last, duration_ns);
    let curve = Curve::of(shape, *duration);
    let held = rate.permits_in(curve.at(end).saturating_sub(curve.at(heard(shard))))
        / u64::from(stride.max(1));
    let Ledger {
        not_attempted,
        lost,
        ..
    } = Ledger::of(shard);
    Some(held.min(not_attempted + lost))
}

/// [`ScheduleReport::achieved_per_s`]. A run of constant gaps is never ahead of its rate: its last
/// request, too, has a gap.
fn achieved_per_s(plan: &RunPlan, totals: &Totals) -> f64 {
    let per_s = share(totals.attempts as f64, totals.sent_until_s);
    match plan.rate {
        Some(rate) if plan.arrivals == Arrivals::Constant => per_s.min(rate.per_second()),
        _ => per_s,
    }
}

impl ScheduleReport {
    /// Requests that were due and never went, as a part of all.
    pub fn dropped_share(&self) -> f64 {
        share(self.dropped as f64, self.scheduled as f64)
    }
}

impl WarmUpReport {
    pub(super) fn new(plan: &RunPlan, warm: &Counters) -> Option<Self> {
        let duration_s = plan.warmup.as_secs_f64();
        (duration_s > 0.0).then(|| Self {
            duration_s,
            attempts: warm.requests.attempts,
            items: warm.items.completed(),
            counted: WarmUpCounts {
                items: warm.items,
                requests: warm.requests.clone(),
            },
        })
    }

    /// Counts of items and attempts that ended after the warm-up, which opens connections and drops requests
    /// for the whole run.
    pub(crate) fn measured(
        warmup: Option<&Self>,
        items: &ItemCounts,
        requests: &RequestCounts,
    ) -> Counters {
        let (mut items, mut requests) = (*items, requests.clone());
        if let Some(Self { counted, .. }) = warmup {
            items = items.without(&counted.items);
            requests = requests.without(&counted.requests);
        }
        Counters {
            items,
            requests,
            ..Counters::default()
        }
    }
}
