//! Requests from a file: each is sent as its line says, in order or at its recorded time; and waves
//! and windows of requests. The servers are the test's own and see every byte, or the bundled
//! target, whose counts are the witness.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use crawlmark_harness::clock::{Clock, Nanos};
use serde_json::json;

use crate::report::Report;
use crate::run::crawl;
use crate::scripted::{OK, Peer, with_server};
use crate::target::Target;

/// Crawl with a file of requests.
fn crawl_file(text: &str, line: &str) -> Report {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    crawl(&format!("--requests-file {} {line}", file.path().display()))
}

/// Answer the requests that `run` sends, and return them with the times of their arrival.
fn received(run: impl FnOnce(&str)) -> Vec<(Nanos, String)> {
    let (clock, requests) = (Clock::start(), Mutex::new(Vec::new()));
    let serve = |mut peer: Peer| {
        while let Some(request) = peer.request_with_body() {
            // What answers HEAD has no body, whatever its length.
            let head = OK.split_inclusive("\r\n\r\n").next().unwrap();
            let answer = if request.starts_with("HEAD ") {
                head
            } else {
                OK
            };
            requests.lock().unwrap().push((clock.now(), request));
            peer.send(answer);
        }
    };
    with_server(serve, |address| run(&address.to_string()));
    requests.into_inner().unwrap()
}

#[test]
fn each_request_is_sent_as_its_line_says_and_no_secret_is_kept() {
    let lines = [
        r#"{"method":"HEAD","url":"/a"}"#,
        r#"{"url":"/b?x=1","header":{"Authorization":["Bearer hid.den-1"],"X-A":"own"},"body":"e30="}"#,
        r#"{"method":"PUT","url":"/c/{id}","body_text":"{\"n\":{id}}"}"#,
        r#"{"url":"/d"}"#,
    ]
    .join("\n");
    let all = received(|host| {
        let flags = "--ids 0..8 -s 1 -c 1 -H x-a:all --id-format width=3";
        let report = crawl_file(&lines, &format!("http://{host} {flags}"));
        report.assert_states(&[("ok", 8)]);
        report.holds(&json!({
            "/plan/workload/method": "HEAD, POST, PUT",
            "/command/withheld": ["--header 'x-a: ...'"],
        }));
        let saved = report.json().to_string();
        assert!(
            !saved.contains("hid.den") && !saved.contains("e30="),
            "{saved}"
        );
    });
    let own = [
        "x-a: own\r\n",
        "x-a: ",
        "authorization: Bearer hid.den-1\r\n",
    ];
    for (at, (_, request)) in all.iter().enumerate() {
        let put = format!("PUT /c/{at:03} ");
        let body = format!("{{\"n\":{at:03}}}");
        let (begin, parts, body) = match at % 4 {
            0 => ("HEAD /a ", &["x-a: all\r\n"][..], ""),
            1 => ("POST /b?x=1 ", &own[..], "{}"),
            2 => (&*put, &["content-length: 9\r\n"][..], &*body),
            _ => ("GET /d ", &["x-a: all\r\n"][..], ""),
        };
        assert!(
            request.starts_with(begin) && request.ends_with(&format!("\r\n\r\n{body}")),
            "{request}"
        );
        assert!(
            parts.iter().all(|part| request.matches(part).count() == 1),
            "{request}"
        );
    }
    // As HTTP/2 has them, and drawn by weight.
    let target = Target::start("--processes 1");
    let flags = "-n 8 -s 1 -c 1 --http 2 --streams 2 --expect status:200-499";
    crawl_file(&lines, &format!("{} {flags}", target.origin())).assert_states(&[("ok", 8)]);
    let weighted = "{\"url\":\"/items/1\",\"weight\":3}\n{\"url\":\"/items/{id}/x\"}\n";
    let counts = [1, 3].map(|shards| {
        let line = format!("{} -n 400 -s {shards} -c 6 --expect whole", target.origin());
        crawl_file(weighted, &line).count("/by_template/0/attempts")
    });
    // 300 expected, with a standard deviation of 9.
    assert!(
        counts[0] == counts[1] && counts[0].abs_diff(300) < 45,
        "{counts:?}"
    );
    assert_eq!(target.stop()["requests"], json!(808));
}

#[test]
fn a_recording_is_replayed_at_its_times() {
    // Irregular and out of order.
    let times: Vec<u64> = (0..1_100).map(|n: u64| n * 2 + (n * 37 % 11) * 9).collect();
    let line =
        |(n, ms): (usize, &u64)| format!("{{\"url\":\"/{n}\",\"at\":{}}}\n", *ms as f64 / 1e3);
    let text: String = times.iter().enumerate().map(line).collect();
    for speed in [1, 2] {
        let all = received(|host| {
            let flags = format!("--arrivals replay --speed {speed} -s 2 -c 60 --pacing sleep");
            let report = crawl_file(&text, &format!("http://{host} {flags}"));
            report.assert_states(&[("ok", 1_100)]);
            report.holds(&json!({"/schedule/scheduled": 1_100, "/schedule/arrivals": "replay"}));
            let lasts_s = 2.2 / f64::from(speed);
            assert!(
                report.number("/totals/duration_s") >= lasts_s,
                "speed {speed}"
            );
        });
        let number = |head: &str| head.split([' ', '/']).nth(2).unwrap().parse::<usize>();
        let seen: BTreeSet<_> = all.iter().map(|(_, head)| number(head).unwrap()).collect();
        assert!(seen.into_iter().eq(0..1_100), "each once");
    }
}

#[test]
fn waves_wait_for_all_of_their_requests() {
    let (open, over) = (Mutex::new((0_u32, 0_u32)), Mutex::new(Vec::new()));
    let serve = |mut peer: Peer| {
        while let Some(head) = peer.head() {
            {
                let mut open = open.lock().unwrap();
                // How many of this wave have ended, when another one arrives.
                over.lock()
                    .unwrap()
                    .push(if open.0 == 0 { 0 } else { open.1 });
                *open = if open.0 == 0 {
                    (1, 0)
                } else {
                    (open.0 + 1, open.1)
                };
            }
            // The fault under test, not a wait for anything: one in three is slow, and the next
            // wave waits for it.
            let id: u32 = head.split([' ', '/']).nth(2).unwrap().parse().unwrap();
            if id.is_multiple_of(3) {
                std::thread::sleep(Duration::from_millis(30));
            }
            let mut open = open.lock().unwrap();
            *open = (open.0 - 1, open.1 + 1);
            drop(open);
            peer.send(OK);
        }
    };
    let report = with_server(serve, |address| {
        crawl(&format!(
            "http://{address}/{{id}} -n 12 -c 3 --arrivals waves"
        ))
    });
    report.assert_states(&[("ok", 12)]);
    report.holds(&json!({"/totals/peak_in_flight": 3, "/plan/shards": 1}));
    let over = over.into_inner().unwrap();
    // A request of a wave may have ended before the last one of it arrives, but the slow one has
    // not.
    assert!(
        over.len() == 12 && over.iter().all(|ended| *ended < 3),
        "{over:?}"
    );
}
