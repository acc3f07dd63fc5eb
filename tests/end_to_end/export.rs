//! Exports of real runs: where they go, what is refused, and what the formats' own readers make of
//! them.
//!
//! The readers are those of `tests/consumers/read.py`, in `target/consumers` where CI installs
//! them, or in any Python that is there; what is not installed is skipped, with a line that says
//! so. The formats that are JSON have a schema in `export/`, each written from its tool's
//! documentation.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose files cannot be read is over"
)]

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crawlmark_results::export::Format;
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::Value;

use crate::bad_input::{assert_refused, call};
use crate::run::{ONE_ATTEMPT, Run};
use crate::target::Target;

/// Flags for every export, each under its usual name.
fn every_export() -> Vec<String> {
    Format::ALL
        .iter()
        .flat_map(|format| ["--export".to_owned(), format.to_string()])
        .collect()
}

/// What is in a file of a result.
#[track_caller]
fn read(result: &Path, format: Format) -> String {
    fs::read_to_string(result.join(format.file_name())).unwrap()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// What a schema has to say against a text.
fn complaints(schema: &str, text: &str) -> Vec<String> {
    let validator = jsonschema::draft202012::new(&json(schema)).unwrap();
    validator
        .iter_errors(&json(text))
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

/// A Python with the readers, or any.
pub(crate) fn python() -> PathBuf {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/consumers/bin/python");
    std::env::var_os("CRAWLMARK_PYTHON").map_or(
        if installed.exists() {
            installed
        } else {
            "python3".into()
        },
        PathBuf::from,
    )
}

/// Has the readers read a result with all of its exports.
#[track_caller]
#[expect(
    clippy::print_stderr,
    reason = "a reader that was not asked is said to be so"
)]
fn have_read(result: &Path) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/consumers/read.py");
    let Ok(output) = Command::new(python()).arg(script).arg(result).output() else {
        eprintln!("skipped: the readers of tests/consumers: there is no Python");
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    eprintln!("{said}");
}

/// Every export of a run with this line is as its format has it, and as `report` makes it of the
/// saved result.
#[track_caller]
fn assert_exports(line: &str, code: i32) {
    let args = line
        .split_whitespace()
        .map(ToOwned::to_owned)
        .chain(every_export());
    let ended = Run::start(args.chain(["--threshold".to_owned(), "attempts > 0".to_owned()])).end();
    ended.report(code);
    let result = ended.result();
    let schemas = [
        (Format::Bencher, include_str!("export/bencher.schema.json")),
        (
            Format::GithubBenchmarkBigger,
            include_str!("export/github-benchmark.schema.json"),
        ),
        (
            Format::GithubBenchmarkSmaller,
            include_str!("export/github-benchmark.schema.json"),
        ),
        (
            Format::K6Summary,
            include_str!("export/k6-summary.schema.json"),
        ),
    ];
    for (format, schema) in schemas {
        assert_eq!(
            complaints(schema, &read(&result, format)),
            Vec::<String>::new(),
            "{format}"
        );
    }
    have_read(&result);
    let again = tempfile::tempdir().unwrap();
    let args = [
        "report".to_owned(),
        result.display().to_string(),
        "--out".to_owned(),
        "again".to_owned(),
    ];
    let args: Vec<String> = args.into_iter().chain(every_export()).collect();
    let said = call(
        again.path(),
        &args.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    assert_eq!(
        (said.code, said.stdout.lines().count()),
        (Some(0), Format::ALL.len()),
        "{}",
        said.stderr
    );
    for format in Format::ALL {
        assert_eq!(
            read(&again.path().join("again"), format),
            read(&result, format),
            "{format}"
        );
    }
}

#[test]
fn a_closed_loop_is_read_by_others_as_it_was_meant() {
    let target = Target::start("--fault error:0.02:500");
    assert_exports(
        &format!(
            "{} --ids 0..5k --shards 2 -c 8 --tag a=b,c {ONE_ATTEMPT}",
            target.url()
        ),
        0,
    );
}

#[test]
fn a_run_with_answers_that_never_came_is_read_by_others_as_it_was_meant() {
    let target = Target::start("--fault silence:0.01");
    assert_exports(
        &format!(
            "{} --ids 0..2k --shards 2 -c 16 --timeout 500ms {ONE_ATTEMPT}",
            target.url()
        ),
        0,
    );
}

#[test]
fn an_open_loop_is_read_by_others_as_it_was_meant() {
    let target = Target::start("--latency uniform:1ms,3ms");
    let line = format!(
        "{} -d 2s --rate 1500 --arrivals constant --shards 2 -c 200",
        target.url()
    );
    assert_exports(&line, 0);
}

#[test]
fn an_export_goes_where_it_is_told() {
    let (target, place) = (Target::start(""), tempfile::tempdir().unwrap());
    let run = |args: &str| {
        let line = format!(
            "run {} --ids 0..300 --shards 1 -c 4 --no-progress {args}",
            target.url()
        );
        call(place.path(), &line.split_whitespace().collect::<Vec<_>>())
    };
    fs::write(place.path().join("old.json"), "old").unwrap();
    symlink("old.json", place.path().join("link.json")).unwrap();
    mkfifo(&place.path().join("pipe"), Mode::from_bits_truncate(0o600)).unwrap();
    // Open at both ends, so that nobody waits for anybody.
    let mut pipe = OpenOptions::new()
        .read(true)
        .write(true)
        .open(place.path().join("pipe"))
        .unwrap();
    let said = run(
        "--out one --export bencher=link.json --export csv=pipe --export hgrm --export csv-shards=-",
    );
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    // Nothing but the table, which has a row for the only shard.
    assert_eq!(said.stdout.lines().count(), 2, "{}", said.stdout);
    assert!(said.stdout.starts_with("shard,"), "{}", said.stderr);
    assert!(
        json(&fs::read_to_string(place.path().join("old.json")).unwrap())["crawl"]["valid"]
            .is_object()
    );
    assert!(place.path().join("link.json").is_symlink());
    assert!(
        fs::metadata(place.path().join("pipe"))
            .unwrap()
            .file_type()
            .is_fifo(),
        "it was replaced"
    );
    let mut head = [0; 8];
    pipe.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"start_s,");
    assert!(place.path().join("one/latency.hgrm").exists());

    let said = run("--out two --output-format csv");
    assert!(
        said.stdout.starts_with("start_s,") && !said.stdout.contains("Report: "),
        "{}",
        said.stdout
    );
    let said = run("--out three --output-format json");
    assert_eq!(
        said.stdout,
        fs::read_to_string(place.path().join("three/result.json")).unwrap()
    );
    let said = run("--out four --latency --output-format text");
    assert!(
        said.stdout
            .contains("service times by percentile, 300 samples"),
        "{}",
        said.stdout
    );
    assert!(
        said.stdout.contains("\nReport: four/report.html\n"),
        "{}",
        said.stdout
    );

    let said = call(
        place.path(),
        &["report", "three", "--export", "step-summary=-"],
    );
    assert!(
        said.stdout.starts_with("## crawl: http://127.0.0.1:"),
        "{}",
        said.stdout
    );
    let said = call(
        place.path(),
        &[
            "report",
            "three/result.json",
            "four",
            "--export",
            "k6-summary",
        ],
    );
    assert_eq!(
        said.stdout, "three/k6-summary.json\nfour/k6-summary.json\n",
        "{}",
        said.stderr
    );
    let measured = fs::read(place.path().join("three/result.json")).unwrap();
    for (line, says) in [
        ("three four --export csv=-", "several results"),
        ("nowhere three --export csv", "nowhere"),
        (
            "three --export csv=a --export hgrm=./a",
            "both would be written to the same place",
        ),
        (
            "three --export csv --export hgrm=three/intervals.csv",
            "both would be written to the same place",
        ),
        (
            "three --export csv=three/../three/result.json",
            "it is the result itself",
        ),
        (
            "three --export csv=three/latency.hlog",
            "it is the result itself",
        ),
        ("three --export csv --png", "cannot be used with"),
        ("three --out four", "--out four holds another result"),
        (
            "three --export csv --out four",
            "--out four holds another result",
        ),
        (
            "three --from 0s --out four",
            "--out four holds another result",
        ),
    ] {
        let args: Vec<&str> = ["report"].into_iter().chain(line.split(' ')).collect();
        let said = call(place.path(), &args);
        assert!(
            said.code == Some(2) && said.stderr.contains(says),
            "{line}: {}",
            said.stderr
        );
    }
    assert_eq!(
        fs::read(place.path().join("three/result.json")).unwrap(),
        measured
    );
    assert!(!place.path().join("a").exists() && !place.path().join("three/intervals.csv").exists());
    // Named from inside, too, a result is not taken for another place.
    let inside = place.path().join("three");
    let said = call(
        &inside,
        &["report", "result.json", "--from", "0s", "--out", "."],
    );
    assert!(
        said.code == Some(2) && said.stderr.contains("is the result itself"),
        "{}",
        said.stderr
    );
}

#[test]
fn a_part_of_a_run_is_refused_as_a_point_of_a_history_and_the_rest_is_written() {
    let target = Target::start("--processes 1");
    let line = format!(
        "{} --ids 0..100m --rate 500 --shards 2 -c 8 --export bencher --export openmetrics",
        target.url()
    );
    let run = Run::start(line.split(' '));
    target.wait_for_requests(10);
    run.signal(Signal::SIGINT);
    let ended = run.end();
    ended.report(130);
    let complaint = "error: failed to export bencher: the run was stopped early";
    assert!(ended.stderr().contains(complaint), "{}", ended.stderr());
    assert!(!ended.result().join("bencher.json").exists());
    assert!(read(&ended.result(), Format::OpenMetrics).contains("\ncrawlmark_interrupted 1\n"));

    let result = ended.result().display().to_string();
    let said = call(
        ended.result().parent().unwrap(),
        &["report", &result, "--export", "bencher=-"],
    );
    assert_eq!((said.code, said.stdout.as_str()), (Some(1), ""));
    assert!(said.stderr.contains(complaint), "{}", said.stderr);
}

#[test]
fn a_gate_that_fails_has_the_exit_code_that_was_asked_for() {
    let target = Target::start("");
    let line = format!(
        "{} --ids 0..100 --shards 1 -c 2 --threshold items<5",
        target.url()
    );
    Run::start(line.split(' ')).end().report(3);
    Run::start(line.split(' ').chain(["--k6-exit-codes"]))
        .end()
        .report(99);
}

#[test]
fn an_export_that_has_no_place_is_refused() {
    assert_refused(&[
        (
            &["URL", "--export", "xls"],
            "`xls` is not a valid format: write one of csv, ",
        ),
        (&["URL", "--export", "csv="], "--export"),
        (
            &["URL", "--export", "csv=."],
            "--export csv=.: it is a directory",
        ),
        (
            &["URL", "--export", "csv=nowhere/a.csv"],
            "--export csv=nowhere/a.csv: the directory nowhere does not exist: make it",
        ),
        (
            &["URL", "--export", "csv=a", "--export", "hgrm=a"],
            "--export csv and --export hgrm",
        ),
        (
            &["URL", "--export", "csv=-", "--export", "hgrm=-"],
            "--export csv and --export hgrm",
        ),
        (
            &["URL", "--export", "csv=-", "--output-format", "csv"],
            "--export csv and --export csv",
        ),
        (&["URL", "--export", "csv=-", "--json"], "standard output"),
        (
            &["URL", "--output-format", "json", "--export", "csv=-"],
            "standard output",
        ),
        (
            &["URL", "--output-format", "csv", "--json"],
            "--output-format",
        ),
        (
            &["URL", "--output-format", "xml"],
            "not one of text, json and csv",
        ),
        (&["URL", "--latency", "--json"], "--latency"),
        (&["URL", "--latency", "--export", "csv=-"], "--latency"),
    ]);
}
