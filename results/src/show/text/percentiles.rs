//! The whole distribution of a run's times as text, by its nines: what `--latency` adds to the summary.

use std::fmt::Write;

use super::times::cut_off;
use super::{grouped, micros};
use crate::run::report::{Latency, Report};
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

/// The percentiles of the good answers, response times first; those that ten samples lie beyond. Nothing of a run without any.
#[must_use]
pub fn percentiles(report: &Report) -> String {
    let mut out = String::new();
    for (name, series) in [("response", Series::ResponseOk), ("service", Series::ServiceOk)] {
        if let Some(latency) = report.latency(series).filter(|latency| latency.count + latency.censored > 0) {
            write_table(&mut out, name, latency, cut_off(latency, report.latency(Series::ServiceOk)));
        }
    }
    out
}

fn write_table(out: &mut String, name: &str, latency: &Latency, cut_off: Option<String>) {
    let Some(distribution) = latency.distribution() else { return };
    let all = distribution.all();
    let _ = writeln!(out, "\n  {name} times by percentile, {} samples", grouped(all));
    for (percent, q) in SHOWN {
        let text = match distribution.percentile(q) {
            Percentile::Exact(ns) => micros(ns as f64 / 1e3),
            Percentile::AtLeast(ns) => format!(">= {}", micros(ns as f64 / 1e3)),
            Percentile::TooFew => continue,
        };
        let _ = writeln!(out, "  {percent:>9} %  {text:>12}");
    }
    if let Some(max_us) = latency.max_us {
        let at_least = if latency.is_at_least("max_us") { ">= " } else { "" };
        let _ = writeln!(out, "  {:>9} %  {:>12}", "100", format!("{at_least}{}", micros(max_us)));
    }
    if let Some(cut_off) = cut_off {
        let _ = writeln!(out, "  {cut_off}");
    }
}
