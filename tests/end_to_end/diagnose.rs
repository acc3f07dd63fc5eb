//! `--diagnose` against targets that show a fault, from the outside.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::command::{run, start};
use crate::process::wait_for;
use crate::run::crawl;
use crate::target::Target;

fn kinds(findings: &[Value]) -> Vec<&str> {
    findings
        .iter()
        .filter_map(|it| it["kind"].as_str())
        .collect()
}

#[test]
fn workers_and_delayed_acknowledgements_are_found_by_experiments_within_the_ids() {
    for (flags, kind, rate) in [
        (
            "--processes 1 --latency 20ms --workers 2",
            "works_on_few",
            "",
        ),
        (
            "--processes 1 --latency 5ms --fault nagle:1",
            "delayed_ack",
            "--rate 80",
        ),
    ] {
        let target = Target::start(flags);
        // Beside other tests, a diagnosis may be disturbed: then it names nothing.
        let is_found = (0..3).any(|_| {
            let report = crawl(&format!(
                "{} -c 8 -s 1 -d 2s --diagnose {rate}",
                target.url()
            ));
            let made = report.array("/experiments").len();
            // The judgement after the experiments keeps what was checked before them.
            let checked = report.array("/validity/checked");
            assert!(checked.contains(&json!("hosts before the start")));
            assert!((1..=5).contains(&made), "{flags}: {made} experiments");
            kinds(report.array("/findings")).contains(&kind)
        });
        assert!(is_found, "{flags}");
    }
}

#[test]
fn what_changes_something_is_not_sent_again() {
    for flags in ["--body 'x={id}'", "--method PATCH"] {
        let line = format!("run http://127.0.0.1:1/{{id}} --diagnose {flags}");
        run(&line).code(&[2]);
    }
}

#[test]
fn a_signal_while_experiments_run_ends_them_and_keeps_the_run() {
    let target = Target::start("--processes 1 --latency 20ms --workers 2");
    let run = start(&format!(
        "run {} -c 8 -s 1 -d 1s --diagnose --json --out out",
        target.url()
    ));
    wait_for("the first experiment", || {
        run.stderr().contains("diagnosing: ").then_some(())
    });
    run.signal(Signal::SIGINT);
    let report = run.end().report(130);
    report.holds(&json!({"/interrupted": false, "/ledger/lost": 0}));
}
