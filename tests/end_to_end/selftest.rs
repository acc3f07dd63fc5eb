//! `crawlmark selftest` from outside: what it says is what it saved, nothing fails on a machine
//! however busy, and nothing is left of it.
//!
//! Whether a row can fail is shown where it is judged. Here a machine that does other things may
//! make any row `disturbed`.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose program cannot be started is over"
)]

use std::fs;
use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::command::{self, Done, Started};
use crate::process::{children, wait_for};
use crate::schema::closed;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../results/schema/selftest-1.schema.json")).unwrap()
});

static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| closed(&SCHEMA));

fn complaints(outcome: &Value) -> Vec<String> {
    command::complaints(&VALIDATOR, outcome)
}

fn started(args: &str) -> Started {
    Started::new(
        &std::iter::once("selftest")
            .chain(args.split_whitespace())
            .collect::<Vec<_>>(),
    )
}

impl Done {
    /// The outcome that was saved, which its schema describes and whose verdict is that of its rows
    /// and of its exit code.
    fn outcome(&self) -> Value {
        let outcome = self.saved("selftest.json", &VALIDATOR);
        let results: Vec<&str> = rows(&outcome)
            .iter()
            .map(|row| row["result"].as_str().unwrap())
            .collect();
        let gravest = ["failed", "not_run", "disturbed", "passed"]
            .into_iter()
            .find(|result| results.contains(result));
        assert_eq!(outcome["verdict"].as_str(), gravest);
        let expected = match gravest.unwrap() {
            "passed" => 0,
            "failed" => 3,
            _ => 5,
        };
        assert_eq!(self.code, Some(expected), "{}", self.stderr);
        outcome
    }
}

fn rows(outcome: &Value) -> &Vec<Value> {
    outcome["rows"].as_array().unwrap()
}

/// A row is what its attempts are: judged again, from what was saved.
fn assert_judged(row: &Value) {
    let name = &row["row"];
    let figures = |of: &Value| of["figures"].as_array().unwrap().clone();
    for figure in row["attempts"].as_array().unwrap().iter().flat_map(figures) {
        let within = match (figure["expected"].as_f64(), figure["measured"].as_f64()) {
            (Some(_), Some(measured)) => {
                figure["low"].as_f64().is_none_or(|low| measured >= low)
                    && figure["high"].as_f64().is_none_or(|high| measured <= high)
            }
            (Some(_), None) => false,
            (None, _) => figure["expected"] == figure["measured"],
        };
        assert_eq!(figure["met"], json!(within), "{name}: {figure}");
        if let (Some(expected), Some(measured)) =
            (figure["expected"].as_f64(), figure["measured"].as_f64())
        {
            assert!(
                (measured - expected - figure["error"].as_f64().unwrap()).abs() < 1e-6,
                "{name}: {figure}"
            );
        }
    }
    let counts = |attempt: &&Value| attempt["disturbed_by"].as_array().unwrap().is_empty();
    let passes = |attempt: &Value| {
        figures(attempt)
            .iter()
            .all(|figure| figure["met"] == json!(true))
    };
    let attempts = row["attempts"].as_array().unwrap();
    let counted: Vec<&Value> = attempts.iter().filter(counts).collect();
    let impossible = attempts
        .iter()
        .flat_map(figures)
        .any(|figure| figure["impossible"] == json!(true));
    let expected = match counted.len() {
        _ if impossible => "failed",
        _ if counted.iter().any(|attempt| passes(attempt)) => "passed",
        2.. => "failed",
        _ if attempts.is_empty() => "not_run",
        _ => "disturbed",
    };
    assert_eq!(row["result"], expected, "{row}");
}

#[test]
fn the_short_form_finds_nothing_wrong_and_says_what_it_saved() {
    let done = started("--quick --out out").end();
    let outcome = done.outcome();
    let names: Vec<&str> = rows(&outcome)
        .iter()
        .map(|row| row["row"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["R1", "R2", "R3", "R4", "R5", "R6", "R7"]);
    rows(&outcome).iter().for_each(assert_judged);
    for row in rows(&outcome) {
        assert_ne!(row["result"], "failed", "{row:#}");
        assert_ne!(row["result"], "not_run", "{row:#}");
        let (name, result, tests) = (
            &row["row"],
            row["result"].as_str().unwrap(),
            row["tests"].as_str().unwrap(),
        );
        let line = format!(
            "  {}  {}: {tests}",
            name.as_str().unwrap(),
            result.replace('_', " ")
        );
        assert!(
            done.stdout.lines().any(|said| said.starts_with(&line)),
            "{line}\n{}",
            done.stdout
        );
        // Every figure has its line below that of its row.
        let below = done
            .stdout
            .lines()
            .skip_while(|said| !said.starts_with(&line))
            .skip(1);
        let shown: Vec<&str> = below.take_while(|said| !said.is_empty()).collect();
        for (figure, said) in row["figures"].as_array().unwrap().iter().zip(&shown) {
            let what = figure["what"].as_str().unwrap();
            let (mark, line) = said
                .trim_start()
                .strip_prefix("! ")
                .map_or((true, said.trim_start()), |rest| (false, rest.trim_start()));
            assert!(
                mark == (figure["met"] == json!(true)) && line.starts_with(what),
                "{said} is not {figure}"
            );
        }
        assert!(
            shown.len() >= row["figures"].as_array().unwrap().len(),
            "{shown:?}"
        );
    }
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for sentence in [
        &outcome["sentence"],
        &outcome["measurement_error"]["sentence"],
    ] {
        assert!(
            flat(&done.stdout).contains(&flat(sentence.as_str().unwrap())),
            "{sentence}\n{}",
            done.stdout
        );
    }
    assert!(
        fs::read_to_string(done.work().join("out/summary.md"))
            .unwrap()
            .contains("expected")
    );
    assert!(
        done.stderr
            .starts_with("measuring targets whose figures are known: 7 rows, about "),
        "{}",
        done.stderr
    );
}

#[test]
fn rows_that_are_named_are_the_only_ones_and_json_is_all_that_is_printed() {
    let done = started("--quick --rows r2,R1,R2 --json --quiet --out out").end();
    let outcome = done.outcome();
    let names: Vec<&Value> = rows(&outcome).iter().map(|row| &row["row"]).collect();
    assert_eq!(names, ["R1", "R2"]);
    assert_eq!(
        done.stdout,
        fs::read_to_string(done.work().join("out/selftest.json")).unwrap()
    );
    assert_eq!(done.stderr, "");
    assert_eq!(outcome["form"], "quick");
    // Every answer tells its hold, and none comes before that is over, on any machine.
    let is_met = |figure: usize| rows(&outcome)[1]["figures"][figure]["met"].clone();
    assert_eq!(
        [is_met(0), is_met(1)],
        [json!(true), json!(true)],
        "{outcome:#}"
    );
}

#[test]
fn an_interrupted_selftest_leaves_nobody_stopped() {
    let selftest = started("--rows R3,R6 --quiet --out out");
    let pid = selftest.pid();
    wait_for("its shard", || {
        children(pid)
            .into_iter()
            .find(|(_, name)| name == "crawlmark-s0")
    });
    selftest.interrupt();
    let done = selftest.end();
    assert_eq!(done.code, Some(130), "{}", done.stderr);
    assert_eq!(done.stdout, "");
    assert!(
        done.stderr
            .contains("ended it before an experiment was complete: nothing is saved"),
        "{}",
        done.stderr
    );
    assert!(!done.work().join("out").exists());
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_started() {
    for (args, named) in [
        ("--rows R9", "`R9` is not a valid row"),
        ("--rows R1-R3", "`R1-R3` is not a valid row"),
        ("--rows=", "`` is not a valid row"),
        ("--quick --rows R1,,R2", "`` is not a valid row"),
        ("--fast", "--fast"),
        ("R1", "R1"),
        ("--out .", "cannot be replaced by a result"),
    ] {
        let done = started(args).end();
        assert_eq!(done.code, Some(2), "{args}: {}", done.stderr);
        assert!(done.stderr.contains(named), "{args}: {}", done.stderr);
        assert_eq!(
            (
                done.stdout.as_str(),
                fs::read_dir(done.work()).unwrap().count()
            ),
            ("", 0),
            "{args}"
        );
    }
}

#[test]
fn a_missing_field_anywhere_is_no_outcome() {
    assert!(jsonschema::draft202012::meta::is_valid(&SCHEMA));
    let figure = json!({"what": "p50", "unit": "us", "expected": 20_000.0, "measured": 20_100.5, "error": 100.5,
        "low": 20_000.0, "high": null, "met": true, "impossible": false});
    let attempt = json!({"disturbed_by": ["steal"], "figures": [figure]});
    let error = json!({"service_p50_us": 90.0, "service_p99_us": 800.5, "disturbed": false, "sentence": "low"});
    let outcome = json!({
        "schema": "crawlmark.selftest/1", "crawlmark_version": "0.1.0", "started_at": "2026-01-02T03:04:05.678Z",
        "finished_at": "2026-01-02T03:04:06.678Z", "name": "selftest", "form": "full", "interrupted": false, "verdict": "disturbed",
        "sentence": "nothing failed", "measurement_error": error,
        "environment": {"cpu_model": null, "cores": 2, "kernel": null, "cpu_governor": null, "memory_bytes": null,
            "nofile": null, "local_ports": null, "colocated": true, "git_revision": null},
        "rows": [{"row": "R1", "tests": "x", "result": "disturbed", "figures": [figure], "attempts": [attempt]}],
    });
    assert_eq!(complaints(&outcome), Vec::<String>::new());
    for place in [
        "",
        "/measurement_error",
        "/rows/0",
        "/rows/0/figures/0",
        "/rows/0/attempts/0",
    ] {
        let fields: Vec<String> = outcome
            .pointer(place)
            .unwrap()
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        for field in fields {
            let mut without = outcome.clone();
            without
                .pointer_mut(place)
                .unwrap()
                .as_object_mut()
                .unwrap()
                .remove(&field);
            assert_ne!(
                complaints(&without),
                Vec::<String>::new(),
                "{place}/{field} is required by nobody"
            );
            let mut wrong = outcome.clone();
            wrong.pointer_mut(place).unwrap()[&field] = json!([{"a": 0.5}]);
            assert_ne!(
                complaints(&wrong),
                Vec::<String>::new(),
                "{place}/{field} may be anything"
            );
        }
    }
}
