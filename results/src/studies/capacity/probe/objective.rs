//! Objectives of a search, measured from a probe: one of many, it may say more with less than a
//! single run may.

use serde::{Deserialize, Serialize};

use super::counts::{AttemptCounts, worse_share};
use crate::run::gates::{Condition, Measured, Metric, Quantity, Stat, Unit, of_report};
use crate::run::report::{Distribution, Latency, Report};
use crawlmark_harness::stats::{Percentile, rank};
use crawlmark_harness::units::{grouped, micros};

/// Requests that took longer than an objective on a percentile wants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Slow {
    /// The objective.
    pub objective: String,
    /// Requests that took longer, those that were cut off included.
    pub slow: u64,
    /// Requests that may take longer: a hundredth of all for a p99.
    pub allowed: f64,
}

/// Reason why an objective does not hold; none when it does.
pub(super) fn broken(objective: &Condition, report: &Report) -> Option<String> {
    let seen = measured(objective, report);
    match objective.judge(&seen) {
        Some(true) => None,
        // A percentile of few samples is judged by how many of them are too slow, not by its value.
        Some(false)
            if let Some(Slow { slow, .. }) =
                slow(objective, report).filter(|_| is_of_few(objective, report)) =>
        {
            let Metric::Time(series, Stat::Percentile(quantile)) = objective.metric else {
                return None;
            };
            let all = report
                .latency(series)
                .and_then(Latency::distribution)
                .map_or(0, |distribution| distribution.all());
            let may = all - rank(quantile.part(), all);
            let [slow, all, may] = [slow, all, may].map(grouped);
            Some(format!(
                "{slow} of {all} requests broke {objective}, and {may} may"
            ))
        }
        Some(false) => {
            let value = seen.value().map_or_else(String::new, |value| {
                value_in(objective.metric.unit(), value)
            });
            let at_least = if seen.is_at_least() { "at least " } else { "" };
            Some(format!(
                "{} {at_least}{value}, but the objective is {objective}",
                objective.metric
            ))
        }
        None => Some(match seen {
            Measured::Unknown(why) => format!("{}: {why}", objective.metric),
            _ => format!("{}: too many requests did not finish", objective.metric),
        }),
    }
}

/// A value with its unit.
fn value_in(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Us => micros(value),
        Unit::PerS => format!("{value:.0}/s"),
        Unit::Share => format!("{:.2} %", value * 100.0),
        Unit::Count => format!("{value:.0}"),
        Unit::Flag => (value > 0.0).to_string(),
    }
}

/// Measure an objective's metric from a probe. A probe is one of many, so it may say more with less
/// than a single run may: a percentile with ten samples beyond it, and with fewer than those by the
/// samples that are on the wrong side.
pub(super) fn measured(objective: &Condition, report: &Report) -> Measured {
    match objective.metric {
        Metric::Of(Quantity::ThrottledRate) => worse_share(report, AttemptCounts::throttled),
        Metric::Of(Quantity::ErrorRate) => worse_share(report, AttemptCounts::errors),
        Metric::Time(series, Stat::Percentile(quantile)) => {
            match of_report(objective.metric, report) {
                Measured::Unknown(why) => {
                    let few = report
                        .latency(series)
                        .and_then(|latency| of_few(latency, quantile.part(), objective.limit));
                    few.unwrap_or(Measured::Unknown(why))
                }
                known => known,
            }
        }
        metric => of_report(metric, report),
    }
}

/// True if an objective is on a percentile beyond which lie fewer than ten samples.
fn is_of_few(objective: &Condition, report: &Report) -> bool {
    let Metric::Time(series, Stat::Percentile(quantile)) = objective.metric else {
        return false;
    };
    let distribution = report.latency(series).and_then(Latency::distribution);
    distribution.is_some_and(|all| all.percentile(quantile.part()) == Percentile::TooFew)
}

/// A percentile of few samples: its value where ten lie beyond it, else the limit when no more lie
/// above that than may, and the greatest of all otherwise.
fn of_few(latency: &Latency, q: f64, limit_us: f64) -> Option<Measured> {
    let distribution = latency.distribution()?;
    match distribution.percentile(q) {
        Percentile::Exact(ns) => return Some(Measured::Exactly(ns as f64 / 1e3)),
        Percentile::AtLeast(ns) => return Some(Measured::AtLeast(ns as f64 / 1e3)),
        Percentile::TooFew if distribution.all() == 0 => return None,
        Percentile::TooFew => {}
    }
    let beyond = beyond(&distribution, limit_us);
    let may = distribution.all() - rank(q, distribution.all());
    // Just below the limit, so that `<` holds.
    let value = if beyond <= may {
        limit_us * (1.0 - 1e-9)
    } else {
        latency.max_us?.max(limit_us * (1.0 + 1e-9))
    };
    Some(Measured::Exactly(value))
}

/// Requests that took longer than an objective on a percentile wants; none of other objectives.
pub(super) fn slow(objective: &Condition, report: &Report) -> Option<Slow> {
    let Metric::Time(series, Stat::Percentile(quantile)) = objective.metric else {
        return None;
    };
    let distribution = report.latency(series)?.distribution()?;
    let allowed = distribution.all() as f64 * (1.0 - quantile.part());
    Some(Slow {
        objective: objective.to_string(),
        slow: beyond(&distribution, objective.limit),
        allowed,
    })
}

/// Values of a distribution that are no less than a limit, those cut off included.
fn beyond(distribution: &Distribution<'_>, limit_us: f64) -> u64 {
    let cells = distribution.histogram().iter_recorded();
    let below = cells.filter(|cell| (cell.value_iterated_to() as f64 / 1e3) < limit_us);
    distribution
        .all()
        .saturating_sub(below.map(|cell| cell.count_at_value()).sum())
}
