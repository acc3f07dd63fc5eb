//! Connections that were opened, over time.

use super::chart::{Chart, Line, Values};
use super::palette::Ink;
use super::seconds::{Seconds, peak};
use super::{Plot, counted};
use crate::run::report::Report;
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::{grouped, micros};

pub(super) fn plot(report: &Report) -> Plot {
    let seconds = Seconds::of(report);
    let opened = Line::new(seconds.rates(|row| Some(row.connections_opened as f64)), "opened", (Ink::Blue, 2.0));
    let caption = caption(report, &seconds, &opened);
    let chart = Chart {
        seconds: &seconds,
        values: Values::Amounts("connections per second"),
        each: "the mean of",
        lines: vec![opened].into_iter().filter(Line::is_known).collect(),
        nothing: "no second was reported",
    };
    chart.plot("connections", "Connections opened", caption)
}

fn caption(report: &Report, seconds: &Seconds<'_>, opened: &Line<'_>) -> String {
    let totals = &report.totals;
    let took = report.latency(Series::Connect).and_then(|latency| latency.p50_us);
    let took = took.map_or_else(String::new, |us| format!(", opened in {} at the median", micros(us)));
    let most = peak(&opened.steps)
        .map_or_else(String::new, |(step, _)| format!(", most of them at {}", seconds.spoken(step.from_s)));
    format!(
        "{} carried {}{took}{most}; {} were allowed at once.",
        counted(totals.connections_opened, "connection"),
        counted(totals.attempts, "attempt"),
        grouped(u64::from(report.plan.run.connections)),
    )
}
