//! Flags from a file: a run with them, and its repetition by the recorded command line alone.

use std::fs;

use serde_json::json;

use crate::command::{assert_fits, call, call_line, json as read_json};
use crate::report::holds;
use crate::target::Target;

#[test]
fn a_configured_run_is_repeated_by_its_recorded_command_line() {
    let place = tempfile::tempdir().unwrap();
    let flags = "--items 64 -c 4 --shards 1 # few\n--quiet --tag a=1\n-H 'x-key: k7f3'\n";
    fs::write(place.path().join("flags"), flags).unwrap();
    // One that lasts: the address of a bundled target is part of the plan.
    let target = Target::start("");
    let url = target.url();
    let first = [
        "run", &url, "--seed", "7", "--trace", "--config", "flags", "-c", "8", "--out", "first",
    ];
    let output = call(place.path(), &first);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let first = read_json(&place.path().join("first/result.json"));
    assert_fits("result", &first);
    holds(
        &first,
        &json!({
            "/command/withheld": ["--header 'x-key: ...'"],
            "/plan/connections": 8,
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
    let output = call(place.path(), &again);
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    let second = read_json(&place.path().join("second/result.json"));
    assert_eq!(first["plan"]["config_hash"], second["plan"]["config_hash"]);
    assert_eq!(
        first["command"]["arguments"],
        second["command"]["arguments"]
    );
    fs::write(place.path().join("flags"), "-H 'x").unwrap();
    call_line(place.path(), "run --config flags").code(&[2]);
}

#[test]
fn a_refused_command_line_names_its_files() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("flags"), "--no-such=3").unwrap();
    let said = call_line(place.path(), "run --config flags").code(&[2]);
    assert!(said.stderr.contains("--config flags"), "{}", said.stderr);
}
