//! A saved run as a round of a comparison: what it read, and whether the machine was undisturbed.
//!
//! Both are read from the reports alone, without a look at which arm is which: a machine that is
//! called disturbed because of what the candidate did to it would be a way to choose the result.

use std::time::Duration;

use super::design::{Arm, Disturbance, Round};
use super::metric::{Metric, Reading, Readings};
use crate::run::report::thresholds::{FREEZE_US, SHORTEST_FOR_STEAL_S, SPEED, STEAL};
use crate::run::report::{Latency, Report};
use crawlmark_harness::stats::Series;

/// CPU time that the target of a run used, where it is known.
pub type TargetCpu = Option<Duration>;

impl Readings {
    /// Read each metric of a run. Where the target's CPU is known, it decides in place of the
    /// client's.
    #[must_use]
    pub fn taken_from(report: &Report, target_cpu: TargetCpu) -> Self {
        let client = report
            .shards
            .iter()
            .map(|shard| shard.usage.cpu_s())
            .sum::<Option<f64>>();
        let client = client.and_then(|cpu_s| Duration::try_from_secs_f64(cpu_s).ok());
        let cpu = |used: TargetCpu| per_attempt(used?, report.totals.attempts);
        let target = cpu(target_cpu);
        let client = match (cpu(client), target) {
            (Some(Reading::Gating(us)), Some(_)) => Some(Reading::Informational(us)),
            (client, _) => client,
        };
        let service = report.latency(Series::ServiceOk);
        Self {
            target_cpu_per_attempt: target.unwrap_or_default(),
            cpu_per_attempt: client.unwrap_or_default(),
            // 0 when none was good, not absent: of two arms that answer nothing, a reading that is
            // missing in both would leave the verdict to their CPU.
            throughput: Reading::Gating(report.totals.good_per_s(&report.ledger)),
            ok_share: ok_share(report),
            service_p50: service.map_or(Reading::Absent, |times| {
                percentile(times, ("p50_us", times.p50_us), 2)
            }),
            service_p99: service.map_or(Reading::Absent, |times| {
                percentile(times, ("p99_us", times.p99_us), 100)
            }),
        }
    }
}

impl Round {
    /// The run as a round of `arm`. Whether it was disturbed, only its pair shows.
    #[must_use]
    pub fn taken_from(report: &Report, arm: Arm) -> Self {
        Self {
            arm,
            readings: Readings::taken_from(report, None),
            disturbance: Disturbance::None,
        }
    }
}

/// Microseconds of CPU per attempt; none when nothing was attempted, or no time was used.
fn per_attempt(used: Duration, attempts: u64) -> Option<Reading> {
    let us = used.as_secs_f64() * 1e6 / attempts as f64;
    (us.is_finite() && us > 0.0).then(|| Reading::cpu(us, used))
}

/// The part of the items that were ok, of those that ended by themselves. An item that is not there
/// is not ok: a candidate that lost its items answers fast.
fn ok_share(report: &Report) -> Reading {
    let ended = report.ledger.ended() - report.ledger.aborted;
    match report.ledger.ok {
        _ if ended == 0 => Reading::Absent,
        ok if ok == ended => Reading::Gating(1.0),
        ok => Reading::Gating(ok as f64 / ended as f64),
    }
}

/// The percentile beyond which one in `one_in` lies. One that is only known to be no less decides
/// nothing.
fn percentile(times: &Latency, (key, value): (&str, Option<f64>), one_in: u64) -> Reading {
    match value.map(|us| Reading::percentile(us, times.count / one_in)) {
        Some(Reading::Gating(us)) if times.is_at_least(key) => Reading::Informational(us),
        Some(reading) => reading,
        None => Reading::Absent,
    }
}

/// Factor by which a reading has to differ for a disturbance not to explain it: more than a change
/// of the CPU's speed, stolen time or a freeze in one of the rounds does.
const BEYOND: f64 = 1.5;

/// Readings whose differences may be beyond a disturbance. A p99 is not among them: a single freeze
/// makes it as large as itself.
const TYPICAL: [Metric; 4] = [
    Metric::CpuPerAttempt,
    Metric::Throughput,
    Metric::OkShare,
    Metric::ServiceP50,
];

/// What disturbed a run, as far as it can be measured.
#[derive(Debug, Clone, Copy)]
struct Disturbances {
    /// Mean time of the fixed work, µs; 0 if that is unknown.
    work_us: f64,
    /// The greatest part of a shard's CPU time that was stolen.
    stolen: f64,
    /// The longest time in which a shard did not run, µs.
    frozen_us: f64,
}

impl Disturbances {
    fn of(report: &Report) -> Self {
        let usages = || report.shards.iter().map(|shard| &shard.usage);
        let works: Vec<f64> = usages()
            .flat_map(|usage| [usage.speed_before_us, usage.speed_after_us])
            .flatten()
            .collect();
        let long =
            usages().filter(|usage| usage.measured_s.is_some_and(|s| s >= SHORTEST_FOR_STEAL_S));
        Self {
            work_us: works.iter().sum::<f64>() / works.len().max(1) as f64,
            stolen: long
                .filter_map(|usage| usage.steal_share)
                .fold(0.0, f64::max),
            frozen_us: report
                .latency(Series::LoopLag)
                .and_then(|lag| lag.max_us)
                .unwrap_or(0.0),
        }
    }

    /// The disturbance by which this run differs from another one.
    fn beside(self, other: Self) -> Disturbance {
        let slower = self.work_us.max(other.work_us) / self.work_us.min(other.work_us);
        match () {
            // NaN or infinite if either is unknown.
            () if slower.is_finite() && slower > 1.0 + SPEED => Disturbance::SpeedProbe,
            () if (self.stolen - other.stolen).abs() > STEAL => Disturbance::Steal,
            () if (self.frozen_us - other.frozen_us).abs() > FREEZE_US => Disturbance::RunQueue,
            () => Disturbance::None,
        }
    }
}

impl Disturbance {
    /// Find the disturbance of a pair in its two runs: that by which they differ. None if both were
    /// disturbed alike, or if one is better or worse than the other by more than a disturbance
    /// explains. Neither looks at which arm is which, so under the hypothesis of equal arms the
    /// differences of the pairs that count stay as likely of either sign.
    #[must_use]
    pub fn of_pair(runs: [&Report; 2]) -> Self {
        let [one, other] = runs.map(Disturbances::of);
        let [first, second] = runs.map(|run| Readings::taken_from(run, None));
        let is_beyond = |metric: Metric| {
            let values = first.of(metric).value().zip(second.of(metric).value());
            values.is_some_and(|(one, other)| {
                one.min(other) > 0.0 && one.max(other) > one.min(other) * BEYOND
            })
        };
        if TYPICAL.into_iter().any(is_beyond) {
            Self::None
        } else {
            one.beside(other)
        }
    }

    /// Reason in words; empty without a disturbance.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::None => "",
            Self::SpeedProbe => "the CPU changed its speed",
            Self::Steal => "CPU time was stolen",
            Self::RunQueue => "a shard froze",
        }
    }
}
