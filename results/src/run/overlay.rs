//! Several runs side by side as a document: their figures first, with the differences to the first
//! run, then what differs between their plans and machines, and plots. It describes; single runs
//! allow no verdict.

use std::collections::{BTreeMap, BTreeSet};

use super::report::Report;
use super::words::{error_share, figure, moment, word};
use crate::show::doc::{Column, Doc, Severity, Status, Table};
use crate::show::plot::Plot;
use crate::show::plot::overlay::{Run, common_series};
use crate::show::text::{bytes, decimal, grouped, micros, seconds};
use crate::studies::differences::differences;
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::rounded_percent;

/// Warning that single runs give no verdict.
const DESCRIPTION: &str = "This page describes single runs and gives no verdict. Even identical runs vary; use `crawlmark ab` to \
    decide which is better.";

/// The longest label: longer ones would push what stands beside them off a plot.
const LONGEST: usize = 24;

/// A figure of a run: its text, and its value where that is compared with the first run's.
type Cell = Option<(String, Option<f64>)>;

/// Name of a row, and the figure of a run.
type Row = (&'static str, fn(&Report) -> Cell);

/// Rows of the table of figures.
const ROWS: [Row; 14] = [
    ("validity", |it| text(word(it.validity.verdict))),
    ("started", |it| text(moment(&it.started_at))),
    ("took", |it| text(seconds(it.totals.duration_s))),
    ("good/s", |it| value(Some(it.totals.ok_per_s), decimal)),
    ("errors, of requests", |it| {
        text(rounded_percent(error_share(it)?))
    }),
    ("requests/s", |it| {
        value(Some(it.totals.attempts_per_s), decimal)
    }),
    ("items ok", |it| text(grouped(it.ledger.ok))),
    ("requests", |it| text(grouped(it.totals.attempts))),
    ("throttled, of requests", |it| {
        text(rounded_percent(it.throttling.throttled_share))
    }),
    ("due and never sent", |it| {
        text(grouped(it.totals.dropped)).filter(|_| it.totals.dropped > 0)
    }),
    ("CPU of the client per request", |it| {
        value(it.cpu_us_per_attempt(), micros)
    }),
    ("memory of the largest shard", |it| {
        let shards = it.shards.iter();
        text(bytes(
            shards.filter_map(|one| one.usage.max_rss_bytes).max()?,
        ))
    }),
    ("plan hash", |it| text(it.plan.config_hash.clone())),
    ("run", |it| text(it.run_id.clone())),
];

/// Series whose percentiles follow them.
const SERIES: [(Series, &str); 3] = [
    (Series::ServiceOk, "service"),
    (Series::ResponseOk, "response"),
    (Series::SchedLag, "send delay"),
];

#[expect(clippy::unnecessary_wraps, reason = "a cell")]
const fn text(text: String) -> Cell {
    Some((text, None))
}

fn value(value: Option<f64>, text: fn(f64) -> String) -> Cell {
    value.map(|value| (text(value), Some(value)))
}

/// Several runs, with their plots, as a document.
#[must_use]
pub fn doc(runs: &[Run<'_>], plots: &[Plot]) -> Doc {
    let first = runs.first().map_or("", |run| run.label);
    let kind = common_series(runs).name();
    let legend = format!(
        "In brackets: difference to {first}. \"-\": not available for this run. Plots show {kind} times, which all runs have."
    );
    let differing = differing(runs);
    let differences = if differing.is_empty() {
        Doc::default()
            .text("Plans, machines (as far as known) and versions of crawlmark are identical.")
    } else {
        Doc::default().table(side_by_side(runs, differing))
    };
    Doc::new(format!("{} runs side by side", runs.len()))
        .about(runs.iter().map(|run| run.label.to_owned()).collect())
        .status(Status::new(Severity::Warning, DESCRIPTION))
        .section(
            "figures",
            "Figures",
            Doc::default()
                .table(side_by_side(runs, figures(runs)))
                .text(legend),
        )
        .section("differences", "Differences", differences)
        .section("plots", "Plots", Doc::default().plots(plots))
}

/// A column per run. The first cell of each row names it.
fn side_by_side(runs: &[Run<'_>], rows: Vec<Vec<String>>) -> Table {
    let columns = runs.iter().map(|run| Column::words(run.label.to_owned()));
    Table {
        columns: [Column::words("")].into_iter().chain(columns).collect(),
        rows,
        ..Table::default()
    }
}

fn figures(runs: &[Run<'_>]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (name, cell) in ROWS {
        let cells = runs.iter().map(|run| cell(run.report)).collect();
        rows.extend(row(name.to_owned(), cells));
    }
    for (series, name) in SERIES {
        for stat in ["p50", "p99", "p99.9", "max"] {
            let cells = runs.iter().map(|run| time(run.report, series, stat));
            rows.extend(row(format!("{name} {stat}"), cells.collect()));
        }
    }
    rows
}

fn time(report: &Report, series: Series, stat: &str) -> Cell {
    let latency = report.latency(series)?;
    let mut figures = latency.figures().into_iter();
    let (_, key, us) = figures.find(|(name, ..)| *name == stat)?;
    // A lower bound has no difference.
    let compared = us.filter(|_| !latency.is_at_least(key));
    Some((figure(latency, key, us)?, compared))
}

/// A row, with the difference of each figure to the first; none when no run has it.
fn row(name: String, cells: Vec<Cell>) -> Option<Vec<String>> {
    if cells.iter().all(Option::is_none) {
        return None;
    }
    let first = cells[0].as_ref().and_then(|(_, value)| *value);
    let mut row = vec![name];
    for (n, cell) in cells.into_iter().enumerate() {
        row.push(match (cell, first) {
            (None, _) => "-".to_owned(),
            (Some((text, Some(value))), Some(first)) if n > 0 && first > 0.0 => {
                // Rounded first: a little less than nothing has no sign of its own.
                let change = ((value / first - 1.0) * 1e3).round() / 10.0 + 0.0;
                format!("{text} ({change:+.1} %)")
            }
            (Some((text, _)), _) => text,
        });
    }
    Some(row)
}

/// Return a different name for each run: its own; else that of its directory; else with a number.
#[must_use]
pub fn labels(reports: &[Report], directories: &[String]) -> Vec<String> {
    let named: Vec<String> = reports.iter().map(|report| report.name.clone()).collect();
    for labels in [&named[..], directories] {
        let different: BTreeSet<&String> = labels.iter().collect();
        let are_short = labels.iter().all(|label| label.chars().count() <= LONGEST);
        if different.len() == reports.len() && are_short {
            return labels.to_vec();
        }
    }
    named
        .iter()
        .enumerate()
        .map(|(n, name)| {
            let start: String = name.chars().take(LONGEST - 3).collect();
            format!("{} {start}", n + 1)
        })
        .collect()
}

/// A row for each setting of the plan, machine or version that is not the same for all runs.
fn differing(runs: &[Run<'_>]) -> Vec<Vec<String>> {
    let mut rows: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (n, run) in runs.iter().enumerate().skip(1) {
        for found in differences(runs[0].report, run.report) {
            let row = rows.entry(found.what);
            row.or_insert_with(|| vec![found.base; runs.len()])[n] = found.candidate;
        }
    }
    rows.into_iter()
        .map(|(name, values)| [vec![name], values].concat())
        .collect()
}
