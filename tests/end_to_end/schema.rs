//! `result.json` is what its JSON Schema says, in every kind of run; and the schema can say no.

use std::path::Path;
use std::sync::LazyLock;

use jsonschema::Validator;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::command::json as read_json;
use crate::report::{Report, holds};
use crate::run::{crawl, ended, start};
use crate::target::Target;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../results/schema/result-1.schema.json")).unwrap()
});

static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| closed(&SCHEMA));

/// The schema of a saved file, which is closed.
pub(crate) fn of(name: &str) -> Validator {
    let file = format!("results/schema/{name}-1.schema.json");
    closed(&read_json(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join(file),
    ))
}

/// The schema with no other fields than those that it describes.
fn closed(schema: &Value) -> Validator {
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
fn runs_and_the_example_fit_the_schema() {
    assert!(jsonschema::draft202012::meta::is_valid(&SCHEMA));
    let version = json!(crawlmark_results::run::report::SCHEMA);
    holds(&SCHEMA, &json!({"/properties/schema/const": version}));
    let target = Target::start("");
    let flags = "--ids 0..500 --shards 2 -c 8 --name some-name --tag a=b --tag c=d=e";
    let ended = ended(&format!("{} {flags}", target.url()));
    let report = ended.report(0);
    assert_eq!(
        (ended.stdout(), ended.stderr()),
        (&*ended.file("result.json"), "")
    );
    report.holds(&json!({
        "/tags": {"a": "b", "c": "d=e"}, "/name": "some-name", "/plan/target": target.url(),
        "/budget": null, "/witness": null,
    }));
    // A field that a reader does not know yet is no fault.
    let mut json = report.json().clone();
    for place in ["", "/plan", "/latency/service", "/shards/0"] {
        json.pointer_mut(place).unwrap()["from_the_future"] = json!([1, "two"]);
    }
    assert!(jsonschema::draft202012::is_valid(&SCHEMA, &json));
    // Reading checks the schema, the sums, and that the program itself takes it.
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("results/example/result.json");
    let is_new = Report::read(&example).at("/totals/ok_per_s").is_number();
    assert!(
        is_new,
        "make it again by the command in docs/src/reference/files.md"
    );
    // A run without a good response.
    let target = Target::start("--latency 600s --processes 1");
    let run = start(&format!(
        "{} --ids 0..9 --rate 1/h --burst 2 --shards 2 -c 2",
        target.url()
    ));
    target.wait_for_requests(1);
    run.signal(Signal::SIGTERM);
    run.end()
        .report(143)
        .holds(&json!({"/ledger/ok": 0, "/latency/service/p50_us": null}));
}

#[test]
fn a_missing_field_or_a_wrong_type_anywhere_is_no_result() {
    let target = Target::start("--fault error:0.3,drop:0.1");
    let flags = "--ids 0..1k --rate 100k/s --shards 2 -c 4 --threshold items==1k";
    let report = crawl(&format!("{} {flags}", target.url()));
    let mut all = Vec::new();
    places(report.json(), "", &mut all);
    let is_refused = |json: &Value| !complaints(json).is_empty();
    let mut fields = 0;
    for place in all.iter().filter(|place| !place.is_empty()) {
        let (parent, key) = place.rsplit_once('/').unwrap();
        // Absent where no host was checked, and from a second in which every attempt was answered.
        let of_second = ["answers", "bins", "errors_by_kind", "max_us"];
        let is_optional = [
            "/failures",
            "/by_host",
            "/check_connections",
            "/validity/verdicts",
        ]
        .contains(&place.as_str())
            || ["longest_slack_us", "receive_delay", "storage"].contains(&key)
            || parent.starts_with("/intervals/") && of_second.contains(&key);
        if report.at(parent).is_object() && !holds_data(parent) && !is_optional {
            let mut without = report.json().clone();
            without
                .pointer_mut(parent)
                .unwrap()
                .as_object_mut()
                .unwrap()
                .remove(key);
            assert!(is_refused(&without), "{place} is required by nobody");
            fields += 1;
        }
        // The numbers of a finding depend on its kind.
        if place.starts_with("/witness/ledger/") || place.starts_with("/findings/") {
            continue;
        }
        // No field takes this: not a number, not a text, and no object that has what its reader
        // needs.
        let negative = report.at(place).is_u64().then(|| json!(-1));
        for wrong in negative.into_iter().chain([json!([{"a": 0.5}])]) {
            let mut with_wrong_type = report.json().clone();
            *with_wrong_type.pointer_mut(place).unwrap() = wrong.clone();
            assert!(is_refused(&with_wrong_type), "{place} may be {wrong}");
        }
    }
    // The walk has seen the whole report, with what is null in most runs.
    assert!(fields > 200, "{fields}");
    for seen in ["/budget/worst_window/width_ms", "/gates/0/until_s"] {
        assert!(all.iter().any(|place| place == seen), "{seen}");
    }
}
