//! Limits that hold requests back: what the plan limits, by how long each held, and by what was in
//! flight.

use super::{BindingReport, Report, ShardReport, share};
use crate::judge::limit::Limit;
use crawlmark_harness::plan::{Arrivals, RunPlan};
use crawlmark_harness::wire::Binding;

/// Part of the rate that must be used for the rate to be the limit, while a rate was.
const USED: f64 = 0.9;

impl Limit {
    /// The name that it has in a run, which says where the limit comes from; `throttled` responses
    /// make a limit that `--adaptive` found one of the target.
    pub(crate) fn in_run(self, plan: &RunPlan, throttled: u64) -> Self {
        match self {
            Self::Rate if plan.arrivals == Arrivals::Replay => Self::Recording,
            Self::PerHostRate if plan.workload.per_host_rate_from.is_some() => Self::CrawlDelay,
            Self::Quota if plan.throttling.adaptive.is_some() && throttled == 0 => Self::Adaptive,
            limit => limit,
        }
    }

    /// Limits of a run with the part of the time that each held, the longest first. Those of parts
    /// held while the parts ran.
    pub(crate) fn of(report: &Report) -> Vec<(f64, Self)> {
        let (evidence, ran) = (LimitEvidence::run(report), report.ran());
        let mut all = vec![(1.0 - ran, Self::Slots)];
        all.extend(
            Self::sorted(&report.binding, evidence.rate())
                .map(|(part, limit)| (part * ran, evidence.named(limit))),
        );
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        all
    }

    /// The names of the limits of a run, in the order of the fields of [`BindingReport`].
    pub(crate) fn names(report: &Report) -> [&'static str; 6] {
        let evidence = LimitEvidence::run(report);
        Self::parts(evidence.rate()).map(|limit| evidence.named(limit).name())
    }

    /// The limits, in the order of the fields of [`BindingReport`].
    const fn parts(rate: Self) -> [Self; 6] {
        [
            rate,
            Self::Connections,
            Self::Pause,
            Self::Quota,
            Self::Storage,
            Self::Idle,
        ]
    }

    /// The same where `rate` is the rate that held.
    pub(crate) fn sorted(binding: &BindingReport, rate: Self) -> [(f64, Self); 6] {
        let limits = Self::parts(rate);
        let mut at = 0;
        let mut parts = binding.parts().map(|part| {
            at += 1;
            (part, limits[at - 1])
        });
        parts.sort_by(|a, b| b.0.total_cmp(&a.0));
        parts
    }
}

/// Evidence of the limit on a run or a shard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LimitEvidence<'a> {
    plan: &'a RunPlan,
    throttled: u64,
    binding: BindingReport,
    /// True if all connections of a shard were in use at once.
    is_full: bool,
    /// Part of what `--rate` offered that was used.
    used: f64,
}

impl<'a> LimitEvidence<'a> {
    /// Evidence on a shard.
    pub(crate) fn shard(report: &'a Report, shard: &ShardReport) -> Self {
        let used = shard.scheduled.map_or(1.0, |scheduled| {
            share(shard.totals.attempts as f64, scheduled as f64)
        });
        Self {
            plan: &report.plan.run,
            throttled: report.totals.throttled,
            binding: shard.binding,
            is_full: is_full(&report.plan.run, shard),
            used,
        }
    }

    /// Evidence on a whole run.
    pub(crate) fn run(report: &'a Report) -> Self {
        let of_schedule = report
            .schedule
            .as_ref()
            .map(|schedule| share(report.totals.attempts as f64, schedule.scheduled as f64));
        Self {
            plan: &report.plan.run,
            throttled: report.totals.throttled,
            binding: report.binding,
            is_full: report
                .shards
                .iter()
                .any(|shard| is_full(&report.plan.run, shard)),
            used: of_schedule
                .or_else(|| report.budget.as_ref().map(|budget| budget.utilisation))
                .unwrap_or(1.0),
        }
    }

    /// True if the time that a rate held was that of `--per-host-rate`: the engine counts both as
    /// one.
    pub(crate) fn is_rate_per_host(&self) -> bool {
        self.plan.per_host.rate.is_some()
            && (self.plan.rate.is_none() || self.used < USED * self.binding.rate)
    }

    /// The rate that held.
    fn rate(&self) -> Limit {
        if self.is_rate_per_host() {
            Limit::PerHostRate
        } else {
            Limit::Rate
        }
    }

    /// The limit that requests waited for when they had no connection.
    pub(crate) fn for_connection(&self) -> Limit {
        self.named(self.longest(self.is_full))
    }

    /// The limit that requests waited for before they might have a connection.
    pub(crate) fn before_connection(&self) -> Limit {
        self.named(self.longest(false))
    }

    /// The limit that made a shard drop requests, of which `last` held at the end.
    pub(crate) fn dropped(&self, last: Binding) -> Limit {
        let longest = self.longest(self.is_full);
        self.named(match (last, longest) {
            (Binding::Rate, Limit::Pause) | (Binding::Pause, Limit::PerHostRate) => longest,
            (Binding::Rate, _) => Limit::PerHostRate,
            (Binding::Pause, _) => Limit::Pause,
            (Binding::Target, _) => Limit::Quota,
            (Binding::Storage, _) => Limit::Storage,
            (Binding::Concurrency | Binding::Idle, _) if self.is_full => Limit::Connections,
            (Binding::Concurrency | Binding::Idle, _) => longest,
        })
    }

    fn named(&self, limit: Limit) -> Limit {
        limit.in_run(self.plan, self.throttled)
    }

    /// The limit that held for longest. The schedule of a single host is put off by a pause, and
    /// nothing waits for it.
    fn longest(&self, has_full: bool) -> Limit {
        let (held, per_host) = (self.binding, self.plan.per_host);
        let has_own = !self.is_full && per_host.connections.is_some();
        let parts = [
            (has_full, held.concurrency + held.idle, Limit::Connections),
            (has_own, held.concurrency, Limit::PerHostConnections),
            (self.is_rate_per_host(), held.rate, Limit::PerHostRate),
            (per_host.hosts > 1, held.pause, Limit::Pause),
            (true, held.target, Limit::Quota),
            (true, held.storage, Limit::Storage),
        ];
        let held = parts.into_iter().filter(|(is, part, _)| *is && *part > 0.0);
        match held.max_by(|a, b| a.1.total_cmp(&b.1)) {
            Some((.., limit)) => limit,
            None if has_full => Limit::Connections,
            None if per_host.rate.is_some() => Limit::PerHostRate,
            None if per_host.connections.is_some() => Limit::PerHostConnections,
            None => Limit::Unknown,
        }
    }
}

/// True if all connections of a shard were in use at once, with all of their streams.
pub(crate) fn is_full(plan: &RunPlan, shard: &ShardReport) -> bool {
    shard.totals.peak_in_flight >= u64::from(shard.connections) * u64::from(plan.streams)
}
