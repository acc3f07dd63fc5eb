//! Readings of a rung's run.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::run::report::{BindingReport, Report};
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::parse_duration;

/// The plan's note of what the bundled target adds to the first answer of each connection.
const HANDSHAKE: &str = "target_handshake";

/// Readings of a run. Rates and times are of after its warm-up, counts are of all of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RungReadings {
    /// Good items per second: a refusal is no climb.
    pub ok_per_s: f64,
    /// Attempts per second.
    pub attempts_per_s: f64,
    /// Processes that crawled.
    pub shards: u32,
    /// Requests in flight at most, over all of them.
    pub connections: u32,
    /// From the common start to the last answer.
    pub duration_s: f64,
    /// Attempts.
    pub attempts: u64,
    /// Items by what they came to: good ones.
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
    /// The budget as typed; null without one.
    pub budget: Option<String>,
    /// CPU of the round.
    pub cpu: CpuUse,
}

/// CPU of a round. Null is what the machine did not tell.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CpuUse {
    /// CPUs that there are.
    pub cores: usize,
    /// CPUs that the shards used.
    pub client_cores: Option<f64>,
    /// CPUs that the rest of the round used: the target, the supervisor, and their start.
    pub target_cores: Option<f64>,
    /// CPU of the shards per attempt.
    pub client_us_per_attempt: Option<f64>,
    /// CPU of all else per attempt.
    pub target_us_per_attempt: Option<f64>,
    /// The part of their time that the shards were ready to run and had no CPU, in the mean.
    pub run_delay_share: Option<f64>,
}

impl RungReadings {
    /// Read the figures of `report`; `all` is the CPU of all processes of the round, where it is
    /// known.
    #[must_use]
    pub fn of(report: &Report, all: Option<Duration>) -> Self {
        let (totals, ledger) = (&report.totals, &report.ledger);
        let service = report
            .latency(Series::ServiceOk)
            .filter(|service| service.count > 0);
        let budget = report.budget.as_ref();
        Self {
            ok_per_s: totals.good_per_s(ledger),
            attempts_per_s: totals.attempts_per_s,
            shards: report.plan.run.shards,
            connections: report.plan.run.in_flight(),
            duration_s: totals.duration_s,
            attempts: totals.attempts,
            ok: ledger.ok,
            failed: ledger.failed + ledger.gave_up,
            throttled: totals.throttled,
            connections_opened: totals.connections_opened,
            connect_mean_us: report
                .latency(Series::Connect)
                .and_then(|connect| connect.mean_us),
            handshake_us: handshake(report).as_secs_f64() * 1e6,
            service_mean_us: service.and_then(|service| service.mean_us),
            service_p50_us: service.and_then(|service| service.p50_us),
            service_p99_us: service.and_then(|service| service.p99_us),
            binding: report.binding,
            budget_used: budget.map(|budget| budget.utilisation),
            budget: budget.map(|budget| budget.rate.clone()),
            cpu: CpuUse::of(report, all),
        }
    }

    /// Connections opened for each attempt.
    #[must_use]
    pub fn opened_per_attempt(&self) -> f64 {
        self.connections_opened as f64 / self.attempts.max(1) as f64
    }
}

/// Return the handshake delay of the bundled target from the plan; zero for a target that is not
/// bundled.
fn handshake(report: &Report) -> Duration {
    let told = report.plan.run.workload.get(HANDSHAKE);
    told.and_then(|text| parse_duration(text).ok())
        .unwrap_or_default()
}

impl CpuUse {
    fn of(report: &Report, all: Option<Duration>) -> Self {
        let sum = |of: &dyn Fn(&crate::run::report::ShardReport) -> Option<f64>| {
            report
                .shards
                .iter()
                .map(of)
                .sum::<Option<f64>>()
                .filter(|_| !report.shards.is_empty())
        };
        let client_s = sum(&|shard| shard.usage.cpu_s());
        let rest_s = all
            .zip(client_s)
            .map(|(all, client_s)| (all.as_secs_f64() - client_s).max(0.0));
        let per_attempt = |s: f64| s * 1e6 / report.totals.attempts.max(1) as f64;
        let over = |s: f64| s / report.totals.duration_s.max(f64::MIN_POSITIVE);
        Self {
            cores: report.environment.cores,
            client_cores: sum(&|shard| shard.usage.cpu_share),
            target_cores: rest_s.filter(|_| report.totals.duration_s > 0.0).map(over),
            client_us_per_attempt: client_s.map(per_attempt),
            target_us_per_attempt: rest_s.map(per_attempt),
            run_delay_share: sum(&|shard| shard.usage.run_delay_share)
                .map(|all| all / report.shards.len() as f64),
        }
    }

    /// Return the CPUs that all processes used; null where a part is not known.
    #[must_use]
    pub fn used_cores(&self) -> Option<f64> {
        Some(self.client_cores? + self.target_cores?)
    }
}
