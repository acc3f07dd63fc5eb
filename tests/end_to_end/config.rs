//! Configuration: a run from a file and the environment, and its repetition by the recorded command
//! line alone.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::command::{assert_fits, call, call_line, json as read_json, program, said};
use crate::report::holds;
use crate::target::Target;

#[test]
fn a_configured_run_is_repeated_by_its_recorded_command_line() {
    let place = tempfile::tempdir().unwrap();
    fs::write(
        place.path().join("crawlmark.toml"),
        "[run]\nitems = 64\nconnections = 4\nshards = 1\nquiet = true\ntag = ['a=1']\n\
         header = ['x-key: k7f3']\n",
    )
    .unwrap();
    // One that lasts: the address of a bundled target is part of the plan.
    let target = Target::start("");
    let mut command = Command::new(program());
    command
        .args(["run", &target.url(), "--seed", "7"])
        .current_dir(place.path());
    command
        .env("CRAWLMARK_RUN_OUT", "first")
        .env("CRAWLMARK_RUN_CONNECTIONS", "8");
    command.env("CRAWLMARK_CONFIG", "crawlmark.toml");
    let output = said(command);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let first = read_json(&place.path().join("first/result.json"));
    assert_fits("result", &first);
    let (file, variable) = ("crawlmark.toml", "CRAWLMARK_RUN_CONNECTIONS");
    holds(
        &first,
        &json!({
            "/command/withheld": ["--header 'x-key: ...'"],
            "/command/sources": {
                "items": file, "connections": variable, "shards": file, "quiet": file,
                "tag": file, "header": file, "out": "CRAWLMARK_RUN_OUT",
            },
        }),
    );
    let page = fs::read_to_string(place.path().join("first/report.html")).unwrap();
    assert!(!page.contains("k7f3"));
    let recorded = first["command"]["arguments"].as_array().unwrap();
    let recorded: Vec<&str> = recorded[1..]
        .iter()
        .map(|word| word.as_str().unwrap())
        .collect();
    let again = [
        &recorded[..],
        &["-H", "x-key: k7f3", "--out", "second", "--quiet"],
    ]
    .concat();
    // Without the variable, the file in the working directory is not read.
    let output = call(place.path(), &again);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let second = read_json(&place.path().join("second/result.json"));
    assert_eq!(first["plan"]["config_hash"], second["plan"]["config_hash"]);
    assert_eq!(
        first["command"]["arguments"],
        second["command"]["arguments"]
    );
    assert_eq!(second["command"].get("sources"), None);
    let file = place.path().join("crawlmark.toml");
    call_line(place.path(), "scale --config crawlmark.toml").code(&[2]);
    fs::write(file, "[run]\nno-such-key = 1\n").unwrap();
    call_line(place.path(), "run --config crawlmark.toml").code(&[2]);
}
