//! A capacity: response times against the offered rate, with the limits, the probes that failed,
//! and where the search ended.

use super::Plot;
use crate::run::gates::{Condition, Unit};
use crate::show::chart::{Axis, Chart, Dash, Dot, Format, Mark, Panel, Range, Role, Shape};
use crate::studies::capacity::capacity_headline;
use crate::studies::capacity::search::RateState;
use crate::studies::capacity::{Capacity, CurvePoint, ProbeFailure, ProbeReport, RateReport};

/// The plot of a capacity.
#[must_use]
pub fn capacity(capacity: &Capacity) -> Plot {
    let line = |points: &[CurvePoint]| {
        Shape::Line(
            points
                .iter()
                .map(|point| (point.rate_per_s, point.us))
                .collect(),
        )
    };
    let dots = |points: &[CurvePoint], hollow| {
        let dot = |point: &CurvePoint| Dot {
            at: (point.rate_per_s, point.us),
            interval: None,
            hollow,
        };
        Shape::Dots(points.iter().map(dot).collect())
    };
    let rates = || capacity.rates.iter().map(|rate| rate.rate_per_s);
    let (least, most) = (
        rates().fold(f64::INFINITY, f64::min),
        rates().fold(0.0, f64::max),
    );
    let band = capacity
        .capacity_per_s
        .map(|pass| (pass, capacity.fails_at_per_s.unwrap_or(most * 1.1)));
    let band = band.map(|(low, high)| {
        Mark::new(
            Role::Highlight,
            "the capacity lies here",
            Shape::Band(low, high),
        )
    });
    let limits = limits(capacity);
    let limit = |(us, words): &(f64, String)| {
        Mark::new(Role::Reference, words.clone(), Shape::Across(*us)).dashed(Dash::Short)
    };
    let medians = points(&capacity.rates, |rate| rate.response_p50_us);
    let tails = points(&capacity.rates, |rate| rate.response_p99_us);
    let lines = [
        (Role::P50, "response, median", &medians),
        (Role::P99, "response, p99", &tails),
    ];
    // A single rate has no line.
    let lines = lines.into_iter().flat_map(|(role, legend, points)| {
        let dots = Mark::new(
            role,
            if points.len() > 1 { "" } else { legend },
            dots(points, false),
        );
        [Mark::new(role, legend, line(points)), dots]
            .into_iter()
            .filter(|mark| points.len() > 1 || matches!(mark.shape, Shape::Dots(_)))
    });
    let failed = failed(capacity);
    let mut causes: Vec<ProbeFailure> = failed.iter().map(|(cause, _)| *cause).collect();
    causes.sort_unstable();
    causes.dedup();
    let failed = causes.into_iter().map(|cause| {
        let of_cause: Vec<CurvePoint> = failed
            .iter()
            .filter(|(by, _)| *by == cause)
            .map(|(_, point)| *point)
            .collect();
        Mark::new(role(cause), cause.label(), dots(&of_cause, false))
    });
    let knee = capacity
        .knee
        .map(|knee| Mark::new(Role::P99, "the knee", dots(&[knee], true)));
    let marks = band
        .into_iter()
        .chain(limits.iter().map(limit))
        .chain(lines)
        .chain(failed)
        .chain(knee);
    let marks: Vec<Mark> = marks
        .filter(|mark| matches!(mark.shape, Shape::Band(..)) || mark.is_known())
        .collect();
    let has_times = marks
        .iter()
        .any(|mark| matches!(mark.shape, Shape::Dots(_)));
    let panel = Panel {
        x: Axis::new(
            "requests offered per second (log scale)",
            Range::Log,
            Format::Number,
        ),
        y: Axis::new("response time (log scale)", Range::Log, Format::Micros),
        height: 280.0,
        marks,
    };
    let range = if least < most {
        (least / 1.1, most * 1.1)
    } else {
        (least / 2.0, least * 2.0)
    };
    let panel = Panel {
        x: Axis {
            range: Range::LogBetween(range.0, range.1),
            ..panel.x
        },
        ..panel
    };
    let panels = match refusals(capacity) {
        _ if !has_times => Vec::new(),
        None => vec![panel],
        Some(below) => vec![
            Panel {
                x: Axis::hidden(panel.x.range.clone()),
                ..panel
            },
            Panel {
                x: panel.x,
                ..below
            },
        ],
    };
    Plot::of(&Chart {
        name: "capacity",
        title: "Latency against rate",
        caption: capacity_headline(capacity),
        panels,
    })
}

/// Shares of the requests of each probe that were throttled and that failed; none if there were no
/// such requests.
fn refusals(capacity: &Capacity) -> Option<Panel> {
    let dots = |role, legend, share: fn(&ProbeReport) -> f64| {
        let dot = |probe: &ProbeReport| Dot {
            at: (probe.rate_per_s, share(probe)),
            interval: None,
            hollow: false,
        };
        Mark::new(
            role,
            legend,
            Shape::Dots(capacity.probes.iter().map(dot).collect()),
        )
    };
    let marks = [
        dots(Role::Throttled, "throttled", |probe| probe.throttled_share),
        dots(Role::Failed, "failed", |probe| probe.error_share),
    ];
    let is_seen = |mark: &Mark| matches!(&mark.shape, Shape::Dots(dots) if dots.iter().any(|dot| dot.at.1 > 0.0));
    let marks: Vec<Mark> = marks.into_iter().filter(is_seen).collect();
    let y = Axis::new(
        "share of the requests of a probe",
        Range::FromZero,
        Format::Percent,
    );
    (!marks.is_empty()).then(|| Panel {
        x: Axis::hidden(Range::Log),
        y,
        height: 110.0,
        marks,
    })
}

/// Return the points of the rates at which the probes read a time.
fn points(rates: &[RateReport], read: impl Fn(&RateReport) -> Option<f64>) -> Vec<CurvePoint> {
    let known = rates
        .iter()
        .filter(|rate| rate.standing != RateState::Unknown);
    let point = |rate: &RateReport| {
        Some(CurvePoint {
            rate_per_s: rate.rate_per_s,
            us: read(rate)?,
        })
    };
    known
        .filter_map(point)
        .filter(|point| point.us > 0.0)
        .collect()
}

/// Colour of probes that failed.
const fn role(cause: ProbeFailure) -> Role {
    match cause {
        ProbeFailure::Throttled => Role::Throttled,
        ProbeFailure::Errors => Role::Failed,
        ProbeFailure::Latency => Role::Max,
        ProbeFailure::Connections => Role::Connections,
        ProbeFailure::Other => Role::CutOff,
    }
}

/// The times among the objectives that bound from above, us, with their words: `p99 <= 50 ms`.
fn limits(capacity: &Capacity) -> Vec<(f64, String)> {
    let parsed = capacity
        .question
        .objectives
        .iter()
        .filter_map(|text| text.parse::<Condition>().ok());
    let words = |objective: &Condition| {
        let metric = objective.metric.to_string();
        let metric = metric.strip_prefix("response_").unwrap_or(&metric);
        format!(
            "objective: {metric} {} {}",
            objective.op.name(),
            Format::Micros.label(objective.limit)
        )
    };
    let mut limits: Vec<(f64, String)> = parsed
        .filter(|objective| objective.metric.unit() == Unit::Us && objective.limit > 0.0)
        .map(|objective| (objective.limit, words(&objective)))
        .collect();
    limits.sort_by(|a, b| a.0.total_cmp(&b.0));
    limits.dedup();
    limits
}

/// Probes that failed, each with its cause, at what its 99th percentile was, or the median where it
/// has none.
fn failed(capacity: &Capacity) -> Vec<(ProbeFailure, CurvePoint)> {
    let objectives: Vec<Condition> = capacity
        .question
        .objectives
        .iter()
        .filter_map(|objective| objective.parse().ok())
        .collect();
    let failed = capacity
        .probes
        .iter()
        .filter_map(|probe| Some((ProbeFailure::of(probe, &objectives)?, probe)));
    let point = |us: Option<f64>, rate_per_s| {
        us.filter(|us| *us > 0.0)
            .map(|us| CurvePoint { rate_per_s, us })
    };
    failed
        .filter_map(|(cause, probe)| {
            Some((
                cause,
                point(
                    probe.response_p99_us.or(probe.response_p50_us),
                    probe.rate_per_s,
                )?,
            ))
        })
        .collect()
}
