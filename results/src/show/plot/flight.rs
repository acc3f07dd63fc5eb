//! Requests in flight, their limits, and the limit that held the shards back.

use super::seconds::{PICTURE, Seconds};
use crate::run::report::{BindingReport, IntervalRow, LimitWords, Report};
use crate::run::words;
use crate::show::chart::{
    Axis, Block, Chart, Dash, Format, Mark, Panel, Range, Role, Shape, Step, Ticks,
};
use crawlmark_harness::units::{grouped, rounded_percent};

/// Time that a run may lack of its last second, s: the last answers may end before the time is
/// over.
const LAST_S: f64 = 0.01;

/// The part of the time in which something held a shard back.
type LimitShare = fn(&BindingReport) -> f64;

/// Limits that can hold a shard back, in the order in which they are stacked.
const LIMITS: [(&str, Role, LimitShare); 6] = [
    ("the requested rate", Role::Asked, |b| b.rate),
    ("connections", Role::Connections, |b| b.concurrency),
    ("throttling", Role::Throttled, |b| b.pause),
    ("the target's quota", Role::Quota, |b| b.target),
    ("storing results", Role::Storage, |b| b.storage),
    ("idle", Role::Idle, |b| b.idle),
];

/// None without a second.
pub(super) fn chart(report: &Report, most_steps: u64) -> Option<Chart> {
    let seconds = Seconds::of(report, most_steps);
    let end_s = seconds.end_s + LAST_S;
    let allowed = f64::from(report.plan.run.in_flight());
    // A second that the run did not see to its end has no end at which anything would be in flight.
    let in_flight = |row: &IntervalRow| {
        Some(f64::from(row.in_flight)).filter(|_| (row.start_s as f64) + 1.0 <= end_s)
    };
    let line = |role, legend, steps| Mark::new(role, legend, Shape::Steps(steps));
    let lines = [
        line(
            Role::Asked,
            "connection limit",
            seconds.means(|_| Some(allowed)),
        ),
        line(
            Role::Limit,
            "learned limit",
            seconds.greatest(|row| row.limit.map(f64::from)),
        ),
        Mark::new(
            Role::Max,
            "peak, at any moment",
            Shape::Across(report.totals.peak_in_flight as f64),
        ),
        line(
            Role::Good,
            "at the end of each second",
            seconds.greatest(in_flight),
        )
        .dashed(Dash::Solid),
    ];
    let lines: Vec<Mark> = lines.into_iter().filter(Mark::is_known).collect();
    if report.intervals.is_empty() || lines.is_empty() {
        return None;
    }
    let axis = Axis::new("requests in flight", Range::FromZero, Format::Number);
    let above = Panel {
        x: Axis::hidden(Range::Between(0.0, seconds.at(seconds.end_s))),
        ..seconds.panel(axis, 150.0, lines, "")
    };
    let axis = Axis::new(
        format!("limited by, share of the {}s' time", report.shard_word()),
        Range::Between(0.0, 1.0),
        Format::Percent,
    )
    .ticks(Ticks::At(vec![0.0, 0.5, 1.0]));
    // Stacks of blocks are for an overview.
    let seconds = Seconds::of(report, PICTURE);
    let below = Panel {
        x: seconds.axis("maximum, or mean share,"),
        y: axis,
        height: 64.0,
        marks: shares(report, &seconds)
            .into_iter()
            .filter(Mark::is_known)
            .collect(),
    };
    Some(Chart {
        name: "in-flight",
        title: "Requests in flight, and their limit",
        caption: caption(report),
        panels: [above, below]
            .into_iter()
            .filter(|panel| !panel.marks.is_empty())
            .collect(),
    })
}

/// Shares of the limits in each step, on top of each other.
fn shares(report: &Report, seconds: &Seconds<'_>) -> [Mark; 6] {
    let mut tops: Vec<f64> = Vec::new();
    LIMITS.map(|(name, role, part)| {
        let steps = seconds.means(|row: &IntervalRow| {
            // Of a second in which no shard lived nothing is known.
            let all: f64 = LIMITS.iter().map(|(_, _, part)| part(&row.binding)).sum();
            (all > 0.0).then(|| part(&row.binding) / all)
        });
        tops.resize(steps.len(), 0.0);
        let block = |(step, top): (Step, &mut f64)| {
            let Step { from, to, value } = step;
            let bottom = *top;
            *top += value.filter(|value| *value > 0.0)?;
            Some(Block {
                x: (from, to),
                y: (bottom, *top),
                text: String::new(),
            })
        };
        let blocks: Vec<Block> = steps.into_iter().zip(&mut tops).filter_map(block).collect();
        Mark::new(
            role,
            name_of(report, name, role),
            Shape::Blocks(merged(&blocks)),
        )
    })
}

/// Blocks of which neighbours of one height are one.
#[expect(clippy::float_cmp, reason = "an edge that two of them share")]
fn merged(blocks: &[Block]) -> Vec<Block> {
    let runs = blocks.chunk_by(|a, b| a.y == b.y && a.x.1 == b.x.0);
    let block = |run: &[Block]| {
        let (first, last) = run.first().zip(run.last())?;
        Some(Block {
            x: (first.x.0, last.x.1),
            ..first.clone()
        })
    };
    runs.filter_map(block).collect()
}

/// Return the limit that held something back the longest, and the part of its time; none when
/// nothing is known.
pub(super) fn foremost(report: &Report, binding: &BindingReport) -> Option<(&'static str, f64)> {
    let parts = LIMITS
        .iter()
        .map(|(name, role, part)| (name_of(report, name, *role), part(binding)));
    parts
        .filter(|(_, part)| *part > 0.0)
        .reduce(|a, b| if b.1 > a.1 { b } else { a })
}

/// Name of a limit in this run.
fn name_of(report: &Report, name: &'static str, role: Role) -> &'static str {
    let words = LimitWords::of(report);
    match role {
        Role::Asked if words.rate != "--rate" => words.rate,
        Role::Quota => words.target,
        _ => name,
    }
}

fn caption(report: &Report) -> String {
    let peak = grouped(report.totals.peak_in_flight);
    let connections = grouped(u64::from(report.plan.run.in_flight()));
    let held = match foremost(report, &report.binding) {
        Some(("idle", part)) => {
            format!(
                " The {}s were idle for {} of the time.",
                report.shard_word(),
                rounded_percent(part)
            )
        }
        Some((name, part)) => {
            format!(
                " Mostly limited by {name} ({} of {}).",
                rounded_percent(part),
                words::time_of_parts(report)
            )
        }
        None => String::new(),
    };
    format!("Peak concurrency: {peak} of {connections}.{held}")
}
