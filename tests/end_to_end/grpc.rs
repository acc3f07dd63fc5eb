//! Calls of gRPC: the bundled target, whose counts are the second witness, and a server of another
//! make (`tests/consumers/grpc_server.py`), by its log. `.ci/run` runs what needs that.

#![expect(clippy::disallowed_methods, reason = "the tests fork no shard")]

use std::collections::BTreeMap;
use std::fs;
use std::future::poll_fn;
use std::path::Path;
use std::thread;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::foreign::Foreign;
use crate::report::Report;
use crate::run::crawl;
use crate::stubs::{flags, stubs};
use crate::target::{Target, confirmed};

/// One attempt for each item, over one connection.
const CALLS: &str =
    "--http 2 --expect grpc --shards 1 -c 1 --streams 4 --retries 0 --on-throttle count";

fn rejected(report: &Report) -> BTreeMap<String, u64> {
    report.counts("/totals/rejected_by_status")
}

#[test]
fn calls_of_the_target_are_counted_with_their_messages() {
    for (served, messages, error) in [
        ("", 1, None),
        ("--events 4@1ms", 5, None),
        // Ten pieces of an item.
        ("--fault drip:1:10ms", 10, None),
        ("--fault reset:1", 0, Some("http2_reset")),
        ("--fault silence:1", 0, Some("timeout")),
    ] {
        let target = Target::start(&format!("--processes 1 {served}"));
        let (report, _) = confirmed(&target, &format!("-n 20 {CALLS} --timeout 1s --body hello"));
        let errors = error.map(|kind| (kind.to_owned(), 20));
        assert_eq!(report.errors(), BTreeMap::from_iter(errors), "{served}");
        report.assert_states(&[(if error.is_none() { "ok" } else { "failed" }, 20)]);
        report.holds(&json!({"/totals/events": 20 * messages}));
        if error.is_none() {
            report.holds(&json!({
                "/latency/first_event/count": 20,
                "/latency/event_gap/count": 20 * (messages - 1),
            }));
        }
    }
}

#[test]
fn a_call_ends_as_its_status_says() {
    let of_status = |status: &str, message: &str| {
        let headers = json!({"grpc-status": status, "grpc-message": message});
        json!({
            "request": {"urlPathPattern": format!("/items/{status}")},
            "response": {"status": 200, "headers": headers},
        })
    };
    let stubbed = [
        of_status("5", "no%20such caf%C3%A9"),
        of_status("8", ""),
        of_status("14", ""),
        of_status("nothing", ""),
        json!({"request": {"urlPathPattern": "/items/0"}, "response": {"status": 200, "body": "a"}}),
    ];
    let root = stubs(&stubbed.into_iter().collect());
    let target = Target::start(&flags(&root, "--processes 1"));
    let lines = tempfile::NamedTempFile::new().unwrap();
    let statuses = ["5", "8", "14", "nothing", "0"];
    let line = |status: &&str| format!("{{\"url\":\"{}/items/{status}\"}}\n", target.origin());
    fs::write(&lines, statuses.iter().map(line).collect::<String>()).unwrap();
    let file = lines.path().display();
    let report = crawl(&format!("--requests-file {file} {CALLS}"));
    report.assert_states(&[("ok", 1), ("failed", 3), ("gave_up", 1)]);
    let expected = [("5", 1), ("14", 1)].map(|(status, count)| (status.to_owned(), count));
    assert_eq!(rejected(&report), BTreeMap::from(expected));
    report.holds(&json!({
        "/totals/throttled": 1, "/totals/attempts_by_status/8": 1,
        "/totals/attempts_by_status/200": 2, "/totals/errors_by_kind/malformed": 1,
        "/failures/5/excerpt": "no such café", "/failures/5/status": 5,
    }));
    // UNAVAILABLE may pass, NOT_FOUND does not.
    let again = crawl(&format!("--requests-file {file} {CALLS} --retries 2"));
    let expected = [("5", 1), ("14", 3)].map(|(status, count)| (status.to_owned(), count));
    assert_eq!(rejected(&again), BTreeMap::from(expected));
}

#[test]
fn a_message_that_is_too_long_ends_its_call_at_once() {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    // The rest of the message never comes, nor does the end of the response.
    let serving = async move {
        // The first connection only looks if the target listens.
        let (mut connection, mut respond) = loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let Ok(mut connection) = h2::server::handshake(tcp).await else {
                continue;
            };
            if let Some(Ok((_, respond))) = connection.accept().await {
                break (connection, respond);
            }
        };
        let head = http::Response::builder().header("content-type", "application/grpc");
        let mut stream = respond
            .send_response(head.body(()).unwrap(), false)
            .unwrap();
        stream
            .send_data(Bytes::from_static(&[0, 64, 0, 0, 0]), false)
            .unwrap();
        tokio::select! {
            reset = poll_fn(|cx| stream.poll_reset(cx)) => reset.unwrap(),
            other = connection.accept() => panic!("{other:?}"),
        }
    };
    let serving = thread::spawn(move || runtime.block_on(serving));
    let flags = format!("-n 1 {CALLS} --body hello --timeout 60s");
    let report = crawl(&format!("http://{address}/items/{{id}} {flags}"));
    report.assert_all_failed("body_too_long");
    assert_eq!(serving.join().unwrap(), h2::Reason::CANCEL);
}

/// The server of another make; none, and a word about it, where it is not installed.
fn server() -> Option<Foreign> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = root.join("target/consumers/bin/python");
    let script = root.join("tests/consumers/grpc_server.py");
    Foreign::start(python.to_str().unwrap(), |port, place| {
        let (log, port) = (place.path().join("log"), port.to_string());
        let args = [script.as_path(), Path::new(&port), &log];
        args.map(|path| path.to_str().unwrap().to_owned()).to_vec()
    })
}

/// What the server has logged of calls of a method, each with the messages that it sent.
fn logged(server: &Foreign, method: &str) -> Vec<Value> {
    let log = fs::read_to_string(server.place.path().join("log")).unwrap();
    let calls = log.lines().map(|line| serde_json::from_str(line).unwrap());
    calls
        .filter(|call: &Value| call["method"] == method)
        .collect()
}

#[test]
#[ignore = "needs grpcio: see .ci/run"]
fn a_grpc_server_of_another_make_has_logged_what_is_reported() {
    let Some(server) = server() else {
        return;
    };
    let call = |method: &str, flags: &str| {
        let url = format!("http://{}/test.Test/{method}", server.address());
        crawl(&format!("{url} {CALLS} {flags}"))
    };
    let unary = call(
        "Echo",
        "-n 500 --body hello-{id} --id-format width=6 --timeout 20s",
    );
    unary.assert_states(&[("ok", 500)]);
    unary.holds(&json!({"/totals/events": 500}));
    let log = logged(&server, "Echo");
    let mut bodies: Vec<_> = log
        .iter()
        .map(|call| call["body"].as_str().unwrap())
        .collect();
    bodies.sort_unstable();
    let expected: Vec<String> = (0..500).map(|id| format!("hello-{id:06}")).collect();
    assert_eq!(bodies, expected);
    let has_deadline = |call: &Value| (10.0..=20.0).contains(&call["left_s"].as_f64().unwrap());
    assert!(log.iter().all(has_deadline), "{:?}", log.first());

    let stream = call("Count", "-n 20 --body 8");
    stream.assert_states(&[("ok", 20)]);
    let sent = logged(&server, "Count")
        .iter()
        .map(|call| call["messages"].as_u64().unwrap())
        .sum::<u64>();
    assert_eq!(sent, 160);
    stream.holds(&json!({
        "/totals/events": sent, "/latency/first_event/count": 20, "/latency/event_gap/count": 140,
    }));

    for status in 1..=16_u64 {
        let report = call("Fail", &format!("-n 3 --body {status}"));
        let log = logged(&server, "Fail");
        assert_eq!(
            log.iter().filter(|call| call["status"] == status).count(),
            3
        );
        let key = status.to_string();
        report.holds(&json!({format!("/totals/attempts_by_status/{key}"): 3}));
        if status == 8 {
            report.assert_states(&[("gave_up", 3)]);
            continue;
        }
        report.assert_states(&[("failed", 3)]);
        assert_eq!(rejected(&report), BTreeMap::from([(key.clone(), 3)]));
        let message = format!("status {status}: 100 % café");
        report.holds(&json!({format!("/failures/{key}/excerpt"): message}));
    }
    let unknown = call("Nothing", "-n 3");
    assert_eq!(rejected(&unknown), BTreeMap::from([("12".to_owned(), 3)]));
    let late = call("Wait", "-n 3 --timeout 300ms");
    let ended = late.errors().get("timeout").copied().unwrap_or(0)
        + rejected(&late).get("4").copied().unwrap_or(0);
    assert_eq!((ended, logged(&server, "Wait").len()), (3, 3));
}
