//! `examples/memcached`, a workload that is not HTTP: the engine and the results serve it as they
//! serve a crawl; and `examples/read_result`, which reads what they save.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;

use crate::command::{Done, program, said, words};
use crate::report::Report;
use crate::scripted::{Peer, with_server};

/// An example, which is built with the tests.
fn example(name: &str) -> Command {
    let example = program().with_file_name("examples").join(name);
    let is_built = example.is_file();
    assert!(
        is_built,
        "no {}: run `cargo build --examples`",
        example.display()
    );
    Command::new(example)
}

/// Run the example against `serve`, and return its output with the report and the directory that it
/// saved.
fn memcached(serve: impl Fn(Peer) + Sync, flags: &str) -> (Done, Report, PathBuf, TempDir) {
    let place = tempfile::tempdir().unwrap();
    let output = with_server(serve, |address| {
        let mut command = example("memcached");
        command
            .arg(address.to_string())
            .args(words(flags))
            .current_dir(place.path());
        said(command)
    });
    let saved: Vec<_> = fs::read_dir(place.path().join("results/runs"))
        .unwrap()
        .flatten()
        .collect();
    assert_eq!(saved.len(), 1, "{}", output.stderr);
    let saved = saved[0].path();
    (
        output,
        Report::read(&saved.join("result.json")),
        saved,
        place,
    )
}

#[test]
fn a_workload_that_is_not_http_has_report_page_and_thresholds() {
    // Every third key is not set.
    let serve = |mut peer: Peer| {
        while let Some(line) = peer.line() {
            let id: u64 = line
                .strip_prefix("get ")
                .unwrap()
                .trim_end()
                .parse()
                .unwrap();
            let value = format!("VALUE {id} 0 2\r\nok\r\n");
            peer.send(if id.is_multiple_of(3) { "" } else { &value });
            peer.send("END\r\n");
        }
    };
    let flags = "--ids 0..3k --threshold 'attempts == 3k' --threshold 'not_found < 1000'";
    let (output, report, saved, _place) = memcached(serve, flags);
    assert_eq!(output.code, Some(3), "{}", output.stdout);
    report.assert_states(&[("ok", 2_000), ("not_found", 1_000)]);
    // `VALUE 1 0 2`, `ok` and `END`, each with its line end; the digits of all keys; `END` alone
    // for the others.
    let digits = |id: u64| id.to_string().len() as u64;
    let answers = (0..3_000).map(|id| if id % 3 == 0 { 5 } else { 21 + digits(id) });
    report.holds(&json!({
        "/totals/bytes_received": answers.sum::<u64>(),
        "/totals/bytes_sent": (0..3_000).map(|id| 6 + digits(id)).sum::<u64>(),
        "/latency/service/count": 3_000, "/gates/0/ok": true, "/gates/1/ok": false,
    }));
    let page = fs::read_to_string(saved.join("report.html")).unwrap();
    for shown in ["memcached://127.0.0.1:", "not_found &lt; 1000", "<svg"] {
        assert!(page.contains(shown), "{shown}");
    }
    assert!(saved.join("plots/latency.svg").is_file() && output.stdout.contains("report.html"));
    // Its failures are counted by kind, without a first byte.
    let (output, report, ..) = memcached(|mut peer| drop(peer.line()), "--ids 0..40");
    report.assert_states(&[("failed", 40)]);
    assert!(report.errors().keys().eq(["closed"]));
    assert!(!report.finding("all_failed").is_null(), "{}", output.stdout);
    report.holds(&json!({"/totals/bytes_received": 0, "/latency/ttfb/count": 0}));
}

#[test]
fn a_saved_result_is_read_by_the_library() {
    let mut read = example("read_result");
    read.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/results/example"));
    let output = said(read);
    assert!(
        output.code == Some(0) && output.stdout.starts_with("example: "),
        "{}",
        output.stdout
    );
    for part in [" items/s, ", "  p99 ", " ms\n"] {
        assert!(output.stdout.contains(part), "{}", output.stdout);
    }
    let mut read = example("read_result");
    read.arg("/no/such/result");
    let output = said(read);
    assert!(output.code != Some(0) && output.stderr.contains("/no/such/result"));
}
