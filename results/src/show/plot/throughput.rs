//! Requests scheduled or requested, and completed by outcome, over time.

use super::events::{limits, told};
use super::seconds::{Seconds, peak};
use crate::run::report::{IntervalRow, Report};
use crate::show::chart::scale::spoken;
use crate::show::chart::{Axis, Chart, Format, Mark, Range, Role, Shape};
use crate::show::text::rate_in_words;
use crawlmark_harness::units::rounded_percent;

/// None without a second.
pub(super) fn chart(report: &Report, most_steps: u64) -> Option<Chart> {
    let seconds = Seconds::of(report, most_steps);
    // A budget offers nothing once the time is over, however long the last answers take.
    let over_s = report
        .plan
        .run
        .duration
        .map_or(f64::INFINITY, |duration| duration.as_secs_f64());
    let offered = |row: &IntervalRow| row.offered.filter(|_| (row.start_s as f64) < over_s);
    let asked = match report.schedule {
        // Older results say only what the timetable held.
        Some(_) => (
            seconds.rates(|row| row.scheduled.map(|n| n as f64).or_else(|| offered(row))),
            "scheduled",
        ),
        None => (seconds.rates(offered), "requested"),
    };
    let worst = peak(&seconds.rates(|row| Some(row.throttled as f64)));
    let bins = Seconds::finest(report, most_steps);
    let completed = Mark::stack([
        (Role::Good, "good", bins.rates(|row| Some(row.ok as f64))),
        (
            Role::NotFound,
            "not found",
            bins.rates(|row| Some(row.not_found as f64)),
        ),
        (
            Role::Throttled,
            "throttled",
            bins.rates(|row| Some(row.throttled as f64)),
        ),
        (
            Role::Failed,
            "failed",
            bins.rates(|row| Some(failed_requests(row))),
        ),
    ]);
    // Good ones are named also where there are none.
    let completed = completed
        .into_iter()
        .filter(|mark| mark.role == Role::Good || mark.is_above_zero());
    // A line on top of the areas, so that both are seen where the rate was reached.
    let asked = Mark::new(Role::Asked, asked.1, Shape::Steps(asked.0));
    let marks: Vec<Mark> = completed.chain([asked]).filter(Mark::is_known).collect();
    let axis = Axis::new("requests per second", Range::FromZero, Format::Number);
    let marks: Vec<Mark> = if marks.is_empty() {
        marks
    } else {
        marks
            .into_iter()
            .chain(limits(report, "per_s", "rate"))
            .collect()
    };
    (!marks.is_empty()).then(|| Chart {
        name: "throughput",
        title: "Throughput",
        caption: caption(
            report,
            worst.map(|(step, rate)| (seconds.spoken(step.from), rate)),
        ),
        panels: vec![bins.panel(axis, 220.0, marks, "mean")],
    })
}

/// Requests of a second that were neither good, nor not found, nor throttled.
pub(super) fn failed_requests(row: &IntervalRow) -> f64 {
    row.attempts
        .saturating_sub(row.ok + row.not_found + row.throttled) as f64
}

fn caption(report: &Report, worst: Option<(String, f64)>) -> String {
    let (totals, counted) = (&report.totals, report.measured());
    let throttled_share = || {
        rounded_percent(counted.requests.throttled as f64 / counted.requests.attempts.max(1) as f64)
    };
    let requested = report
        .plan
        .run
        .shaped_rate()
        .map_or_else(String::new, |rate| {
            format!(" of {} requested", rate_in_words(&rate.to_string()))
        });
    let throttled = match (worst, counted.requests.throttled) {
        (Some((at, rate)), _) => {
            format!(
                "{} throttled, most at {at} ({}/s)",
                throttled_share(),
                spoken(rate)
            )
        }
        // The second of it may be too short to be drawn.
        (None, 1..) => format!("{} throttled", throttled_share()),
        (None, 0) => "none throttled".to_owned(),
    };
    let part = |n: u64| rounded_percent(n as f64 / counted.requests.attempts.max(1) as f64);
    let parts = [
        (counted.requests.failed(&counted.items), "failed"),
        (counted.items.aborted, "cut off at the end"),
    ];
    let parts = parts
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format!(", {} {what}", part(n)));
    let failed = parts.collect::<String>();
    let average = spoken(totals.attempts_per_s);
    format!(
        "Averaged {average} requests/s{requested}; {throttled}{failed}.{}",
        told(report)
    )
}
