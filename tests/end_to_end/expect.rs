//! `--expect` in every form, seen good and bad: responses of the bundled target's stubs, its counts
//! as the second witness.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::run::crawl_once;
use crate::scripted::{Peer, with_server};
use crate::stubs::{flags, stubs};
use crate::target::{Target, confirmed};

/// Status, content type and body of items that are special, from ID 1 on.
const SPECIAL: [(u16, &str, &str); 11] = [
    (200, "text/plain", "{\"id\": 1}"),
    (200, "application/json", "{\"id\": 2"),
    (
        200,
        "application/json",
        "{\"id\": \"three\", \"padding\": \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}",
    ),
    (
        200,
        "text/html; charset=utf-8",
        "<html>Are you a robot?</html>",
    ),
    (
        404,
        "application/json",
        "{\"id\": null, \"why\": \"no such item\"}",
    ),
    (410, "text/html", "<h1>Gone</h1>"),
    (500, "application/json", "{\"id\": 7}"),
    (429, "application/json", "{\"id\": 8}"),
    (204, "application/json", ""),
    (202, "application/vnd.items+json", "{\"id\": 10}"),
    (200, "application/json", ""),
];

fn stub(pattern: &str, priority: usize, (status, kind, body): (u16, &str, &str)) -> Value {
    json!({
        "priority": priority, "request": {"urlPathPattern": pattern},
        "response": {"status": status, "headers": {"Content-Type": kind}, "body": body},
    })
}

#[test]
fn each_expectation_counts_the_responses_that_meet_it() {
    let plain = (200, "application/json; charset=utf-8", "{\"id\": 1234567}");
    let special = (1..).zip(SPECIAL);
    let special = special.map(|(id, response)| stub(&format!("/items/{id}"), 1, response));
    let root = stubs(&special.chain([stub("/items/.*", 9, plain)]).collect());
    // Of 24 items: good, not found, failed, of these with a wrong body, soft blocked.
    for (expectations, [ok, not_found, failed, wrong_body, soft_blocked]) in [
        ("", [20, 2, 1, 0, 0]),
        // 1, 2, 9 and 11 are not JSON, 4 is markup in its place, 7 is an error.
        ("--expect json", [15, 2, 6, 4, 1]),
        // 3, 9 and 11 have no number, 4 is markup without one.
        ("--expect 'regex:\"id\":\\s\\d+'", [16, 2, 5, 3, 1]),
        // Markup that is what was expected is no challenge.
        ("--expect 'regex:(?i)robot'", [1, 2, 20, 19, 0]),
        ("--expect len:9-15", [15, 2, 6, 4, 1]),
        ("--expect status:404,410", [2, 0, 21, 0, 0]),
        // A range that covers 429 does not make a limit a good response.
        ("--expect status:200-500", [23, 0, 0, 0, 0]),
        (
            "--expect json --expect status:200,404,410 --expect len:2-200 --expect 'regex:\"id\":'",
            [15, 0, 8, 4, 1],
        ),
    ] {
        let target = Target::start(&flags(&root, "--processes 1"));
        // Nothing that is expected changes what is asked, nor what is read.
        let line = format!("-n 24 --shards 1 -c 4 --retries 0 {expectations}");
        let (report, _) = confirmed(&target, &line);
        // The one that is throttled is given up, whatever is expected.
        let states = [
            ("ok", ok),
            ("not_found", not_found),
            ("failed", failed),
            ("gave_up", 1),
        ];
        report.assert_states(&states);
        let wrong = (wrong_body > 0).then(|| ("wrong_body".to_owned(), wrong_body));
        assert_eq!(
            report.errors(),
            BTreeMap::from_iter(wrong),
            "{expectations}"
        );
        report.holds(&json!({
            "/totals/soft_blocked": soft_blocked, "/totals/throttled": 1,
            "/totals/connections_opened": 4,
        }));
    }
}

/// Events are counted to the last one, over either version of HTTP, with and without faults, and
/// each stream that is not whole fails as what it is.
#[test]
fn events_of_streams_are_counted_and_timed() {
    const EVENTS: u64 = 5;
    for (http, faults, errors) in [
        ("1.1", "", None),
        ("2", "", None),
        ("1.1", "--fault truncated:1", Some("incomplete")),
        ("1.1", "--fault silence:1", Some("timeout")),
    ] {
        let target = Target::start(&format!("--processes 1 --events 4@1ms {faults}"));
        let line = format!(
            "-n 20 --shards 1 -c 4 --http {http} --retries 0 --timeout 1s --expect sse:[DONE]"
        );
        let (report, _) = confirmed(&target, &line);
        let counted = |times: &str| report.count(&format!("/latency/{times}/count"));
        let events = report.count("/totals/events");
        let expected = errors.map(|kind| (kind.to_owned(), 20));
        assert_eq!(
            report.errors(),
            BTreeMap::from_iter(expected),
            "{http} {faults}"
        );
        match errors {
            None => {
                report.assert_states(&[("ok", 20)]);
                assert_eq!(events, 20 * EVENTS);
                assert_eq!(counted("first_event"), 20);
                assert_eq!(counted("event_gap"), 20 * (EVENTS - 1));
            }
            // Half of each stream arrives, and its whole events count.
            Some("incomplete") => assert!((20..20 * EVENTS).contains(&events), "{events}"),
            Some(_) => {
                assert_eq!(events, 0);
                report.holds(&json!({"/latency/first_event/censored": 20}));
            }
        }
    }
}

/// Neither is an item a stream, nor a stream without its end.
#[test]
fn what_is_no_stream_of_events_is_a_wrong_body() {
    for (served, expected) in [
        ("", "sse"),
        ("--events 2@0s", "sse:END"),
        ("--events 2@0s", "ndjson"),
    ] {
        let target = Target::start(&format!("--processes 1 {served}"));
        let line = format!("-n 5 --shards 1 -c 1 --retries 0 --expect {expected}");
        let (report, _) = confirmed(&target, &line);
        let errors = BTreeMap::from([("wrong_body".to_owned(), 5)]);
        assert_eq!(report.errors(), errors, "{served} {expected}");
    }
}

/// The last line of JSON may go without its line break, and is an event all the same; an event of a
/// stream may not go without its blank line, and the failure says so.
#[test]
fn the_end_of_a_stream_is_read_as_its_format_has_it() {
    for (expected, body, events, lack) in [
        ("ndjson", "{}\n{}\n{}", 3, None),
        ("ndjson", "{}", 1, None),
        ("ndjson", "\n{}\n\n2\n", 2, None),
        ("sse:[DONE]", "data: a\n\ndata: [DONE]\n\n", 2, None),
        (
            "sse:[DONE]",
            "data: a\n\ndata: [DONE]\n",
            1,
            Some("blank line"),
        ),
        ("sse", "data: a\n\ndata: b", 1, Some("line break")),
        ("ndjson", "{}\n{", 2, Some("")),
    ] {
        let kind = if expected == "ndjson" {
            ""
        } else {
            "content-type: text/event-stream\r\n"
        };
        let length = body.len();
        let response = format!("HTTP/1.1 200 OK\r\n{kind}content-length: {length}\r\n\r\n{body}");
        let serve = |mut peer: Peer| {
            while peer.request().is_some() {
                peer.send(&response);
            }
        };
        let line = format!("-n 4 -s 1 -c 1 --expect {expected}");
        let report = with_server(serve, |address| {
            crawl_once(&format!("http://{address}/{{id}} {line}"))
        });
        assert_eq!(report.count("/totals/events"), 4 * events, "{body:?}");
        if lack.is_none() {
            assert_eq!(report.count("/latency/first_event/count"), 4, "{body:?}");
        }
        report.assert_states(&[(if lack.is_none() { "ok" } else { "failed" }, 4)]);
        if let Some(lack) = lack {
            let failures = report.at("/failures").to_string();
            assert!(failures.contains(lack), "{body:?}: {failures}");
        }
    }
}
