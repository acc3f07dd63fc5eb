//! What must hold of a run: passed, failed, undecided, and a run that is stopped by it; by exit
//! code, report and files.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose result cannot be read is over"
)]

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::bad_input::assert_refused;
use crate::command::Started;
use crate::report::Report;
use crate::run::{Ended, ONE_ATTEMPT, Run};
use crate::target::Target;

/// A run of `line` and these gates, which holds spaces of its own.
fn run(line: &str, gates: &[&str]) -> Ended {
    Run::start(line.split_whitespace().chain(gates.iter().copied())).end()
}

/// Each gate's verdict.
fn verdicts(report: &Report) -> Vec<Value> {
    report
        .at("/gates")
        .as_array()
        .unwrap()
        .iter()
        .map(|gate| gate["ok"].clone())
        .collect()
}

/// It said this, which begins a line, and nothing else beside its data.
#[track_caller]
fn assert_one_line(ended: &Ended, begins: &str) {
    let said = ended.stderr();
    assert!(
        said.starts_with(begins) && said.ends_with('\n') && said.lines().count() == 1,
        "{said}"
    );
}

fn junit(ended: &Ended) -> String {
    fs::read_to_string(ended.result().join("junit.xml")).unwrap()
}

#[test]
fn gates_that_hold_leave_a_run_as_it_is() {
    let target = Target::start("");
    let ended = run(
        &format!(
            "{} --ids 0..2k --shards 2 -c 8 --slo-p99 1h --max-error-rate 1%",
            target.url()
        ),
        &[
            "--fail-if",
            "items == 2k",
            "--threshold",
            "service_p90<1h",
            "--stop-if",
            "error_rate < 50%",
        ],
    );
    // 2,000 samples are too few for a p99 to be judged by.
    let report = ended.report(5);
    assert_one_line(&ended, "error: threshold undecided: service_p99 <= 3600s (");
    assert_eq!(
        verdicts(&report),
        [
            json!(true),
            json!(true),
            json!(null),
            json!(true),
            json!(true)
        ]
    );
    let expressions: Vec<&str> = (0..5)
        .map(|i| report.text(&format!("/gates/{i}/expression")))
        .collect();
    assert_eq!(
        expressions,
        [
            "items == 2000",
            "service_p90 < 3600s",
            "service_p99 <= 3600s",
            "error_rate <= 1%",
            "error_rate < 50%"
        ]
    );
    assert_eq!(
        report.text("/gates/2/why"),
        "not enough data: 2,000 samples, 10,000 needed"
    );
    assert_eq!(
        (report.at("/gates/0/value"), report.text("/gates/4/kind")),
        (&json!(2_000.0), "stop_if")
    );
    assert_eq!(
        (report.at("/stopped_by"), report.at("/interrupted")),
        (&Value::Null, &json!(false))
    );
    let junit = junit(&ended);
    assert!(
        junit.contains("tests=\"5\" failures=\"0\" errors=\"1\""),
        "{junit}"
    );
    assert!(
        junit.contains("<testcase name=\"service_p99 &lt;= 3600s\""),
        "{junit}"
    );

    let ended = run(
        &format!("{} --ids 0..100 --shards 1 -c 2", target.url()),
        &["--threshold", "ok_rate >= 100%"],
    );
    assert_eq!(verdicts(&ended.report(0)), [json!(true)]);
    assert_eq!(ended.stderr(), "");
}

#[test]
fn a_gate_that_fails_fails_the_run_and_outweighs_an_undecided_one() {
    let target = Target::start("--fault error:0.5:500 --processes 1");
    let ended = run(
        &format!(
            "{} --ids 0..400 --shards 2 -c 4 {ONE_ATTEMPT}",
            target.url()
        ),
        &[
            "--threshold",
            "error_rate < 1%",
            "--threshold",
            "service_p999 < 1h",
            "--threshold",
            "throttled == 0",
        ],
    );
    let report = ended.report(3);
    assert_eq!(verdicts(&report), [json!(false), json!(null), json!(true)]);
    let errors = report.items("failed") as f64 / 400.0;
    assert_eq!(*report.at("/gates/0/value"), json!(errors));
    assert!(report.at("/gates/0/margin").as_f64().unwrap() < -1.0);
    assert!(
        junit(&ended).contains(
            "<failure type=\"threshold\" message=\"must hold: error_rate &lt; 1%; seen: "
        )
    );
    assert_one_line(&ended, "error: threshold failed: error_rate < 1% (");
    let summary = fs::read_to_string(ended.result().join("summary.md")).unwrap();
    assert!(
        summary.contains("| error_rate \\< 1% | FAILED | "),
        "{summary}"
    );
    assert!(
        summary.contains("| service_p999 \\< 3600s | undecided | - | 3600 s | - | "),
        "{summary}"
    );
}

#[test]
fn a_run_is_stopped_by_the_gate_that_it_breaks() {
    let target = Target::start("--fault error:0.5:500 --processes 1");
    let ended = run(
        &format!(
            "{} --ids 0..100m -d 60s --rate 500 --shards 2 -c 8 {ONE_ATTEMPT}",
            target.url()
        ),
        &[
            "--stop-if",
            "error_rate[1s] < 1%",
            "--threshold",
            "lost == 0",
        ],
    );
    let report = ended.report(3);
    assert_eq!(report.text("/stopped_by"), "error_rate[1s] < 1%");
    assert_eq!(
        (report.at("/interrupted"), report.at("/interrupted_by")),
        (&json!(true), &Value::Null)
    );
    assert_eq!(verdicts(&report), [json!(true), json!(false)]);
    assert!(report.count("/gates/1/until_s") >= 1);
    assert!(report.items("not_attempted") > 0);
    let summary = fs::read_to_string(ended.result().join("summary.md")).unwrap();
    assert!(
        summary.contains("Threshold failed: error_rate\\[1s\\] "),
        "{summary}"
    );
    assert!(
        summary.contains("Stopped by --stop-if 'error_rate\\[1s\\] "),
        "{summary}"
    );
}

#[test]
fn a_stop_without_a_window_looks_at_all_since_the_start() {
    let target = Target::start("--processes 1");
    let ended = run(
        &format!("{} --ids 0..100m --rate 200 --shards 2 -c 8", target.url()),
        &["--stop-if", "items < 300"],
    );
    let report = ended.report(3);
    assert_eq!(report.text("/stopped_by"), "items < 300");
    assert!(report.items("ok") >= 300);
}

#[test]
fn a_signal_and_an_invalid_measurement_come_before_a_gate() {
    let target = Target::start("--processes 1");
    let line = format!("{} --ids 0..100m --rate 500 --shards 2 -c 8", target.url());
    let run = Run::start(line.split(' ').chain([
        "--threshold",
        "items < 0",
        "--threshold",
        "service_p999 < 1ms",
    ]));
    target.wait_for_requests(10);
    run.signal(Signal::SIGINT);
    let report = run.end().report(130);
    assert_eq!(verdicts(&report), [json!(false), json!(null)]);
    assert_eq!(*report.at("/stopped_by"), Value::Null);

    // Without a single answer the target was the limit, unless the machine was disturbed, which
    // weighs more.
    let target = Target::start("--fault drop:1 --processes 1");
    let line = format!(
        "{} --ids 0..400 --shards 1 -c 4 --strict {ONE_ATTEMPT}",
        target.url()
    );
    let ended = self::run(&line, &["--threshold", "error_rate < 1%"]);
    assert_eq!(verdicts(&ended.report(4)), [json!(false)]);
    let verdict = ended.report(4).text("/validity/verdict").to_owned();
    assert!(
        ["target_limited", "disturbed"].contains(&verdict.as_str()),
        "{verdict}"
    );
    assert_one_line(&ended, "error: no response was good: ");
}

#[test]
fn a_run_without_gates_has_none() {
    let target = Target::start("");
    let ended = run(
        &format!("{} --ids 0..10 --shards 1 -c 1", target.url()),
        &[],
    );
    assert_eq!(*ended.report(0).at("/gates"), json!([]));
    assert!(!ended.result().join("junit.xml").exists());
}

#[test]
fn what_no_run_can_tell_is_refused() {
    assert_refused(&[
        (&["URL", "--threshold", ""], "--threshold"),
        (
            &["URL", "--threshold", "servce_p99 < 1s"],
            "did you mean `service_p99`?",
        ),
        (
            &["URL", "--threshold", "service_p99 < 250"],
            "`250` has no unit: write 250ms",
        ),
        (
            &["URL", "--threshold", "service_p99[2m] < 250ms"],
            "[1s] to [60s]",
        ),
        (
            &["URL", "--threshold", "item_p99[2s] < 250ms"],
            "known only when the run is over",
        ),
        (&["URL", "--stop-if", "rate = 5"], "--stop-if"),
        (
            &["URL", "--stop-if", "item_p99 < 250ms"],
            "use --threshold 'item_p99 < 250ms'",
        ),
        (
            &["URL", "--threshold", "response_p99 < 250ms"],
            "--arrivals constant",
        ),
        (
            &["URL", "--threshold", "budget_utilisation > 90%"],
            "--rate",
        ),
        (
            &["URL", "-d", "5s", "--threshold", "rate[10s] > 5"],
            "never fills the window",
        ),
        (&["URL", "--slo-p99", "fast"], "--slo-p99"),
        (&["URL", "--slo-p99", "50"], "`50` has no unit: write 50ms"),
        (&["URL", "--slo-p99", "0.5"], "`0.5` has no unit"),
        (
            &["URL", "--threshold", "valid < true"],
            "write one of == != after the metric, not `<`",
        ),
        (&["URL", "--max-error-rate", "5"], "--max-error-rate"),
        (
            &["URL", "--max-error-rate", "5"],
            "write 5%, or 100% for all",
        ),
        (
            &["URL", "--max-error-rate", "150%"],
            "write a share of 0% to 100%",
        ),
    ]);
}

#[test]
fn a_gate_that_the_run_cannot_decide_is_reported_before_it_starts() {
    let target = Target::start("");
    let warning = |flags: &str| {
        let url = target.url();
        let words = format!("run {url} --shards 1 --no-progress --out out {flags}");
        let mut words: Vec<&str> = words.split_whitespace().collect();
        words.extend(["--threshold", "service_p99 < 1h"]);
        let done = Started::new(&words).end();
        let before_the_end = done
            .stderr
            .lines()
            .find(|line| line.starts_with("warning: "))
            .map(str::to_owned);
        (done.code, before_the_end)
    };
    let (code, said) = warning("-n 300");
    assert_eq!(code, Some(5));
    assert_eq!(
        said.as_deref(),
        Some(
            "warning: service_p99 < 3600s needs 10,000 samples and this run makes at most 300, so it cannot pass. \
             Use a longer run (-n, -d), or a lower percentile"
        )
    );
    let (code, said) = warning("-d 1s --rate 200 --arrivals constant");
    assert_eq!(code, Some(5));
    assert!(said.is_some_and(|said| { said.contains("makes at most 200, so it cannot pass.") }));
    assert_eq!(warning("-n 10k"), (Some(0), None));
}

#[test]
fn a_percentile_of_few_samples_fails_if_more_of_them_break_it_than_the_missing_ones_could_mend() {
    let target = Target::start("--processes 1 --latency 20ms");
    let verdict = |items: &str, limit: &str| {
        let url = target.url();
        let threshold = format!("service_p90 < {limit}");
        let words = [
            "run",
            &url,
            "-s",
            "1",
            "-c",
            "20",
            "-n",
            items,
            "--threshold",
            &threshold,
            "--json",
            "--out",
            "out",
        ];
        let done = Started::new(&words).end();
        let report: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
        (done.code, report["gates"][0]["at_least"].as_bool())
    };
    // It takes 1,000 samples, of which a hundred may be slower.
    assert_eq!(verdict("200", "10ms"), (Some(3), Some(true)));
    assert_eq!(verdict("200", "1h"), (Some(5), Some(false)));
    assert_eq!(verdict("100", "10ms"), (Some(5), Some(false)));
}
