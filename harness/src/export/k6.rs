//! The summary that k6 hands to `handleSummary`, for reporters and scripts that were written for it.
//!
//! Metrics that k6 has are under its names: `http_req_duration` is the service time of good answers, `http_req_waiting` the
//! time to the first byte, `iteration_duration` that of an item, `http_req_failed` counts attempts without a status from 200
//! to 399. All others are ours and begin with `crawlmark_`. Gates are thresholds of the metric that they look at, with
//! their own expression; one that could not be decided is not `ok`. A figure that is only known to be no less than its value
//! is left out. The verdict is a check, `the measurement is valid`.

use serde_json::{Map, Value, json};

use super::pretty;
use crate::gates::{Measured, Metric, Quantity, Stat, of_report};
use crate::report::{GateReport, Latency, Report, Verdict};
use crate::stats::{Percentile, Series};

/// The percentiles of a trend; `med` is the median.
const TREND: [(&str, f64); 5] = [("med", 0.5), ("p(90)", 0.9), ("p(95)", 0.95), ("p(99)", 0.99), ("p(99.9)", 0.999)];

/// k6 names groups and checks by the MD5 of their path; of the empty one,
const ROOT_ID: &str = "d41d8cd98f00b204e9800998ecf8427e";

/// The name of the check, and the MD5 of its path, `::the measurement is valid`.
const CHECK: (&str, &str) = ("the measurement is valid", "d00314cc65e265c3287aec39b418b2d9");

/// The summary.
pub(super) fn summary(report: &Report) -> String {
    let mut metrics = Metrics(Map::new());
    metrics.add_counts(report);
    metrics.add_trends(report);
    report.gates.iter().for_each(|gate| metrics.add_threshold(gate, report));
    let stats = ["avg", "min", "max"].into_iter().chain(TREND.map(|(name, _)| name));
    let (name, id) = CHECK;
    let valid = u8::from(is_valid(report));
    let path = format!("::{name}");
    let check = json!({"name": name, "path": path, "id": id, "passes": valid, "fails": 1 - valid});
    pretty(&json!({
        "root_group": {"name": "", "path": "", "id": ROOT_ID, "groups": [], "checks": [check]},
        "options": {"summaryTrendStats": stats.collect::<Vec<_>>(), "summaryTimeUnit": "", "noColor": false},
        "state": {
            "isStdOutTTY": false,
            "isStdErrTTY": false,
            "testRunDurationMs": report.totals.duration_s * 1e3,
        },
        "metrics": metrics.0,
    }))
}

fn is_valid(report: &Report) -> bool {
    report.validity.verdict == Verdict::Valid
}

/// Metrics by name.
struct Metrics(Map<String, Value>);

impl Metrics {
    fn add(&mut self, name: &str, [kind, contains]: [&str; 2], values: Value) {
        self.0.insert(name.to_owned(), json!({"type": kind, "contains": contains, "values": values}));
    }

    fn add_counts(&mut self, report: &Report) {
        let (totals, ledger) = (&report.totals, &report.ledger);
        let items = ledger.ok + ledger.not_found + ledger.failed + ledger.gave_up;
        let per_s = |count: u64| if totals.duration_s > 0.0 { count as f64 / totals.duration_s } else { 0.0 };
        let counts = [
            ("http_reqs", "default", totals.attempts, totals.attempts_per_s),
            ("iterations", "default", items, totals.items_per_s),
            ("data_sent", "data", totals.bytes_sent, per_s(totals.bytes_sent)),
            ("data_received", "data", totals.bytes_received, per_s(totals.bytes_received)),
        ];
        for (name, contains, count, rate) in counts {
            self.add(name, ["counter", contains], json!({"count": count, "rate": rate}));
        }
        if report.schedule.is_some() {
            let values = json!({"count": totals.dropped, "rate": per_s(totals.dropped)});
            self.add("dropped_iterations", ["counter", "default"], values);
        }
        let is_good = |status: &str| matches!(status.parse(), Ok(200..=399));
        let statuses = totals.attempts_by_status.iter();
        let good: u64 = statuses.filter(|(status, _)| is_good(status)).map(|(_, count)| count).sum();
        self.add("http_req_failed", ["rate", "default"], rate(totals.attempts.saturating_sub(good), totals.attempts));
        self.add("checks", ["rate", "default"], rate(u64::from(is_valid(report)), 1));
    }

    fn add_trends(&mut self, report: &Report) {
        for series in Series::ALL {
            let Some(latency) = report.latency(series).filter(|latency| latency.count > 0) else { continue };
            self.add(&trend_name(series), ["trend", "time"], trend(report, series, latency));
        }
    }

    /// Adds a gate to the metric that it looks at, which is added where there is none.
    fn add_threshold(&mut self, gate: &GateReport, report: &Report) {
        let metric = Metric::named(&gate.metric);
        let (name, kind) = metric.map_or_else(|| (format!("crawlmark_{}", gate.metric), GAUGE), home);
        let seen = metric.map(|metric| of_report(metric, report));
        let metric = self.0.entry(name).or_insert_with(|| {
            let values = match seen {
                Some(Measured::Exactly(value)) if kind == GAUGE => json!({"value": value}),
                _ => json!({}),
            };
            json!({"type": kind[0], "contains": kind[1], "values": values})
        });
        if metric["thresholds"].is_null() {
            metric["thresholds"] = json!({});
        }
        metric["thresholds"][&gate.expression] = json!({"ok": gate.ok == Some(true)});
    }
}

const GAUGE: [&str; 2] = ["gauge", "default"];
const TREND_OF_TIMES: [&str; 2] = ["trend", "time"];
const COUNTER: [&str; 2] = ["counter", "default"];

/// The metric that a gate is a threshold of, and its kind.
fn home(metric: Metric) -> (String, [&'static str; 2]) {
    match metric {
        Metric::Time(series, _) => (trend_name(series), TREND_OF_TIMES),
        Metric::Of(Quantity::Rate | Quantity::Items) => ("iterations".to_owned(), COUNTER),
        Metric::Of(Quantity::AttemptsRate | Quantity::Attempts) => ("http_reqs".to_owned(), COUNTER),
        Metric::Of(Quantity::Dropped) => ("dropped_iterations".to_owned(), COUNTER),
        other => (format!("crawlmark_{other}"), GAUGE),
    }
}

fn trend_name(series: Series) -> String {
    match series {
        Series::ServiceOk => "http_req_duration".to_owned(),
        Series::Ttfb => "http_req_waiting".to_owned(),
        Series::Connect => "http_req_connecting".to_owned(),
        Series::Item => "iteration_duration".to_owned(),
        other => format!("crawlmark_{}", other.name()),
    }
}

/// The figures of a series, ms.
fn trend(report: &Report, series: Series, latency: &Latency) -> Value {
    let mut values = Map::new();
    for (name, stat) in [("avg", Stat::Mean), ("min", Stat::Min), ("max", Stat::Max)] {
        if let Measured::Exactly(us) = of_report(Metric::Time(series, stat), report) {
            values.insert(name.to_owned(), json!(us / 1e3));
        }
    }
    if let Some(distribution) = latency.distribution() {
        for (name, q) in TREND {
            if let Percentile::Exact(ns) = distribution.percentile(q) {
                values.insert(name.to_owned(), json!(ns as f64 / 1e6));
            }
        }
    }
    Value::Object(values)
}

/// A share as k6 has it: `passes` are those that it is a share of.
fn rate(passes: u64, all: u64) -> Value {
    let rate = if all > 0 { passes as f64 / all as f64 } else { 0.0 };
    json!({"rate": rate, "passes": passes, "fails": all.saturating_sub(passes)})
}
