//! A metric of a comparison, as data: its unit, the direction in which it gets worse, the smallest
//! loss that counts; and what a round read of it.
//!
//! Crawls have those of [`super::runs`], commands those of [`super::commands`].

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::show::text::{bytes_f64, decimal, micros};

/// Samples that must lie beyond a percentile of a round before a verdict may rest on it.
const BEYOND_TO_GATE: u64 = 100;

/// Samples that must lie beyond a percentile before it is shown at all.
const BEYOND_TO_SHOW: u64 = 10;

/// What is compared. No more than five of them decide, and four where nothing fails, because each
/// more costs all of them power: the error that a comparison may make is shared by the metrics that
/// may decide.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Name in reports: `throughput`.
    #[serde(rename = "metric")]
    pub name: Cow<'static, str>,
    /// Name in a sentence.
    pub title: Cow<'static, str>,
    /// Name in a column of a table.
    pub column: Cow<'static, str>,
    /// Unit of its readings: [`MICROSECONDS`], [`BYTES`], [`PER_SECOND`], [`SHARE`], or what a user
    /// calls it.
    pub unit: Cow<'static, str>,
    /// Direction in which it gets worse.
    pub worse: Worse,
    /// The smallest loss that is called a regression, as a fraction of the base.
    pub smallest_effect: f64,
    /// A loss that is surely below this fraction of the base passes. It is below the loss that is
    /// promised to be found: a bound as great as that would let 2.5 % of such losses pass at each
    /// look.
    pub passes_below: f64,
    /// What its reading is of the values of a round.
    pub statistic: Statistic,
}

/// Unit of times.
pub const MICROSECONDS: &str = "us";
/// Unit of memory.
pub const BYTES: &str = "bytes";
/// Unit of rates.
pub const PER_SECOND: &str = "1/s";
/// Unit of a part of a whole, in `0..=1`.
pub const SHARE: &str = "share";

/// Direction in which a metric gets worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Worse {
    /// A cost: the candidate is worse when it reads more.
    More,
    /// A yield: the candidate is worse when it reads less.
    Less,
}

/// What a reading is of the values of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Statistic {
    /// A sum, mean, rate or share of all.
    Mean,
    /// The median, which a round of few values does not have.
    Median,
    /// A percentile of the tail: a single freeze makes it as large as itself.
    Tail,
}

impl Metric {
    /// A metric of a crawl, whose reading is of all values: a loss of 2 % counts, and one below 4 %
    /// passes.
    pub const fn new(
        name: &'static str,
        [title, column]: [&'static str; 2],
        unit: &'static str,
        worse: Worse,
    ) -> Self {
        Self {
            name: Cow::Borrowed(name),
            title: Cow::Borrowed(title),
            column: Cow::Borrowed(column),
            unit: Cow::Borrowed(unit),
            worse,
            smallest_effect: 0.02,
            passes_below: 0.04,
            statistic: Statistic::Mean,
        }
    }

    /// A number that a command prints, which has one name everywhere.
    pub fn named(name: &str, unit: &str, worse: Worse) -> Self {
        let name = Cow::<str>::Owned(name.to_owned());
        Self {
            name: name.clone(),
            title: name.clone(),
            column: name,
            unit: unit.to_owned().into(),
            ..Self::of_command("", "", "", worse)
        }
    }

    /// A metric of a command, which varies less than one of a crawl: a loss of 1 % counts, the noise
    /// threshold of criterion, and one below 2.5 % passes, so that one of 3 % is found.
    pub fn of_command(
        name: &'static str,
        title: &'static str,
        unit: &'static str,
        worse: Worse,
    ) -> Self {
        Self {
            smallest_effect: 0.01,
            passes_below: 0.025,
            ..Self::new(name, [title, title], unit, worse)
        }
    }

    /// A value with its unit.
    pub fn in_unit(&self, value: f64) -> String {
        match &*self.unit {
            MICROSECONDS => micros(value),
            PER_SECOND => format!("{}/s", decimal(value)),
            SHARE => format!("{:.2} %", value * 100.0),
            BYTES => bytes_f64(value),
            unit => format!("{} {unit}", decimal(value)).trim_end().to_owned(),
        }
    }

    /// Return the candidate's loss, on the scale of logarithms: `ln(candidate/base)` for a cost,
    /// and minus that for a yield. Positive is worse. The function is its own inverse.
    pub fn toward_worse(&self, log_ratio: f64) -> f64 {
        match self.worse {
            Worse::More => log_ratio,
            Worse::Less => -log_ratio,
        }
    }

    /// A loss of `fraction` of the base on the scale of [`Metric::toward_worse`]: `ln(1 + f)` for a
    /// cost, `-ln(1 - f)` for a yield, of which no more than everything can be lost.
    pub fn loss(&self, fraction: f64) -> f64 {
        match self.worse {
            Worse::More => fraction.ln_1p(),
            Worse::Less => -(-fraction).ln_1p(),
        }
    }

    /// The inverse of [`Metric::loss`]: which fraction of the base `worse` is.
    pub fn fraction(&self, worse: f64) -> f64 {
        match self.worse {
            Worse::More => worse.exp_m1(),
            Worse::Less => -(-worse).exp_m1(),
        }
    }
}

/// Reading of one metric in one round. The unit is the metric's, the same in both arms: only ratios
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
    pub const fn percentile(value: f64, beyond: u64) -> Self {
        if beyond >= BEYOND_TO_GATE {
            Self::Gating(value)
        } else if beyond >= BEYOND_TO_SHOW {
            Self::Informational(value)
        } else {
            Self::Absent
        }
    }

    /// A value on which a verdict may rest if it `decides`.
    pub const fn deciding(value: f64, decides: bool) -> Self {
        if decides {
            Self::Gating(value)
        } else {
            Self::Informational(value)
        }
    }

    /// The number read.
    pub const fn value(self) -> Option<f64> {
        match self {
            Self::Absent => None,
            Self::Informational(value) | Self::Gating(value) => Some(value),
        }
    }
}

/// Readings of one round by the names of their metrics. A metric that is not there was not read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Readings(BTreeMap<Cow<'static, str>, Reading>);

impl Readings {
    /// The reading of the metric with this name.
    pub fn of(&self, metric: &str) -> Reading {
        self.0.get(metric).copied().unwrap_or_default()
    }

    /// Set the reading of a metric.
    pub fn set(&mut self, metric: impl Into<Cow<'static, str>>, reading: Reading) {
        if reading == Reading::Absent {
            self.0.remove(&metric.into());
        } else {
            self.0.insert(metric.into(), reading);
        }
    }
}

impl<N: Into<Cow<'static, str>>> FromIterator<(N, Reading)> for Readings {
    fn from_iter<I: IntoIterator<Item = (N, Reading)>>(readings: I) -> Self {
        let mut all = Self::default();
        for (metric, reading) in readings {
            all.set(metric, reading);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_a_fraction_of_the_base_whichever_way_is_worse() {
        for (worse, candidate) in [(Worse::More, 1.05_f64), (Worse::Less, 0.95)] {
            let metric = Metric::new("m", ["m", "m"], SHARE, worse);
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
