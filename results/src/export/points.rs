//! The figures of a run that are fit for a history of benchmarks, for the formats that keep one.
//!
//! Such a history compares each point with the one before. So a percentile that is only known to be
//! no less than its value is no point, nor is a count that is usually 0, since every change from 0
//! is infinite. A run that was stopped early, lost a part or was mostly refused has none at all:
//! what fails fast is not fast. One whose verdict is another than `valid` has its points, for a
//! history on a shared machine knows no others, and the verdict goes with them.

use super::{ExportError, Format};
use crate::run::gates::{Measured, Metric, Quantity, Stat, of_report};
use crate::run::report::{Latency, Report, Verdict};
use crawlmark_harness::stats::Series;

/// Direction in which a metric improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Better {
    /// More.
    Bigger,
    /// Less.
    Smaller,
}

/// A figure.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MetricPoint {
    /// Name, as in `service p99`.
    pub(super) name: String,
    /// Unit: `us` or `1/s`.
    pub(super) unit: &'static str,
    /// Finite and above 0.
    pub(super) value: f64,
    /// Direction in which the metric improves.
    pub(super) better: Better,
}

/// Reason why a run is no point of a history, as it follows "the run".
#[must_use]
pub fn unfit(report: &Report) -> Option<&'static str> {
    match report.validity.verdict {
        Verdict::NothingMeasured => Some("measured nothing"),
        Verdict::Incomplete => Some("is incomplete"),
        Verdict::TargetLimited => Some(
            "has too many requests that failed, were throttled, cut off at the end or never sent",
        ),
        _ => report.interrupted.then_some("was stopped early"),
    }
}

/// All of them, in the order in which they are shown.
pub(super) fn points(report: &Report, format: Format) -> Result<Vec<MetricPoint>, ExportError> {
    if let Some(why) = unfit(report) {
        return Err(ExportError::Partial(format, why));
    }
    let mut points = vec![
        rate("items", report.totals.items_per_s),
        rate("attempts", report.totals.attempts_per_s),
        time(
            "CPU per attempt",
            exactly(&of_report(Metric::Of(Quantity::CpuUsPerAttempt), report)),
        ),
    ];
    for (series, latency) in series(report) {
        let mean = exactly(&of_report(Metric::Time(series, Stat::Mean), report));
        points.push(time(&format!("{} mean", series.name()), mean));
        let known = percentiles(latency).filter(|(_, key, _)| !latency.is_at_least(key));
        points.extend(known.map(|(name, _, us)| time(&format!("{} {name}", series.name()), us)));
    }
    let points: Vec<MetricPoint> = points.into_iter().flatten().collect();
    if points.is_empty() {
        Err(ExportError::Nothing(format))
    } else {
        Ok(points)
    }
}

/// Percentiles that are no points, because they are only known to be no less than their value.
pub(super) fn left_out(report: &Report) -> Vec<String> {
    let mut bounds = Vec::new();
    for (series, latency) in series(report) {
        let known = percentiles(latency).filter(|(_, key, _)| latency.is_at_least(key));
        for (name, _, us) in known {
            bounds.extend(us.map(|us| format!("{} {name} is {us} µs or more", series.name())));
        }
    }
    bounds
}

/// Describe the run, for the text beside each point.
pub(super) fn about(report: &Report) -> String {
    let validity = &report.validity;
    let mut lines = vec![format!("validity: {}", validity.verdict.name())];
    lines.extend(report.reasons().iter().map(|reason| format!("- {reason}")));
    lines.push(format!(
        "run {}, plan {}",
        report.run_id, report.plan.config_hash
    ));
    let machine = &report.environment;
    let cpu = machine.cpu_model.as_deref().unwrap_or("an unknown CPU");
    let shared = if machine.colocated {
        ", shared with the target"
    } else {
        ""
    };
    lines.push(format!("{} cores of {cpu}{shared}", machine.cores));
    let left_out = left_out(report).into_iter();
    lines.extend(left_out.map(|what| format!("left out: {what}")));
    lines.join("\n")
}

/// The series that a history follows, the main one first.
fn series(report: &Report) -> impl Iterator<Item = (Series, &Latency)> {
    let wanted = [Series::ResponseOk, Series::ServiceOk].into_iter();
    wanted.filter_map(|series| Some((series, report.latency(series)?)))
}

fn percentiles(
    latency: &Latency,
) -> impl Iterator<Item = (&'static str, &'static str, Option<f64>)> {
    latency.figures().into_iter().take(4)
}

fn rate(what: &str, per_s: f64) -> Option<MetricPoint> {
    let name = format!("{what} per second");
    point(name, "1/s", Some(per_s), Better::Bigger)
}

fn time(what: &str, us: Option<f64>) -> Option<MetricPoint> {
    point(what.to_owned(), "us", us, Better::Smaller)
}

/// None of a figure that the next one may not be divided by.
fn point(
    name: String,
    unit: &'static str,
    value: Option<f64>,
    better: Better,
) -> Option<MetricPoint> {
    Some(MetricPoint {
        name,
        unit,
        value: value.filter(|value| value.is_finite() && *value > 0.0)?,
        better,
    })
}

fn exactly(measured: &Measured) -> Option<f64> {
    match measured {
        Measured::Exactly(value) => Some(*value),
        Measured::AtLeast(_) | Measured::Unknown(_) => None,
    }
}
