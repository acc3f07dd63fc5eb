//! The figures of several runs, a column each.

use super::side_by_side;
use crate::run::report::{Latency, Report};
use crate::run::words::validity::qualified;
use crate::run::words::{cpu_us_per_attempt, error_share, figure, moment};
use crate::show::doc::Doc;
use crate::show::plot::overlay::Run;
use crate::show::text::{bytes, decimal, grouped, micros, rate_in_words, seconds};
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::rounded_percent;

/// A number that was not measured, or that there is none of.
const UNKNOWN: &str = "-";

/// A figure of a series.
type Of = fn(&Latency) -> Option<f64>;

/// A cell of a run, and its value where that is compared with the first run's.
type Cell = Box<dyn Fn(&Report) -> Option<(String, Option<f64>)>>;

pub(super) fn parts(runs: &[Run<'_>], note: &str) -> Doc {
    let rows: Vec<Vec<String>> = rows()
        .into_iter()
        .filter_map(|row| written(row, runs))
        .collect();
    let legend = format!(
        "In brackets: difference to {}. \"-\": not available for this run.",
        runs.first().map_or("", |run| run.label)
    );
    Doc::default()
        .note(note)
        .table(side_by_side(runs, rows))
        .note(legend)
}

/// None when no run has it.
fn written((name, cell): (String, Cell), runs: &[Run<'_>]) -> Option<Vec<String>> {
    let cells: Vec<Option<(String, Option<f64>)>> =
        runs.iter().map(|run| cell(run.report)).collect();
    let is_known = cells.iter().any(Option::is_some);
    let first = cells
        .first()
        .and_then(|cell| cell.as_ref()?.1)
        .filter(|value| *value > 0.0);
    let compared = |(n, cell): (usize, Option<(String, Option<f64>)>)| match (cell, first) {
        (Some((text, Some(value))), Some(first)) if n > 0 => {
            // Rounded first: a little less than nothing has no sign of its own.
            format!(
                "{text} ({:+.1} %)",
                ((value / first - 1.0) * 1e3).round() / 10.0 + 0.0
            )
        }
        (cell, _) => cell.map_or_else(|| UNKNOWN.to_owned(), |(text, _)| text),
    };
    let cells = cells.into_iter().enumerate().map(compared);
    is_known.then(|| [name].into_iter().chain(cells).collect())
}

fn rows() -> Vec<(String, Cell)> {
    let mut rows = vec![
        row("validity", |report| Some(qualified(report))),
        row("started", |report| Some(moment(&report.started_at))),
        row("took", |report| Some(seconds(report.totals.duration_s))),
        row("load", |report| Some(load(report))),
        figure_row(
            "good/s",
            |report| Some(report.totals.good_per_s(&report.ledger)),
            decimal,
        ),
        row("errors, of requests", |report| {
            error_share(report).map(rounded_percent)
        }),
        figure_row(
            "requests/s",
            |report| Some(report.totals.attempts_per_s),
            decimal,
        ),
        row("items completed", |report| Some(grouped(ended(report)))),
        row("ok, of these items", |report| {
            Some(part(report.ledger.ok, ended(report)))
        }),
        row("requests", |report| Some(grouped(report.totals.attempts))),
        row("throttled, of requests", |report| {
            Some(rounded_percent(report.throttling.throttled_share))
        }),
        row("due and never sent", |report| {
            Some(grouped(report.totals.dropped)).filter(|_| report.totals.dropped > 0)
        }),
        figure_row("CPU of the client per request", cpu_us_per_attempt, micros),
        row("memory of the largest shard", |report| {
            largest(report).map(bytes)
        }),
    ];
    for series in [Series::ServiceOk, Series::ResponseOk, Series::SchedLag] {
        rows.extend(times(series));
    }
    rows.push(row("plan hash", |report| {
        Some(report.plan.config_hash.clone())
    }));
    rows.push(row("run", |report| Some(report.run_id.clone())));
    rows
}

fn row(name: &str, of: fn(&Report) -> Option<String>) -> (String, Cell) {
    (
        name.to_owned(),
        Box::new(move |report| Some((of(report)?, None))),
    )
}

/// A row in which each run is compared with the first.
fn figure_row(
    name: &str,
    of: fn(&Report) -> Option<f64>,
    said: fn(f64) -> String,
) -> (String, Cell) {
    let cell = move |report: &Report| of(report).map(|value| (said(value), Some(value)));
    (name.to_owned(), Box::new(cell))
}

/// Rows for the percentiles of a series.
fn times(series: Series) -> impl Iterator<Item = (String, Cell)> {
    let wanted: [(&str, &str, Of); 4] = [
        ("p50", "p50_us", |latency| latency.p50_us),
        ("p99", "p99_us", |latency| latency.p99_us),
        ("p99.9", "p999_us", |latency| latency.p999_us),
        ("max", "max_us", |latency| latency.max_us),
    ];
    let name = series.name().replace("sched_lag", "send delay");
    wanted.into_iter().map(move |(label, key, of)| {
        let cell: Cell = Box::new(move |report| {
            let latency = report
                .latency(series)
                .filter(|latency| latency.count + latency.censored > 0)?;
            // A lower bound has no difference.
            Some((
                figure(latency, key, of(latency))?,
                of(latency).filter(|_| !latency.is_at_least(key)),
            ))
        });
        (format!("{name} {label}"), cell)
    })
}

fn load(report: &Report) -> String {
    let kind = if report.schedule.is_some() {
        "open loop"
    } else {
        "closed loop"
    };
    match report.plan.run.shaped_rate() {
        Some(rate) => format!("{kind}, {}", rate_in_words(&rate.to_string())),
        None => format!("{kind}, no budget"),
    }
}

/// Items that were tried and ended by themselves.
fn ended(report: &Report) -> u64 {
    let ledger = &report.ledger;
    ledger.ok + ledger.not_found + ledger.failed + ledger.gave_up
}

fn part(n: u64, of: u64) -> String {
    if of == 0 {
        UNKNOWN.to_owned()
    } else {
        rounded_percent(n as f64 / of as f64)
    }
}

fn largest(report: &Report) -> Option<u64> {
    report
        .shards
        .iter()
        .filter_map(|shard| shard.usage.max_rss_bytes)
        .max()
}
