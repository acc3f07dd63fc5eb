//! The tables of a page: items and attempts, times by series, shards, and how the run went in words.

use super::frame::Html;
use crate::run::report::{Latency, Report, ShardReport, error_in_words};
use crate::show::doc::{Column, Table};
use crate::show::text::times::figure;
use crate::show::text::{bytes, grouped, grouped_f64, micros, rows, shard_cpu, shard_end, shard_percentiles};
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::rounded_percent;

/// A cell without a number.
const UNKNOWN: &str = "-";

/// Rows of the summary that have a place of their own on the page.
const ELSEWHERE: [&str; 8] = ["target", "items", "response", "service", "first byte", "statuses", "errors", "validity"];

/// A part of a whole in percent; nothing is no part of nothing.
fn part(n: u64, of: u64) -> String {
    if of == 0 { UNKNOWN.to_owned() } else { rounded_percent(n as f64 / of as f64) }
}

/// Items by state, attempts by status, failures by kind.
pub(super) fn counts(html: &mut Html, report: &Report) {
    let totals = &report.totals;
    html.with("div", &[("class", "tables")], |html| {
        ledger(html, report);
        let counted = |name: String, n: u64| vec![name, grouped(n), part(n, totals.attempts)];
        Table {
            caption: "Attempts by status".to_owned(),
            columns: vec![Column::words("status"), Column::numbers("attempts"), Column::numbers("of all")],
            rows: totals.attempts_by_status.iter().map(|(status, n)| counted(status.to_string(), *n)).collect(),
            ..Table::default()
        }
        .write(html);
        Table {
            caption: "Attempts that failed, by kind".to_owned(),
            columns: vec![Column::words("error"), Column::numbers("attempts"), Column::numbers("of all")],
            rows: totals.errors_by_kind.iter().map(|(kind, n)| counted(error_in_words(*kind), *n)).collect(),
            ..Table::default()
        }
        .write(html);
        attempts(html, report);
    });
    if !report.ledger.adds_up() {
        html.say_as("p", "note", "The states do not add up to what was planned: see the verdict.");
    }
}

/// Items by state, and their sum.
fn ledger(html: &mut Html, report: &Report) {
    let planned = report.ledger.planned;
    let row = |(state, n): (&str, u64)| vec![state.to_owned(), grouped(n), part(n, planned)];
    let states = report.ledger.states().filter(|(name, _, n)| *n > 0 || *name == "ok").map(|(_, state, n)| (state, n));
    Table {
        caption: "Items by state".to_owned(),
        columns: vec![Column::words("state"), Column::numbers("items"), Column::numbers("of all")],
        rows: states.map(row).chain([row(("planned", planned))]).collect(),
        has_sum: true,
    }
    .write(html);
}

fn attempts(html: &mut Html, report: &Report) {
    let totals = &report.totals;
    let counts = totals.requests.iter().filter_map(|(counter, n)| {
        let shown = if counter.of_bytes().is_some() { bytes(n) } else { grouped(n) };
        Some((counter.label?, n, shown))
    });
    let others = [
        ("opened before the start, to check hosts", report.check_connections.unwrap_or(0)),
        ("in flight at most", totals.peak_in_flight),
    ];
    let rows = counts.chain(others.map(|(label, n)| (label, n, grouped(n))));
    let rows = rows.filter(|(label, n, _)| *n > 0 || *label == "attempts");
    Table {
        caption: "Requests".to_owned(),
        columns: vec![Column::words("what"), Column::numbers("count")],
        rows: rows.map(|(label, _, shown)| vec![label.to_owned(), shown]).collect(),
        ..Table::default()
    }
    .write(html);
}

/// Describe the times of a series in a few words.
fn meaning(series: &str) -> &'static str {
    match Series::ALL.into_iter().find(|known| known.name() == series) {
        Some(Series::ServiceOk) => "sent to answered, good and not-found answers",
        Some(Series::ServiceThrottled) => "sent to answered, throttled",
        Some(Series::ServiceError) => "sent to the end, failed",
        Some(Series::Ttfb) => "sent to first byte",
        Some(Series::SchedLag) => "intended to released: this client was late",
        Some(Series::BudgetWait) => "waiting for a limit",
        Some(Series::PoolWait) => "waiting for a free connection",
        Some(Series::Connect) => "opening a connection",
        Some(Series::Item) => "of an item, all attempts together",
        Some(Series::LoopLag) => "a shard's loop looked up so much late",
        Some(Series::ResponseOk) => "intended to answered, good and not-found answers",
        Some(Series::ResponseThrottled) => "intended to answered, throttled",
        Some(Series::ResponseError) => "intended to the end, failed",
        Some(Series::Overhead) | None => "",
    }
}

/// Every series that holds anything, the ones that people ask for first.
pub(super) fn times(html: &mut Html, report: &Report) {
    let known = |name: &&str| report.latency.get(*name).filter(|latency| latency.count + latency.censored > 0);
    let first = [Series::ResponseOk, Series::ServiceOk, Series::Item, Series::Ttfb].map(Series::name);
    let rest = report.latency.keys().map(String::as_str).filter(|name| !first.contains(name));
    let rows = first.into_iter().chain(rest).filter_map(|name| Some(series(name, known(&name)?)));
    Table {
        caption: "Times by series".to_owned(),
        columns: vec![
            Column::words("series"),
            Column::numbers("count"),
            Column::numbers("min"),
            Column::numbers("mean"),
            Column::numbers("p50"),
            Column::numbers("p90"),
            Column::numbers("p99"),
            Column::numbers("p99.9"),
            Column::numbers("max"),
            Column::numbers("cut off"),
            Column::words("what it is"),
        ],
        rows: rows.collect(),
        ..Table::default()
    }
    .write(html);
    html.say_as(
        "p",
        "note",
        "A percentile with fewer than ten samples beyond it is not told. What was cut off counts as no faster than it was old, \
         so that some figures are only known to be no less (>=); the mean leaves it out.",
    );
    let overflow: u64 = report.latency.values().map(|latency| latency.overflow).sum();
    if overflow > 0 {
        html.say_as("p", "note", &format!("{} values were beyond the histograms' bounds.", grouped(overflow)));
    }
}

fn series(name: &str, latency: &Latency) -> Vec<String> {
    let shown = |key: &str, us| figure(latency, key, us).unwrap_or_else(|| UNKNOWN.to_owned());
    vec![
        name.replace('_', " "),
        grouped(latency.count),
        shown("min_us", latency.min_us),
        shown("mean_us", latency.mean_us),
        shown("p50_us", latency.p50_us),
        shown("p90_us", latency.p90_us),
        shown("p99_us", latency.p99_us),
        shown("p999_us", latency.p999_us),
        shown("max_us", latency.max_us),
        grouped(latency.censored),
        meaning(name).to_owned(),
    ]
}

/// A row per shard.
pub(super) fn shards(html: &mut Html, report: &Report) {
    Table {
        caption: "One process each".to_owned(),
        columns: vec![
            Column::words("shard"),
            Column::numbers("ids"),
            Column::numbers("items"),
            Column::numbers("items/s"),
            Column::numbers("service p50"),
            Column::numbers("service p99"),
            Column::numbers("CPU per attempt"),
            Column::numbers("CPU"),
            Column::numbers("lag p99"),
            Column::numbers("lag max"),
            Column::sentences("exit"),
        ],
        rows: report.shards.iter().map(shard).collect(),
        ..Table::default()
    }
    .write(html);
}

fn shard(shard: &ShardReport) -> Vec<String> {
    let (p50, p99) = shard_percentiles(shard);
    let (per_attempt, of_a_cpu) = shard_cpu(shard);
    let lag = shard.latency.get(Series::SchedLag.name());
    let shown = |us: Option<f64>| us.map_or_else(|| UNKNOWN.to_owned(), micros);
    vec![
        shard.shard.to_string(),
        format!("{}..{}", grouped(shard.id_range.start), grouped(shard.id_range.end)),
        grouped(shard.ledger.completed()),
        grouped_f64(shard.totals.items_per_s),
        p50,
        p99,
        per_attempt,
        of_a_cpu,
        shown(lag.and_then(|lag| lag.p99_us)),
        shown(lag.and_then(|lag| lag.max_us)),
        shard_end(shard),
    ]
}

/// Write the rest of the summary's rows: pacing, throttling, the budget, what was held back and moved.
pub(super) fn course(html: &mut Html, report: &Report) {
    let told = rows(report).into_iter().filter(|(name, _)| !ELSEWHERE.contains(name));
    // What the times of an open loop say beside each other is not in the table of times.
    let compared = rows(report).into_iter().filter_map(|(name, value)| match name {
        "response" => value.split_once('\n').map(|(_, said)| ("times", said.to_owned())),
        _ => None,
    });
    Table {
        caption: "In words".to_owned(),
        columns: vec![Column::words("on"), Column::sentences("what happened")],
        rows: compared.chain(told).map(|(name, value)| vec![name.to_owned(), value]).collect(),
        ..Table::default()
    }
    .write(html);
}
