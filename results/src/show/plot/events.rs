//! Events of a run in its plots over time: stalls, throttle pauses, lost shards, an early end, and
//! the limits of thresholds.

use crate::run::report::{GateReport, IntervalRow, Report, thresholds};
use crate::run::words::Stalls;
use crate::show::chart::{Dash, Mark, Role, Shape};
use crate::show::text::capital;
use crawlmark_harness::units::rounded_percent;

/// The most lines of a kind that are drawn: more would hide the others.
const MOST_LINES: usize = 12;

/// The most bands of a kind that are drawn. Of more, neighbours are one.
const MOST_BANDS: usize = 100;

/// Part of the time in which throttle pauses held the run back, from which on a caption says so.
const NOTABLE: f64 = 0.1;

/// Return the marks of a run's events; `at` converts seconds to places on the time axis, which ends
/// at `end_s`.
pub(super) fn events(report: &Report, end_s: f64, at: impl Fn(f64) -> f64) -> Vec<Mark> {
    let bands = |role, what: &str, spans: &[(f64, f64)]| {
        let legend = if spans.len() == 1 {
            what.to_owned()
        } else {
            format!("{what}s")
        };
        let band = |(from, to): (f64, f64)| {
            Mark::new(
                role,
                legend.clone(),
                Shape::Band(at(from), at(to.min(end_s))),
            )
        };
        few(spans).into_iter().map(band).collect::<Vec<_>>()
    };
    let line = |role, legend: String, s: f64| {
        Mark::new(role, legend, Shape::Upright(at(s.min(end_s)))).dashed(Dash::Short)
    };
    let stalls = Stalls::of(report)
        .each()
        .iter()
        .map(|stall| (stall.from_s, stall.to_s))
        .collect::<Vec<_>>();
    let is_paused = |row: &IntervalRow| row.binding.pause >= thresholds::PAUSED;
    let pauses = report
        .intervals
        .chunk_by(|a, b| is_paused(a) == is_paused(b) && a.start_s + 1 == b.start_s);
    let pauses = pauses.filter(|rows| is_paused(&rows[0]));
    let pauses = pauses
        .map(|rows| {
            (
                rows[0].start_s as f64,
                rows[rows.len() - 1].start_s as f64 + 1.0,
            )
        })
        .collect::<Vec<_>>();
    let bands = bands(Role::Paused, "throttle pause", &pauses)
        .into_iter()
        .chain(bands(Role::Highlight, "stall", &stalls));
    let lost = report
        .shards
        .iter()
        .filter(|shard| shard.fault.is_some())
        .take(MOST_LINES);
    let lost = lost.map(|shard| {
        line(
            Role::Failed,
            format!("shard {} lost", shard.shard),
            shard.totals.duration_s,
        )
    });
    let stopped = report
        .stopped_by
        .as_ref()
        .map(|by| line(Role::Failed, format!("stopped by {by}"), end_s));
    let interrupted = (report.interrupted && stopped.is_none())
        .then(|| line(Role::Reference, "stopped early".to_owned(), end_s));
    bands
        .chain(lost)
        .chain(stopped)
        .chain(interrupted)
        .collect()
}

/// At most [`MOST_BANDS`] spans that cover all of these.
fn few(spans: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let (mut few, mut apart_s) = (spans.to_vec(), 1.0);
    while few.len() > MOST_BANDS {
        let near = spans.chunk_by(|a, b| b.0 - a.1 <= apart_s);
        few = near
            .filter_map(|spans| Some((spans.first()?.0, spans.last()?.1)))
            .collect();
        apart_s *= 2.0;
    }
    few
}

/// Sentences of a caption on stalls and throttle pauses, each with a space before it; empty without
/// any.
pub(super) fn told(report: &Report) -> String {
    let stalls = Stalls::of(report)
        .in_words()
        .map_or_else(String::new, |stalls| format!(" {}.", capital(&stalls)));
    let part = report.binding.pause;
    let pauses = (part >= NOTABLE).then(|| {
        format!(
            " Throttle pauses took {} of the time.",
            rounded_percent(part)
        )
    });
    stalls + &pauses.unwrap_or_default()
}

/// Return a line across the plot for each threshold of this unit whose metric starts with this
/// name.
pub(super) fn limits<'a>(
    report: &'a Report,
    unit: &'a str,
    metric: &'a str,
) -> impl Iterator<Item = Mark> + 'a {
    let is_drawn = move |gate: &&GateReport| {
        gate.unit == unit && gate.metric.starts_with(metric) && gate.limit > 0.0
    };
    report.gates.iter().filter(is_drawn).map(|gate| {
        let role = if gate.ok == Some(false) {
            Role::Failed
        } else {
            Role::Reference
        };
        Mark::new(
            role,
            format!("threshold {}", gate.expression),
            Shape::Across(gate.limit),
        )
        .dashed(Dash::Short)
    })
}
