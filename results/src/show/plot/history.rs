//! Metrics of a history of single runs: each result, the level between changes, and the changes.

use super::Plot;
use crate::show::chart::{Axis, Chart, Dash, Dot, Format, Mark, Panel, Range, Role, Shape};
use crate::studies::StudyResult as _;
use crate::studies::compare::{History, Metric, MetricHistory};

/// Part of the distance between the least and the greatest value that is free beyond both.
const AIR: f64 = 0.1;

/// Least distance that an axis shows, as a part of the greatest value: less would make noise look
/// like a change.
const LEAST_SPAN: f64 = 0.1;

/// The plot of a history; empty with too few results for a change.
#[must_use]
pub fn history(history: &History) -> Plot {
    let metrics = history.metrics.iter().filter(|_| history.is_enough());
    let panels = metrics.map(|found| panel(history, found)).collect();
    Plot::of(&Chart {
        name: "history",
        title: "Metrics over time",
        caption: history.headline(),
        panels: Panel::below_each_other(panels),
    })
}

/// The field of a metric.
fn panel(history: &History, found: &MetricHistory) -> Panel {
    let metric = found.metric;
    let count = history.results.len();
    let mut dots = Vec::new();
    for (number, past) in (1_u32..).zip(&history.results) {
        let value = past.readings.of(metric).value();
        dots.extend(value.map(|value| Dot::at(f64::from(number), value)));
    }
    let y = Axis::new(metric.title(), span(metric, &dots), format(metric));
    let mut marks = Vec::new();
    for (n, change) in found.changes.iter().enumerate() {
        let at = change.at as f64 + 0.5;
        let end = found.changes.get(n + 1).map_or(count, |next| next.at) as f64 + 0.5;
        if n == 0 {
            marks.push(level([0.5, at], change.before));
        }
        marks.push(level([at, end], change.after));
        marks.push(Mark::new(Role::Failed, "change", Shape::Upright(at)).dashed(Dash::Short));
    }
    marks.push(Mark::new(Role::Good, "a result", Shape::Dots(dots)));
    Panel {
        x: Axis::new(
            "result, the oldest first",
            Range::Between(0.5, count as f64 + 0.5),
            Format::Number,
        ),
        y,
        height: 110.0,
        marks,
    }
}

fn level(ends: [f64; 2], value: f64) -> Mark {
    let line = ends.map(|x| (x, value)).to_vec();
    Mark::new(Role::Reference, "median between changes", Shape::Line(line))
}

const fn format(metric: Metric) -> Format {
    match metric {
        Metric::Throughput => Format::Number,
        Metric::OkShare => Format::Percent,
        Metric::TargetCpuPerAttempt
        | Metric::CpuPerAttempt
        | Metric::ServiceP50
        | Metric::ServiceP99 => Format::Micros,
    }
}

/// Axis around all values. It does not begin at 0: a change by 2 % has to be seen.
fn span(metric: Metric, dots: &[Dot]) -> Range {
    let ys = || dots.iter().map(|dot| dot.at.1);
    let least = ys().fold(f64::INFINITY, f64::min);
    let most = ys().fold(f64::NEG_INFINITY, f64::max);
    let missing = (most * LEAST_SPAN - (most - least)).max(0.0) / 2.0 + (most - least) * AIR;
    let bound = match metric {
        Metric::OkShare => 1.0,
        _ => f64::INFINITY,
    };
    if least <= most {
        Range::Between((least - missing).max(0.0), (most + missing).min(bound))
    } else {
        Range::FromZero
    }
}
