//! Responses of stubs over the wire, and the counts of them: holds, pieces, faults, and the
//! target's own latency, limits and faults on top.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose client cannot go on is over"
)]
#![expect(clippy::print_stdout, reason = "a test that is skipped says so")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{flags, stubs};
use crate::client::Client;
use crate::process::DEADLINE;
use crate::target::Target;

#[test]
fn delays_of_stubs_are_held_and_in_the_books() {
    let root = stubs(&json!([
        {"request": {"url": "/fixed"}, "response": {"fixedDelayMilliseconds": 20}},
        {"request": {"url": "/both"}, "response": {
            "fixedDelayMilliseconds": 5, "delayDistribution": {"type": "fixed", "milliseconds": 6},
        }},
        {"request": {"urlPathPattern": "/spread/.*"}, "response": {
            "delayDistribution": {"type": "uniform", "lower": 1, "upper": 4},
        }},
        {"request": {"url": "/tail"}, "response": {
            "delayDistribution": {"type": "lognormal", "median": 2, "sigma": 5, "maxValue": 4},
        }},
        {"request": {"url": "/none"}},
    ]));
    for processes in [1, 2, 4] {
        let target = Target::start(&flags(&root, &format!("--processes {processes}")));
        let mut client = Client::connect(&target);
        let mut hold_of = |path: &str| {
            let answer = client.get(path, "");
            let hold = answer.number("x-mock-hold-us");
            assert!(answer.number("x-mock-held-us") >= hold);
            hold
        };
        assert_eq!((hold_of("/fixed"), hold_of("/both")), (20_000, 11_000));
        let spread: Vec<u64> = (0..40)
            .map(|id| hold_of(&format!("/spread/{id}")))
            .collect();
        assert!(
            spread
                .iter()
                .all(|us| [1000, 2000, 3000, 4000].contains(us))
                && spread.windows(2).any(|w| w[0] != w[1])
        );
        let mut client = Client::connect(&target);
        let tail = |answer: crate::client::Answer| {
            answer
                .headers
                .get("x-mock-hold-us")
                .map_or(0, |us| us.parse().unwrap())
        };
        let tails: Vec<u64> = (0..40).map(|_| tail(client.get("/tail", ""))).collect();
        assert!(
            tails.iter().all(|us| *us <= 4000) && tails.windows(2).any(|w| w[0] != w[1]),
            "{tails:?}"
        );
        assert!(
            !client
                .get("/none", "")
                .headers
                .contains_key("x-mock-hold-us")
        );
        let books = target.stop();
        let held = 2 + 40 + tails.iter().filter(|us| **us > 0).count();
        let sum_us = 31_000 + spread.iter().chain(&tails).sum::<u64>();
        assert_eq!(
            (&books["held_us"]["count"], &books["held_us"]["sum_us"]),
            (&json!(held), &json!(sum_us))
        );
        assert_eq!(
            (&books["stub_answers"], &books["by_status"]),
            (&json!(83), &json!({"200": 83}))
        );
    }
}

#[test]
fn a_dribbled_body_comes_in_pieces_and_none_of_them_early() {
    const PIECES: usize = 5;
    const INTERVAL: Duration = Duration::from_millis(100);
    let root = stubs(&json!([{"request": {"url": "/drip"}, "response": {
        "body": "aabbccddee", "chunkedDribbleDelay": {"numberOfChunks": PIECES, "totalDuration": 500},
    }}]));
    let target = Target::start(&flags(&root, "--processes 1"));
    // Only a client that sleeps through 400 ms sees the body in one piece; not many times in a row.
    let came_in_pieces = (0..10).any(|_| {
        let mut stream = TcpStream::connect(target.address()).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let clock = Clock::start();
        stream
            .write_all(b"GET /drip HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n")
            .unwrap();
        let (mut came, mut reads) = (Vec::new(), 0);
        let mut buffer = [0; 4096];
        loop {
            let read = stream.read(&mut buffer).unwrap();
            let now = Duration::from_nanos(clock.now().0);
            if read == 0 {
                break;
            }
            came.extend_from_slice(&buffer[..read]);
            let end_of_head = came
                .windows(4)
                .position(|bytes| bytes == b"\r\n\r\n")
                .unwrap()
                + 4;
            let body = came.len() - end_of_head;
            reads += usize::from(body > 0);
            // Two bytes every 100 ms, the first after 100 ms.
            assert!(
                INTERVAL * u32::try_from(body.div_ceil(2)).unwrap() <= now,
                "{body} bytes after {now:?}"
            );
        }
        assert!(
            came.ends_with(b"\r\n\r\naabbccddee"),
            "{}",
            came.escape_ascii()
        );
        reads > 1
    });
    assert!(came_in_pieces);
}

/// Stubs with every fault, and one without.
fn with_faults() -> TempDir {
    stubs(&json!([
        {"request": {"urlPath": "/reset"}, "response": {"fault": "CONNECTION_RESET_BY_PEER"}},
        {"request": {"urlPath": "/empty"}, "response": {"fault": "EMPTY_RESPONSE", "fixedDelayMilliseconds": 2}},
        {"request": {"urlPath": "/chunk"}, "response": {"fault": "MALFORMED_RESPONSE_CHUNK"}},
        {"request": {"urlPath": "/garbage"}, "response": {"fault": "RANDOM_DATA_THEN_CLOSE"}},
        {"request": {"urlPath": "/fine"}, "response": {"body": "fine"}},
    ]))
}

#[test]
fn faults_of_stubs_are_in_the_books_by_name() {
    let root = with_faults();
    for processes in [1, 2, 4] {
        let target = Target::start(&flags(&root, &format!("--processes {processes}")));
        let ask = |path: &str| {
            let mut client = Client::connect(&target);
            client.send(path, "");
            client.receive().map(|answer| answer.status)
        };
        for (path, times, status) in [
            ("/reset", 1, None),
            ("/empty", 2, None),
            ("/chunk", 3, Some(200)),
            ("/garbage", 4, None),
        ] {
            assert!((0..times).all(|_| ask(path) == status), "{path}");
        }
        assert_eq!((ask("/fine"), ask("/other")), (Some(200), Some(404)));
        let books = target.stop();
        for (name, count) in [
            ("reset", 1),
            ("drop", 2),
            ("malformed_chunk", 3),
            ("garbage", 4),
        ] {
            assert_eq!(books["faults"][name], json!(count), "{name}");
        }
        assert_eq!(
            (
                &books["requests"],
                &books["stub_answers"],
                &books["unmatched"]
            ),
            (&12.into(), &11.into(), &1.into())
        );
        assert_eq!(
            books["by_status"],
            json!({"200": 1 + 3, "404": 1}),
            "a malformed chunk comes behind the head of a 200"
        );
        assert_eq!(
            (&books["held_us"]["count"], &books["held_us"]["sum_us"]),
            (&json!(2), &json!(4000))
        );
    }
}

#[test]
fn the_targets_own_latency_limits_and_faults_apply_to_stubs() {
    let root = stubs(&json!([
        {"request": {"urlPathPattern": "/a/.*"}, "response": {"body": "stub", "fixedDelayMilliseconds": 3}},
        {"request": {"url": "/own"}, "response": {"fault": "EMPTY_RESPONSE"}},
    ]));
    let target = Target::start(&flags(
        &root,
        "--processes 2 --latency 2ms --limit 1/24h:burst=100:headers=x-ratelimit --fault error:0.2:503,challenge:0.2",
    ));
    let mut client = Client::connect(&target);
    let mut counts = std::collections::BTreeMap::<u16, u64>::new();
    for id in 0..120 {
        let answer = client.get(&format!("/a/{id}"), "");
        *counts.entry(answer.status).or_default() += 1;
        let is_held = answer.headers.get("x-mock-hold-us").map(String::as_str) == Some("5000");
        assert_eq!(is_held, answer.status != 429, "{answer:?}");
        assert_eq!(answer.status == 200, answer.body == b"stub", "{answer:?}");
        assert_eq!(answer.number("x-ratelimit-limit"), 100);
    }
    assert_eq!(counts[&429], 20);
    assert!(
        [200, 403, 503]
            .iter()
            .all(|status| counts.contains_key(status)),
        "{counts:?}"
    );
    let books = target.stop();
    let counted: std::collections::BTreeMap<u16, u64> =
        serde_json::from_value(books["by_status"].clone()).unwrap();
    assert_eq!(counted, counts);
    assert_eq!(
        (&books["faults"]["error"], &books["faults"]["challenge"]),
        (&json!(counts[&503]), &json!(counts[&403]))
    );
    assert_eq!(
        (&books["stub_answers"], &books["rejected"]),
        (&json!(100), &json!(20))
    );
    assert_eq!(
        (&books["held_us"]["count"], &books["held_us"]["sum_us"]),
        (&json!(100), &json!(500_000))
    );
}

/// What curl gets: how it ended, the status, the body.
fn curl(arguments: &[&str]) -> Option<(i32, String, String)> {
    let told = [
        "-sS",
        "-m",
        "60",
        "--noproxy",
        "*",
        "-w",
        "\n%{http_version} %{http_code}",
    ];
    match Command::new("curl").args(told).args(arguments).output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let (body, status) = text.rsplit_once('\n').unwrap();
            Some((
                output.status.code().unwrap(),
                status.to_owned(),
                body.to_owned(),
            ))
        }
        Err(error) => {
            println!("skipped: curl cannot be started: {error}");
            None
        }
    }
}

#[test]
fn stubs_are_the_same_over_http_2_and_tls() {
    let template = "{{request.scheme}} {{request.host}} {{request.port}} {{request.baseUrl}} {{request.headers.host}}";
    let mut all: Value = json!([
        {"request": {"url": "/where", "host": {"equalTo": "127.0.0.1"}}, "response": {"body": template, "transformers": ["response-template"]}},
        {"request": {"url": "/teapot"}, "response": {"status": 418, "statusMessage": "Short", "body": "tea", "fixedDelayMilliseconds": 2, "headers": {"X-A": ["1", "2"]}}},
        {"request": {"url": "/drip"}, "response": {"body": "abc", "chunkedDribbleDelay": {"numberOfChunks": 3, "totalDuration": 30}}},
        {"request": {"method": "POST", "url": "/body", "bodyPatterns": [{"equalToJson": {"a": 1}}]}, "response": {"body": "json"}},
    ]);
    let faults: Value = serde_json::from_slice(
        &std::fs::read(with_faults().path().join("mappings/all.json")).unwrap(),
    )
    .unwrap();
    all.as_array_mut()
        .unwrap()
        .extend(faults["mappings"].as_array().unwrap().iter().cloned());
    let root = stubs(&all);
    let authority = root
        .path()
        .join("authority.pem")
        .to_str()
        .unwrap()
        .to_owned();
    for (scheme, tls, version, how) in [
        ("http", "", "1.1", &["--http1.1"][..]),
        ("http", "", "2", &["--http2-prior-knowledge"]),
        ("https", "--tls", "1.1", &["--http1.1"]),
        ("https", "--tls", "2", &["--http2"]),
    ] {
        let more = if tls.is_empty() {
            "--processes 2".to_owned()
        } else {
            format!("--processes 2 --tls --tls-cert {authority}")
        };
        let target = Target::start(&flags(&root, &more));
        let ask = |path: &str, more: &[&str]| {
            let url = target.origin() + path;
            let trust: &[&str] = if tls.is_empty() {
                &[]
            } else {
                &["--cacert", &authority]
            };
            curl(&[how, trust, more, &[&url]].concat())
        };
        let Some(first) = ask("/where", &[]) else {
            return;
        };
        let (address, port) = (
            target.address(),
            target.address().rsplit_once(':').unwrap().1,
        );
        let where_ = format!("{scheme} 127.0.0.1 {port} {scheme}://{address} {address}");
        assert_eq!(first, (0, format!("{version} 200"), where_));
        let answered =
            |status: &str, body: &str| Some((0, format!("{version} {status}"), body.to_owned()));
        assert_eq!(ask("/teapot", &[]), answered("418", "tea"));
        assert_eq!(ask("/drip", &[]), answered("200", "abc"));
        assert_eq!(ask("/body", &["-d", "{\"a\":1}"]), answered("200", "json"));
        assert_eq!(
            ask("/body", &["-d", "{\"a\":2}"]),
            answered("404", "Request was not matched\n")
        );
        for path in ["/reset", "/empty", "/chunk", "/garbage"] {
            let (code, ..) = ask(path, &[]).unwrap();
            assert_ne!(code, 0, "{path} over {scheme} {version}");
        }
        let books: Value = target.stop();
        assert_eq!(
            (&books["stub_answers"], &books["unmatched"]),
            (&8.into(), &1.into()),
            "{scheme} {version}"
        );
        let faults = ["reset", "drop", "malformed_chunk", "garbage"]
            .map(|name| books["faults"][name].clone());
        assert_eq!(faults, [1, 1, 1, 1].map(Value::from));
    }
}
