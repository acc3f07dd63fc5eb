//! Requests scheduled or requested, completed, throttled and failed, over time.

use super::seconds::{Seconds, peak};
use crate::run::report::{IntervalRow, Report};
use crate::show::chart::scale::spoken;
use crate::show::chart::{Axis, Chart, Format, Mark, Range, Role, Shape};
use crawlmark_harness::units::rounded_percent;

/// None without a second.
pub(super) fn chart(report: &Report) -> Option<Chart> {
    let seconds = Seconds::of(report);
    // A budget offers nothing once the time is over, however long the last answers take.
    let over_s = report.plan.run.duration.map_or(f64::INFINITY, |duration| duration.as_secs_f64());
    let offered = |row: &IntervalRow| row.offered.filter(|_| (row.start_s as f64) < over_s);
    let asked = match report.schedule {
        // Older results say only what the timetable held.
        Some(_) => (seconds.rates(|row| row.scheduled.map(|n| n as f64).or_else(|| offered(row))), "scheduled"),
        None => (seconds.rates(offered), "requested"),
    };
    let line = |role, legend, steps| Mark::new(role, legend, Shape::Steps(steps));
    let throttled = seconds.rates(|row| Some(row.throttled as f64));
    let worst = peak(&throttled);
    let completed = line(Role::Good, "completed", seconds.rates(|row| Some(row.attempts as f64)));
    let bad = [
        line(Role::Throttled, "throttled", throttled),
        line(Role::Failed, "items failed", seconds.rates(|row| Some(row.failed as f64))),
    ];
    let marks = [line(Role::Asked, asked.1, asked.0), completed].into_iter().filter(Mark::is_known);
    let marks: Vec<Mark> = marks.chain(bad.into_iter().filter(Mark::is_above_zero)).collect();
    let axis = Axis::new("requests per second", Range::FromZero, Format::Number);
    (!marks.is_empty()).then(|| Chart {
        name: "throughput",
        title: "Throughput",
        caption: caption(report, worst.map(|(step, rate)| (seconds.spoken(step.from), rate))),
        panels: vec![seconds.panel(axis, 220.0, marks, "mean")],
    })
}

fn caption(report: &Report, worst: Option<(String, f64)>) -> String {
    let totals = &report.totals;
    let requested = report.plan.run.shaped_rate().map_or_else(String::new, |rate| format!(" of {rate} requested"));
    let throttled = match (worst, totals.throttled) {
        (Some((at, rate)), _) => {
            format!(
                "{} throttled, most at {at} ({}/s)",
                rounded_percent(report.throttling.throttled_share),
                spoken(rate)
            )
        }
        // The second of it may be too short to be drawn.
        (None, 1..) => format!("{} throttled", rounded_percent(report.throttling.throttled_share)),
        (None, 0) => "none throttled".to_owned(),
    };
    let failed = match totals.failed(&report.ledger) {
        0 => String::new(),
        failed => format!(", {} failed", rounded_percent(failed as f64 / totals.attempts.max(1) as f64)),
    };
    format!("Averaged {} requests/s{requested}; {throttled}{failed}.", spoken(totals.attempts_per_s))
}
