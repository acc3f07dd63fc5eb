//! A saved run as a round of a comparison: what it read, and whether the machine was undisturbed.
//!
//! Both are read from the report alone, without a look at which arm it was: a machine that is called disturbed because of
//! what the candidate did to it would be a way to choose the result.

use std::time::Duration;

use super::design::{Arm, Disturbance, Round};
use super::metric::{Reading, Readings};
use crate::run::report::thresholds::{FREEZE_US, SHORTEST_FOR_STEAL_S, SPEED, STEAL};
use crate::run::report::{Latency, Report};
use crawlmark_harness::stats::Series;

/// CPU time that the target of a run used, where it is known.
pub type TargetCpu = Option<Duration>;

impl Readings {
    /// Read each metric of a run. Where the target's CPU is known, it decides in place of the client's.
    #[must_use]
    pub fn taken_from(report: &Report, target_cpu: TargetCpu) -> Self {
        let client = report.shards.iter().map(|shard| shard.usage.cpu_s()).sum::<Option<f64>>();
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
            // 0 when none was good, not absent: of two arms that answer nothing, a reading that is missing in both would
            // leave the verdict to their CPU.
            throughput: Reading::Gating(report.totals.good_per_s(&report.ledger)),
            ok_share: ok_share(report),
            service_p50: service.map_or(Reading::Absent, |times| percentile(times, ("p50_us", times.p50_us), 2)),
            service_p99: service.map_or(Reading::Absent, |times| percentile(times, ("p99_us", times.p99_us), 100)),
        }
    }
}

impl Round {
    /// The run as a round of `arm`.
    #[must_use]
    pub fn taken_from(report: &Report, arm: Arm) -> Self {
        Self { arm, readings: Readings::taken_from(report, None), disturbance: Disturbance::of(report) }
    }
}

/// Microseconds of CPU per attempt; none when nothing was attempted, or no time was used.
fn per_attempt(used: Duration, attempts: u64) -> Option<Reading> {
    let us = used.as_secs_f64() * 1e6 / attempts as f64;
    (us.is_finite() && us > 0.0).then(|| Reading::cpu(us, used))
}

/// The part of the items that were ok, of those that ended by themselves. An item that is not there is not ok: a candidate
/// that lost its items answers fast.
fn ok_share(report: &Report) -> Reading {
    let ended = report.ledger.ended() - report.ledger.aborted;
    match report.ledger.ok {
        _ if ended == 0 => Reading::Absent,
        ok if ok == ended => Reading::Gating(1.0),
        ok => Reading::Gating(ok as f64 / ended as f64),
    }
}

/// The percentile beyond which one in `one_in` lies. One that is only known to be no less decides nothing.
fn percentile(times: &Latency, (key, value): (&str, Option<f64>), one_in: u64) -> Reading {
    match value.map(|us| Reading::percentile(us, times.count / one_in)) {
        Some(Reading::Gating(us)) if times.is_at_least(key) => Reading::Informational(us),
        Some(reading) => reading,
        None => Reading::Absent,
    }
}

impl Disturbance {
    /// State of the machine during a run.
    #[must_use]
    pub fn of(report: &Report) -> Self {
        let usages = || report.shards.iter().map(|shard| &shard.usage);
        let stolen = usages().any(|usage| {
            usage.measured_s.is_some_and(|s| s >= SHORTEST_FOR_STEAL_S) && usage.steal_share.is_some_and(|s| s > STEAL)
        });
        let late_us = report.latency(Series::LoopLag).and_then(|lag| lag.max_us).unwrap_or(0.0);
        match () {
            () if !alike(&[report]) => Self::SpeedProbe,
            () if stolen => Self::Steal,
            () if late_us > FREEZE_US => Self::RunQueue,
            () => Self::None,
        }
    }

    /// Find the disturbance of a pair in its two runs: the CPU has to have been as fast in one as in the other, too.
    #[must_use]
    pub fn of_pair(runs: [&Report; 2]) -> Self {
        let found = runs.map(Self::of).into_iter().find(|found| *found != Self::None);
        found.unwrap_or(if alike(&runs) { Self::None } else { Self::SpeedProbe })
    }
}

/// True if the fixed work took about as long before and after each of these runs.
fn alike(runs: &[&Report]) -> bool {
    let usages = runs.iter().flat_map(|run| &run.shards).map(|shard| &shard.usage);
    let times = usages.flat_map(|usage| [usage.speed_before_us, usage.speed_after_us]).flatten();
    let (least, most) = times.fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), us| (least.min(us), most.max(us)));
    most <= least * (1.0 + SPEED)
}
