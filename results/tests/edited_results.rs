//! Saved results that were edited: whichever number of a true result is changed, it is refused with the name of a field and both
//! numbers, but for those that nothing else in the result depends on, which are listed here.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crawlmark_results::run::result_dir::{RESULT, read};
use serde_json::{Value, json};

fn example() -> Value {
    serde_json::from_str(include_str!("../../results/example/result.json")).unwrap()
}

/// Why a reader refuses a report; none when it takes it.
fn refusal(report: &Value) -> Option<String> {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join(RESULT), report.to_string()).unwrap();
    read(place.path()).err().map(|error| error.to_string())
}

/// Every number in a document by its pointer, and the kind of field that it is: its pointer without places in lists.
fn numbers(value: &Value, at: &str, kind: &str, out: &mut BTreeMap<String, Vec<String>>) {
    match value {
        Value::Number(_) => out.entry(kind.to_owned()).or_default().push(at.to_owned()),
        Value::Object(fields) => {
            for (key, value) in fields {
                numbers(value, &format!("{at}/{}", key.replace('/', "~1")), &format!("{kind}/{key}"), out);
            }
        }
        Value::Array(list) => {
            for (i, value) in list.iter().enumerate() {
                numbers(value, &format!("{at}/{i}"), &format!("{kind}/*"), out);
            }
        }
        _ => {}
    }
}

/// The number, noticeably changed in both directions.
fn edits(number: &Value) -> Vec<Value> {
    match number.as_u64() {
        Some(0) => vec![json!(1)],
        Some(count) => vec![json!(count + count / 2 + 1), json!(count / 2)],
        None => {
            let number = number.as_f64().unwrap();
            if number == 0.0 { vec![json!(0.25)] } else { vec![json!(number * 1.25), json!(number * 0.75)] }
        }
    }
}

/// Fields whose numbers nothing else in the result depends on, by how their kind begins and ends.
const FREE: [(&str, &str); 29] = [
    // The machine, and what it counted.
    ("/environment/", ""),
    ("/host/", ""),
    ("/shards/*/cpu", ""),
    ("/shards/*/pid", ""),
    ("/shards/*/last_ended_s", ""),
    ("/shards/*/involuntary_switches", ""),
    ("/shards/*/speed_", "_us"),
    ("/shards/*/steal_share", ""),
    ("", "/max_rss_bytes"),
    // The supervisor's own readings.
    ("/supervisor/start", ""),
    ("/supervisor/first_request_ms", ""),
    ("/supervisor/running_cpu_share", ""),
    // Counted by the throttling of each shard, and by nothing else.
    ("/manners/", ""),
    ("/moved/", ""),
    ("/schedule/shifted_s", ""),
    // Of a shard that is not the one with the extreme, within those of the run; and percentiles of a second.
    ("/shards/*/latency/", "_us"),
    ("/shards/*/course/max_sched_lag_us/*", ""),
    ("/shards/*/longest_slack_us", ""),
    ("/intervals/*/bins/p", ""),
    ("/intervals/*/bins/max_us/", ""),
    ("/intervals/*/", "p50_us"),
    ("/intervals/*/", "p90_us"),
    ("/intervals/*/", "p99_us"),
    ("/intervals/*/in_flight", ""),
    ("/intervals/*/scheduled_", ""),
    // An audit that was kept stays kept by fewer requests, or more that are allowed.
    ("/budget/", "admitted"),
    ("/budget/", "allowed"),
    // The counts of the target, but for its requests.
    ("/witness/ledger/", ""),
    ("/witness/cut_off", ""),
];

fn is_free(kind: &str) -> bool {
    FREE.iter().any(|(start, end)| kind.starts_with(start) && kind.ends_with(end))
}

#[test]
fn a_number_that_was_edited_is_refused_unless_nothing_depends_on_it() {
    let report = example();
    assert_eq!(refusal(&report), None);
    let mut kinds = BTreeMap::new();
    numbers(&report, "", "", &mut kinds);
    let bound = kinds.iter().filter(|(kind, _)| !is_free(kind));
    assert!(bound.clone().count() > 100, "{}", kinds.len());
    for (kind, places) in bound {
        for at in BTreeSet::from([&places[0], &places[places.len() - 1]]) {
            for edit in edits(report.pointer(at).unwrap()) {
                let mut edited = report.clone();
                *edited.pointer_mut(at).unwrap() = edit.clone();
                let Some(why) = refusal(&edited) else {
                    panic!("{at} ({kind}) may be {edit}: {}", report.pointer(at).unwrap())
                };
                assert!(why.contains(" `") && !why.contains('\n') && why.len() < 1_000, "{why}");
            }
        }
    }
}

#[test]
fn a_number_that_nothing_depends_on_may_be_any() {
    let report = example();
    for at in ["/shards/0/pid", "/shards/0/max_rss_bytes", "/supervisor/start_ms", "/environment/memory_bytes"] {
        let mut edited = report.clone();
        let number = edits(report.pointer(at).unwrap()).remove(0);
        *edited.pointer_mut(at).unwrap() = number;
        assert_eq!(refusal(&edited), None, "{at}");
    }
}

#[test]
fn what_was_edited_is_named_with_both_numbers_and_the_remedy() {
    for (at, value, says) in [
        (
            "/totals/attempts",
            json!(28_001),
            "`totals.attempts` is 28001, but the sum of shards[].totals.attempts is 28000",
        ),
        ("/totals/attempts_per_s", json!(9999.5), "`totals.attempts_per_s` is 9999.5, but the count over the time"),
        ("/validity/verdict", json!("errors"), "`validity.verdict` is errors, but validity.reasons holds 0 findings"),
        ("/validity/reasons", json!(["x"]), "`validity.verdict` is valid, but validity.reasons holds 1 findings"),
        ("/latency/service/p99_us", json!(1.5), "`latency.service.p50_us`"),
        ("/plan/seed", json!(7), "`plan.config_hash` is "),
        ("/interrupted", json!(true), "`interrupted` is true, but"),
        ("/started_at", json!("2020-01-01T00:00:00.000Z"), "`started_at` is 2020-01-01T00:00:00.000Z, but run_id says"),
        ("/finished_at", json!("yesterday"), "`finished_at` is yesterday, which is not a time"),
        (
            "/environment/colocated",
            json!(false),
            "`environment.colocated` is false, but the plan has the bundled target",
        ),
        ("/witness/agrees", json!(false), "`witness.agrees` is false"),
    ] {
        let mut edited = example();
        *edited.pointer_mut(at).unwrap() = value;
        let why = refusal(&edited).unwrap();
        assert!(why.contains("result.json contradicts itself: ") && why.contains(says), "{at}: {why}");
        assert!(why.ends_with("restore the original, or run again"), "{why}");
    }
}

#[test]
fn tenths_of_a_second_that_do_not_add_up_to_it_are_refused() {
    let mut report = example();
    let second = report["intervals"][0].as_object_mut().unwrap();
    // All of them in the fourth.
    let column = |value: &Value| -> Value { (0..10).map(|n| if n == 3 { value.clone() } else { json!(0) }).collect() };
    let counts = ["attempts", "items", "ok", "connections_opened", "bytes_received"];
    let mut columns: Value = counts.iter().map(|name| ((*name).to_owned(), column(&second[*name]))).collect();
    columns["max_us"] = column(&json!(60_000.5));
    second.insert("max_us".to_owned(), json!(60_000.5));
    second.insert("bins".to_owned(), columns);
    assert_eq!(refusal(&report), None);
    for at in ["attempts/3", "bytes_received/9", "max_us/3"] {
        let mut edited = report.clone();
        *edited.pointer_mut(&format!("/intervals/0/bins/{at}")).unwrap() = json!(70_001);
        let why = refusal(&edited).unwrap();
        assert!(why.contains(&format!("`intervals[0].bins.{}` is ", at.split('/').next().unwrap())), "{why}");
    }
}

/// A result of a version before rates counted until the last answer: what it does not know is not held against it.
#[test]
fn a_result_of_an_older_version_is_read() {
    let mut older = example();
    older["totals"].as_object_mut().unwrap().remove("ok_per_s");
    older["totals"]["items_per_s"] = json!(1000.0);
    older.as_object_mut().unwrap().remove("suspended_s");
    for row in older["intervals"].as_array_mut().unwrap() {
        for key in ["scheduled", "scheduled_good", "scheduled_failed"] {
            row.as_object_mut().unwrap().remove(key);
        }
    }
    assert_eq!(refusal(&older), None);
    older["totals"]["attempts"] = json!(1);
    assert!(refusal(&older).is_some());
}
