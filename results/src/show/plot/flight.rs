//! Requests in flight, what bounded them, and which limit it was that held the shards back.

use super::Plot;
use super::canvas::{Canvas, Head, Key, Mark, key_places, sheet};
use super::chart::Line;
use super::palette::Ink;
use super::panel::{ABOVE, Axis, BELOW, Panel};
use super::scale::{Scale, short, trimmed};
use super::seconds::{Seconds, known};
use crate::run::report::{BindingReport, IntervalRow, Report};
use crawlmark_harness::units::{grouped, rounded_percent};

const FIELD: f64 = 170.0;

/// Time that a run may lack of its last second, s: the last answers may end before the time is over.
const LAST_S: f64 = 0.01;

const RIBBON: f64 = 64.0;

/// The part of the time in which something held a shard back.
type Part = fn(&BindingReport) -> f64;

/// Limits that can hold a shard back, in the order in which they are stacked.
const LIMITS: [(&str, Ink, Part); 5] = [
    ("the rate asked for", Ink::Blue, |b| b.rate),
    ("connections", Ink::Orange, |b| b.concurrency),
    ("a pause", Ink::Vermilion, |b| b.pause),
    ("the target's limit", Ink::Purple, |b| b.target),
    ("nothing to do", Ink::Asked, |b| b.idle),
];

pub(super) fn plot(report: &Report) -> Plot {
    let seconds = Seconds::of(report);
    let end_s = seconds.end_s + LAST_S;
    let allowed = f64::from(report.plan.run.connections);
    let limit = seconds.means(|_| Some(allowed));
    // A second that the run did not see to its end has no end at which anything would be in flight.
    let in_flight = |row: &IntervalRow| Some(f64::from(row.in_flight)).filter(|_| (row.start_s as f64) + 1.0 <= end_s);
    let lines = [
        Line::new(limit, "connections allowed", (Ink::Asked, 6.0)),
        Line::new(seconds.greatest(|row| row.limit.map(f64::from)), "limit that was learnt", (Ink::Orange, 2.0)),
        Line::new(seconds.greatest(in_flight), "in flight", (Ink::Blue, 2.0)),
    ];
    let lines: Vec<Line<'_>> = lines.into_iter().filter(Line::is_known).collect();
    let head = Head {
        name: "in-flight",
        title: "Requests in flight, and what held them back",
        caption: caption(report),
        keys: lines.iter().map(|line| line.key).collect(),
    };
    let limits: Vec<Key<'_>> = LIMITS
        .iter()
        .filter(|(_, _, part)| report.intervals.iter().any(|row| part(&row.binding) > 0.0))
        .map(|(label, ink, _)| Key::new(label, Mark::Area(*ink)))
        .collect();
    let places = key_places(&limits);
    let keys_height = places.last().map_or(0.0, |(_, y)| y + 22.0);
    let height = ABOVE + FIELD + ABOVE + keys_height + RIBBON + BELOW + 12.0;
    sheet(head, height, |canvas, top| {
        let top = top + ABOVE;
        let y = Scale::from_zero(lines.iter().flat_map(|line| known(&line.steps)));
        let panel = Panel::between(canvas, [top, top + FIELD], [seconds.scale(), y]);
        panel.vertical(&Axis { unit: "requests, at the end of each second", label: &short });
        panel.base();
        for line in &lines {
            if let Mark::Line(ink, width) = line.key.mark {
                panel.steps(&seconds.on_axis(line.steps.clone()), ink, width);
            }
        }
        if report.intervals.is_empty() {
            panel.note("no second was reported");
        }
        let keys_top = top + FIELD + 20.0;
        for (key, (x, y)) in limits.iter().zip(&places) {
            canvas.key(*key, (*x, keys_top + y));
        }
        ribbon(canvas, &seconds, keys_top + keys_height + ABOVE - 8.0);
    })
}

fn ribbon(canvas: &Canvas<'_>, seconds: &Seconds<'_>, top: f64) {
    let y = Scale::Linear(0.0, 1.0);
    let panel = Panel::between(canvas, [top, top + RIBBON], [seconds.scale(), y]);
    let mut below: Vec<f64> = Vec::new();
    for (_, ink, part) in LIMITS {
        let steps = seconds.on_axis(seconds.means(|row: &IntervalRow| {
            // Of a second in which nobody lived nothing is known.
            let all: f64 = LIMITS.iter().map(|(_, _, part)| part(&row.binding)).sum();
            (all > 0.0).then(|| part(&row.binding) / all)
        }));
        below.resize(steps.len(), 0.0);
        for (step, below) in steps.iter().zip(&mut below) {
            if let Some(value) = step.value.filter(|value| *value > 0.0) {
                panel.cell([step.from_s, step.to_s], [*below, *below + value], ink);
                *below += value;
            }
        }
    }
    for (label, at) in [("0 %", 0.0), ("100 %", 1.0)] {
        panel.tick(label, at);
    }
    panel.unit("what held the shards back, share of their time");
    panel.horizontal(&Axis { unit: &seconds.axis_name("the highest, or the mean share, of"), label: &trimmed });
}

/// Return the limit that held something back the longest, and the part of its time; none when nothing is known.
pub(super) fn foremost(binding: &BindingReport) -> Option<(&'static str, f64)> {
    let parts = LIMITS.iter().map(|(name, _, part)| (*name, part(binding))).filter(|(_, part)| *part > 0.0);
    parts.reduce(|a, b| if b.1 > a.1 { b } else { a })
}

fn caption(report: &Report) -> String {
    let most = (!report.intervals.is_empty()).then_some(report.totals.peak_in_flight);
    let held = match foremost(&report.binding) {
        Some(("nothing to do", part)) => {
            format!("nothing held the shards back for {} of their time", rounded_percent(part))
        }
        Some((name, part)) => format!("{name} held the shards back for {} of their time", rounded_percent(part)),
        None => "nothing is known of what held the shards back".to_owned(),
    };
    let connections = grouped(u64::from(report.plan.run.connections));
    match most {
        Some(most) => format!("At most {} of {connections} requests were in flight at once; {held}.", grouped(most)),
        None => format!("No second was reported; {held}."),
    }
}
