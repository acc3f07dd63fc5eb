//! Metrics of a comparison: the direction in which each gets worse, the smallest loss that counts,
//! and the readings of a saved run; and whether the machine was disturbed in a pair of runs.
//!
//! Readings and disturbances are read from the reports alone, without a look at which arm is which:
//! a machine that is called disturbed because of what the candidate did to it would be a way to
//! choose the result.

use std::time::Duration;

use crawlmark_harness::stats::Series;
use serde::{Deserialize, Serialize};

use super::design::Disturbance;
use crate::run::report::thresholds::{FREEZE_US, SHORTEST_FOR_STEAL_S, SPEED, STEAL};
use crate::run::report::{Latency, Report, TARGET_PROCESSES};
use crate::show::text::{decimal, micros};

/// Samples that must lie beyond a percentile of a round before a verdict may rest on it.
const BEYOND_TO_GATE: u64 = 100;

/// Samples that must lie beyond a percentile before it is shown at all.
const BEYOND_TO_SHOW: u64 = 10;

/// CPU time that a round has to have used before a verdict may rest on it. What a process needs to
/// begin and to end is some milliseconds, which differ from round to round and are not the
/// requests': 20 % of noise in rounds of 13 ms, of which one comparison of equal sides in eight
/// made a regression.
const CPU_TO_GATE: Duration = Duration::from_millis(100);

/// Metric that is compared. No more than five of them decide, and four where nothing fails, because
/// each more costs all of them power: the error that a comparison may make is shared by the metrics
/// that may decide. Where the target's CPU is known, the client's is only shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// CPU time of the target per attempt, where a comparison starts it; more is worse.
    TargetCpuPerAttempt,
    /// CPU time of the client per attempt; more is worse.
    CpuPerAttempt,
    /// Items or attempts per second, or whatever a round does per second; less is worse.
    Throughput,
    /// The part of the items that were ok; less is worse. Where every item of every round was, it
    /// is not looked at.
    OkShare,
    /// Median of the service time; more is worse.
    ServiceP50,
    /// 99th percentile of the service time; more is worse.
    ServiceP99,
}

/// Direction in which a metric gets worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worse {
    /// A cost: the candidate is worse when it reads more.
    More,
    /// A yield: the candidate is worse when it reads less.
    Less,
}

/// Row of the table of metrics.
#[derive(Debug, Clone, Copy)]
struct MetricInfo {
    name: &'static str,
    title: &'static str,
    column: &'static str,
    worse: Worse,
    smallest_effect: f64,
}

impl Metric {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 6] = [
        Self::TargetCpuPerAttempt,
        Self::CpuPerAttempt,
        Self::Throughput,
        Self::OkShare,
        Self::ServiceP50,
        Self::ServiceP99,
    ];

    const fn info(self) -> MetricInfo {
        const fn info(
            name: &'static str,
            title: &'static str,
            column: &'static str,
            worse: Worse,
            smallest_effect: f64,
        ) -> MetricInfo {
            MetricInfo {
                name,
                title,
                column,
                worse,
                smallest_effect,
            }
        }
        use Worse::{Less, More};
        match self {
            Self::TargetCpuPerAttempt => info(
                "target_cpu_per_attempt",
                "target CPU per request",
                "target CPU",
                More,
                0.02,
            ),
            Self::CpuPerAttempt => info(
                "cpu_per_attempt",
                "client CPU per request",
                "client CPU",
                More,
                0.02,
            ),
            Self::Throughput => info(
                "throughput",
                "good items per second",
                "throughput",
                Less,
                0.02,
            ),
            // A loss of 2 % is too much.
            Self::OkShare => info("ok_share", "share of ok items", "ok share", Less, 0.01),
            Self::ServiceP50 => info(
                "service_p50",
                "service time, median",
                "service p50",
                More,
                0.02,
            ),
            // It moves by several percent between equal rounds.
            Self::ServiceP99 => info(
                "service_p99",
                "service time, p99",
                "service p99",
                More,
                0.05,
            ),
        }
    }

    /// The name used in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    /// The name in a sentence.
    #[must_use]
    pub const fn title(self) -> &'static str {
        self.info().title
    }

    /// The name in a column of a table.
    #[must_use]
    pub const fn column(self) -> &'static str {
        self.info().column
    }

    /// Return the direction in which it gets worse.
    #[must_use]
    pub const fn worse(self) -> Worse {
        self.info().worse
    }

    /// The smallest loss that is called a regression, as a fraction of the base.
    #[must_use]
    pub const fn smallest_effect(self) -> f64 {
        self.info().smallest_effect
    }

    /// A value with its unit.
    #[must_use]
    pub fn in_unit(self, value: f64) -> String {
        match self {
            Self::Throughput => format!("{}/s", decimal(value)),
            Self::OkShare => format!("{:.2} %", value * 100.0),
            _ => micros(value),
        }
    }

    /// True for a percentile of the good responses, which has no reading where they are too few.
    #[must_use]
    pub const fn is_percentile(self) -> bool {
        matches!(self, Self::ServiceP50 | Self::ServiceP99)
    }

    /// Return the candidate's loss, on the scale of logarithms: `ln(candidate/base)` for a cost,
    /// and minus that for a yield. Positive is worse. The function is its own inverse.
    #[must_use]
    pub fn toward_worse(self, log_ratio: f64) -> f64 {
        match self.worse() {
            Worse::More => log_ratio,
            Worse::Less => -log_ratio,
        }
    }

    /// A loss of `fraction` of the base on the scale of [`Metric::toward_worse`]: `ln(1 + f)` for a
    /// cost, `-ln(1 - f)` for a yield, of which no more than everything can be lost.
    #[must_use]
    pub fn loss(self, fraction: f64) -> f64 {
        match self.worse() {
            Worse::More => fraction.ln_1p(),
            Worse::Less => -(-fraction).ln_1p(),
        }
    }

    /// The inverse of [`Metric::loss`]: which fraction of the base `worse` is.
    #[must_use]
    pub fn fraction(self, worse: f64) -> f64 {
        match self.worse() {
            Worse::More => worse.exp_m1(),
            Worse::Less => -(-worse).exp_m1(),
        }
    }
}

/// Reading of one metric in one round. The unit is the caller's, the same in both arms: only ratios
/// are looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// The round has none.
    #[default]
    Absent,
    /// Too coarse for a verdict: shown only.
    Informational(f64),
    /// A verdict may rest on it.
    Gating(f64),
}

impl Reading {
    /// A percentile with `beyond` samples beyond it: a verdict may rest on it from 100 on, and
    /// below 10 it is none.
    ///
    /// The relative standard error of the 99th percentile of an exponential tail is 2.2 % with 100
    /// samples beyond it and 7 % with 10.
    #[must_use]
    pub const fn percentile(value: f64, beyond: u64) -> Self {
        if beyond >= BEYOND_TO_GATE {
            Self::Gating(value)
        } else if beyond >= BEYOND_TO_SHOW {
            Self::Informational(value)
        } else {
            Self::Absent
        }
    }

    /// CPU time per attempt, of a round that `used` so much in all: a verdict may rest on it from
    /// 100 ms on.
    #[must_use]
    pub fn cpu(per_attempt: f64, used: Duration) -> Self {
        if used >= CPU_TO_GATE {
            Self::Gating(per_attempt)
        } else {
            Self::Informational(per_attempt)
        }
    }

    /// The number read.
    #[must_use]
    pub const fn value(self) -> Option<f64> {
        match self {
            Self::Absent => None,
            Self::Informational(value) | Self::Gating(value) => Some(value),
        }
    }
}

/// Readings of each metric in one round.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Readings {
    /// See [`Metric::TargetCpuPerAttempt`].
    pub target_cpu_per_attempt: Reading,
    /// See [`Metric::CpuPerAttempt`].
    pub cpu_per_attempt: Reading,
    /// See [`Metric::Throughput`].
    pub throughput: Reading,
    /// See [`Metric::OkShare`].
    pub ok_share: Reading,
    /// See [`Metric::ServiceP50`].
    pub service_p50: Reading,
    /// See [`Metric::ServiceP99`].
    pub service_p99: Reading,
}

impl Readings {
    /// The reading of `metric`.
    #[must_use]
    pub const fn of(&self, metric: Metric) -> Reading {
        match metric {
            Metric::TargetCpuPerAttempt => self.target_cpu_per_attempt,
            Metric::CpuPerAttempt => self.cpu_per_attempt,
            Metric::Throughput => self.throughput,
            Metric::OkShare => self.ok_share,
            Metric::ServiceP50 => self.service_p50,
            Metric::ServiceP99 => self.service_p99,
        }
    }
}

impl Readings {
    /// Read each metric of a run. Where the target's CPU is known, it decides in place of the
    /// client's; not that of the bundled target, which is there to measure clients.
    #[must_use]
    pub fn taken_from(report: &Report) -> Self {
        let client = report
            .shards
            .iter()
            .map(|shard| shard.usage.cpu_s())
            .sum::<Option<f64>>();
        let client = client.and_then(|cpu_s| Duration::try_from_secs_f64(cpu_s).ok());
        let attempts = report.totals.attempts;
        let of_client = client.and_then(|used| per_attempt(used, attempts));
        let is_bundled = report.plan.run.workload.contains_key(TARGET_PROCESSES);
        let target = report.target.as_ref().filter(|_| !is_bundled);
        let target = target.and_then(|target| {
            let used = Duration::try_from_secs_f64(target.cpu_us? / 1e6).ok()?;
            Some(Reading::cpu(target.cpu_us_per_attempt?, used))
        });
        let client = match (of_client, target) {
            (Some(Reading::Gating(us)), Some(_)) => Some(Reading::Informational(us)),
            (client, _) => client,
        };
        let service = report.latency(Series::ServiceOk);
        Self {
            target_cpu_per_attempt: target.unwrap_or_default(),
            cpu_per_attempt: client.unwrap_or_default(),
            // 0 when none was good, not absent: of two arms that answer nothing, a reading that is
            // missing in both would leave the verdict to their CPU.
            throughput: Reading::Gating(report.totals.ok_per_s),
            ok_share: ok_share(report),
            service_p50: percentile(service, "p50_us", |times| times.p50_us, 2),
            service_p99: percentile(service, "p99_us", |times| times.p99_us, 100),
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
fn percentile(
    times: Option<&Latency>,
    key: &str,
    value: fn(&Latency) -> Option<f64>,
    one_in: u64,
) -> Reading {
    let Some((times, us)) = times.and_then(|times| Some((times, value(times)?))) else {
        return Reading::Absent;
    };
    match Reading::percentile(us, times.count / one_in) {
        Reading::Gating(us) if times.is_at_least(key) => Reading::Informational(us),
        reading => reading,
    }
}

/// Factor by which a reading has to differ for a disturbance not to explain it: more than a change
/// of the CPU's speed, stolen time or a freeze in one of the rounds does.
pub(super) const BEYOND: f64 = 1.5;

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
        let [first, second] = runs.map(Readings::taken_from);
        if TYPICAL.into_iter().any(|metric| {
            let values = first.of(metric).value().zip(second.of(metric).value());
            values.is_some_and(|(one, other)| one.max(other) > one.min(other) * BEYOND)
        }) {
            Self::None
        } else {
            one.beside(other)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_a_fraction_of_the_base_whichever_way_is_worse() {
        for metric in Metric::ALL {
            let candidate: f64 = match metric.worse() {
                Worse::More => 1.05,
                Worse::Less => 0.95,
            };
            let worse = metric.toward_worse(candidate.ln());
            assert!(
                (worse - metric.loss(0.05)).abs() < 1e-12,
                "{metric:?}: {worse}"
            );
            assert!((metric.fraction(worse) - 0.05).abs() < 1e-12);
            assert!((metric.toward_worse(metric.toward_worse(0.3)) - 0.3).abs() < 1e-12);
        }
    }

    #[test]
    fn a_percentile_counts_for_as_much_as_lies_beyond_it() {
        for (beyond, expected) in [
            (0, Reading::Absent),
            (9, Reading::Absent),
            (10, Reading::Informational(7.0)),
            (99, Reading::Informational(7.0)),
            (100, Reading::Gating(7.0)),
        ] {
            assert_eq!(Reading::percentile(7.0, beyond), expected, "{beyond}");
        }
    }
}
