//! The limit that requests waited for: told by what the plan limits, by how long each limit held,
//! and by what was in flight.

use super::{BindingReport, PER_HOST_RATE_FROM, Report, ShardReport, share};
use crate::show::text::{counted, grouped, micros};
use crawlmark_harness::plan::{Arrivals, RunPlan};
use crawlmark_harness::wire::Binding;

/// Part of the rate that must be used for the rate to be the limit, while a rate was.
const USED: f64 = 0.9;

/// Advice where the storing of results is the limit.
pub(crate) const STORE_LESS: &str =
    "Save to a faster disk (--save), or save less (--save-bodies, --save-fields)";

/// A limit by the name that a reader can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LimitName {
    /// All connections were in use.
    Connections,
    /// `--per-host-connections`.
    PerHostConnections,
    /// `--per-host-rate`, or a crawl-delay.
    PerHostRate,
    /// A throttle pause of a host.
    Pause,
    /// The target's quota, or what `--adaptive` found.
    Target,
    /// The storing of results.
    Storage,
    /// None of those that are known.
    Unknown,
}

/// Evidence of the limit on a run or a shard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LimitEvidence<'a> {
    plan: &'a RunPlan,
    binding: BindingReport,
    /// True if all connections of a shard were in use at once.
    is_full: bool,
    /// Part of what `--rate` offered that was used.
    used: f64,
}

impl<'a> LimitEvidence<'a> {
    /// Evidence on a shard.
    pub(crate) fn shard(plan: &'a RunPlan, shard: &ShardReport) -> Self {
        let used = shard.scheduled.map_or(1.0, |scheduled| {
            share(shard.totals.attempts as f64, scheduled as f64)
        });
        Self {
            plan,
            binding: shard.binding,
            is_full: is_full(plan, shard),
            used,
        }
    }

    /// Evidence on a whole run.
    pub(crate) fn run(report: &'a Report) -> Self {
        let scheduled = report
            .schedule
            .as_ref()
            .map(|schedule| schedule.scheduled as f64);
        let of_schedule =
            scheduled.map(|scheduled| share(report.totals.attempts as f64, scheduled));
        let used = of_schedule
            .or_else(|| report.budget.as_ref().map(|budget| budget.utilisation))
            .unwrap_or(1.0);
        let is_full = report
            .shards
            .iter()
            .any(|shard| is_full(&report.plan.run, shard));
        Self {
            plan: &report.plan.run,
            binding: report.binding,
            is_full,
            used,
        }
    }

    /// True if the time that a rate held was that of `--per-host-rate`: the engine counts both as
    /// one.
    pub(crate) fn is_rate_per_host(&self) -> bool {
        self.plan.per_host.rate.is_some()
            && (self.plan.rate.is_none() || self.used < USED * self.binding.rate)
    }

    /// The limit that requests waited for when they had no connection.
    pub(crate) fn for_connection(&self) -> LimitName {
        self.longest(self.is_full)
    }

    /// The limit that requests waited for before they might have a connection.
    pub(crate) fn before_connection(&self) -> LimitName {
        self.longest(false)
    }

    /// The limit that made a shard drop requests, of which `last` held at the end.
    pub(crate) fn dropped(&self, last: Binding) -> LimitName {
        let longest = self.for_connection();
        match (last, longest) {
            (Binding::Rate, LimitName::Pause) | (Binding::Pause, LimitName::PerHostRate) => longest,
            (Binding::Rate, _) => LimitName::PerHostRate,
            (Binding::Pause, _) => LimitName::Pause,
            (Binding::Target, _) => LimitName::Target,
            (Binding::Storage, _) => LimitName::Storage,
            (Binding::Concurrency | Binding::Idle, _) if self.is_full => LimitName::Connections,
            (Binding::Concurrency | Binding::Idle, _) => longest,
        }
    }

    fn longest(&self, has_full: bool) -> LimitName {
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
            (when(has_full, concurrency + idle), LimitName::Connections),
            (
                when(!self.is_full && per_host.connections.is_some(), concurrency),
                LimitName::PerHostConnections,
            ),
            (when(self.is_rate_per_host(), rate), LimitName::PerHostRate),
            // The schedule of a single host is put off by a pause, and nothing waits for it.
            (when(per_host.hosts > 1, pause), LimitName::Pause),
            (target, LimitName::Target),
            (storage, LimitName::Storage),
        ];
        let longest = parts
            .into_iter()
            .filter(|(part, _)| *part > 0.0)
            .max_by(|a, b| a.0.total_cmp(&b.0));
        longest.map_or_else(
            || match (has_full, per_host.rate, per_host.connections) {
                (true, ..) => LimitName::Connections,
                (_, Some(_), _) => LimitName::PerHostRate,
                (_, _, Some(_)) => LimitName::PerHostConnections,
                _ => LimitName::Unknown,
            },
            |(_, limit)| limit,
        )
    }
}

/// Words for the two limits whose time has several possible sources: the engine counts these as
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LimitWords {
    /// Words for the time that a rate held.
    pub(crate) rate: &'static str,
    /// Words for the time of the target's quota, or of what `--adaptive` found.
    pub(crate) target: &'static str,
}

impl LimitWords {
    /// Words for a run whose plan is not known.
    pub(crate) const ANY: Self = Self {
        rate: "the rate",
        target: "--adaptive or the target's quota",
    };

    /// Words for a run.
    pub(crate) fn of(report: &Report) -> Self {
        let plan = &report.plan.run;
        let rate = if LimitEvidence::run(report).is_rate_per_host() {
            per_host_rate(plan)
        } else {
            total_rate(plan)
        };
        Self {
            rate,
            target: quota(plan, report.totals.throttled),
        }
    }
}

/// The limit that counts as the target's, after so many throttled responses. Without any,
/// `--adaptive` has found no limit of the target, and is still adding requests.
pub(crate) const fn quota(plan: &RunPlan, throttled: u64) -> &'static str {
    if plan.throttling.adaptive.is_some() && throttled == 0 {
        "--adaptive"
    } else {
        "the target's quota"
    }
}

impl LimitName {
    /// Object of "waited for".
    pub(crate) fn words(self, plan: &RunPlan) -> &'static str {
        match self {
            Self::Connections => "a free connection: all of them were in use",
            Self::PerHostConnections => "--per-host-connections",
            Self::PerHostRate => per_host_rate(plan),
            Self::Pause => "a throttle pause to end",
            Self::Target if plan.throttling.adaptive.is_some() => {
                "the rate that --adaptive found, or the target's quota"
            }
            Self::Target => "the target's quota",
            Self::Storage => "room to store results",
            Self::Unknown => "another limit than --rate",
        }
    }

    /// Sentence that says what to do.
    pub(crate) fn remedy(self, plan: &RunPlan) -> String {
        let raise = |flag: &str, now: Option<String>| {
            format!(
                "Raise {flag} ({} now), or lower --rate",
                now.unwrap_or_else(|| "none".to_owned())
            )
        };
        match self {
            Self::Connections if plan.streams > 1 => {
                format!(
                    "Use more connections or streams (-c, --streams; {} x {} now)",
                    plan.connections, plan.streams
                )
            }
            Self::Connections => more_connections(plan.connections),
            Self::PerHostConnections => raise(
                "--per-host-connections",
                plan.per_host.connections.map(|n| n.to_string()),
            ),
            Self::PerHostRate if is_crawl_delay(plan) => {
                let allowed = plan.per_host.rate.map_or_else(String::new, |rate| {
                    let period_us = rate.period_ns as f64 / rate.permits.max(1) as f64 / 1e3;
                    format!(
                        ": robots.txt allows 1 request per {} to each host",
                        micros(period_us)
                    )
                });
                format!("Lower --rate{allowed}. Or use --robots ignore if you are allowed to")
            }
            Self::PerHostRate => raise(
                "--per-host-rate",
                plan.per_host.rate.map(|rate| rate.to_string()),
            ),
            Self::Pause => {
                "Lower --rate, or use --on-throttle count to send requests anyway".to_owned()
            }
            Self::Storage => STORE_LESS.to_owned(),
            Self::Target | Self::Unknown => "Lower --rate".to_owned(),
        }
    }
}

fn is_crawl_delay(plan: &RunPlan) -> bool {
    plan.workload.contains_key(PER_HOST_RATE_FROM)
}

/// The limit on the rate of each host, by its source.
pub(crate) fn per_host_rate(plan: &RunPlan) -> &'static str {
    if is_crawl_delay(plan) {
        "the crawl-delay of robots.txt"
    } else {
        "--per-host-rate"
    }
}

/// The limit on the rate of all requests, by its source.
pub(crate) fn total_rate(plan: &RunPlan) -> &'static str {
    if plan.arrivals == Arrivals::Replay {
        "the recording"
    } else {
        "--rate"
    }
}

/// Return the number of connections, and of streams if they have several.
pub(crate) fn connections_in_words(plan: &RunPlan) -> String {
    let connections = counted(u64::from(plan.connections), "connection");
    if plan.streams == 1 {
        connections
    } else {
        format!(
            "{connections} with {} streams each",
            grouped(plan.streams.into())
        )
    }
}

/// Advice where connections are the limit.
pub(crate) fn more_connections(now: u32) -> String {
    format!("Use more connections (-c; {now} now), as long as the rate grows with them")
}

/// True if all connections of a shard were in use at once, with all of their streams.
pub(crate) fn is_full(plan: &RunPlan, shard: &ShardReport) -> bool {
    shard.totals.peak_in_flight >= u64::from(shard.connections) * u64::from(plan.streams)
}
