//! Metrics of a history of single runs: each result, the level between changes, and the changes.

use super::Plot;
use crate::show::chart::{Axis, Chart, Dash, Dot, Format, Mark, Panel, Range, Role, Shape};
use crate::studies::compare::{History, Metric, MetricHistory, history_headline, metric_words};

/// Part of the distance between the least and the greatest value that is free beyond both.
const AIR: f64 = 0.1;

/// Least distance that an axis shows, as a part of the greatest value: less would make noise look
/// like a change.
const LEAST_SPAN: f64 = 0.1;

/// The plot of a history; empty with too few results for a change.
#[must_use]
pub fn history(history: &History) -> Plot {
    let x = Range::Between(0.5, history.results.len() as f64 + 0.5);
    let metrics = history.metrics.iter().filter(|_| history.is_enough());
    let mut panels: Vec<Panel> = metrics.map(|found| panel(history, found, &x)).collect();
    if let Some(last) = panels.last_mut() {
        last.x = Axis::new("result, the oldest first", x, Format::Number);
    }
    Plot::of(&Chart {
        name: "history",
        title: "Metrics over time",
        caption: history_headline(history),
        panels,
    })
}

/// The field of a metric.
fn panel(history: &History, found: &MetricHistory, x: &Range) -> Panel {
    let metric = found.metric;
    let format = match metric {
        Metric::Throughput => Format::PerSecond,
        Metric::OkShare => Format::Percent,
        Metric::TargetCpuPerAttempt
        | Metric::CpuPerAttempt
        | Metric::ServiceP50
        | Metric::ServiceP99 => Format::Micros,
    };
    let values: Vec<(f64, f64)> = (1_u32..)
        .zip(&history.results)
        .filter_map(|(number, past)| Some((f64::from(number), past.readings.of(metric).value()?)))
        .collect();
    let dots = values
        .iter()
        .map(|at| Dot {
            at: *at,
            interval: None,
            hollow: false,
        })
        .collect();
    let ends: Vec<usize> = found
        .changes
        .iter()
        .map(|change| change.at)
        .chain([history.results.len()])
        .collect();
    let levels = found
        .changes
        .first()
        .map(|first| first.before)
        .into_iter()
        .chain(found.changes.iter().map(|change| change.after));
    let mut from = 0;
    let levels = levels.zip(ends).map(|(level, end)| {
        let line = vec![(from as f64 + 0.5, level), (end as f64 + 0.5, level)];
        from = end;
        Mark::new(
            Role::Reference,
            if end == history.results.len() {
                "median between changes"
            } else {
                ""
            },
            Shape::Line(line),
        )
    });
    let change = |at: usize| {
        Mark::new(Role::Failed, "", Shape::Upright(at as f64 + 0.5)).dashed(Dash::Short)
    };
    let changes = found.changes.iter().map(|found| change(found.at));
    let marks = changes
        .chain(levels)
        .chain([Mark::new(Role::Good, "a result", Shape::Dots(dots))]);
    let y = Axis::new(metric_words(metric), span(metric, &values), format);
    Panel {
        x: Axis::hidden(x.clone()),
        y,
        height: 110.0,
        marks: marks.collect(),
    }
}

/// Axis around all values. It does not begin at 0: a change by 2 % has to be seen.
fn span(metric: Metric, values: &[(f64, f64)]) -> Range {
    let ys = || values.iter().map(|(_, y)| *y);
    let (least, most) = (
        ys().fold(f64::INFINITY, f64::min),
        ys().fold(f64::NEG_INFINITY, f64::max),
    );
    let missing = (most * LEAST_SPAN - (most - least)).max(0.0) / 2.0 + (most - least) * AIR;
    let most = if metric == Metric::OkShare {
        (most + missing).min(1.0)
    } else {
        most + missing
    };
    if least <= most {
        Range::Between((least - missing).max(0.0), most)
    } else {
        Range::FromZero
    }
}
