//! Limits that hold requests back: what the plan limits, by how long each held, and by what was in
//! flight.

use serde::{Deserialize, Serialize};

use super::{BindingReport, PER_HOST_RATE_FROM, Report, ShardReport, share};
use crawlmark_harness::plan::{Arrivals, RunPlan};
use crawlmark_harness::wire::Binding;

/// Part of the rate that must be used for the rate to be the limit, while a rate was.
const USED: f64 = 0.9;

/// Limit that requests wait for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// `--rate`.
    Rate,
    /// The times of a recording.
    Recording,
    /// `--per-host-rate`.
    PerHostRate,
    /// The crawl-delay of robots.txt.
    CrawlDelay,
    /// All connections are in use.
    Connections,
    /// `--per-host-connections`.
    PerHostConnections,
    /// A throttle pause.
    Pause,
    /// The target's quota, or the limit that `--adaptive` found after throttled responses.
    Quota,
    /// `--adaptive`, which has found no limit yet.
    Adaptive,
    /// The storing of results.
    Storage,
    /// Slots of a crawl in parts that no part held.
    Slots,
    /// Nothing to send.
    Idle,
    /// None of those that are known.
    #[default]
    Unknown,
}

impl Limit {
    /// The limit on the rate of all requests.
    pub(crate) fn total(plan: &RunPlan) -> Self {
        if plan.arrivals == Arrivals::Replay {
            Self::Recording
        } else {
            Self::Rate
        }
    }

    /// The limit on the rate of each host.
    pub(crate) fn per_host(plan: &RunPlan) -> Self {
        if plan.workload.contains_key(PER_HOST_RATE_FROM) {
            Self::CrawlDelay
        } else {
            Self::PerHostRate
        }
    }

    /// The limit that counts as the target's, after so many throttled responses.
    pub(crate) const fn of_target(plan: &RunPlan, throttled: u64) -> Self {
        if plan.throttling.adaptive.is_some() && throttled == 0 {
            Self::Adaptive
        } else {
            Self::Quota
        }
    }

    /// Limits with the part of the time that each held, the longest first.
    pub(crate) fn of(report: &Report, binding: &BindingReport) -> [(f64, Self); 6] {
        let plan = &report.plan.run;
        let rate = if LimitEvidence::run(report).is_rate_per_host() {
            Self::per_host(plan)
        } else {
            Self::total(plan)
        };
        Self::sorted(
            binding,
            rate,
            Self::of_target(plan, report.totals.throttled),
        )
    }

    /// The same of a run whose plan is not known.
    pub(crate) fn of_any(binding: &BindingReport) -> [(f64, Self); 6] {
        Self::sorted(binding, Self::Rate, Self::Quota)
    }

    fn sorted(binding: &BindingReport, rate: Self, target: Self) -> [(f64, Self); 6] {
        let mut parts = [
            (binding.rate, rate),
            (binding.concurrency, Self::Connections),
            (binding.pause, Self::Pause),
            (binding.target, target),
            (binding.storage, Self::Storage),
            (binding.idle, Self::Idle),
        ];
        parts.sort_by(|a, b| b.0.total_cmp(&a.0));
        parts
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "--rate",
            Self::Recording => "the recording",
            Self::PerHostRate => "--per-host-rate",
            Self::CrawlDelay => "the crawl-delay of robots.txt",
            Self::Connections => "connections",
            Self::PerHostConnections => "--per-host-connections",
            Self::Pause => "throttle pauses",
            Self::Quota => "the target's quota",
            Self::Adaptive => "--adaptive",
            Self::Storage => "storing results",
            Self::Slots => "slots without a part",
            Self::Idle => "idle",
            Self::Unknown => "another limit than --rate",
        }
    }

    /// What to do about it, in a sentence; none where nothing is wrong.
    #[must_use]
    pub const fn remedy(self) -> Option<&'static str> {
        Some(match self {
            Self::Rate | Self::Recording | Self::Idle => return None,
            Self::PerHostRate => "Raise --per-host-rate, or lower --rate.",
            Self::CrawlDelay => "Lower --rate, or use --robots ignore if you are allowed to.",
            Self::Connections => {
                "Use more connections (-c) or streams (--streams), as long as the rate grows with them."
            }
            Self::PerHostConnections => "Raise --per-host-connections, or lower --rate.",
            Self::Pause => "Lower --rate, or use --on-throttle count to send requests anyway.",
            Self::Storage => {
                "Save to a faster disk (--save), or save less (--save-bodies, --save-fields)."
            }
            Self::Slots => "Run as many parts at once as the plan has slots.",
            Self::Quota | Self::Adaptive | Self::Unknown => "Lower --rate.",
        })
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

    /// The limit that requests waited for when they had no connection.
    pub(crate) fn for_connection(&self) -> Limit {
        self.longest(self.is_full)
    }

    /// The limit that requests waited for before they might have a connection.
    pub(crate) fn before_connection(&self) -> Limit {
        self.longest(false)
    }

    /// The limit that made a shard drop requests, of which `last` held at the end.
    pub(crate) fn dropped(&self, last: Binding) -> Limit {
        let (longest, per_host) = (self.for_connection(), Limit::per_host(self.plan));
        match last {
            Binding::Rate if longest == Limit::Pause => longest,
            Binding::Rate => per_host,
            Binding::Pause if longest == per_host => longest,
            Binding::Pause => Limit::Pause,
            Binding::Target => Limit::of_target(self.plan, self.throttled),
            Binding::Storage => Limit::Storage,
            Binding::Concurrency | Binding::Idle if self.is_full => Limit::Connections,
            Binding::Concurrency | Binding::Idle => longest,
        }
    }

    fn longest(&self, has_full: bool) -> Limit {
        let BindingReport {
            rate,
            concurrency,
            pause,
            target,
            storage,
            idle,
        } = self.binding;
        let per_host = self.plan.per_host;
        let when = |is: bool, part: f64| if is { part } else { 0.0 };
        let parts = [
            (when(has_full, concurrency + idle), Limit::Connections),
            (
                when(!self.is_full && per_host.connections.is_some(), concurrency),
                Limit::PerHostConnections,
            ),
            (
                when(self.is_rate_per_host(), rate),
                Limit::per_host(self.plan),
            ),
            // The schedule of a single host is put off by a pause, and nothing waits for it.
            (when(per_host.hosts > 1, pause), Limit::Pause),
            (target, Limit::of_target(self.plan, self.throttled)),
            (storage, Limit::Storage),
        ];
        let longest = parts
            .into_iter()
            .filter(|(part, _)| *part > 0.0)
            .max_by(|a, b| a.0.total_cmp(&b.0));
        match longest {
            Some((_, limit)) => limit,
            None if has_full => Limit::Connections,
            None if per_host.rate.is_some() => Limit::per_host(self.plan),
            None if per_host.connections.is_some() => Limit::PerHostConnections,
            None => Limit::Unknown,
        }
    }
}

/// True if all connections of a shard were in use at once, with all of their streams.
pub(crate) fn is_full(plan: &RunPlan, shard: &ShardReport) -> bool {
    shard.totals.peak_in_flight >= u64::from(shard.connections) * u64::from(plan.streams)
}
