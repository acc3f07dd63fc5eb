//! Requests that do not finish: what figures, thresholds and sentences say of them.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose result cannot be read is over"
)]

use std::fs;

use serde_json::Value;

use crate::report::Report;
use crate::run::Run;
use crate::target::Target;

/// No figure of a series lies above its maximum.
#[track_caller]
fn assert_in_order(report: &Report) {
    for (name, series) in report.at("/latency").as_object().unwrap() {
        let us = |key: &str| series[key].as_f64();
        let max = us("max_us").unwrap_or(0.0);
        let figures = [
            "min_us",
            "mean_us",
            "mean_at_least_us",
            "p50_us",
            "p90_us",
            "p99_us",
            "p999_us",
        ]
        .map(us);
        assert!(
            figures.into_iter().flatten().all(|figure| figure <= max),
            "{name}: {series}"
        );
    }
}

#[test]
fn a_threshold_that_the_ages_break_fails_and_one_that_they_do_not_is_undecided() {
    // 20 requests at a time, none of which ends in the two seconds that the run has.
    let target = Target::start("--processes 1 --latency 60s");
    let line = format!(
        "{} -d 1500ms --grace 500ms --timeout 2m --shards 1 -c 20",
        target.url()
    );
    let objectives = [
        "service_max < 1s",
        "service_mean < 1s",
        "service_max < 1m",
        "service_mean < 1m",
    ];
    let gates = objectives
        .into_iter()
        .flat_map(|objective| ["--threshold", objective]);
    let report = Run::start(line.split(' ').chain(gates)).end().report(3);
    let verdicts: Vec<&Value> = (0..4)
        .map(|at| report.at(&format!("/gates/{at}/ok")))
        .collect();
    assert_eq!(
        verdicts,
        [
            &Value::Bool(false),
            &Value::Bool(false),
            &Value::Null,
            &Value::Null
        ]
    );
    assert_in_order(&report);
}

#[test]
fn requests_that_did_not_finish_and_requests_never_sent_have_a_number_each() {
    // 100 are due, 20 have a connection, 50 have room in the queue, and none ends.
    let target = Target::start("--processes 1 --latency 60s");
    let line = format!(
        "{} -d 1s -R 100 --arrivals constant --grace 300ms --timeout 2m --shards 1 -c 20 --queue 50 --max-error-rate 100%",
        target.url()
    );
    let ended = Run::start(line.split(' ')).end();
    let summary = fs::read_to_string(ended.result().join("summary.md")).unwrap();
    let report = Report::read(&ended.result().join("result.json"));
    assert_eq!(report.count("/totals/attempts_sent"), 20);
    assert!(summary.contains("| dropped | 80 |"), "{summary}");
    assert_in_order(&report);
}

#[test]
fn a_check_that_a_short_run_cannot_make_is_not_put_on_the_machine() {
    let target = Target::start("--processes 1");
    let ended = Run::start(format!("{} -n 20 --shards 1 -c 2", target.url()).split(' ')).end();
    let summary = fs::read_to_string(ended.result().join("summary.md")).unwrap();
    let report = Report::read(&ended.result().join("result.json"));
    let measured_s = report.number("/shards/0/measured_s");
    let reasons = report.at("/validity/unavailable");
    if measured_s < 1.0 {
        assert_eq!(reasons["CPU steal"], "too_short", "{reasons}");
        assert!(
            summary.contains("CPU steal, because the run was too short"),
            "{summary}"
        );
    }
}
