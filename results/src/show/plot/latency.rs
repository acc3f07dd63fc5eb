//! Percentiles of the latency over time.

use std::fmt::Write;

use super::Plot;
use super::chart::{Chart, Line, Values};
use super::palette::Ink;
use super::panel::Step;
use super::seconds::{Seconds, known, peak};
use crate::run::gates::Quantile;
use crate::run::report::{IntervalRow, Latency, Report};
use crate::show::text::times::population;
use crawlmark_harness::stats::{SAMPLES_BEYOND, Series};
use crawlmark_harness::units::{grouped, micros};

/// A percentile of a second.
type Column = fn(&IntervalRow) -> Option<f64>;

/// The percentile that stands for the slow answers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    P99,
    /// 90th percentile, for runs in which hardly a second has the thousand requests that a 99th takes.
    P90,
}

/// Lines of a series, by what they draw: its slow answers and its median.
struct Columns {
    series: Series,
    tail: (Column, &'static str),
    median: (Column, &'static str),
}

/// None without a percentile of any second.
pub(super) fn plot(report: &Report) -> Option<Plot> {
    let seconds = Seconds::of(report);
    let (response_tail, service_tail): ((Column, _), (Column, _)) = match Tail::of(report) {
        Tail::P99 => ((|row| row.response_p99_us, "response, p99"), (|row| row.p99_us, "service, p99")),
        Tail::P90 => ((|row| row.response_p90_us, "response, p90"), (|row| row.p90_us, "service, p90")),
    };
    let response = Columns {
        series: Series::ResponseOk,
        tail: response_tail,
        median: (|row| row.response_p50_us, "response, p50"),
    };
    let service = Columns { series: Series::ServiceOk, tail: service_tail, median: (|row| row.p50_us, "service, p50") };
    let captioned = if report.schedule.is_some() { &response } else { &service };
    let caption = caption(report, captioned, &seconds);
    let line = |(column, label): (Column, _), ink| Line::new(seconds.greatest(column), label, (ink, 2.0));
    let [median, response] = [line(response.median, Ink::Orange), line(response.tail, Ink::Vermilion)];
    let [service_median, service] = [line(service.median, Ink::Green), line(service.tail, Ink::Blue)];
    // In an open loop the two are often the same: what is broken lies on top, so that both are seen.
    let lines: Vec<_> = [service, service_median, response, median].into_iter().filter(Line::is_known).collect();
    if lines.is_empty() {
        return None;
    }
    let chart = Chart {
        seconds: &seconds,
        values: Values::Times("latency (log scale)"),
        each: "the slowest second of",
        lines,
        nothing: "no second has a percentile",
    };
    Some(chart.plot("latency", "Latency over time", caption))
}

impl Tail {
    pub(super) fn of(report: &Report) -> Self {
        let with = |column: Column| report.intervals.iter().filter(|row| column(row).is_some()).count();
        if 2 * with(|row| row.p99_us) >= with(|row| row.p90_us) { Self::P99 } else { Self::P90 }
    }
}

fn caption(report: &Report, columns: &Columns, seconds: &Seconds<'_>) -> String {
    let Some(latency) = report.latency(columns.series).filter(|latency| latency.count > 0) else {
        return "No attempt had a good answer.".to_owned();
    };
    let what = if columns.series == Series::ResponseOk { "response" } else { "service" };
    let worst = |(column, label): (Column, &str)| {
        let (step, us) = peak(&seconds.greatest(column))?;
        Some(slowest(step, seconds, name(label), us))
    };
    let worst = worst(columns.tail).or_else(|| worst(columns.median));
    let worst = worst.unwrap_or_else(|| "; no second had enough for a percentile".to_owned());
    let (tail, label) = columns.tail;
    let sparse = if known(&seconds.greatest(tail)).next().is_none() || label.ends_with("p99") {
        ""
    } else {
        "; a p99 takes a thousand requests per second"
    };
    format!("{}{worst}{sparse}.{}", whole_run(report, latency, what), undrawn(report, columns, seconds))
}

/// The name of a percentile, from the label of its line.
fn name(label: &str) -> &str {
    label.rsplit(' ').next().unwrap_or(label)
}

/// Say how many seconds of the run are not drawn, for want of responses; nothing when none is.
fn undrawn(report: &Report, columns: &Columns, seconds: &Seconds<'_>) -> String {
    let whole = report.intervals.iter().filter(|row| (row.start_s + 1) as f64 <= seconds.end_s);
    let all = whole.clone().count();
    let lacking = |column: Column| whole.clone().filter(|row| column(row).is_none()).count();
    let need = |label: &str| {
        let quantile = Quantile::named(name(label)).map(|quantile| quantile.samples_for(SAMPLES_BEYOND));
        grouped(quantile.unwrap_or_default())
    };
    let ((tail, tail_label), (median, median_label)) = (columns.tail, columns.median);
    let none = lacking(median);
    let tail_only = lacking(tail).saturating_sub(none);
    if none == all {
        return String::new();
    }
    let mut text = String::new();
    if none > 0 {
        let are = if none == 1 { "is" } else { "are" };
        let need = need(median_label);
        let _ = write!(text, " {none} of {all} seconds had fewer than {need} responses and {are} not drawn.");
    }
    if tail_only > 0 {
        let of = if none > 0 { "others".to_owned() } else { format!("of {all} seconds") };
        let (need, tail) = (need(tail_label), name(tail_label));
        let _ = write!(text, " {tail_only} {of} had fewer than {need} responses, too few for a {tail}.");
    }
    text
}

fn slowest(step: Step, seconds: &Seconds<'_>, name: &str, us: f64) -> String {
    format!(", and the slowest second, at {}, had a {name} of {}", seconds.spoken(step.from_s), micros(us))
}

fn whole_run(report: &Report, latency: &Latency, what: &str) -> String {
    let all = population(report, latency);
    let of = |key: &str, us: f64| format!("{}{}", if latency.is_at_least(key) { "at least " } else { "" }, micros(us));
    match (latency.p50_us, latency.p99_us) {
        (Some(p50), Some(p99)) => {
            let (p50, p99) = (of("p50_us", p50), of("p99_us", p99));
            format!("Over the run the {what} time of {all} had a median of {p50} and a p99 of {p99}")
        }
        (Some(p50), None) => format!("Over the run the {what} time of {all} had a median of {}", of("p50_us", p50)),
        (None, _) => format!("{all}: too few for a median of the {what} time"),
    }
}
