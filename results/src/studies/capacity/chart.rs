//! Response times over the rates, both by factors, and below them the shares that were refused or
//! failed. The capacity is one line; where objectives fail, the ground is tinted.

use super::{Capacity, ProbeReport, RateReport, RateState, of_rates};
use crate::run::gates::Unit;
use crate::show::chart::{
    Axis, Dash, Dot, Face, Format, Mark, Note, Panel, Range, Role, Shape, least_and_most,
};
use crate::show::text::decimal;
use crawlmark_harness::units::rounded_percent;

/// Heights of the panels, CSS pixels.
const TIMES: f64 = 198.0;
const BARS: f64 = 64.0;

/// Share from which on a bar has its number.
const LABELLED: f64 = 0.1;

/// Percentile of each rate that has a line.
type RateLine = (Role, &'static str, fn(&RateReport) -> Option<f64>);

const LINES: [RateLine; 2] = [
    (Role::P50, "p50", |rate| rate.response_p50_us),
    (Role::P99, "p99", |rate| rate.response_p99_us),
];

/// Share of the requests of each probe that has bars.
type ProbeShare = (Role, &'static str, fn(&ProbeReport) -> f64);

const SHARES: [ProbeShare; 2] = [
    (Role::Throttled, "throttled", |probe| probe.throttled_share),
    (Role::Failed, "failed", |probe| probe.error_share),
];

/// The panels of a capacity; none without a time.
pub(super) fn panels(capacity: &Capacity) -> Vec<Panel> {
    let lines = lines(capacity);
    if lines.is_empty() {
        return Vec::new();
    }
    let mut marks = answer(capacity);
    marks.extend(objectives(capacity));
    marks.extend(lines);
    marks.extend(probes(capacity));
    marks.extend(capacity.capacity_per_s.map(|per_s| {
        let text = format!("{}/s", decimal(per_s));
        let note = Note::new(text, (per_s, f64::INFINITY), [-6.0, 4.0]);
        Mark::notes(vec![note.of(Role::Reference, Face::Strong)])
    }));
    let y = Axis::new("", Range::Log, Format::Micros);
    let mut panels = vec![panel(capacity, y, TIMES, marks)];
    for (role, name, share) in SHARES {
        let (bars, notes) = shares(capacity, share);
        let bars = Mark::new(role, "", Shape::Columns(bars));
        if bars.is_above_zero() {
            let y = Axis::new(name, Range::FromZero, Format::Percent);
            let mut marks = answer(capacity);
            marks.extend([bars, Mark::notes(notes)]);
            panels.push(panel(capacity, y, BARS, marks));
        }
    }
    Panel::below_each_other(panels)
}

/// A field over the rates.
fn panel(capacity: &Capacity, y: Axis, height: f64, marks: Vec<Mark>) -> Panel {
    let rates = capacity.rates.iter();
    let (least, most) = least_and_most(rates.map(|rate| rate.rate_per_s));
    Panel {
        x: Axis::new("offered/s", Range::LogAround(least, most), Format::Number),
        y,
        height,
        marks,
        cells: Vec::new(),
    }
}

/// The ground on which objectives fail, and the line of the capacity.
fn answer(capacity: &Capacity) -> Vec<Mark> {
    let fails = capacity.fails_at_per_s.map(|fail| {
        let band = Shape::Band(fail, f64::INFINITY);
        Mark::new(Role::Highlight, "fails", band)
    });
    let capacity = capacity.capacity_per_s.map(|per_s| {
        let line = Mark::new(Role::Reference, "", Shape::Upright(per_s));
        line.dashed(Dash::Solid)
    });
    fails.into_iter().chain(capacity).collect()
}

fn objectives(capacity: &Capacity) -> Vec<Mark> {
    let mut marks = Vec::new();
    for objective in &capacity.question.objectives {
        if objective.metric.unit() == Unit::Us && objective.limit > 0.0 {
            let limit = Format::Micros.label(objective.limit);
            let name = format!(
                "objective: {} {} {limit}",
                objective.metric,
                objective.op.name()
            );
            let across = Mark::new(Role::Failed, name, Shape::Across(objective.limit));
            marks.push(across.dashed(Dash::Dashed));
        }
    }
    marks
}

/// The percentiles of the rates of which something is known.
fn lines(capacity: &Capacity) -> Vec<Mark> {
    let mut marks = Vec::new();
    for (role, name, of) in LINES {
        let mut points = Vec::new();
        for rate in &capacity.rates {
            let us = of(rate).filter(|_| rate.state != RateState::Unknown);
            points.extend(us.map(|us| (rate.rate_per_s, us)));
        }
        if !points.is_empty() {
            marks.push(Mark::new(role, name, Shape::Line(points)).wide(2.25));
        }
    }
    marks
}

/// Each probe by its 99th percentile, or else its median: a dot if it passed, a cross if it failed.
fn probes(capacity: &Capacity) -> [Mark; 2] {
    let (mut passed, mut failed) = (Vec::new(), Vec::new());
    for probe in of_rates(&capacity.probes).filter(|probe| probe.seen.speaks()) {
        let is_failed = probe.seen.fails();
        let median = probe.response_p50_us.filter(|_| is_failed);
        let us = probe.response_p99_us.or(median);
        let dots = if is_failed { &mut failed } else { &mut passed };
        dots.extend(us.map(|us| Dot::at(probe.plan.rate_per_s, us)));
    }
    [
        Mark::new(Role::P99, "", Shape::Dots(passed)),
        Mark::new(Role::Failed, "", Shape::Crosses(failed)).wide(2.0),
    ]
}

/// The greatest share of the probes of each rate, and its number where it is much.
fn shares(capacity: &Capacity, share: fn(&ProbeReport) -> f64) -> (Vec<Dot>, Vec<Note>) {
    let (mut bars, mut notes) = (Vec::new(), Vec::new());
    for rate in &capacity.rates {
        let probes = of_rates(&capacity.probes);
        let Some(most) = probes
            .filter(|probe| probe.plan.rate_per_s.total_cmp(&rate.rate_per_s).is_eq())
            .map(share)
            .reduce(f64::max)
        else {
            continue;
        };
        let at = (rate.rate_per_s, most);
        bars.push(Dot::at(at.0, at.1));
        if most >= LABELLED {
            let note = Note::new(rounded_percent(most), at, [-5.0, 10.0]);
            notes.push(note.of(Role::Reference, Face::Value));
        }
    }
    // The greatest are last, and have their numbers first.
    notes.reverse();
    (bars, notes)
}
