//! A run that goes on: what is known of it so far, from its seconds.

use std::collections::BTreeMap;
use std::time::SystemTime;

use super::{
    BindingReport, Detail, Environment, Labels, Latency, Report, Seconds, Source, Totals, Validity,
};
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::stats::{Bounds, Series, ShardStats};
use crawlmark_harness::supervisor::{Interval, RunRecord};

/// What a shard did so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct ShardSoFar {
    /// Its requests.
    pub attempts: u64,
    /// CPU that it used, user and system, us.
    pub cpu_us: u64,
}

/// A run that goes on.
#[derive(Debug)]
pub struct SoFar {
    report: Report,
    seconds: Seconds,
    stats: ShardStats,
    shards: BTreeMap<u32, ShardSoFar>,
}

impl SoFar {
    /// A run that begins now, by the calendar.
    pub fn new(plan: &RunPlan, labels: &Labels, environment: Environment, now: SystemTime) -> Self {
        let mut report = Report::new(Source {
            plan,
            labels,
            record: &RunRecord::missing(plan, now),
            target: None,
            intervals: Seconds::default(),
            environment,
        });
        (report.findings, report.validity) = (Vec::new(), Validity::default());
        // Of no request, all were sent.
        report.rate_ratio = None;
        Self {
            report,
            seconds: Seconds::default(),
            stats: ShardStats::new(Bounds::for_timeout(plan.timeout)),
            shards: BTreeMap::new(),
        }
    }

    /// Add a second.
    pub fn add(&mut self, interval: &Interval) {
        self.seconds.add(interval);
        self.report.intervals.append(&mut self.seconds.rows);
        self.report.intervals.sort_by_key(|row| row.start_s);
        self.stats.merge(&interval.merged);
        for second in &interval.seconds {
            let shard = self.shards.entry(second.shard).or_default();
            shard.attempts += second.attempts;
            shard.cpu_us += second.cpu_us;
        }
    }

    /// Its report as far as it goes: no finding, no verdict, and nothing of what only the shards
    /// know at their ends.
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
        report.course = self.seconds.course(lasted_s);
        report.binding = binding;
        report
    }

    /// Its shards, by their numbers.
    pub const fn shards(&self) -> &BTreeMap<u32, ShardSoFar> {
        &self.shards
    }
}
