//! Configuration from outside: a run from a file and the environment, and its repetition by the
//! recorded command line alone.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose program cannot be started is over"
)]

use std::fs;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::run::program;
use crate::schema::complaints;
use crate::target::Target;

/// Flags of a run that is over at once.
const SHORT: &str = "[run]\nitems = 64\nconnections = 4\nshards = 1\nquiet = true\ntag = ['a=1']\nheader = ['x-key: k7f3']\n";

fn crawlmark(place: &std::path::Path, words: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(program());
    command
        .args(words)
        .current_dir(place)
        .envs(environment.iter().copied())
        .stdin(Stdio::null());
    command.output().unwrap()
}

fn result(place: &std::path::Path) -> Value {
    serde_json::from_str(&fs::read_to_string(place.join("result.json")).unwrap()).unwrap()
}

fn words(value: &Value) -> Vec<&str> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap())
        .collect()
}

#[test]
fn a_configured_run_is_repeated_by_its_recorded_command_line() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("crawl.toml"), SHORT).unwrap();
    let environment = [
        ("CRAWLMARK_RUN_OUT", "first"),
        ("CRAWLMARK_RUN_CONNECTIONS", "8"),
        ("CRAWLMARK_CONFIG", "crawl.toml"),
    ];
    // One that lasts: the address of a bundled target is part of the plan.
    let target = Target::start("");
    let output = crawlmark(
        place.path(),
        &["run", &target.url(), "--seed", "7"],
        &environment,
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let first = result(&place.path().join("first"));
    assert_eq!(complaints(&first), Vec::<String>::new());
    let sources = serde_json::json!({
        "items": "crawl.toml", "connections": "CRAWLMARK_RUN_CONNECTIONS", "shards": "crawl.toml",
        "quiet": "crawl.toml", "tag": "crawl.toml", "header": "crawl.toml", "out": "CRAWLMARK_RUN_OUT",
    });
    assert_eq!(first["command"]["sources"], sources);
    assert!(
        !fs::read_to_string(place.path().join("first/report.html"))
            .unwrap()
            .contains("k7f3")
    );
    assert_eq!(
        first["command"]["withheld"],
        serde_json::json!(["--header 'x-key: ...'"])
    );

    let recorded = words(&first["command"]["arguments"]);
    let again = [
        &recorded[1..],
        &["-H", "x-key: k7f3", "--out", "second", "--quiet"],
    ]
    .concat();
    let output = crawlmark(place.path(), &again, &[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let second = result(&place.path().join("second"));
    assert_eq!(first["plan"]["config_hash"], second["plan"]["config_hash"]);
    assert_eq!(
        first["command"]["arguments"],
        second["command"]["arguments"]
    );
    assert_eq!(second["command"].get("sources"), None);
}

#[test]
fn rounds_of_a_study_are_what_their_words_say() {
    let place = tempfile::tempdir().unwrap();
    let words = [
        "ab", "--pairs", "1", "--quiet", "--out", "out", "--", "-n", "64", "-c", "4", "-s", "1",
    ];
    let output = crawlmark(
        place.path(),
        &words,
        &[
            ("CRAWLMARK_RUN_RATE", "1"),
            ("CRAWLMARK_RUN_OUT", "elsewhere"),
        ],
    );
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert!(!place.path().join("elsewhere").exists());
    let output = crawlmark(place.path(), &["ab", "--", "--config", "x.toml"], &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(2) && said.contains("--config is for single runs"),
        "{said}"
    );
}

#[test]
fn a_file_in_the_working_directory_is_read_only_when_it_is_named() {
    let place = tempfile::tempdir().unwrap();
    fs::write(
        place.path().join("crawlmark.toml"),
        "[run]\nno-such-key = 1\n",
    )
    .unwrap();
    let output = crawlmark(
        place.path(),
        &["run", "-n", "64", "-s", "1", "--quiet", "--out", "out"],
        &[],
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let output = crawlmark(place.path(), &["run", "--config", "crawlmark.toml"], &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(2)
            && said.contains("crawlmark.toml: [run] has no key `no-such-key`"),
        "{said}"
    );
}

#[test]
fn a_flag_replaces_another_way_to_say_the_same_and_a_file_of_another_command_is_refused() {
    let (place, target) = (tempfile::tempdir().unwrap(), Target::start(""));
    fs::write(
        place.path().join("crawl.toml"),
        SHORT.to_owned() + "url = 'http://127.0.0.1:1/'\n",
    )
    .unwrap();
    fs::write(place.path().join("urls.txt"), target.url()).unwrap();
    let words = [
        "run",
        "--config",
        "crawl.toml",
        "--urls",
        "urls.txt",
        "--out",
        "out",
    ];
    let output = crawlmark(place.path(), &words, &[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(
        result(&place.path().join("out"))["command"]["sources"].get("url"),
        None
    );
    let output = crawlmark(place.path(), &["scale", "--config", "crawl.toml"], &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(2) && said.contains("no table [scale], only [run]"),
        "{said}"
    );
}
