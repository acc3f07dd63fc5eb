//! A run that goes on: what is known of it so far, from its seconds.

use std::collections::BTreeMap;
use std::time::SystemTime;

use crate::run::report::{
    BindingReport, Detail, Environment, Labels, Latency, Report, RunFacts, Seconds, Source, Totals,
};
use crawlmark_harness::plan::{Arrivals, RunPlan};
use crawlmark_harness::stats::{Bounds, Series, ShardStats};
use crawlmark_harness::supervisor::{Interval, RunRecord, ShardSecond};

/// What a shard did so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct ShardSoFar {
    /// Its requests.
    pub attempts: u64,
    /// CPU that it used, user and system, us.
    pub cpu_us: u64,
}

/// Seconds whose course is kept of a run without a planned end.
const KEPT_S: u64 = 60;

/// The shortest step of its course, ms: ten columns a second.
const LEAST_STEP_MS: u64 = 100;

/// Seconds of a run that are judged each time: a longer run is judged less often.
const JUDGED: usize = 600;

/// A run that goes on.
#[derive(Debug)]
pub struct SoFar {
    report: Report,
    seconds: Seconds,
    stats: ShardStats,
    shards: BTreeMap<u32, ShardSoFar>,
    /// The number of each second, in the order in which they came.
    told: Vec<u64>,
    /// Seconds that were there when it was judged.
    judged: usize,
}

impl SoFar {
    /// A run that begins now, by the calendar.
    pub fn new(plan: &RunPlan, labels: &Labels, environment: Environment, now: SystemTime) -> Self {
        Self::of(Report::unjudged(Source {
            plan,
            labels,
            record: &RunRecord::missing(plan, now),
            target: None,
            intervals: Seconds::default(),
            environment,
            facts: RunFacts::default(),
        }))
    }

    fn of(report: Report) -> Self {
        let plan = &report.plan.run;
        let (bounds, planned) = (Bounds::for_timeout(plan.timeout), plan.duration);
        let shown_s = planned.map_or(KEPT_S as f64, |planned| planned.as_secs_f64());
        Self {
            report,
            seconds: Seconds::shown(shown_s, LEAST_STEP_MS),
            stats: ShardStats::new(bounds),
            shards: BTreeMap::new(),
            told: Vec::new(),
            judged: 0,
        }
    }

    /// The run as another process [reads](Self::of_json) it, before its first second.
    pub fn to_json(&self) -> String {
        serde_json::to_string(&self.report).unwrap_or_default()
    }

    /// The run that another process began; none of a text that is no report.
    pub fn of_json(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().map(Self::of)
    }

    /// Add a second.
    pub fn add(&mut self, interval: &Interval) {
        self.told.push(interval.index);
        if self.report.plan.run.duration.is_none() {
            let from_s = (interval.index + 1).saturating_sub(KEPT_S);
            self.seconds.forget_before(from_s);
        }
        self.seconds.add(interval);
        let plan = &self.report.plan.run;
        let has_offer = plan.rate.is_some() && plan.arrivals != Arrivals::Replay;
        let end_s = (interval.index + 1) as f64;
        for row in self.seconds.rows.drain(..) {
            self.report.intervals.push(if has_offer {
                row.with_offer(&self.report.plan.run, end_s)
            } else {
                row
            });
        }
        self.report.intervals.sort_by_key(|row| row.start_s);
        self.stats.merge(&interval.merged);
        for second in &interval.seconds {
            let shard = self.shards.entry(second.shard).or_default();
            shard.attempts += second.attempts;
            shard.cpu_us += second.cpu_us;
            self.add_loop_lag(second);
        }
    }

    /// What the checks of the end read of each shard.
    fn add_loop_lag(&mut self, second: &ShardSecond) {
        let Some(shard) = self
            .report
            .shards
            .iter_mut()
            .find(|shard| shard.shard == second.shard)
        else {
            return;
        };
        let series = Series::LoopLag.name().to_owned();
        let lag = shard.latency.entry(series).or_default();
        let known_us = lag.max_us.unwrap_or(0.0);
        lag.max_us = Some(known_us.max(second.max_loop_lag_ns as f64 / 1e3));
    }

    /// Return how many seconds have come.
    pub const fn told(&self) -> usize {
        self.told.len()
    }

    /// The first of the seconds that came after the first `told`; none if there was none.
    pub(crate) fn since(&self, told: usize) -> Option<u64> {
        self.told.get(told..)?.iter().min().copied()
    }

    /// The part of the time that is shown, s: of a run without a planned end, the last minute.
    pub(crate) fn shown_s(&self) -> [f64; 2] {
        let rows = &self.report.intervals;
        let so_far = rows.last().map_or(0, |row| row.start_s + 1);
        match self.report.plan.run.duration {
            Some(planned) => [0.0, planned.as_secs_f64().max(so_far as f64)],
            None => [
                so_far.saturating_sub(KEPT_S) as f64,
                so_far.max(KEPT_S) as f64,
            ],
        }
    }

    /// Bring the report to where the run is, with what its checks find.
    pub(crate) fn judge(&mut self) {
        let (told, judged) = (self.told(), self.judged);
        let [from_s, to_s] = self.shown_s();
        let is_due = told - judged >= told.div_ceil(JUDGED);
        self.judged = if is_due { told } else { judged };
        self.report(Detail::Figures);
        self.report.course = self.seconds.course_so_far(to_s - from_s);
        if is_due {
            self.report.judge_so_far();
        }
    }

    /// The report as it was brought last.
    pub(crate) const fn known(&self) -> &Report {
        &self.report
    }

    /// Its report as far as it goes: no verdict, and nothing of what only the shards know at their
    /// ends.
    pub fn report(&mut self, detail: Detail) -> &mut Report {
        let report = &mut self.report;
        let rows = &report.intervals;
        let lasted_s = rows.last().map_or(0.0, |row| (row.start_s + 1) as f64);
        let binding = BindingReport::mean(rows.iter().map(|row| &row.binding));
        let series = match detail {
            Detail::Figures => &[Series::waited(report.plan.run.arrivals)][..],
            Detail::Histogram => Series::of(report.plan.run.arrivals)[0],
        };
        report.totals = Totals::new(&self.stats.counters, lasted_s, 0);
        report.ledger.items = self.stats.counters.items;
        report.latency = Latency::all(&self.stats, series, detail);
        report.binding = binding;
        report
    }

    /// Its shards, by their numbers.
    pub const fn shards(&self) -> &BTreeMap<u32, ShardSoFar> {
        &self.shards
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::FindingKind;

    #[test]
    fn a_delay_of_this_client_is_no_stall_of_the_target() {
        let text = include_str!("../../example/result.json");
        let mut run = SoFar::of_json(text).unwrap();
        run.report
            .shards
            .iter_mut()
            .for_each(|shard| shard.latency.clear());
        let stalls = |run: &mut SoFar| {
            run.report.judge_so_far();
            let mut found = run.report.findings.iter();
            found.any(|one| one.kind() == FindingKind::Stalled)
        };
        assert!(stalls(&mut run));
        run.add_loop_lag(&ShardSecond {
            shard: 0,
            attempts: 1,
            max_sched_lag_ns: 0,
            max_loop_lag_ns: 2_000_000_000,
            cpu_us: 0,
        });
        assert!(!stalls(&mut run));
    }
}
