//! `--expect` in every form, seen good and bad: answers of the bundled target's stubs, its counts
//! as the second witness.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::report::Report;
use crate::run::Run;
use crate::stubs::{flags, stubs};
use crate::target::{Target, assert_agree};

/// The items of each crawl. Those of [`NUMBERS`] have an answer of their own.
const IDS: u64 = 24;

/// What is special about an ID.
const NUMBERS: [(u64, fn() -> Value); 11] = [
    (1, || answer(200, "text/plain", "{\"id\": 1}")),
    (2, || answer(200, "application/json", "{\"id\": 2")),
    (3, || {
        answer(
            200,
            "application/json",
            "{\"id\": \"three\", \"padding\": \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}",
        )
    }),
    (4, || {
        answer(
            200,
            "text/html; charset=utf-8",
            "<html>Are you a robot?</html>",
        )
    }),
    (5, || {
        answer(
            404,
            "application/json",
            "{\"id\": null, \"why\": \"no such item\"}",
        )
    }),
    (6, || answer(410, "text/html", "<h1>Gone</h1>")),
    (7, || answer(500, "application/json", "{\"id\": 7}")),
    (8, || answer(429, "application/json", "{\"id\": 8}")),
    (9, || answer(204, "application/json", "")),
    (10, || {
        answer(202, "application/vnd.items+json", "{\"id\": 10}")
    }),
    (11, || answer(200, "application/json", "")),
];

fn answer(status: u16, kind: &str, body: &str) -> Value {
    json!({ "status": status, "headers": {"Content-Type": kind}, "body": body })
}

/// A target whose items are `{"id": 1234567}`, save the special ones.
fn target() -> Target {
    let stub = |pattern: &str, priority: u8, response: &Value| json!({ "priority": priority, "request": {"urlPathPattern": pattern}, "response": response });
    let special = NUMBERS
        .iter()
        .map(|(id, response)| stub(&format!("/items/{id}"), 1, &response()));
    let plain = stub(
        "/items/.*",
        9,
        &answer(200, "application/json; charset=utf-8", "{\"id\": 1234567}"),
    );
    let root = stubs(&special.chain([plain]).collect());
    Target::start(&flags(&root, "--processes 1"))
}

/// What became of the items.
struct Came {
    ok: u64,
    not_found: u64,
    failed: u64,
    wrong_body: u64,
    soft_blocked: u64,
}

#[track_caller]
fn check(expectations: &[&str], came: &Came) -> Report {
    let target = target();
    let mut args = vec![target.url()];
    args.extend(
        format!("--ids 0..{IDS} --shards 1 -c 4 --retries 0")
            .split(' ')
            .map(str::to_owned),
    );
    args.extend(
        expectations
            .iter()
            .flat_map(|text| ["--expect".to_owned(), (*text).to_owned()]),
    );
    let report = Run::start(args).end().report(0);
    // The one that asks for patience is given up, whatever is expected.
    report.assert_states(&[
        ("ok", came.ok),
        ("not_found", came.not_found),
        ("failed", came.failed),
        ("gave_up", 1),
    ]);
    let wrong = (came.wrong_body > 0).then(|| ("wrong_body".to_owned(), came.wrong_body));
    assert_eq!(
        report.errors(),
        BTreeMap::from_iter(wrong),
        "{expectations:?}"
    );
    assert_eq!(
        report.count("/totals/soft_blocked"),
        came.soft_blocked,
        "{expectations:?}"
    );
    assert_eq!(report.count("/totals/throttled"), 1, "{expectations:?}");
    // Nothing that is expected changes what is asked, nor what is read: all connections are kept.
    assert_agree(&report, &target.books());
    assert_eq!(
        report.count("/totals/connections_opened"),
        4,
        "{expectations:?}"
    );
    assert_eq!(
        report.statuses(),
        [
            (200, 18),
            (202, 1),
            (204, 1),
            (404, 1),
            (410, 1),
            (429, 1),
            (500, 1)
        ]
        .map(|(status, count): (u16, u64)| (status.to_string(), count))
        .into()
    );
    let expected = match expectations {
        [] => "whole".to_owned(),
        [only] => (*only).to_owned(),
        several => json!(several).to_string(),
    };
    assert_eq!(report.text("/plan/workload/expect"), expected);
    report
}

#[test]
fn any_whole_body_is_good_unless_something_is_expected() {
    check(
        &[],
        &Came {
            ok: 20,
            not_found: 2,
            failed: 1,
            wrong_body: 0,
            soft_blocked: 0,
        },
    );
    check(
        &["whole"],
        &Came {
            ok: 20,
            not_found: 2,
            failed: 1,
            wrong_body: 0,
            soft_blocked: 0,
        },
    );
}

#[test]
fn json_has_its_type_and_is_one_value() {
    // 1, 2, 9 and 11 are not JSON, 4 is markup in its place, 7 is an error.
    check(
        &["json"],
        &Came {
            ok: 15,
            not_found: 2,
            failed: 6,
            wrong_body: 4,
            soft_blocked: 1,
        },
    );
}

#[test]
fn a_pattern_is_found_anywhere_in_the_body() {
    // 3, 9 and 11 have no number, 4 is markup without one.
    check(
        &["regex:\"id\":\\s\\d+"],
        &Came {
            ok: 16,
            not_found: 2,
            failed: 5,
            wrong_body: 3,
            soft_blocked: 1,
        },
    );
    // Markup that is what was expected is no challenge.
    check(
        &["regex:(?i)robot"],
        &Came {
            ok: 1,
            not_found: 2,
            failed: 20,
            wrong_body: 19,
            soft_blocked: 0,
        },
    );
}

#[test]
fn a_length_is_that_of_the_body() {
    // 9 and 11 are empty.
    check(
        &["len:1-"],
        &Came {
            ok: 18,
            not_found: 2,
            failed: 3,
            wrong_body: 2,
            soft_blocked: 0,
        },
    );
    check(
        &["len:0"],
        &Came {
            ok: 2,
            not_found: 2,
            failed: 19,
            wrong_body: 17,
            soft_blocked: 1,
        },
    );
    // 15 bytes have those that are not special; 1 has 9, 2 has 8, 10 has 10.
    check(
        &["len:15"],
        &Came {
            ok: 13,
            not_found: 2,
            failed: 8,
            wrong_body: 6,
            soft_blocked: 1,
        },
    );
    check(
        &["len:9-15"],
        &Came {
            ok: 15,
            not_found: 2,
            failed: 6,
            wrong_body: 4,
            soft_blocked: 1,
        },
    );
}

#[test]
fn the_statuses_that_are_listed_are_good_and_no_others() {
    check(
        &["status:200-299"],
        &Came {
            ok: 20,
            not_found: 2,
            failed: 1,
            wrong_body: 0,
            soft_blocked: 0,
        },
    );
    check(
        &["status:200"],
        &Came {
            ok: 18,
            not_found: 2,
            failed: 3,
            wrong_body: 0,
            soft_blocked: 0,
        },
    );
    check(
        &["status:404,410"],
        &Came {
            ok: 2,
            not_found: 0,
            failed: 21,
            wrong_body: 0,
            soft_blocked: 0,
        },
    );
    // A range that covers 429 does not make a limit a good answer.
    check(
        &["status:200-500"],
        &Came {
            ok: 23,
            not_found: 0,
            failed: 0,
            wrong_body: 0,
            soft_blocked: 0,
        },
    );
}

#[test]
fn all_of_several_must_hold() {
    // Good are those that are not special, 3 and 5; 6 is a page that says so, and no item.
    check(
        &["json", "status:200,404,410", "len:2-200", "regex:\"id\":"],
        &Came {
            ok: 15,
            not_found: 0,
            failed: 8,
            wrong_body: 4,
            soft_blocked: 1,
        },
    );
}

#[test]
fn items_of_the_bundled_target_are_all_of_it_at_once() {
    let target = Target::start("--processes 1 --seed 7");
    let crawl = |expectations: &[&str]| {
        let mut args = vec![target.url()];
        args.extend(
            "--ids 0..50 --shards 1 -c 4 --retries 0"
                .split(' ')
                .map(str::to_owned),
        );
        args.extend(
            expectations
                .iter()
                .flat_map(|text| ["--expect".to_owned(), (*text).to_owned()]),
        );
        Run::start(args).end().report(0)
    };
    crawl(&["items:7", "json", "regex:^\\{\"id\":\\d+,", "len:100-120"])
        .assert_states(&[("ok", 50)]);
    let wrong = crawl(&["items:8", "json"]);
    wrong.assert_states(&[("failed", 50)]);
    assert_eq!(wrong.errors(), [("wrong_body".to_owned(), 50)].into());
    assert_eq!(target.books()["requests"], json!(100));
}
