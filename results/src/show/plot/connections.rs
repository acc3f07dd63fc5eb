//! Connections that were opened, over time.

use super::counted;
use super::seconds::{Seconds, peak};
use crate::run::report::Report;
use crate::show::chart::{Axis, Chart, Format, Mark, Range, Role, Shape};
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::{grouped, micros};

/// None without a connection.
pub(super) fn chart(report: &Report, most_steps: u64) -> Option<Chart> {
    let seconds = Seconds::of(report, most_steps);
    let opened = seconds.rates(|row| Some(row.connections_opened as f64));
    let (most, _) = peak(&opened)?;
    let took = report
        .latency(Series::Connect)
        .and_then(|latency| latency.p50_us);
    let took = took.map_or_else(String::new, |us| {
        format!("; median connect time {}", micros(us))
    });
    let caption = format!(
        "{} opened (limit {} at once), most of them at {}{took}.",
        counted(report.totals.connections_opened, "connection"),
        grouped(u64::from(report.plan.run.connections)),
        seconds.spoken(most.from),
    );
    let axis = Axis::new(
        "connections opened per second",
        Range::FromZero,
        Format::Number,
    );
    let marks = vec![Mark::new(Role::Good, "", Shape::Steps(opened))];
    let panels = vec![seconds.panel(axis, 140.0, marks, "mean")];
    Some(Chart {
        name: "connections",
        title: "Connections opened",
        caption,
        panels,
    })
}
