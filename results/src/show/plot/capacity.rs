//! A capacity: response times against the offered rate, with what was wanted, what failed, and where the search ended.

use super::Plot;
use super::canvas::{Canvas, Head, Key, LABEL, Lettering, Mark, sheet, text_width};
use super::palette::Ink;
use super::panel::{ABOVE, Axis, BELOW, LEFT, Panel};
use super::scale::{Scale, short, time};
use crate::run::gates::{Condition, Unit};
use crate::studies::capacity::capacity_headline;
use crate::studies::capacity::search::Standing;
use crate::studies::capacity::{Capacity, Failure, Point, RateReport};
use plotters::style::text_anchor::HPos;

/// The height of the field.
const FIELD: f64 = 280.0;

/// The plot of a capacity.
#[must_use]
pub fn capacity(capacity: &Capacity) -> Plot {
    let lines = [
        ("response, median", Ink::Green, points(&capacity.rates, |rate| rate.response_p50_us)),
        ("response, p99", Ink::Blue, points(&capacity.rates, |rate| rate.response_p99_us)),
    ];
    let limits = limits(capacity);
    let failed = failed(capacity);
    let mut keys: Vec<Key<'_>> = lines
        .iter()
        .filter(|(.., points)| points.len() > 1)
        .map(|(label, ink, _)| Key::new(label, Mark::Line(*ink, 2.0)))
        .collect();
    if !limits.is_empty() {
        keys.push(Key::new("objective", Mark::Line(Ink::Quiet, 1.0)));
    }
    let mut causes: Vec<Failure> = failed.iter().map(|(cause, _)| *cause).collect();
    causes.sort_unstable();
    causes.dedup();
    keys.extend(causes.into_iter().map(|cause| Key::new(cause.label(), Mark::Dot(ink(cause)))));
    let band = capacity.capacity_per_s.map(|pass| [pass, capacity.fails_at_per_s.unwrap_or(f64::INFINITY)]);
    if band.is_some() {
        keys.push(Key::new("the capacity lies here", Mark::Area(Ink::Heat(1))));
    }
    if capacity.knee.is_some() {
        keys.push(Key::new("the knee", Mark::Ring(Ink::Blue)));
    }
    let head = Head { name: "capacity", title: "Latency against rate", caption: capacity_headline(capacity), keys };
    let rates: Vec<f64> = capacity.rates.iter().map(|rate| rate.rate_per_s).collect();
    let times = lines.iter().flat_map(|(_, _, points)| points.iter().map(|point| point.us));
    let all: Vec<f64> =
        times.chain(limits.iter().map(|(us, _)| *us)).chain(failed.iter().map(|(_, point)| point.us)).collect();
    sheet(head, ABOVE + FIELD + BELOW, |canvas, top| {
        let top = top + ABOVE;
        let (x, y) = (Scale::log(rates), Scale::log(all));
        let panel = Panel::between(canvas, [top, top + FIELD], [x, y]);
        if let Some([low, high]) = band {
            panel.strip([low, high], Ink::Heat(1));
        }
        panel.vertical(&Axis { unit: "response time (log scale)", label: &time });
        panel.horizontal(&Axis { unit: "requests offered per second (log scale)", label: &short });
        for (us, _) in &limits {
            panel.line_across(*us, Ink::Quiet);
        }
        for (_, ink, points) in &lines {
            let places: Vec<(f64, f64)> = points.iter().map(|point| (point.rate_per_s, point.us)).collect();
            panel.curve(&places, *ink, 2.0);
        }
        for (cause, point) in &failed {
            canvas.dot((panel.x_of(point.rate_per_s), panel.y_of(point.us)), ink(*cause));
        }
        label(canvas, &panel, &limits, top);
        if let Some(knee) = capacity.knee {
            canvas.ring((panel.x_of(knee.rate_per_s), panel.y_of(knee.us)), Ink::Blue);
        }
        if lines.iter().all(|(_, _, points)| points.is_empty()) {
            panel.note("no probe read a response time");
        }
    })
}

/// Return the points of the rates at which the probes read a time.
fn points(rates: &[RateReport], read: impl Fn(&RateReport) -> Option<f64>) -> Vec<Point> {
    let known = rates.iter().filter(|rate| rate.standing != Standing::Unknown);
    let point = |rate: &RateReport| Some(Point { rate_per_s: rate.rate_per_s, us: read(rate)? });
    known.filter_map(point).filter(|point| point.us > 0.0).collect()
}

/// Write the objectives beside their lines: above, or below where a line is at the top of the field.
fn label(canvas: &Canvas<'_>, panel: &Panel<'_, '_>, limits: &[(f64, String)], top: f64) {
    let mut after = (f64::INFINITY, LEFT);
    for (us, text) in limits {
        let line = panel.y_of(*us);
        let y = if line - LABEL < top { line + LABEL * 0.75 } else { line - LABEL * 0.75 };
        // Beside the one before, where they would lie on each other.
        let x = if (after.0 - y).abs() < LABEL * 1.2 { after.1 } else { LEFT } + LABEL / 2.0;
        canvas.text(text, (x, y), Lettering::label(Ink::Quiet, HPos::Left));
        after = (y, x + text_width(text, LABEL));
    }
}

/// Colour of probes that failed.
const fn ink(cause: Failure) -> Ink {
    match cause {
        Failure::Throttled => Ink::Orange,
        Failure::Errors => Ink::Purple,
        Failure::Latency => Ink::Vermilion,
        Failure::Connections => Ink::Olive,
        Failure::Other => Ink::Black,
    }
}

/// The times among the objectives that bound from above, us, with their words: `p99 <= 50 ms`.
fn limits(capacity: &Capacity) -> Vec<(f64, String)> {
    let parsed = capacity.question.objectives.iter().filter_map(|text| text.parse::<Condition>().ok());
    let words = |objective: &Condition| {
        let metric = objective.metric.to_string();
        let metric = metric.strip_prefix("response_").unwrap_or(&metric);
        format!("{metric} {} {}", objective.op.name(), time(objective.limit))
    };
    let mut limits: Vec<(f64, String)> = parsed
        .filter(|objective| objective.metric.unit() == Unit::Us && objective.limit > 0.0)
        .map(|objective| (objective.limit, words(&objective)))
        .collect();
    limits.sort_by(|a, b| a.0.total_cmp(&b.0));
    limits.dedup();
    limits
}

/// Probes that failed, each with its cause, at what its 99th percentile was, or the median where it has none.
fn failed(capacity: &Capacity) -> Vec<(Failure, Point)> {
    let objectives: Vec<Condition> =
        capacity.question.objectives.iter().filter_map(|objective| objective.parse().ok()).collect();
    let failed = capacity.probes.iter().filter_map(|probe| Some((Failure::of(probe, &objectives)?, probe)));
    let point = |us: Option<f64>, rate_per_s| us.filter(|us| *us > 0.0).map(|us| Point { rate_per_s, us });
    failed
        .filter_map(|(cause, probe)| {
            Some((cause, point(probe.response_p99_us.or(probe.response_p50_us), probe.rate_per_s)?))
        })
        .collect()
}
