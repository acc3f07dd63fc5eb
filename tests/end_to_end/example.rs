//! `examples/memcached`, a workload that is not HTTP: the engine and the results serve it as they
//! serve a crawl; and `examples/read_result`, which reads what they save.

use std::fs;
use std::path::PathBuf;

use assert_cmd::Command;

use crate::process::DEADLINE;
use crate::report::Report;
use crate::run::program;
use crate::scripted::{Peer, with_server};

/// Serves a memcached of which every third key is not set.
fn memcached(mut peer: Peer) {
    while let Some(line) = peer.line() {
        let id: u64 = line
            .strip_prefix("get ")
            .unwrap()
            .trim_end()
            .parse()
            .unwrap();
        peer.send(&if id.is_multiple_of(3) {
            "END\r\n".to_owned()
        } else {
            format!("VALUE {id} 0 2\r\nok\r\nEND\r\n")
        });
    }
}

/// Path of an example, which is built with the tests.
fn example(name: &str) -> PathBuf {
    let example = program().with_file_name("examples").join(name);
    assert!(
        example.is_file(),
        "there is no {}: run `cargo build --examples`",
        example.display()
    );
    example
}

/// Runs the example against `serve`: its exit code, what it printed, and the directory that it
/// saved.
fn run(
    serve: impl Fn(Peer) + Sync,
    args: &[&str],
) -> (Option<i32>, String, PathBuf, tempfile::TempDir) {
    let example = example("memcached");
    let place = tempfile::tempdir().unwrap();
    let output = with_server(serve, |address| {
        let mut command = Command::new(example);
        command
            .arg(address.to_string())
            .args(args)
            .current_dir(place.path());
        command.timeout(DEADLINE).output().unwrap()
    });
    let saved: Vec<_> = fs::read_dir(place.path().join("results/runs"))
        .unwrap()
        .collect();
    assert_eq!(
        saved.len(),
        1,
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let saved = saved.into_iter().next().unwrap().unwrap().path();
    (
        output.status.code(),
        String::from_utf8(output.stdout).unwrap(),
        saved,
        place,
    )
}

#[test]
fn a_workload_that_is_not_http_has_report_page_and_thresholds() {
    let thresholds = [
        "--threshold",
        "attempts == 3k",
        "--threshold",
        "not_found < 1000",
    ];
    let (code, printed, saved, _place) =
        run(memcached, &[&["--ids", "0..3k"][..], &thresholds].concat());
    assert_eq!(code, Some(3), "{printed}");
    let report = Report::read(&saved.join("result.json"));
    report.assert_states(&[("ok", 2_000), ("not_found", 1_000)]);
    // `VALUE 1 0 2`, `ok` and `END`, each with its line end; the digits of all keys; `END` alone
    // for the others.
    let digits = |id: u64| id.to_string().len() as u64;
    let answers = (0..3_000)
        .map(|id| if id % 3 == 0 { 5 } else { 21 + digits(id) })
        .sum::<u64>();
    assert_eq!(report.count("/totals/bytes_received"), answers);
    assert_eq!(
        report.count("/totals/bytes_sent"),
        (0..3_000).map(|id| 6 + digits(id)).sum::<u64>()
    );
    assert_eq!(report.count("/latency/service/count"), 3_000);
    let gates = report.at("/gates").as_array().unwrap().iter();
    assert_eq!(
        gates.map(|gate| gate["ok"].clone()).collect::<Vec<_>>(),
        [true, false]
    );
    let page = fs::read_to_string(saved.join("report.html")).unwrap();
    for shown in ["memcached://127.0.0.1:", "not_found &lt; 1000", "<svg"] {
        assert!(page.contains(shown), "{shown}");
    }
    assert!(saved.join("plots/latency.svg").is_file() && printed.contains("report.html"));
}

#[test]
fn its_failures_are_counted_by_kind_and_make_the_run_invalid() {
    let (code, printed, saved, _place) = run(
        |mut peer| {
            peer.line();
        },
        &["--ids", "0..40"],
    );
    let report = Report::read(&saved.join("result.json"));
    report.assert_states(&[("failed", 40)]);
    assert_eq!(report.errors().keys().collect::<Vec<_>>(), ["closed"]);
    // A busy machine may have a verdict that weighs more; the reason is there all the same.
    assert_ne!(report.text("/validity/verdict"), "valid");
    assert!(!report.finding("all_failed").is_null(), "{printed}");
    assert_eq!((code, report.count("/totals/bytes_received")), (Some(0), 0));
    assert_eq!(
        report.count("/latency/ttfb/count"),
        0,
        "no first byte without a byte"
    );
}

#[test]
fn a_saved_result_is_read_by_the_library() {
    let result = concat!(env!("CARGO_MANIFEST_DIR"), "/results/example");
    let output = Command::new(example("read_result"))
        .arg(result)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success() && said.starts_with("example: "),
        "{said}"
    );
    assert!(
        said.contains(" items/s, ") && said.contains("  p99 ") && said.contains(" ms\n"),
        "{said}"
    );
    let output = Command::new(example("read_result"))
        .arg("/no/such/result")
        .output()
        .unwrap();
    assert!(
        !output.status.success()
            && String::from_utf8_lossy(&output.stderr).contains("/no/such/result")
    );
}
