//! Thresholds: passed, failed, undecided, and a run that is stopped by one; by exit code, report and
//! files.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::command::{Done, run};
use crate::report::Report;
use crate::run::{ONE_ATTEMPT, ended, start};
use crate::target::Target;

/// The verdict of each threshold.
fn verdicts(report: &Report) -> Vec<Value> {
    let gates = report.at("/gates").as_array().unwrap().iter();
    gates.map(|gate| gate["ok"].clone()).collect()
}

/// Check that its complaint is one line, which begins so.
#[track_caller]
fn assert_one_line(ended: &Done, begins: &str) {
    let said = &ended.stderr;
    assert!(
        said.starts_with(begins) && said.lines().count() == 1,
        "{said}"
    );
}

#[test]
fn an_undecided_threshold_has_an_exit_code_of_its_own() {
    let target = Target::start("");
    let line = format!("{} --shards 2 -c 8", target.url());
    let ended = ended(&format!(
        "{line} -n 2k --slo-p99 1h --max-error-rate 1% --fail-if 'items == 2k' \
         --threshold 'service_p90<1h' --stop-unless 'error_rate < 50%'"
    ));
    // 2,000 samples are too few for a p99 to be judged by.
    let report = ended.report(5);
    assert_one_line(&ended, "error: threshold undecided: service_p99 <= 3600s (");
    let passed = json!(true);
    assert_eq!(
        verdicts(&report),
        [&passed, &passed, &Value::Null, &passed, &passed].map(Clone::clone)
    );
    report.holds(&json!({
        "/gates/0/expression": "items == 2000", "/gates/0/value": 2_000.0,
        "/gates/3/expression": "error_rate <= 1%", "/gates/4/kind": "stop_unless",
        "/stopped_by": null, "/interrupted": false,
    }));
    let junit = ended.file("junit.xml");
    assert!(
        junit.contains("tests=\"5\" failures=\"0\" errors=\"1\""),
        "{junit}"
    );
    let ended = self::ended(&format!("{line} -n 100 --threshold 'ok_rate >= 100%'"));
    assert_eq!(verdicts(&ended.report(0)), [true]);
    assert_eq!(ended.stderr, "");
    let ended = self::ended(&format!("{line} -n 10"));
    ended.report(0).holds(&json!({"/gates": []}));
    assert!(!ended.out().join("junit.xml").exists());
    // A run whose threshold cannot be decided says so before it starts.
    for (flags, code) in [
        ("-n 300", 5),
        ("-d 1s --rate 200 --arrivals constant", 5),
        ("-n 10k", 0),
    ] {
        let line = format!("run {line} --no-progress --out out {flags}");
        let done = run(&format!("{line} --threshold 'service_p99 < 1h'")).code(&[code]);
        let warned = done
            .stderr
            .contains("warning: service_p99 < 3600s needs 10,000 samples");
        assert_eq!(warned, code == 5, "{}", done.stderr);
    }
}

#[test]
fn a_failed_threshold_fails_the_run_and_outweighs_an_undecided_one() {
    let target = Target::start("--fault error:0.5:500 --processes 1");
    let ended = ended(&format!(
        "{} -n 400 --shards 2 -c 4 {ONE_ATTEMPT} --threshold 'error_rate < 1%' \
         --threshold 'service_p999 < 1h' --threshold 'throttled == 0'",
        target.url()
    ));
    let report = ended.report(3);
    assert_eq!(verdicts(&report), [json!(false), Value::Null, json!(true)]);
    report.holds(&json!({"/gates/0/value": report.items("failed") as f64 / 400.0}));
    assert!(report.number("/gates/0/margin") < -1.0);
    assert!(
        ended
            .file("junit.xml")
            .contains("<failure type=\"threshold\"")
    );
    assert_one_line(&ended, "error: threshold failed: error_rate < 1% (");
}

#[test]
fn a_run_is_stopped_by_the_threshold_that_it_breaks() {
    let target = Target::start("--fault error:0.5:500 --processes 1");
    let report = ended(&format!(
        "{} -d 60s --rate 500 --shards 2 -c 8 {ONE_ATTEMPT} --stop-unless 'error_rate[1s] < 1%' \
         --threshold 'lost == 0'",
        target.url()
    ))
    .report(3);
    report.holds(&json!({
        "/stopped_by": "error_rate[1s] < 1%", "/interrupted": true, "/interrupted_by": null,
    }));
    assert_eq!(verdicts(&report), [true, false]);
    assert!(report.count("/gates/1/until_s") >= 1 && report.items("not_attempted") > 0);
}

#[test]
fn a_signal_and_an_invalid_measurement_come_before_a_threshold() {
    let target = Target::start("--processes 1");
    let run = start(&format!(
        "{} --rate 500 --shards 2 -c 8 --threshold 'items < 0' --threshold 'service_p999 < 1ms'",
        target.url()
    ));
    target.wait_for_requests(10);
    run.signal(Signal::SIGINT);
    let report = run.end().report(130);
    assert_eq!(verdicts(&report), [json!(false), Value::Null]);
    report.holds(&json!({"/stopped_by": null}));
    let target = Target::start("--fault drop:1 --processes 1");
    let ended = ended(&format!(
        "{} -n 400 --shards 1 -c 4 --strict {ONE_ATTEMPT} --threshold 'error_rate < 1%'",
        target.url()
    ));
    assert_eq!(verdicts(&ended.report(4)), [false]);
    assert_one_line(&ended, "error: no response was good: ");
}
