//! A capacity: response times against the offered rate, with the limits, the probes that failed,
//! and where the search ended.

use super::search::RateState;
use super::{Capacity, ProbeReport, RateReport};
use crate::run::gates::Unit;
use crate::show::chart::{
    Axis, Dash, Dot, Format, Mark, Panel, Range, Role, Shape, least_and_most,
};

/// Percentile of each rate that has a line.
type RateLine = (Role, &'static str, fn(&RateReport) -> Option<f64>);

const LINES: [RateLine; 2] = [
    (Role::P50, "response, median", |rate| rate.response_p50_us),
    (Role::P99, "response, p99", |rate| rate.response_p99_us),
];

/// Share of the requests of each probe that has dots.
type ProbeShare = (Role, &'static str, fn(&ProbeReport) -> f64);

const SHARES: [ProbeShare; 2] = [
    (Role::Throttled, "throttled", |probe| probe.throttled_share),
    (Role::Failed, "failed", |probe| probe.error_share),
];

/// The panels of a capacity; none without a time.
pub(super) fn panels(capacity: &Capacity) -> Vec<Panel> {
    let times = times(capacity);
    if !times
        .iter()
        .any(|mark| matches!(mark.shape, Shape::Dots(_)))
    {
        return Vec::new();
    }
    let y = Axis::new("response time (log scale)", Range::Log, Format::Micros);
    let mut panels = vec![panel(capacity, y, 280.0, times)];
    let mut shares = Vec::new();
    for (role, legend, share) in SHARES {
        let probes = capacity.probes.iter();
        let dots = probes.map(|probe| Dot::at(probe.plan.rate_per_s, share(probe)));
        shares.push(Mark::new(role, legend, Shape::Dots(dots.collect())));
    }
    shares.retain(Mark::is_above_zero);
    if !shares.is_empty() {
        let label = "share of the requests of a probe";
        let y = Axis::new(label, Range::FromZero, Format::Percent);
        panels.push(panel(capacity, y, 110.0, shares));
    }
    Panel::below_each_other(panels)
}

/// A field over the rates.
fn panel(capacity: &Capacity, y: Axis, height: f64, marks: Vec<Mark>) -> Panel {
    let rates = capacity.rates.iter();
    let (least, most) = least_and_most(rates.map(|rate| rate.rate_per_s));
    let air = if least < most { 1.1 } else { 2.0 };
    Panel {
        x: Axis::new(
            "requests offered per second (log scale)",
            Range::LogBetween(least / air, most * air),
            Format::Number,
        ),
        y,
        height,
        marks,
    }
}

/// The band of the answer, the objectives, the lines of the percentiles, and the probes that failed.
fn times(capacity: &Capacity) -> Vec<Mark> {
    let mut marks = Vec::new();
    if let Some(pass) = capacity.capacity_per_s {
        let fail = capacity.fails_at_per_s.unwrap_or(f64::MAX);
        marks.push(Mark::new(
            Role::Highlight,
            "the capacity lies here",
            Shape::Band(pass, fail),
        ));
    }
    for objective in &capacity.question.objectives {
        if objective.metric.unit() == Unit::Us && objective.limit > 0.0 {
            let limit = Format::Micros.label(objective.limit);
            let (metric, op) = (objective.metric, objective.op.name());
            let legend = format!("objective: {metric} {op} {limit}");
            let across = Shape::Across(objective.limit);
            marks.push(Mark::new(Role::Reference, legend, across).dashed(Dash::Short));
        }
    }
    for (role, legend, of) in LINES {
        let mut points = Vec::new();
        for rate in &capacity.rates {
            let us = of(rate).filter(|_| rate.standing != RateState::Unknown);
            points.extend(us.map(|us| (rate.rate_per_s, us)));
        }
        let dots = points.iter().map(|(x, y)| Dot::at(*x, *y)).collect();
        marks.push(Mark::new(role, legend, Shape::Line(points)));
        marks.push(Mark::new(role, legend, Shape::Dots(dots)));
    }
    let mut failed = Vec::new();
    for probe in capacity.probes.iter().filter(|probe| probe.seen.fails()) {
        let us = probe.response_p99_us.or(probe.response_p50_us);
        failed.extend(us.map(|us| Dot::at(probe.plan.rate_per_s, us)));
    }
    marks.push(Mark::new(
        Role::Failed,
        "a probe that failed",
        Shape::Dots(failed),
    ));
    marks.retain(Mark::is_known);
    marks
}
