//! Exports of real runs: where they go, what is refused, and what the formats' own readers make of
//! them.
//!
//! The readers are those of `tests/consumers/read.py`, in `target/consumers` where CI installs
//! them, or in any Python that is there; what is not installed is skipped, with a line that says
//! so. The formats that are JSON have a schema in `export/`, each written from its tool's
//! documentation.

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crawlmark_results::export::Format;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::Value;

use crate::command::{call, call_line, json as read_json};
use crate::run::{ONE_ATTEMPT, Run, ended};
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
fn other_programs_read_the_exports_of_runs_of_every_kind() {
    for (target, flags) in [
        ("--fault error:0.02:500", "--ids 0..5k -c 8 --tag a=b,c"),
        ("--fault silence:0.01", "--ids 0..2k -c 16 --timeout 500ms"),
        (
            "--latency uniform:1ms,3ms",
            "-d 2s --rate 1500 --arrivals constant -c 200",
        ),
    ] {
        let target = Target::start(target);
        assert_exports(
            &format!("{} {flags} --shards 2 {ONE_ATTEMPT}", target.url()),
            0,
        );
    }
}

#[test]
fn an_export_goes_where_it_is_told() {
    let (target, folder) = (Target::start(""), tempfile::tempdir().unwrap());
    let place = folder.path();
    let run = |args: &str| {
        let line = format!(
            "run {} --ids 0..300 -s 1 -c 4 --no-progress {args}",
            target.url()
        );
        call_line(place, &line)
    };
    fs::write(place.join("old.json"), "old").unwrap();
    symlink("old.json", place.join("link.json")).unwrap();
    let mode = Mode::from_bits_truncate(0o600);
    mkfifo(&place.join("pipe"), mode).unwrap();
    // Open at both ends, so that nobody waits.
    let pipe = OpenOptions::new()
        .read(true)
        .write(true)
        .open(place.join("pipe"));
    let exports = "--export bencher=link.json --export csv=pipe --export csv-shards=-";
    let said = run(&format!("--out one --export hgrm {exports}"));
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    // Nothing but the table, which has a row for the only shard.
    assert!(said.stdout.starts_with("shard,") && said.stdout.lines().count() == 2);
    assert!(read_json(&place.join("old.json"))["crawl"]["valid"].is_object());
    assert!(place.join("link.json").is_symlink() && place.join("one/latency.hgrm").exists());
    let mut head = [0; 8];
    pipe.unwrap().read_exact(&mut head).unwrap();
    assert_eq!(&head, b"start_s,");
    assert!(
        run("--out two --export csv=-")
            .stdout
            .starts_with("start_s,")
    );
    let said = run("--out three --json");
    let measured = fs::read_to_string(place.join("three/result.json")).unwrap();
    assert_eq!(said.stdout, measured);
    let said = run("--out four --latency");
    assert!(
        said.stdout
            .contains("service times by percentile, 300 samples"),
        "{}",
        said.stdout
    );
    let said = call_line(place, "report three/result.json four --export k6-summary");
    assert_eq!(
        said.stdout, "three/k6-summary.json\nfour/k6-summary.json\n",
        "{}",
        said.stderr
    );
    for (line, says) in [
        ("three four --export csv=-", "several results"),
        ("nowhere three --export csv", "nowhere"),
        (
            "three --export csv=a --export hgrm=./a",
            "written to the same place",
        ),
        (
            "three --export csv=three/../three/result.json",
            "it is the result itself",
        ),
        ("three --out four", "--out four holds another result"),
    ] {
        let said = call_line(place, &format!("report {line}"));
        assert!(
            said.code == Some(2) && said.stderr.contains(says),
            "{line}: {}",
            said.stderr
        );
    }
    assert_eq!(
        fs::read_to_string(place.join("three/result.json")).unwrap(),
        measured
    );
    assert!(!place.join("a").exists());
    // A failed threshold has the exit code that was asked for.
    for (flags, code) in [("", 3), ("--k6-exit-codes", 99)] {
        let line = format!(
            "{} -n 100 -s 1 -c 2 --threshold 'items<5' {flags}",
            target.url()
        );
        ended(&line).report(code);
    }
}
