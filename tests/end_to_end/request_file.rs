//! Requests from a file: each is sent as its line says, in order, by weight or at its recorded
//! time; and waves and windows of requests. The servers are the test's own and see every byte, or
//! the bundled target, whose counts are the witness.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot write its files is over"
)]

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use crawlmark_harness::clock::{Clock, Nanos};
use serde_json::json;
use tempfile::TempDir;

use crate::bad_input::assert_refused;
use crate::process::have_the_machine_alone;
use crate::report::Report;
use crate::run::{Run, crawl};
use crate::scripted::{OK, Peer, with_server};
use crate::target::Target;

/// A file of requests.
struct Requests {
    path: PathBuf,
    _place: TempDir,
}

impl Requests {
    fn write(text: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("requests");
        std::fs::write(&path, text).unwrap();
        Self {
            path,
            _place: place,
        }
    }

    fn crawl(&self, line: &str) -> Report {
        crawl(&format!("--requests-file {} {line}", self.path.display()))
    }
}

/// Answer the requests that `run` sends, and return their heads and bodies with the times of their
/// arrival.
fn received(run: impl FnOnce(&str)) -> Vec<(Nanos, String)> {
    let (clock, requests) = (Clock::start(), Mutex::new(Vec::new()));
    let serve = |mut peer: Peer| {
        while let Some(head) = peer.head() {
            let at = clock.now();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let Some(body) = peer.bytes(length.unwrap_or(0)) else {
                return;
            };
            requests
                .lock()
                .unwrap()
                .push((at, head.clone() + &String::from_utf8(body).unwrap()));
            // What answers HEAD has no body, whatever its length.
            peer.send(if head.starts_with("HEAD ") {
                OK.split_inclusive("\r\n\r\n").next().unwrap()
            } else {
                OK
            });
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
    ];
    let file = Requests::write(&lines.join("\n"));
    let mut saved = String::new();
    let all = received(|host| {
        let report = file.crawl(&format!(
            "http://{host} --ids 0..8 -s 1 -c 1 -H x-a:all --id-format width=3"
        ));
        report.assert_states(&[("ok", 8)]);
        assert_eq!(report.text("/plan/workload/method"), "HEAD, POST, PUT");
        assert_eq!(
            *report.at("/command/withheld"),
            json!(["--header 'x-a: ...'"])
        );
        saved = report.json().to_string();
    });
    assert!(
        !saved.contains("hid.den") && !saved.contains("e30="),
        "{saved}"
    );
    let says = |at: usize, begin: &str, parts: &[&str], body: &str| {
        let request = &all[at].1;
        assert!(
            request.starts_with(begin) && request.ends_with(&format!("\r\n\r\n{body}")),
            "{request}"
        );
        assert!(
            parts.iter().all(|part| request.matches(part).count() == 1),
            "{parts:?}: {request}"
        );
    };
    for round in [0, 4] {
        says(round, "HEAD /a HTTP/1.1\r\n", &["x-a: all\r\n"], "");
        let own = [
            "x-a: own\r\n",
            "x-a: ",
            "authorization: Bearer hid.den-1\r\n",
            "content-length: 2\r\n",
        ];
        says(round + 1, "POST /b?x=1 HTTP/1.1\r\n", &own, "{}");
        let id = format!("{:03}", round + 2);
        says(
            round + 2,
            &format!("PUT /c/{id} HTTP/1.1\r\n"),
            &["content-length: 9\r\n"],
            &format!("{{\"n\":{id}}}"),
        );
        says(round + 3, "GET /d HTTP/1.1\r\n", &["x-a: all\r\n"], "");
    }
    // As HTTP/2 has them.
    let target = Target::start("--processes 1");
    let report = file.crawl(&format!(
        "{} -n 8 -s 1 -c 1 --http 2 --streams 2 --expect status:200-499",
        target.origin()
    ));
    report.assert_states(&[("ok", 8)]);
    assert_eq!(target.stop()["requests"], json!(8));
}

#[test]
fn lines_are_drawn_by_weight_the_same_for_any_number_of_shards() {
    let target = Target::start("--processes 1");
    let file =
        Requests::write("{\"url\":\"/items/1\",\"weight\":3}\n{\"url\":\"/items/{id}/x\"}\n");
    let counts = [1, 3].map(|shards| {
        let report = file.crawl(&format!(
            "{} -n 400 -s {shards} -c 6 --expect whole",
            target.origin()
        ));
        let rows = report.at("/by_template").as_array().unwrap().clone();
        rows.iter()
            .map(|row| (row["name"].to_string(), row["attempts"].as_u64().unwrap()))
            .collect::<Vec<_>>()
    });
    assert_eq!(counts[0], counts[1]);
    // 300 expected, with a standard deviation of 9.
    assert!(
        counts[0].len() == 2 && counts[0][0].1.abs_diff(300) < 45,
        "{counts:?}"
    );
    assert_eq!(target.stop()["requests"], json!(800));
}

/// Times of a recording, ms, irregular and out of order, and its JSON lines.
fn recording() -> (Vec<u64>, String) {
    let times: Vec<u64> = (0..1_100).map(|n: u64| n * 2 + (n * 37 % 11) * 9).collect();
    let line =
        |(n, ms): (usize, &u64)| format!("{{\"url\":\"/{n}\",\"at\":{}}}\n", *ms as f64 / 1_000.0);
    let text = times.iter().enumerate().map(line).collect();
    (times, text)
}

#[test]
fn a_recording_is_replayed_at_its_times() {
    have_the_machine_alone();
    let (times, text) = recording();
    let file = Requests::write(&text);
    let earliest = times.iter().min().unwrap();
    for speed in [1_u32, 2] {
        // A request arrives between its time and the end of its response, so none is off by more
        // than the greatest response time. On a quiet machine the 99th percentile is below a
        // millisecond.
        let mut longest_ms = 0.0;
        let all = received(|host| {
            let report = file.crawl(&format!(
                "http://{host} --arrivals replay --speed {speed} -s 2 -c 60 --pacing sleep"
            ));
            report.assert_states(&[("ok", 1_100)]);
            assert_eq!(report.count("/schedule/scheduled"), 1_100);
            assert_eq!(report.text("/schedule/arrivals"), "replay");
            longest_ms = report.number("/latency/response/max_us") / 1e3;
        });
        let number = |head: &str| {
            head.split([' ', '/'])
                .nth(2)
                .unwrap()
                .parse::<usize>()
                .unwrap()
        };
        let mut seen: Vec<usize> = all.iter().map(|(_, head)| number(head)).collect();
        seen.sort_unstable();
        assert!(seen.iter().copied().eq(0..1_100), "each once: {seen:?}");
        let sent = |at: usize| Duration::from_millis(times[at] - earliest) / speed;
        // The target's clock has a start of its own: the median delay is left out.
        let first = all.iter().map(|(at, _)| *at).min().unwrap();
        let mut off: Vec<f64> = all
            .iter()
            .map(|(at, head)| at.since(first) as f64 / 1e6 - sent(number(head)).as_secs_f64() * 1e3)
            .collect();
        off.sort_by(f64::total_cmp);
        let median = off[550];
        // An order or a speed of its own would be off by hundreds of milliseconds, on any machine.
        assert!(
            off.iter()
                .filter(|off| (*off - median).abs() > 100.0)
                .count()
                < 110,
            "{off:?}"
        );
        let mut off: Vec<f64> = off.into_iter().map(|off| (off - median).abs()).collect();
        off.sort_by(f64::total_cmp);
        assert!(
            off[1_099] <= longest_ms,
            "{} ms off, with responses after {longest_ms} ms at most",
            off[1_099]
        );
        println!(
            "the p99 of the differences is {} ms at speed {speed}",
            off[1_089]
        );
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
            if head
                .split([' ', '/'])
                .nth(2)
                .unwrap()
                .parse::<u32>()
                .unwrap()
                % 3
                == 0
            {
                std::thread::sleep(Duration::from_millis(30));
            }
            let mut open = open.lock().unwrap();
            *open = (open.0 - 1, open.1 + 1);
            drop(open);
            peer.send(OK);
        }
    };
    with_server(serve, |address| {
        let report = crawl(&format!(
            "http://{address}/{{id}} -n 12 -c 3 --arrivals waves"
        ));
        report.assert_states(&[("ok", 12)]);
        assert_eq!(
            (
                report.count("/totals/peak_in_flight"),
                report.count("/plan/shards")
            ),
            (3, 1)
        );
    });
    let over = over.into_inner().unwrap();
    // A request of a wave may have ended before the last one of it arrives, but the slow one has
    // not.
    assert!(
        over.len() == 12 && over.iter().all(|ended| *ended < 3),
        "{over:?}"
    );
}

#[test]
fn a_window_lets_its_requests_through_at_its_start() {
    let target = Target::start("--processes 1");
    for shards in [1, 2] {
        let line = format!("{} -n 35 -s {shards} -c 10 --rate", target.url());
        let report = Run::start(line.split(' ').chain(["10 per 300ms"]))
            .end()
            .report(0);
        report.assert_states(&[("ok", 35)]);
        assert_eq!(
            (report.text("/budget/rate"), report.at("/budget/kept")),
            ("10 per 300ms", &json!(true))
        );
        // Four windows: the last five go at 900 ms.
        let took = report.number("/totals/duration_s");
        assert!(took > 0.9, "{took}");
    }
}

#[test]
fn what_cannot_be_sent_is_refused() {
    let (_, text) = recording();
    let (timed, untimed) = (
        Requests::write(&text),
        Requests::write("GET http://127.0.0.1:1/\nx-a: secret\n"),
    );
    let weighted = Requests::write("{\"url\":\"/\",\"at\":1,\"weight\":2}\n");
    let of_http_1 = Requests::write("{\"url\":\"/\",\"header\":{\"TE\":\"secret\"}}\n");
    let [timed, untimed, weighted, of_http_1] =
        [&timed, &untimed, &weighted, &of_http_1].map(|file| file.path.to_str().unwrap());
    let replay = ["URL", "--requests-file", timed, "--arrivals", "replay"];
    let with = |more: &[&'static str]| [&replay[..], more].concat();
    assert_refused(&[
        (
            &["--requests-file", "/nowhere"],
            "--requests-file /nowhere cannot be read: No such file",
        ),
        (
            &["--requests-file", timed],
            "line 1 has a path without a host: add the URL",
        ),
        (
            &["URL", "--requests-file", untimed],
            "needs a URL without a path",
        ),
        (
            &["--requests-file", untimed, "--arrivals", "replay"],
            "line 1 has no time, which --arrivals replay needs",
        ),
        (
            &["--requests-file", untimed, "--urls", untimed],
            "cannot be used with",
        ),
        (
            &["URL", "--arrivals", "replay"],
            "--arrivals replay needs a --requests-file",
        ),
        (&["URL", "--speed", "2"], "--speed is for --arrivals replay"),
        (&["URL", "--speed", "0"], "not a factor from 0.001 to 1000"),
        (
            &[
                "http://127.0.0.1:1",
                "--requests-file",
                weighted,
                "--arrivals",
                "replay",
            ],
            "has weights, which --arrivals replay",
        ),
        (
            &[
                "http://127.0.0.1:1",
                "--requests-file",
                of_http_1,
                "--http",
                "2",
            ],
            "header te of a request in the file is not allowed in HTTP/2",
        ),
        (
            &with(&["--rate", "5"]),
            "--rate does not work with --arrivals replay: the recording sets the time",
        ),
        (
            &with(&["--retries", "1"]),
            "--retries does not work with --arrivals replay",
        ),
        (
            &with(&["--follow", "1"]),
            "--follow does not work with --arrivals replay",
        ),
        (
            &with(&["--ids", "0..5"]),
            "--ids does not work with --arrivals replay",
        ),
        (
            &["URL", "--arrivals", "waves", "-s", "2"],
            "--arrivals waves needs one shard",
        ),
        (
            &["URL", "--rate", "10 per 0s"],
            "is not a number of requests per window",
        ),
        (
            &["URL", "--rate", "10 per 1s", "--burst", "5"],
            "--burst does not work with a --rate in windows",
        ),
    ]);
}
