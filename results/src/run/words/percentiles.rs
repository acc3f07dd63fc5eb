//! The whole distribution of a run's times, by its nines: what `--latency` adds to the summary.

use super::times::figure;
use crate::run::report::{Latency, Report};
use crate::show::doc::{Column, Doc, Table};
use crate::show::text::{grouped, micros};
use crawlmark_harness::stats::{Percentile, Series};

/// Percentiles that are shown, with their labels in percent.
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

/// The percentiles of the good answers, response times first; those that ten samples lie beyond.
/// Nothing of a run without any.
pub fn percentiles(report: &Report) -> Doc {
    let known = [
        ("response", Series::ResponseOk),
        ("service", Series::ServiceOk),
    ]
    .into_iter();
    let known = known.filter_map(|(name, series)| Some((name, report.latency(series)?)));
    known
        .filter(|(_, latency)| latency.count + latency.censored > 0)
        .fold(Doc::default(), |doc, (name, latency)| {
            match table(name, latency) {
                Some(table) => doc.table(table),
                None => doc,
            }
        })
}

fn table(name: &str, latency: &Latency) -> Option<Table> {
    let distribution = latency.distribution()?;
    let max = figure(latency, "max_us", latency.max_us).map(|max| vec!["100 %".to_owned(), max]);
    Some(Table {
        caption: format!(
            "{name} times by percentile, {} samples",
            grouped(distribution.all())
        ),
        columns: vec![Column::numbers("percentile"), Column::numbers("time")],
        rows: SHOWN
            .into_iter()
            .filter_map(|(percent, q)| {
                let text = match distribution.percentile(q) {
                    Percentile::Exact(ns) => micros(ns as f64 / 1e3),
                    Percentile::AtLeast(ns) => format!(">= {}", micros(ns as f64 / 1e3)),
                    Percentile::TooFew => return None,
                };
                Some(vec![format!("{percent} %"), text])
            })
            .chain(max)
            .collect(),
        ..Table::default()
    })
}
