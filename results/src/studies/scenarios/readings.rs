//! Readings of a scenario's run.

use std::time::Duration;

use serde::Serialize;

use crate::run::report::{BindingReport, Report, ShardReport};
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::parse_duration;

/// The plan's note of what the bundled target adds to the first answer of each connection.
const HANDSHAKE: &str = "target_handshake";

/// Readings of a run. Rates and times are of after its warm-up, counts are of all of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScenarioReadings {
    /// Good items per second.
    pub ok_per_s: f64,
    /// Attempts per second.
    pub attempts_per_s: f64,
    /// Processes that crawled.
    pub shards: u32,
    /// Requests in flight allowed, over all of them.
    pub connections: u32,
    /// Requests in flight at most, over all of them.
    pub peak_in_flight: u64,
    /// Memory of all shards at most; null where the machine does not tell.
    pub memory_bytes: Option<u64>,
    /// From the common start to the last answer.
    pub duration_s: f64,
    /// Attempts.
    pub attempts: u64,
    /// Good items.
    pub ok: u64,
    /// Items that failed or were given up.
    pub failed: u64,
    /// Attempts that the target throttled.
    pub throttled: u64,
    /// Connections opened.
    pub connections_opened: u64,
    /// Mean time to open a connection; null when none was opened after the warm-up.
    pub connect_mean_us: Option<f64>,
    /// Delay of the first answer of each connection in the bundled target, for a handshake over a
    /// network.
    pub handshake_us: f64,
    /// Good answers' times, from the first byte sent to the last one read, in the mean.
    pub service_mean_us: Option<f64>,
    /// Their median; null with fewer than ten samples beyond it.
    pub service_p50_us: Option<f64>,
    /// Their 99th percentile.
    pub service_p99_us: Option<f64>,
    /// Limits of its own that held the crawl back, as parts of the time.
    pub binding: BindingReport,
    /// Part of its budget that it used; null without one.
    pub budget_used: Option<f64>,
    /// CPU of the round.
    pub cpu: CpuUse,
}

/// CPU of a round. Null is what the machine did not tell.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CpuUse {
    /// CPUs that there are.
    pub cores: usize,
    /// CPUs that the shards used.
    pub client_cores: Option<f64>,
    /// CPUs that the rest of the round used: the target, the supervisor, and their start.
    pub target_cores: Option<f64>,
    /// CPU of the shards per attempt.
    pub client_us_per_attempt: Option<f64>,
    /// The part of their time that the shards were ready to run and had no CPU, in the mean.
    pub run_delay_share: Option<f64>,
}

impl ScenarioReadings {
    /// Read the figures of `report`; `all` is the CPU of all processes of the round, where it is
    /// known.
    pub fn of(report: &Report, all: Option<Duration>) -> Self {
        let (totals, ledger) = (&report.totals, &report.ledger);
        let service = report
            .latency(Series::ServiceOk)
            .filter(|service| service.count > 0);
        let connect = report.latency(Series::Connect);
        Self {
            ok_per_s: totals.ok_per_s,
            attempts_per_s: totals.attempts_per_s,
            shards: report.plan.run.shards,
            connections: report.plan.run.in_flight(),
            peak_in_flight: totals.peak_in_flight,
            memory_bytes: report
                .shards
                .iter()
                .map(|shard| shard.usage.max_rss_bytes)
                .sum(),
            duration_s: totals.duration_s,
            attempts: totals.attempts,
            ok: ledger.ok,
            failed: ledger.failed + ledger.gave_up,
            throttled: totals.throttled,
            connections_opened: totals.connections_opened,
            connect_mean_us: connect.and_then(|connect| connect.mean_us),
            handshake_us: handshake(report).as_secs_f64() * 1e6,
            service_mean_us: service.and_then(|service| service.mean_us),
            service_p50_us: service.and_then(|service| service.p50_us),
            service_p99_us: service.and_then(|service| service.p99_us),
            binding: report.binding,
            budget_used: report.budget.as_ref().map(|budget| budget.utilisation),
            cpu: CpuUse::of(report, all),
        }
    }

    /// Connections opened for each attempt.
    pub fn opened_per_attempt(&self) -> f64 {
        self.connections_opened as f64 / self.attempts.max(1) as f64
    }

    /// Attempts that the target throttled, as a part of all.
    pub fn throttled_share(&self) -> f64 {
        self.throttled as f64 / self.attempts.max(1) as f64
    }
}

/// Return the handshake delay of the bundled target from the plan; zero for a target that is not
/// bundled.
fn handshake(report: &Report) -> Duration {
    let noted = report.plan.run.workload.get(HANDSHAKE);
    noted
        .and_then(|text| parse_duration(text).ok())
        .unwrap_or_default()
}

/// A sum over the shards; none where one of them does not tell.
fn sum(report: &Report, of: fn(&ShardReport) -> Option<f64>) -> Option<f64> {
    let sum: Option<f64> = report.shards.iter().map(of).sum();
    sum.filter(|_| !report.shards.is_empty())
}

impl CpuUse {
    fn of(report: &Report, all: Option<Duration>) -> Self {
        let client_s = sum(report, |shard| shard.usage.cpu_s());
        let (attempts, duration_s) = (report.totals.attempts, report.totals.duration_s);
        let rest_s = all
            .zip(client_s)
            .map(|(all, client_s)| (all.as_secs_f64() - client_s).max(0.0));
        Self {
            cores: report.environment.cores,
            client_cores: sum(report, |shard| shard.usage.cpu_share),
            target_cores: rest_s
                .filter(|_| duration_s > 0.0)
                .map(|rest_s| rest_s / duration_s),
            client_us_per_attempt: client_s.map(|cpu_s| cpu_s * 1e6 / attempts.max(1) as f64),
            run_delay_share: sum(report, |shard| shard.usage.run_delay_share)
                .map(|all| all / report.shards.len() as f64),
        }
    }

    /// Return the CPUs that all processes used; null where a part is not known.
    pub fn used_cores(&self) -> Option<f64> {
        Some(self.client_cores? + self.target_cores?)
    }
}
