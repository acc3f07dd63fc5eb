//! The summary that k6 passes to `handleSummary`, for reporters and scripts that were written for
//! it.
//!
//! Metrics that k6 has are under its names: `http_req_duration` is the service time of good
//! answers, `http_req_waiting` the time to the first byte, `iteration_duration` that of an item,
//! `http_req_failed` counts attempts without a status from 200 to 399. All others are ours and
//! begin with `crawlmark_`.
//!
//! Programs that read such a summary expect each of k6's six figures in every trend, and have no
//! value for an unknown one: a trend is there only when all of them are known for sure. Its `max`
//! is of the answers that ended. Gates are thresholds of the metric that they look at, with their
//! own expression, or of `crawlmark_gates`, the share of gates that passed; one that could not be
//! decided is not `ok`. The verdict is a check, `the measurement is valid`.

use serde_json::{Map, Value, json};

use super::pretty;
use crate::run::gates::{Measured, Metric, Quantity, Stat, of_report};
use crate::run::report::{GateReport, Latency, Report, Verdict, share};
use crawlmark_harness::stats::{Percentile, Series};

/// Statistics of every trend of a k6 summary.
const STATS: [&str; 6] = ["avg", "min", "med", "max", "p(90)", "p(95)"];

/// Its percentiles; the last two where they are known.
const PERCENTILES: [(&str, f64); 5] = [
    ("med", 0.5),
    ("p(90)", 0.9),
    ("p(95)", 0.95),
    ("p(99)", 0.99),
    ("p(99.9)", 0.999),
];

/// The metric of gates that look at what k6 has no metric for.
const GATES: &str = "crawlmark_gates";

/// k6 names groups and checks by the MD5 of their path; of the empty one,
const ROOT_ID: &str = "d41d8cd98f00b204e9800998ecf8427e";

/// The name of the check, and the MD5 of its path, `::the measurement is valid`.
const CHECK: (&str, &str) = (
    "the measurement is valid",
    "d00314cc65e265c3287aec39b418b2d9",
);

/// The summary.
pub(super) fn summary(report: &Report) -> String {
    let mut metrics = Metrics(Map::new());
    metrics.add_counts(report);
    metrics.add_trends(report);
    metrics.add_gates(&report.gates);
    let (name, id) = CHECK;
    let valid = u8::from(is_valid(report));
    let path = format!("::{name}");
    let check = json!({"name": name, "path": path, "id": id, "passes": valid, "fails": 1 - valid});
    pretty(&json!({
        "root_group": {"name": "", "path": "", "id": ROOT_ID, "groups": [], "checks": [check]},
        "options": {"summaryTrendStats": STATS, "summaryTimeUnit": "", "noColor": false},
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
    fn add(&mut self, name: &str, [kind, contains]: [&str; 2], values: &Value) {
        self.0.insert(
            name.to_owned(),
            json!({"type": kind, "contains": contains, "values": values}),
        );
    }

    fn add_counts(&mut self, report: &Report) {
        let (totals, ledger) = (&report.totals, &report.ledger);
        let per_s = |count: u64| share(count as f64, totals.duration_s);
        let [sent, received] = [totals.bytes_sent, totals.bytes_received];
        for (name, contains, count, rate) in [
            (
                "http_reqs",
                "default",
                totals.attempts,
                totals.attempts_per_s,
            ),
            (
                "iterations",
                "default",
                ledger.completed(),
                totals.items_per_s,
            ),
            ("data_sent", "data", sent, per_s(sent)),
            ("data_received", "data", received, per_s(received)),
        ] {
            let values = json!({"count": count, "rate": rate});
            self.add(name, ["counter", contains], &values);
        }
        if report.schedule.is_some() {
            let values = json!({"count": totals.dropped, "rate": per_s(totals.dropped)});
            self.add("dropped_iterations", ["counter", "default"], &values);
        }
        let measured = report.measured().requests;
        let statuses = measured.attempts_by_status.range(200..=399);
        let good: u64 = statuses.map(|(_, count)| count).sum();
        let failed = rate(measured.attempts.saturating_sub(good), measured.attempts);
        self.add("http_req_failed", ["rate", "default"], &failed);
        let valid = rate(u64::from(is_valid(report)), 1);
        self.add("checks", ["rate", "default"], &valid);
    }

    fn add_trends(&mut self, report: &Report) {
        for series in Series::ALL {
            let latency = report.latency(series);
            if let Some(values) = latency.and_then(|it| trend(report, series, it)) {
                self.add(&trend_name(series), ["trend", "time"], &values);
            }
        }
    }

    fn add_gates(&mut self, gates: &[GateReport]) {
        if gates.is_empty() {
            return;
        }
        let passed = gates.iter().filter(|gate| gate.ok == Some(true)).count() as u64;
        self.add(
            GATES,
            ["rate", "default"],
            &rate(passed, gates.len() as u64),
        );
        for gate in gates {
            let home = Metric::named(&gate.metric)
                .and_then(home)
                .filter(|name| self.0.contains_key(name));
            let metric = &mut self.0[&home.unwrap_or_else(|| GATES.to_owned())];
            if metric["thresholds"].is_null() {
                metric["thresholds"] = json!({});
            }
            metric["thresholds"][&gate.expression] = json!({"ok": gate.ok == Some(true)});
        }
    }
}

/// The metric of k6's that a gate is a threshold of.
fn home(metric: Metric) -> Option<String> {
    match metric {
        Metric::Time(series, _) => Some(trend_name(series)),
        Metric::Of(Quantity::Rate | Quantity::Items) => Some("iterations".to_owned()),
        Metric::Of(Quantity::AttemptsRate | Quantity::Attempts) => Some("http_reqs".to_owned()),
        Metric::Of(Quantity::Dropped) => Some("dropped_iterations".to_owned()),
        Metric::Of(_) => None,
    }
}

fn trend_name(series: Series) -> String {
    match series {
        Series::ServiceOk => "http_req_duration".to_owned(),
        Series::Ttfb => "http_req_waiting".to_owned(),
        Series::Connect => "http_req_connecting".to_owned(),
        Series::Tls => "http_req_tls_handshaking".to_owned(),
        Series::Item => "iteration_duration".to_owned(),
        other => format!("crawlmark_{}", other.name()),
    }
}

/// The figures of a series, ms; none when one that every trend has is not known for sure.
fn trend(report: &Report, series: Series, latency: &Latency) -> Option<Value> {
    let mut values = Map::new();
    for (name, stat) in [("avg", Stat::Mean), ("min", Stat::Min), ("max", Stat::Max)] {
        // The greatest of those that ended is what it is, whatever became of the others.
        if let (Measured::Exactly(us), _) | (Measured::AtLeast(us), Stat::Max) =
            (of_report(Metric::Time(series, stat), report), stat)
        {
            values.insert(name.to_owned(), json!(us / 1e3));
        }
    }
    let distribution = latency.distribution()?;
    for (name, q) in PERCENTILES {
        if let Percentile::Exact(ns) = distribution.percentile(q) {
            values.insert(name.to_owned(), json!(ns as f64 / 1e6));
        }
    }
    STATS
        .iter()
        .all(|name| values.contains_key(*name))
        .then_some(Value::Object(values))
}

/// A share as k6 has it: `passes` are those that it is a share of.
fn rate(passes: u64, all: u64) -> Value {
    let rate = share(passes as f64, all as f64);
    json!({"rate": rate, "passes": passes, "fails": all.saturating_sub(passes)})
}
