//! `result.json` is what its JSON Schema says, in every kind of run; and the schema can say no.
#![expect(clippy::unwrap_used, reason = "a test without its schema is over")]

use std::path::Path;
use std::sync::LazyLock;

use jsonschema::Validator;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::report::Report;
use crate::run::{Run, crawl};
use crate::target::Target;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../results/schema/result-1.schema.json")).unwrap()
});

static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| closed(&SCHEMA));

/// The schema with no other fields than those that it describes.
pub(crate) fn closed(schema: &Value) -> Validator {
    fn close(schema: &mut Value) {
        match schema {
            Value::Object(entries) => {
                entries
                    .iter_mut()
                    .filter(|(name, _)| *name != "latency")
                    .for_each(|(_, inner)| close(inner));
                if entries.get("properties").is_some_and(Value::is_object) {
                    entries
                        .entry("unevaluatedProperties")
                        .or_insert(json!(false));
                }
            }
            Value::Array(entries) => entries.iter_mut().for_each(close),
            _ => {}
        }
    }
    let mut closed = schema.clone();
    close(&mut closed);
    jsonschema::draft202012::new(&closed).unwrap()
}

/// What the schema has to say against a report. Every report that a test reads passes through here.
pub(crate) fn complaints(report: &Value) -> Vec<String> {
    VALIDATOR
        .iter_errors(report)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

/// Each place in `value` that holds something, the deepest last.
pub(crate) fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(entries) => {
            for (key, inner) in entries {
                places(inner, &format!("{at}/{}", key.replace('/', "~1")), found);
            }
        }
        Value::Array(entries) => {
            entries
                .iter()
                .enumerate()
                .for_each(|(i, inner)| places(inner, &format!("{at}/{i}"), found));
        }
        _ => {}
    }
}

/// Whether the keys below `place` are data, such as statuses, and not fields.
fn holds_data(place: &str) -> bool {
    let free = [
        "/tags",
        "/workload",
        "/attempts_by_status",
        "/connections_by_protocol",
        "/rejected_by_status",
        "/errors_by_kind",
        "/dropped_by",
        "/tls/sessions",
        "/tls/failures",
        "/failures",
        "/unavailable",
    ];
    free.iter().any(|name| place.ends_with(name))
        || place.contains("/bins")
        || place.starts_with("/witness/ledger")
        || place.starts_with("/findings")
}

#[test]
fn the_schema_is_a_schema() {
    assert!(jsonschema::draft202012::meta::is_valid(&SCHEMA));
    assert_eq!(
        SCHEMA["properties"]["schema"]["const"],
        json!(crawlmark_results::run::report::SCHEMA)
    );
}

#[test]
fn a_plain_run_fits_the_schema_and_its_json_is_the_saved_file() {
    let target = Target::start("");
    let line = format!(
        "{} --ids 0..500 --shards 2 -c 8 --name some-name --tag a=b --tag c=d=e",
        target.url()
    );
    let ended = Run::start(line.split(' ')).end();
    let report = ended.report(0);
    assert_eq!(
        ended.stdout(),
        std::fs::read_to_string(ended.result().join("result.json")).unwrap()
    );
    assert_eq!(ended.stderr(), "");
    assert_eq!(*report.at("/tags"), json!({"a": "b", "c": "d=e"}));
    assert_eq!(report.text("/name"), "some-name");
    assert_eq!(report.text("/plan/target"), target.url());
    assert_eq!(
        (report.at("/budget"), report.at("/witness")),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn the_example_is_a_result_of_this_version() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("results/example/result.json");
    // Reading checks the schema, the sums, and that the program itself takes it.
    let report = Report::read(&example);
    assert!(
        report.at("/totals/ok_per_s").is_number(),
        "make it again by the command in docs/src/reference/files.md"
    );
}

#[test]
fn a_run_of_the_bundled_target_fits_the_schema() {
    let report = crawl("-n 300 --rate 100k/s --shards 2 -c 4 --target-processes 2 --duration 60");
    assert_eq!(
        *report.at("/witness/agrees"),
        json!(true),
        "{}",
        report.at("/witness/differences")
    );
    assert_eq!(report.text("/budget/rate"), "100000/s");
    assert_eq!(report.count("/plan/duration_us"), 60_000_000);
}

#[test]
fn a_run_that_never_started_an_item_fits_the_schema() {
    let target = Target::start("--latency 600s --processes 1");
    let run = Run::start(
        format!(
            "{} --ids 0..9 --rate 1/h --burst 2 --shards 2 -c 2",
            target.url()
        )
        .split(' '),
    );
    target.wait_for_requests(1);
    run.signal(Signal::SIGTERM);
    let report = run.end().report(143);
    assert_eq!(report.items("ok"), 0);
    assert_eq!(*report.at("/latency/service/p50_us"), Value::Null);
}

#[test]
fn a_missing_field_or_a_wrong_type_anywhere_is_no_result() {
    let target = Target::start("--fault error:0.3,drop:0.1");
    let line = format!(
        "{} --ids 0..1k --rate 100k/s --shards 2 -c 4 --threshold items==1k",
        target.url()
    );
    let report = crawl(&line);
    let mut all = Vec::new();
    places(report.json(), "", &mut all);
    let mut fields = 0;
    for place in &all {
        let Some((parent, key)) = place.rsplit_once('/') else {
            continue;
        };
        // Absent from results of earlier versions; where no host was checked; from a second in
        // which every attempt was answered; and from seconds of an older version or a long run.
        let is_of_second = parent.starts_with("/intervals/")
            && ["answers", "bins", "errors_by_kind", "max_us"].contains(&key);
        let is_optional = [
            "/failures",
            "/by_host",
            "/check_connections",
            "/validity/verdicts",
        ]
        .contains(&place.as_str())
            || ["longest_slack_us", "receive_delay", "storage"].contains(&key)
            || is_of_second;
        let is_field = report.at(parent).is_object() && !holds_data(parent) && !is_optional;
        if is_field {
            let mut without = report.json().clone();
            without
                .pointer_mut(parent)
                .unwrap()
                .as_object_mut()
                .unwrap()
                .remove(key);
            assert_ne!(
                complaints(&without),
                Vec::<String>::new(),
                "{place} is required by nobody"
            );
            fields += 1;
        }
        // The numbers of a finding depend on its kind.
        let is_open = place.starts_with("/witness/ledger/") || place.starts_with("/findings/");
        if !is_open {
            let mut with_wrong_type = report.json().clone();
            // No field takes this: not a number, not a text, and no object that has what its reader
            // needs.
            *with_wrong_type.pointer_mut(place).unwrap() = json!([{"a": 0.5}]);
            assert_ne!(
                complaints(&with_wrong_type),
                Vec::<String>::new(),
                "{place} may be anything"
            );
        }
        if report.at(place).is_u64() && !is_open {
            let mut with_fraction = report.json().clone();
            *with_fraction.pointer_mut(place).unwrap() = json!(-1);
            assert_ne!(
                complaints(&with_fraction),
                Vec::<String>::new(),
                "{place} may be negative"
            );
        }
    }
    // The walk has seen the whole report, with what is null in most runs.
    assert!(fields > 200, "{fields}");
    assert!(
        all.iter()
            .any(|place| place == "/budget/worst_window/width_ms")
    );
    assert!(all.iter().any(|place| place == "/gates/0/until_s"));
}

#[test]
fn a_field_that_is_not_known_yet_is_no_fault() {
    let target = Target::start("");
    let mut json = crawl(&format!("{} --ids 0..10 --shards 1 -c 1", target.url()))
        .json()
        .clone();
    for place in [
        "",
        "/plan",
        "/totals",
        "/latency/service",
        "/shards/0",
        "/shards/0/latency/service",
    ] {
        json.pointer_mut(place).unwrap()["from_the_future"] = json!([1, "two"]);
    }
    let open = jsonschema::draft202012::new(&SCHEMA).unwrap();
    let complaints = |json: &Value| open.iter_errors(json).count();
    assert_eq!(complaints(&json), 0);
    json["totals"]["attempts"] = json!(10.5);
    assert_eq!(complaints(&json), 1);
    json["schema"] = json!("crawlmark.result/2");
    assert_eq!(complaints(&json), 2);
}
