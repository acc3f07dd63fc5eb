//! Readings of a scenario's run, and its limit, from these readings and from nothing else.
//!
//! Causes are tested in this order, and the first that holds is the limit: refusals and failures
//! (then the rate is not the crawl's own), the crawl's own budget, the CPU, and last the time in
//! which its connections waited for answers. For that Little's law (Little, "A Proof for the
//! Queuing Formula L = λW", 1961) is what ties the figures together: `L` requests in flight, each
//! of which takes `W`, are `L / W` per second and cannot be more.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::run::report::{BindingReport, Report, ShardReport};
use crate::studies::StudyFinding;
use crawlmark_harness::plan::Arrivals;
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::parse_duration;

/// Readings of a run. Rates and times are of after its warm-up, counts are of all of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScenarioReadings {
    /// Good items per second.
    pub ok_per_s: f64,
    /// Attempts per second.
    pub attempts_per_s: f64,
    /// Processes that crawled.
    pub shards: u32,
    /// Requests in flight allowed, over all of them.
    pub connections: u32,
    /// True if requests went in batches, each of which waited for the end of the one before.
    pub in_batches: bool,
    /// Attempts.
    pub attempts: u64,
    /// Good items.
    pub ok: u64,
    /// Items that failed or were given up.
    pub failed: u64,
    /// Attempts that the target throttled.
    pub throttled: u64,
    /// The most requests under way at once.
    pub peak_in_flight: u64,
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
    /// Part of its budget that it used, or of the requests of its timetable that it sent; null without
    /// either.
    pub budget_used: Option<f64>,
    /// Memory of the shards, each at its largest; null where one does not tell.
    pub memory_bytes: Option<u64>,
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
        let budget_used = report.budget.as_ref().map(|budget| budget.utilisation);
        let memory = report
            .shards
            .iter()
            .map(|shard| shard.usage.max_rss_bytes)
            .sum::<Option<u64>>();
        Self {
            ok_per_s: totals.ok_per_s,
            attempts_per_s: totals.attempts_per_s,
            shards: report.plan.run.shards,
            connections: report.plan.run.in_flight(),
            in_batches: report.plan.run.arrivals == Arrivals::Waves,
            attempts: totals.attempts,
            ok: ledger.ok,
            failed: ledger.failed + ledger.gave_up,
            throttled: totals.throttled,
            peak_in_flight: totals.peak_in_flight,
            connections_opened: totals.connections_opened,
            connect_mean_us: connect.and_then(|connect| connect.mean_us),
            handshake_us: handshake(report).as_secs_f64() * 1e6,
            service_mean_us: service.and_then(|service| service.mean_us),
            service_p50_us: service.and_then(|service| service.p50_us),
            service_p99_us: service.and_then(|service| service.p99_us),
            binding: report.binding,
            budget_used: budget_used.or(report.rate_ratio),
            memory_bytes: memory.filter(|bytes| *bytes > 0),
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
    let bundled = report.plan.run.workload.bundled.as_ref();
    bundled
        .and_then(|bundled| parse_duration(&bundled.target_handshake).ok())
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

/// Part of the attempts, or of the items, from which refusals or failures are what was measured.
const REFUSED: f64 = 0.01;

/// Part of the shards' time in which they waited for the budget, or paused as they were told: with
/// more, that is what set the pace.
const HELD: f64 = 0.25;

/// Part of the CPUs in use, or of the one that a single-threaded shard can have: with more there is
/// no room left. That of the check of CPU use, for the same reason.
const CPU: f64 = 0.85;

/// Part of their time that shards were ready to run and had no CPU: with as much they were kept
/// from theirs, by the target, by each other, or by other programs.
const KEPT_FROM_CPU: f64 = 0.25;

/// Part of the connections' time that was spent on answers: with less, something else than waiting
/// for them was the limit.
const WAITED: f64 = 0.8;

/// Part of a request's time that went into its connection: with more, that is what it waited for.
const OPENING: f64 = 0.5;

/// Find the limit of the run that read this.
pub fn limit_of(readings: &ScenarioReadings) -> StudyFinding {
    refusals(readings)
        .or_else(|| budget(readings))
        .or_else(|| cpu(readings))
        .or_else(|| waiting(readings))
        .unwrap_or(StudyFinding::Unclear {})
}

fn refusals(readings: &ScenarioReadings) -> Option<StudyFinding> {
    let failed = readings.failed as f64 / (readings.ok + readings.failed).max(1) as f64;
    let (share, paused_share) = (readings.throttled_share(), readings.binding.pause);
    if share >= REFUSED || paused_share >= HELD {
        return Some(StudyFinding::Refusals {
            share,
            paused_share,
        });
    }
    (failed >= REFUSED).then_some(StudyFinding::Failures { share: failed })
}

fn budget(readings: &ScenarioReadings) -> Option<StudyFinding> {
    let used = readings.budget_used?;
    (readings.binding.rate >= HELD).then_some(StudyFinding::OwnBudget { used })
}

fn cpu(readings: &ScenarioReadings) -> Option<StudyFinding> {
    let of = readings.cpu;
    let each = of.client_cores? / f64::from(readings.shards.max(1));
    let cores = of.cores;
    let used = of.used_cores().filter(|used| *used >= CPU * cores as f64);
    let waited = of.run_delay_share.filter(|share| *share >= KEPT_FROM_CPU);
    used.map(|used_cores| StudyFinding::CpuFull { used_cores, cores })
        .or_else(|| waited.map(|share| StudyFinding::CpuWait { share }))
        .or_else(|| (each >= CPU).then_some(StudyFinding::OneCpu { each }))
}

/// By Little's law: a request occupies its connection while it is answered, and while the
/// connection is opened, as often as that happens.
fn waiting(readings: &ScenarioReadings) -> Option<StudyFinding> {
    let (connections, opened) = (readings.connections, readings.opened_per_attempt());
    let connect_us = readings.connect_mean_us.unwrap_or(0.0);
    let each_us = readings.service_mean_us? + connect_us * opened;
    let waited = readings.attempts_per_s * each_us / 1e6 / f64::from(connections.max(1));
    let opening_us = Some((connect_us + readings.handshake_us) * opened)
        .filter(|opening| *opening >= OPENING * each_us);
    if readings.in_batches && waited < WAITED {
        return Some(StudyFinding::Batches {
            connections,
            used: waited,
        });
    }
    (waited >= WAITED).then_some(StudyFinding::Waiting {
        connections,
        each_us,
        opening_us,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twenty in flight on kept connections, 60 ms each, on two idle cores.
    fn pooled() -> ScenarioReadings {
        ScenarioReadings {
            ok_per_s: 330.0,
            attempts_per_s: 330.0,
            shards: 1,
            connections: 20,
            in_batches: false,
            attempts: 1_320,
            ok: 1_320,
            failed: 0,
            throttled: 0,
            peak_in_flight: 20,
            connections_opened: 20,
            connect_mean_us: Some(100.0),
            handshake_us: 100_000.0,
            service_mean_us: Some(60_000.0),
            service_p50_us: Some(59_000.0),
            service_p99_us: None,
            binding: BindingReport {
                concurrency: 1.0,
                ..BindingReport::default()
            },
            budget_used: None,
            memory_bytes: Some(14 << 20),
            cpu: CpuUse {
                cores: 2,
                client_cores: Some(0.02),
                target_cores: Some(0.02),
                client_us_per_attempt: Some(60.0),
                run_delay_share: Some(0.001),
            },
        }
    }

    /// The limit of a run that read something else than [`pooled`].
    fn changed(change: impl FnOnce(&mut ScenarioReadings)) -> StudyFinding {
        let mut readings = pooled();
        change(&mut readings);
        limit_of(&readings)
    }

    /// As many new connections as requests, which take 160 ms, or 60 ms with a handshake for free.
    fn unpooled(readings: &mut ScenarioReadings) {
        readings.connections_opened = readings.attempts;
        readings.attempts_per_s = 124.0;
        readings.service_mean_us = Some(160_000.0);
    }

    #[test]
    fn requests_wait_for_responses_or_for_the_connections_that_take_most_of_their_time() {
        let waiting = |limit: StudyFinding| match limit {
            StudyFinding::Waiting { opening_us, .. } => opening_us,
            other => panic!("{other:?}"),
        };
        assert_eq!(waiting(limit_of(&pooled())), None);
        assert_eq!(waiting(changed(unpooled)), Some(100_100.0));
        let for_free = changed(|readings| {
            unpooled(readings);
            readings.handshake_us = 0.0;
        });
        assert_eq!(waiting(for_free), None);
        assert_eq!(
            changed(|readings| readings.attempts_per_s = 100.0),
            StudyFinding::Unclear {}
        );
        let batches = changed(|readings| {
            (readings.in_batches, readings.attempts_per_s) = (true, 100.0);
        });
        assert_eq!(batches.kind(), "Batches");
        assert_eq!(
            changed(|readings| readings.service_mean_us = None),
            StudyFinding::Unclear {}
        );
    }

    #[test]
    fn cpu_comes_before_the_waiting_that_it_makes() {
        let busy = changed(|readings| {
            (readings.cpu.client_cores, readings.cpu.target_cores) = (Some(0.9), Some(1.0));
        });
        assert!(matches!(busy, StudyFinding::CpuFull { cores: 2, .. }));
        // A single process can use a single core, however many there are; ten can use ten.
        let alone = |shards| {
            changed(|readings| {
                (readings.cpu.cores, readings.cpu.client_cores) = (10, Some(0.97));
                readings.shards = shards;
            })
        };
        assert!(matches!(alone(1), StudyFinding::OneCpu { .. }));
        assert_eq!(alone(10).kind(), "Waiting");
        // Other programs use half of the machine.
        let kept_from = changed(|readings| readings.cpu.run_delay_share = Some(0.4));
        assert!(matches!(kept_from, StudyFinding::CpuWait { .. }));
    }

    #[test]
    fn refusals_failures_and_a_budget_come_first() {
        let full = CpuUse {
            client_cores: Some(1.0),
            target_cores: Some(1.0),
            ..pooled().cpu
        };
        for (throttled, failed, name) in [
            (132, 100, "Refusals"),
            (0, 132, "Failures"),
            (0, 0, "CpuFull"),
            (5, 0, "CpuFull"),
        ] {
            let limit = changed(|readings| {
                (readings.throttled, readings.failed, readings.cpu) = (throttled, failed, full);
            });
            assert_eq!(limit.kind(), name);
        }
        // A pause that a target asks for holds back more requests than it refused.
        let paused = changed(|readings| {
            (readings.throttled, readings.binding.pause, readings.cpu) = (5, 0.5, full);
        });
        assert_eq!(paused.kind(), "Refusals");
        for (share, name) in [(0.7, "OwnBudget"), (0.1, "CpuFull")] {
            let limit = changed(|readings| {
                readings.binding.rate = share;
                (readings.budget_used, readings.cpu) = (Some(0.999), full);
            });
            assert_eq!(limit.kind(), name);
        }
    }
}
