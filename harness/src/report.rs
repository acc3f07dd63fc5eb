//! `Report`: the merged result of a run, as it is saved in `result.json` (schema `crawlmark.result/1`).
//!
//! Made from a [`RunRecord`] once the run is over; everything shown to anybody is rendered from it. Integers are exact,
//! durations carry their unit in the key, and what could not be read is `null`, never 0.

mod environment;
mod files;
mod latency;
mod validity;

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

pub use self::environment::{Environment, Placement};
pub use self::files::{IntervalLog, LogFile, ResultDir, ResultError, directory_name};
pub use self::latency::{Detail, Latency};
pub use self::validity::{Validity, Verdict};
use crate::plan::{RunPlan, ShardPlan};
use crate::stats::{Bounds, Counters, Percentile, Series, ShardStats};
use crate::supervisor::{Interval, RunRecord, ShardRecord};
use crate::units::IdRange;
use crate::wire::Usage;

/// The name of the format.
pub const SCHEMA: &str = "crawlmark.result/1";

/// What the user calls the run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// A short name; part of the directory's name.
    pub name: String,
    /// Free labels.
    pub tags: BTreeMap<String, String>,
}

/// A whole result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// The version that measured.
    pub crawlmark_version: String,
    /// Unique to the run: its start and its supervisor's process ID.
    pub run_id: String,
    /// See [`Labels::name`].
    pub name: String,
    /// See [`Labels::tags`].
    pub tags: BTreeMap<String, String>,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// RFC 3339, UTC.
    pub finished_at: String,
    /// Whether a signal stopped it early.
    pub interrupted: bool,
    /// The signal's number.
    pub interrupted_by: Option<i32>,
    /// The plan as resolved.
    pub plan: Plan,
    /// The machine.
    pub environment: Environment,
    /// Each planned item in exactly one state.
    pub ledger: Ledger,
    /// What was counted.
    pub totals: Totals,
    /// How the budget was used; null without one.
    pub budget: Option<BudgetReport>,
    /// Times over all shards, by series.
    pub latency: BTreeMap<String, Latency>,
    /// Each shard.
    pub shards: Vec<ShardReport>,
    /// Each second.
    pub intervals: Vec<IntervalRow>,
    /// What the supervisor used.
    pub supervisor: SupervisorReport,
    /// Whether the result may be believed.
    pub validity: Validity,
    /// The target's own books, when they could be read: the second witness.
    pub witness: Option<Witness>,
}

/// The plan and a hash of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The plan.
    #[serde(flatten)]
    pub run: RunPlan,
    /// Equal for equal plans (FNV-1a over the plan's JSON).
    pub config_hash: String,
}

/// Items by state. The states sum to `planned`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// IDs in the range.
    pub planned: u64,
    /// Good answers.
    pub ok: u64,
    /// The target has no such item.
    pub not_found: u64,
    /// Rejected, or no valid answer.
    pub failed: u64,
    /// Throttled until no attempt was left.
    pub gave_up: u64,
    /// Under way when the run was stopped.
    pub aborted: u64,
    /// Never tried.
    pub not_attempted: u64,
    /// Their shard ended before it could tell.
    pub lost: u64,
}

/// What was counted over the run or a shard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Requests tried.
    pub attempts: u64,
    /// Of these, beyond the first of their item.
    pub retries: u64,
    /// Of these, with a connection under them.
    pub attempts_sent: u64,
    /// Answers by status.
    pub attempts_by_status: BTreeMap<String, u64>,
    /// Failures by kind.
    pub errors_by_kind: BTreeMap<String, u64>,
    /// Attempts that the target throttled.
    pub throttled: u64,
    /// Connections opened.
    pub connections_opened: u64,
    /// Bytes of requests, heads included.
    pub bytes_sent: u64,
    /// Bytes of answers' bodies.
    pub bytes_received: u64,
    /// From the common start to the end of the last attempt.
    pub duration_s: f64,
    /// Items that ended by themselves, per second: the aborted ones did not.
    pub items_per_s: f64,
    /// Attempts per second.
    pub attempts_per_s: f64,
    /// The most requests under way at once; over shards, the sum of each one's, which they may not have reached together.
    pub peak_in_flight: u64,
}

/// How a budget was used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BudgetReport {
    /// As asked, for people.
    pub rate: String,
    /// As asked, per second.
    pub rate_per_s: f64,
    /// Requests at once over all shards.
    pub burst: u64,
    /// Attempts per second.
    pub achieved_per_s: f64,
    /// Attempts over `burst + rate * duration`, at most 1.
    pub utilisation: f64,
    /// Whether no window of any width, in any shard that told, held more than its burst plus its rate times the width.
    pub kept: bool,
    /// Shards that ended before they could tell.
    pub unaudited_shards: usize,
    /// The window of a shard that came closest.
    pub worst_window: Option<WindowReport>,
}

/// A window in which a budget was used hard.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WindowReport {
    /// In which shard.
    pub shard: u32,
    /// Its width.
    pub width_ms: f64,
    /// Requests admitted in it.
    pub admitted: u64,
    /// Requests allowed in it.
    pub allowed: u64,
}

/// One shard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShardReport {
    /// Its number.
    pub shard: u32,
    /// Its process.
    pub pid: i32,
    /// The CPU it was pinned to.
    pub cpu: Option<usize>,
    /// Its IDs, end excluded.
    pub id_range: IdRange,
    /// Its requests in flight at most.
    pub connections: u32,
    /// How its process ended.
    pub exit: String,
    /// Why its result is not whole.
    pub fault: Option<String>,
    /// Its items by state.
    pub ledger: Ledger,
    /// What it counted.
    pub totals: Totals,
    /// Its times, by series; empty of a shard with a fault.
    pub latency: BTreeMap<String, Latency>,
    /// What it used; null of a shard with a fault.
    pub usage: Option<UsageReport>,
}

/// What a shard used of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct UsageReport {
    /// User CPU.
    pub cpu_user_s: f64,
    /// System CPU.
    pub cpu_system_s: f64,
    /// User and system CPU per attempt, us.
    pub cpu_us_per_attempt: Option<f64>,
    /// CPU over duration.
    pub cpu_share: f64,
    /// Runnable without a CPU; null when the kernel does not say.
    pub run_delay_s: Option<f64>,
    /// Largest resident set.
    pub max_rss_bytes: u64,
    /// Times that the kernel took the CPU away.
    pub involuntary_switches: u64,
}

/// One second over all shards.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IntervalRow {
    /// Since the common start.
    pub start_s: u64,
    /// Attempts intended in it that ended or were cut off.
    pub attempts: u64,
    /// Items that ended.
    pub items: u64,
    /// Good answers.
    pub ok: u64,
    /// The target has no such item.
    pub not_found: u64,
    /// Rejected or without a valid answer.
    pub failed: u64,
    /// Throttled.
    pub throttled: u64,
    /// Cut off.
    pub aborted: u64,
    /// Bytes of answers' bodies.
    pub bytes_received: u64,
    /// Requests under way at its end.
    pub in_flight: u32,
    /// Median service time.
    pub p50_us: Option<f64>,
    /// 99th percentile of the service time.
    pub p99_us: Option<f64>,
    /// The client's greatest lateness.
    pub max_sched_lag_us: f64,
    /// CPU used by the shards.
    pub cpu_us: u64,
}

/// What the supervisor used.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SupervisorReport {
    /// User and system CPU.
    pub cpu_s: f64,
    /// CPU over duration.
    pub cpu_share: f64,
    /// Largest resident set.
    pub max_rss_bytes: u64,
}

/// What the target's own books say beside ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Witness {
    /// Whether the target counted the same attempts, statuses and IDs.
    pub agrees: bool,
    /// Where it did not.
    pub differences: Vec<String>,
    /// Its books.
    pub ledger: serde_json::Value,
}

/// What a report is made of.
#[derive(Debug)]
pub struct Source<'a> {
    /// What was asked.
    pub plan: &'a RunPlan,
    /// What the user calls it.
    pub labels: &'a Labels,
    /// What happened.
    pub record: &'a RunRecord,
    /// Each second.
    pub intervals: Vec<IntervalRow>,
    /// Where it happened.
    pub environment: Environment,
}

impl Report {
    /// Merges what happened.
    #[must_use]
    pub fn new(source: Source<'_>) -> Self {
        let Source { plan, labels, record, mut intervals, environment } = source;
        intervals.sort_by_key(|row| row.start_s);
        let shards: Vec<ShardReport> = record.shards.iter().map(|shard| ShardReport::new(shard, record)).collect();
        let mut merged = ShardStats::new(Bounds::for_timeout(plan.timeout));
        record.shards.iter().for_each(|shard| merged.merge(&shard.stats));
        let duration_s = shards.iter().map(|shard| shard.totals.duration_s).fold(0.0, f64::max);
        let peak = record.shards.iter().map(|shard| u64::from(shard.peak_in_flight)).sum();
        let totals = Totals::new(&merged.counters, duration_s, peak);
        let supervisor_cpu_s = cpu_s(&record.supervisor);
        Self {
            schema: SCHEMA.to_owned(),
            crawlmark_version: env!("CARGO_PKG_VERSION").to_owned(),
            run_id: format!("{}-{}", rfc3339(record.started_at), std::process::id()),
            name: labels.name.clone(),
            tags: labels.tags.clone(),
            started_at: rfc3339(record.started_at),
            finished_at: rfc3339(record.finished_at),
            interrupted: record.interrupted.is_some(),
            interrupted_by: record.interrupted,
            plan: Plan { run: plan.clone(), config_hash: config_hash(plan) },
            ledger: shards.iter().map(|shard| shard.ledger).fold(Ledger::default(), Ledger::plus),
            budget: BudgetReport::new(plan, record, &totals),
            latency: latencies(&merged, Detail::Histogram),
            supervisor: SupervisorReport {
                cpu_s: supervisor_cpu_s,
                cpu_share: share(supervisor_cpu_s, duration_s),
                max_rss_bytes: record.supervisor.max_rss_bytes,
            },
            validity: Validity::judge(&shards),
            environment,
            totals,
            shards,
            intervals,
            witness: None,
        }
    }

    /// The times of a series over all shards.
    #[must_use]
    pub fn latency(&self, series: Series) -> Option<&Latency> {
        self.latency.get(series.name())
    }
}

impl ShardReport {
    fn new(record: &ShardRecord, run: &RunRecord) -> Self {
        let ShardPlan { shard, ids, connections, cpu, .. } = record.plan;
        let duration_s = record.last_done.since(run.start) as f64 / 1e9;
        let totals = Totals::new(&record.stats.counters, duration_s, u64::from(record.peak_in_flight));
        Self {
            shard,
            pid: record.pid,
            cpu,
            id_range: ids,
            connections,
            exit: record.exit.to_string(),
            fault: record.fault.as_ref().map(ToString::to_string),
            ledger: Ledger::of(record),
            latency: if record.fault.is_none() { latencies(&record.stats, Detail::Figures) } else { BTreeMap::new() },
            usage: record.usage.as_ref().map(|usage| UsageReport::new(usage, &totals)),
            totals,
        }
    }
}

impl Ledger {
    fn of(record: &ShardRecord) -> Self {
        let planned = record.plan.ids.len();
        let Counters { ok, not_found, failed, gave_up, aborted, .. } = record.stats.counters;
        let rest = planned.saturating_sub(record.stats.counters.items());
        // A shard that died had more under way than it had told: what is left is neither done nor untouched.
        let (not_attempted, lost) = if record.fault.is_none() { (rest, 0) } else { (0, rest) };
        Self { planned, ok, not_found, failed, gave_up, aborted, not_attempted, lost }
    }

    /// Items in a final state.
    #[must_use]
    pub const fn ended(&self) -> u64 {
        self.ok + self.not_found + self.failed + self.gave_up + self.aborted
    }

    fn plus(self, other: Self) -> Self {
        let Self { planned, ok, not_found, failed, gave_up, aborted, not_attempted, lost } = other;
        Self {
            planned: self.planned + planned,
            ok: self.ok + ok,
            not_found: self.not_found + not_found,
            failed: self.failed + failed,
            gave_up: self.gave_up + gave_up,
            aborted: self.aborted + aborted,
            not_attempted: self.not_attempted + not_attempted,
            lost: self.lost + lost,
        }
    }
}

impl Totals {
    fn new(counters: &Counters, duration_s: f64, peak_in_flight: u64) -> Self {
        Self {
            attempts: counters.attempts,
            retries: counters.attempts.saturating_sub(counters.items()),
            attempts_sent: counters.attempts_sent,
            attempts_by_status: counters.by_status.iter().map(|(status, n)| (status.to_string(), *n)).collect(),
            errors_by_kind: counters.by_error.iter().map(|(kind, n)| (kind.name().to_owned(), *n)).collect(),
            throttled: counters.throttled,
            connections_opened: counters.connections_opened,
            bytes_sent: counters.bytes_sent,
            bytes_received: counters.bytes_received,
            duration_s,
            items_per_s: share((counters.items() - counters.aborted) as f64, duration_s),
            attempts_per_s: share(counters.attempts as f64, duration_s),
            peak_in_flight,
        }
    }
}

impl BudgetReport {
    fn new(plan: &RunPlan, record: &RunRecord, totals: &Totals) -> Option<Self> {
        let rate = plan.rate?;
        let uses = || record.shards.iter().filter_map(|shard| Some((shard, shard.budget?)));
        let closeness = |admitted: u64, allowed: u64| admitted as f64 / allowed as f64;
        let worst = uses().max_by(|(_, a), (_, b)| {
            closeness(a.worst.admitted, a.worst.allowed).total_cmp(&closeness(b.worst.admitted, b.worst.allowed))
        });
        let allowed = plan.burst as f64 + rate.per_second() * totals.duration_s;
        Some(Self {
            rate: rate.to_string(),
            rate_per_s: rate.per_second(),
            burst: plan.burst,
            achieved_per_s: totals.attempts_per_s,
            utilisation: share(totals.attempts as f64, allowed),
            kept: uses().all(|(_, budget)| budget.kept),
            unaudited_shards: record.shards.len() - uses().count(),
            worst_window: worst.map(|(shard, budget)| WindowReport {
                shard: shard.plan.shard,
                width_ms: budget.worst.width_ns as f64 / 1e6,
                admitted: budget.worst.admitted,
                allowed: budget.worst.allowed,
            }),
        })
    }
}

impl UsageReport {
    fn new(usage: &Usage, totals: &Totals) -> Self {
        let cpu = cpu_s(usage);
        Self {
            cpu_user_s: usage.cpu_user_us as f64 / 1e6,
            cpu_system_s: usage.cpu_system_us as f64 / 1e6,
            cpu_us_per_attempt: (totals.attempts > 0).then(|| cpu * 1e6 / totals.attempts as f64),
            cpu_share: share(cpu, totals.duration_s),
            run_delay_s: usage.run_delay_ns.map(|ns| ns as f64 / 1e9),
            max_rss_bytes: usage.max_rss_bytes,
            involuntary_switches: usage.involuntary_switches,
        }
    }
}

impl IntervalRow {
    /// The row of a merged interval.
    #[must_use]
    pub fn new(interval: &Interval) -> Self {
        let counters = &interval.merged.counters;
        let service = interval.merged.timing(Series::ServiceOk);
        let percentile = |q| match service.map(|timing| timing.percentile(q)) {
            Some(Percentile::Exact(ns) | Percentile::AtLeast(ns)) => Some(ns as f64 / 1e3),
            Some(Percentile::TooFew) | None => None,
        };
        Self {
            start_s: interval.index,
            attempts: counters.attempts,
            items: counters.items(),
            ok: counters.ok,
            not_found: counters.not_found,
            failed: counters.failed,
            throttled: counters.throttled,
            aborted: counters.aborted,
            bytes_received: counters.bytes_received,
            in_flight: interval.in_flight,
            p50_us: percentile(0.5),
            p99_us: percentile(0.99),
            max_sched_lag_us: interval.max_sched_lag_ns as f64 / 1e3,
            cpu_us: interval.cpu_us,
        }
    }
}

fn latencies(stats: &ShardStats, detail: Detail) -> BTreeMap<String, Latency> {
    Series::ALL.iter().map(|series| (series.name().to_owned(), Latency::of(stats, *series, detail))).collect()
}

fn cpu_s(usage: &Usage) -> f64 {
    (usage.cpu_user_us + usage.cpu_system_us) as f64 / 1e6
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

/// FNV-1a, 64 bit, over the plan's JSON: stable over versions and machines, which the standard library's hasher is not.
fn config_hash(plan: &RunPlan) -> String {
    let json = serde_json::to_string(plan).unwrap_or_default();
    let hash = json
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    format!("{hash:016x}")
}
