//! Several runs laid over each other, one line per run, each told apart by its colour and by its
//! dash.
//!
//! Called by the `report` command. Like is drawn beside like: times are response times when every
//! run has them, and otherwise the service times that all of them have.

use super::Plot;
use super::seconds::{Gather, Seconds, TimeAxis};
use super::spectrum::{self, Curve};
use crate::run::report::{IntervalRow, Report};
use crate::show::chart::{Axis, Chart, Format, Mark, Panel, Range, Role, Shape, palette};
use crawlmark_harness::stats::Series;

/// The most runs whose lines can be told apart.
pub const MOST_RUNS: usize = palette::MOST_RUNS;

/// A run among others.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// Unique label of the run.
    pub label: &'a str,
    /// Report of the run.
    pub report: &'a Report,
}

/// A field: its unit, how the seconds of a step are gathered, and the value of each, by response
/// times and by service times.
type Field = (&'static str, Gather, [fn(&IntervalRow) -> Option<f64>; 2]);

const FIELDS: [Field; 4] = [
    ("requests per second", Gather::Rate, [attempts, attempts]),
    (
        "p50 (log scale)",
        Gather::Most,
        [|row| row.response_p50_us, |row| row.p50_us],
    ),
    (
        "p90 (log scale)",
        Gather::Most,
        [|row| row.response_p90_us, |row| row.p90_us],
    ),
    (
        "p99 (log scale)",
        Gather::Most,
        [|row| row.response_p99_us, |row| row.p99_us],
    ),
];

#[expect(clippy::unnecessary_wraps, reason = "a value of the table")]
fn attempts(row: &IntervalRow) -> Option<f64> {
    Some(row.attempts as f64)
}

/// The series of good responses by which all of these runs can be compared.
#[must_use]
pub fn common_series(runs: &[Run<'_>]) -> Series {
    if runs.iter().all(|run| run.report.schedule.is_some()) {
        Series::ResponseOk
    } else {
        Series::ServiceOk
    }
}

/// Every plot of these runs, of [`MOST_RUNS`] at most: those beyond are left out.
#[must_use]
pub fn all(runs: &[Run<'_>]) -> Vec<Plot> {
    let runs = &runs[..runs.len().min(MOST_RUNS)];
    let series = common_series(runs);
    let caption = format!("times: {} time", series.name());
    let mut curves = Vec::new();
    for (n, run) in runs.iter().enumerate() {
        let latency = run.report.latency(series);
        curves.extend(latency.and_then(|it| Curve::of(it, Role::Run(n), run.label)));
    }
    let charts = [
        over_time(runs, series, caption.clone()),
        spectrum::of_curves(caption, curves),
    ];
    charts.iter().flatten().map(Plot::of).collect()
}

/// None when no run has a second.
fn over_time(runs: &[Run<'_>], series: Series, caption: String) -> Option<Chart> {
    let axis = TimeAxis::of(runs.iter().map(|run| run.report));
    let mut panels = Vec::new();
    for (unit, gather, values) in FIELDS {
        let value = values[usize::from(series == Series::ServiceOk)];
        let (range, format) = match gather {
            Gather::Rate => (Range::FromZero, Format::Number),
            _ => (Range::Log, Format::Micros),
        };
        let (mut marks, mut width_s) = (Vec::new(), None);
        for (n, run) in runs.iter().enumerate() {
            let seconds = Seconds::of(run.report, axis);
            width_s = seconds.step_s();
            let steps = Shape::Steps(seconds.steps(gather, value));
            marks.push(Mark::new(Role::Run(n), run.label, steps));
        }
        marks.retain(Mark::is_above_zero);
        if !marks.is_empty() {
            panels.push(Panel {
                x: axis.axis(width_s),
                y: Axis::new(unit, range, format),
                height: 140.0,
                marks,
            });
        }
    }
    (!panels.is_empty()).then(|| Chart {
        name: "over-time",
        title: "Over time",
        caption,
        panels: Panel::below_each_other(panels),
    })
}
