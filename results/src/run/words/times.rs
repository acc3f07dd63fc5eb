//! Times of a run: which series count, how a figure is written, and the whole distribution.

use crate::run::report::{Latency, Report};
use crate::show::doc::{Column, Table};
use crate::show::text::{grouped, micros};
use crawlmark_harness::stats::{Percentile, Series};

/// Percentiles of the whole distribution, with their labels in percent.
const SHOWN: [(&str, f64); 11] = [
    ("50", 0.5),
    ("75", 0.75),
    ("90", 0.9),
    ("95", 0.95),
    ("99", 0.99),
    ("99.5", 0.995),
    ("99.9", 0.999),
    ("99.95", 0.999_5),
    ("99.99", 0.999_9),
    ("99.999", 0.999_99),
    ("99.9999", 0.999_999),
];

/// Series that people ask for first.
const FIRST: [Series; 4] = [
    Series::ResponseOk,
    Series::ServiceOk,
    Series::Item,
    Series::Ttfb,
];

/// Figures of a series.
const FIGURES: [&str; 9] = [
    "count",
    "min",
    "mean",
    "p50",
    "p90",
    "p99",
    "p99.9",
    "max",
    "unfinished",
];

/// Times as a document shows them.
pub(super) struct Times {
    /// Names and values of the summary.
    pub(super) facts: Vec<(&'static str, Option<String>)>,
    /// Every series that holds anything, those that people ask for first.
    pub(super) table: Table,
}

impl Times {
    pub(super) fn of(report: &Report) -> Self {
        let main = report.main_series();
        let times = report.latency(main).filter(|times| is_any(times));
        let meaning = match (times, main) {
            (None, _) => "no good response was measured",
            (_, Series::ResponseOk) => {
                "open loop: from when each request was scheduled, corrected for coordinated omission"
            }
            _ => "closed loop: service time, not corrected for coordinated omission",
        };
        let first = FIRST.map(Series::name);
        let rest = report.latency.keys().map(String::as_str);
        let rows = first
            .into_iter()
            .chain(rest.filter(|name| !first.contains(name)))
            .filter_map(|name| row(name, report.latency.get(name)?));
        let columns = FIGURES.into_iter().map(Column::numbers);
        Self {
            facts: vec![
                (main.name(), times.map(spectrum)),
                (
                    "first event",
                    report.latency(Series::FirstEvent).map(spectrum),
                ),
                ("event gap", report.latency(Series::EventGap).map(spectrum)),
                (
                    "age when dropped",
                    report.latency(Series::DropAge).map(spectrum),
                ),
                ("times", Some(meaning.to_owned())),
            ],
            table: Table {
                rows: rows.collect(),
                columns: [Column::words("series")]
                    .into_iter()
                    .chain(columns)
                    .chain([Column::words("meaning")])
                    .collect(),
                ..Table::default()
            },
        }
    }
}

fn is_any(latency: &Latency) -> bool {
    latency.count + latency.censored > 0
}

/// The figures of a series with its meaning; none of an empty one.
fn row(name: &str, latency: &Latency) -> Option<Vec<String>> {
    let [min, mean] = [
        ("min", "min_us", latency.min_us),
        ("mean", "mean_us", latency.mean_us),
    ];
    let figures = [min, mean]
        .into_iter()
        .chain(latency.figures())
        .map(|(_, key, us)| latency.shown(key, us));
    let mut row = vec![name.replace('_', " "), grouped(latency.count)];
    row.extend(figures.map(|figure| figure.unwrap_or_else(|| "-".to_owned())));
    row.extend([grouped(latency.censored), meaning(name).to_owned()]);
    is_any(latency).then_some(row)
}

/// The percentiles that are known.
fn spectrum(latency: &Latency) -> String {
    let known = latency.figures().into_iter();
    let known =
        known.filter_map(|(name, key, us)| Some(format!("{name} {}", latency.shown(key, us)?)));
    known.collect::<Vec<_>>().join("  ")
}

/// The times of a series in a few words.
fn meaning(series: &str) -> &'static str {
    match Series::ALL.into_iter().find(|known| known.name() == series) {
        Some(Series::ServiceOk) => "sent to complete response, good and not found",
        Some(Series::ServiceThrottled) => "sent to complete response, throttled",
        Some(Series::ServiceError) => "sent to the end, failed",
        Some(Series::Ttfb) => "sent to first byte",
        Some(Series::Body) => "first to last byte, good and not found",
        Some(Series::SchedLag) => "scheduled to sent (send delay of this client)",
        Some(Series::BudgetWait) => "waiting for a limit",
        Some(Series::PoolWait) => "waiting for a free connection",
        Some(Series::Connect) => "opening a connection",
        Some(Series::Tls) => "TLS handshake",
        Some(Series::Tunnel) => "opening a tunnel through the proxy",
        Some(Series::Item) => "of an item, all its requests together",
        Some(Series::LoopLag) => "event-loop delay of this client",
        Some(Series::ReceiveDelay) => "received by the kernel to read by this client",
        Some(Series::ServiceRetransmitted) => {
            "the same of responses that waited for a retransmission"
        }
        Some(Series::Network) => "shortest round trip of the connection (a sample)",
        Some(Series::Reported) => "of the target, as it says (Server-Timing)",
        Some(Series::FirstEvent) => "sent to first event of a stream",
        Some(Series::EventGap) => "from an event of a stream to the next one",
        Some(Series::DropAge) => "scheduled to dropped, of requests that were never sent",
        Some(Series::ResponseOk) => "scheduled to complete response, good and not found",
        Some(Series::ResponseThrottled) => "scheduled to complete response, throttled",
        Some(Series::ResponseError) => "scheduled to the end, failed",
        Some(Series::Overhead) | None => "",
    }
}

/// The whole distribution of the good answers, by its nines, response times first: the percentiles
/// that ten samples lie beyond. What `--latency` adds to the summary.
pub fn percentiles(report: &Report) -> Vec<Table> {
    let all = [
        ("response", Series::ResponseOk),
        ("service", Series::ServiceOk),
    ];
    all.into_iter()
        .filter_map(|(name, series)| distribution(name, report.latency(series)?))
        .collect()
}

fn distribution(name: &str, latency: &Latency) -> Option<Table> {
    let distribution = Some(latency).filter(|one| is_any(one))?.distribution()?;
    let max = latency
        .shown("max_us", latency.max_us)
        .map(|max| vec!["100 %".to_owned(), max]);
    let rows = SHOWN.into_iter().filter_map(|(percent, q)| {
        let text = match distribution.percentile(q) {
            Percentile::Exact(ns) => micros(ns as f64 / 1e3),
            Percentile::AtLeast(ns) => format!(">= {}", micros(ns as f64 / 1e3)),
            Percentile::TooFew => return None,
        };
        Some(vec![format!("{percent} %"), text])
    });
    Some(Table {
        caption: format!(
            "{name} times by percentile, {} samples",
            grouped(distribution.all())
        ),
        columns: vec![Column::numbers("percentile"), Column::numbers("time")],
        rows: rows.chain(max).collect(),
        ..Table::default()
    })
}
