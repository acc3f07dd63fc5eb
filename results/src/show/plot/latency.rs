//! Percentiles of the latency over time.

use super::Plot;
use super::chart::{Chart, Line, Values};
use super::palette::Ink;
use super::panel::Step;
use super::seconds::{Seconds, known, peak};
use crate::run::report::{IntervalRow, Latency, Report};
use crate::show::text::times::population;
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::micros;

/// A percentile of a second.
type Column = fn(&IntervalRow) -> Option<f64>;

/// The percentile that stands for the slow answers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    P99,
    /// 90th percentile, for runs in which hardly a second has the thousand requests that a 99th takes.
    P90,
}

/// None without a percentile of any second.
pub(super) fn plot(report: &Report) -> Option<Plot> {
    let seconds = Seconds::of(report);
    let tail = Tail::of(report);
    let line = |column: Column, label, ink| Line::new(seconds.greatest(column), label, (ink, 2.0));
    let [response, service] = match tail {
        Tail::P99 => [
            line(|row| row.response_p99_us, "response, p99", Ink::Vermilion),
            line(|row| row.p99_us, "service, p99", Ink::Blue),
        ],
        Tail::P90 => [
            line(|row| row.response_p90_us, "response, p90", Ink::Vermilion),
            line(|row| row.p90_us, "service, p90", Ink::Blue),
        ],
    };
    let median = line(|row| row.response_p50_us, "response, p50", Ink::Orange);
    let service_median = line(|row| row.p50_us, "service, p50", Ink::Green);
    let caption = match report.schedule {
        Some(_) => caption(report, Series::ResponseOk, [&response, &median], &seconds),
        None => caption(report, Series::ServiceOk, [&service, &service_median], &seconds),
    };
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

fn caption(report: &Report, series: Series, [tail, median]: [&Line<'_>; 2], seconds: &Seconds<'_>) -> String {
    let Some(latency) = report.latency(series).filter(|latency| latency.count > 0) else {
        return "No attempt had a good answer.".to_owned();
    };
    let what = if series == Series::ResponseOk { "response" } else { "service" };
    let worst = [tail, median].into_iter().find_map(|line| {
        let name = line.key.label.rsplit(' ').next()?;
        peak(&line.steps).map(|(step, us)| slowest(step, seconds, name, us))
    });
    let worst = worst.unwrap_or_else(|| "; no second had enough for a percentile".to_owned());
    let sparse = if known(&tail.steps).next().is_none() || tail.key.label.ends_with("p99") {
        ""
    } else {
        "; too few requests per second for a p99, which takes a thousand"
    };
    format!("{}{worst}{sparse}.", whole_run(report, latency, what))
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
