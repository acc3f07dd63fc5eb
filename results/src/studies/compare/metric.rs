//! Metrics of a comparison: the direction in which each gets worse, the smallest loss that counts,
//! and a reading of one.

use std::time::Duration;

use serde::{Deserialize, Serialize};

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

    /// The name used in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TargetCpuPerAttempt => "target_cpu_per_attempt",
            Self::CpuPerAttempt => "cpu_per_attempt",
            Self::Throughput => "throughput",
            Self::OkShare => "ok_share",
            Self::ServiceP50 => "service_p50",
            Self::ServiceP99 => "service_p99",
        }
    }

    /// True for a percentile of the good responses, which has no reading where they are too few.
    #[must_use]
    pub const fn is_percentile(self) -> bool {
        matches!(self, Self::ServiceP50 | Self::ServiceP99)
    }

    /// Return the direction in which it gets worse.
    #[must_use]
    pub const fn worse(self) -> Worse {
        match self {
            Self::TargetCpuPerAttempt
            | Self::CpuPerAttempt
            | Self::ServiceP50
            | Self::ServiceP99 => Worse::More,
            Self::Throughput | Self::OkShare => Worse::Less,
        }
    }

    /// The smallest loss that is called a regression, as a fraction of the base: 0.02; 0.01 for the
    /// part that is ok, where a loss of 0.02 is too much; and 0.05 for the 99th percentile, which
    /// moves by several percent between equal rounds.
    #[must_use]
    pub const fn smallest_effect(self) -> f64 {
        match self {
            Self::TargetCpuPerAttempt
            | Self::CpuPerAttempt
            | Self::Throughput
            | Self::ServiceP50 => 0.02,
            Self::OkShare => 0.01,
            Self::ServiceP99 => 0.05,
        }
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
