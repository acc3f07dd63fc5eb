//! The crawl over HTTP/2: nginx and the bundled target as servers, and servers that do as the test
//! says.

use serde_json::{Value, json};

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::foreign::{column, nginx};
use crate::proxy::assert_failed_as;
use crate::report::{Report, counts, holds};
use crate::run::crawl;
use crate::scripted::{Peer, with_server};
use crate::target::Target;

/// Types of frames, and flags (RFC 9113, 6).
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const DATA: u8 = 0;
const PUSH_PROMISE: u8 = 5;
const GOAWAY: u8 = 7;
const END: u8 = 5;
const END_HEADERS: u8 = 4;

/// Block of fields that holds `:status: 200`, by its number in the static table (RFC 7541).
const STATUS_200: &[u8] = &[0x88];

/// The start of a client's connection (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Serve one connection of HTTP/2: `answer` gets each request by the number of its stream.
fn serve(peer: Peer, answer: impl Fn(&mut Peer, u8)) {
    serve_with(&[], peer, answer);
}

/// As [`serve`], with these settings.
fn serve_with(settings: &[u8], mut peer: Peer, answer: impl Fn(&mut Peer, u8)) {
    if peer
        .bytes(PREFACE.len())
        .is_none_or(|start| start != PREFACE)
    {
        return;
    }
    send(&mut peer, (SETTINGS, 0), 0, settings);
    while let Some(head) = peer.bytes(9) {
        let length = head[..3]
            .iter()
            .fold(0, |length, byte| length * 256 + usize::from(*byte));
        if peer.bytes(length).is_none() {
            return;
        }
        if head[3] == HEADERS {
            answer(&mut peer, head[8]);
        }
    }
}

fn send(peer: &mut Peer, (kind, flags): (u8, u8), stream: u8, payload: &[u8]) {
    let length = u8::try_from(payload.len()).unwrap();
    peer.send_bytes(&[&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat());
}

fn reset(peer: &mut Peer, stream: u8, code: u8) {
    send(peer, (RST_STREAM, 0), stream, &[0, 0, 0, code]);
}

fn protocols(report: &Report) -> Vec<(String, u64)> {
    report
        .counts("/totals/connections_by_protocol")
        .into_iter()
        .collect()
}

/// Answer the request of a stream with 200 and no content.
fn answer(peer: &mut Peer, stream: u8) {
    send(peer, (HEADERS, END), stream, STATUS_200);
}

/// Say that this stream is the last one that was taken.
fn goaway(peer: &mut Peer, last: u8) {
    send(peer, (GOAWAY, 0), 0, &[0, 0, 0, last, 0, 0, 0, 0]);
}

/// Crawl this server over one connection of HTTP/2; an item is not retried.
#[track_caller]
fn over(server: &(dyn Fn(Peer) + Sync), flags: &str) -> Report {
    let flags = if flags.contains("--retries") {
        flags.to_owned()
    } else {
        format!("{flags} --retries 0")
    };
    with_server(server, |address| {
        crawl(&format!(
            "http://{address}/{{id}} -s 1 -c 1 --http 2 {flags}"
        ))
    })
}

#[test]
fn shards_linger_by_themselves_only_where_they_have_many_requests_without_times() {
    for (flags, us) in [
        ("-c 40", Some(50)),
        ("-c 39", None),
        ("-c 10 --http 2 --streams 4", Some(50)),
        ("-c 10 --http 2 --streams 4 --linger 0", None),
        ("-c 10 --http 2 --streams 4 --rate 200", None),
        ("-c 1 --rate 200 --linger 1ms", Some(1_000)),
    ] {
        let report = crawl(&format!("-n 20 -s 1 {flags}"));
        report.assert_states(&[("ok", 20)]);
        let planned = report.json().pointer("/plan/linger_us");
        assert_eq!(planned.and_then(Value::as_u64), us, "{flags}");
        let longest = report.number("/shards/0/longest_linger_us");
        assert!(longest <= us.unwrap_or(0) as f64, "{flags}: {longest}");
    }
}

#[test]
fn a_goaway_in_mid_run_loses_and_repeats_nothing() {
    let Some(nginx) = nginx("http2", "keepalive_requests 1000;") else {
        return;
    };
    let url = format!("http://{}/items/{{id}}", nginx.address());
    let report = crawl(&format!(
        "{url} -n 5000 --shards 1 -c 1 --http 2 --streams 100"
    ));
    report.assert_states(&[("ok", 5_000)]);
    report.holds(&json!({
        "/totals/attempts": 5_000, "/totals/retries": 0, "/totals/peak_in_flight": 100,
        "/plan/connections": 1, "/plan/streams": 100,
    }));
    let log = nginx.log_of(0, 5_000);
    assert_eq!(column(&log, 2).len(), 5_000, "each item once");
    let connections = column(&log, 1).len();
    report.holds(&json!({"/totals/connections_opened": connections}));
    assert!((5..=8).contains(&connections), "{connections}");
    // Those on their way to a connection that closes go again, and each is one attempt.
    assert!(report.count("/totals/resent") > 0);
}

#[test]
fn connections_that_take_no_request_cost_no_item() {
    let connections = AtomicUsize::new(0);
    let server = |mut peer: Peer| {
        if connections.fetch_add(1, Ordering::Relaxed) >= 3 {
            return serve(peer, answer);
        }
        peer.bytes(PREFACE.len());
        // At once, so that no request can go between them.
        let settings = [0, 0, 0, SETTINGS, 0, 0, 0, 0, 0];
        let goaway = [0, 0, 8, GOAWAY, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        peer.send_bytes(&[&settings[..], &goaway].concat());
        peer.drain();
    };
    let report = over(&server, "-n 8 --streams 2");
    report.assert_states(&[("ok", 8)]);
    report.holds(&json!({"/totals/attempts": 8, "/totals/retries": 0}));
    assert!(report.count("/totals/resent") > 0);
}

#[test]
fn the_time_for_which_a_target_holds_requests_before_goaway_is_its_own() {
    let has_held = AtomicBool::new(false);
    let server = |peer: Peer| {
        serve(peer, |peer, stream| match stream {
            3 if !has_held.swap(true, Ordering::Relaxed) => {
                // The fault under test, not a wait for anything.
                std::thread::sleep(Duration::from_millis(300));
                goaway(peer, 1);
            }
            _ => answer(peer, stream),
        });
    };
    let report = over(&server, "-n 8");
    report.assert_states(&[("ok", 8)]);
    report.holds(&json!({
        "/totals/resent": 1, "/totals/attempts": 8, "/connections/served_max": 1,
    }));
    assert!(report.number("/latency/service/max_us") >= 300_000.0);
}

#[test]
fn a_hundred_streams_share_a_connection() {
    let target = Target::start("--processes 1 --latency 20ms");
    let url = target.url();
    let report = crawl(&format!(
        "{url} -n 1000 --shards 1 -c 1 --http 2 --streams 100"
    ));
    report.assert_states(&[("ok", 1_000)]);
    assert_eq!(protocols(&report), [("HTTP/2".to_owned(), 1)]);
    for times in ["service", "ttfb"] {
        report.holds(&json!({format!("/latency/{times}/count"): 1_000}));
        assert!(report.number(&format!("/latency/{times}/min_us")) >= 20_000.0);
    }
    let ledger = target.stop();
    holds(
        &ledger,
        &json!({"/requests": 1_000, "/connections": 1, "/unique_ids": 1_000}),
    );
}

#[test]
fn the_bundled_targets_counts_agree() {
    for flags in ["--http 2", "--target-tls --http auto"] {
        let line = "-n 400 --shards 2 -c 4 --streams 4 --target-processes 2";
        let report = crawl(&format!("{flags} {line}"));
        report.assert_states(&[("ok", 400)]);
        let opened = report.count("/totals/connections_opened");
        report.holds(&json!({
            "/witness/agrees": true, "/witness/ledger/http2_connections": opened,
        }));
        assert!(opened <= 4, "{opened}");
    }
    // Throttling is the same.
    let target = Target::start("--processes 1 --limit 40/s:burst=20");
    let line = "-n 60 --shards 1 -c 2 --http 2 --streams 10 --expect json";
    let (report, ledger) = confirmed_streams(&target, line);
    report.assert_states(&[("ok", 60)]);
    assert!(report.count("/totals/throttled") > 0);
    holds(&ledger, &json!({"/early_retries": 0}));
}

/// Crawl a target, and check the responses that both sides counted.
fn confirmed_streams(target: &Target, flags: &str) -> (Report, Value) {
    let report = crawl(&format!("{} {flags}", target.url()));
    let ledger = target.ledger();
    assert_eq!(report.statuses(), counts(&ledger["by_status"]));
    (report, ledger)
}

#[test]
fn streams_that_a_target_does_not_allow_wait_and_auto_falls_back() {
    // Without HTTP/2 each connection carries one request at a time, and there are no more of them.
    let target = Target::start("--processes 1 --tls --http 1.1");
    let line = format!("{} -n 300 -s 1 -c 2 -k", target.url());
    let report = crawl(&format!("{line} --streams 10 --http auto"));
    report.assert_states(&[("ok", 300)]);
    assert_eq!(protocols(&report), [("HTTP/1.1".to_owned(), 2)]);
    // HTTP/2 alone is refused by the handshake.
    assert_failed_as(&crawl(&format!("{line} --http 2")), "http2_not_offered", "");
    let settings = "http2_max_concurrent_streams 3; keepalive_requests 1000;";
    let Some(nginx) = nginx("http2", settings) else {
        return;
    };
    let url = format!("http://{}/items/{{id}}", nginx.address());
    let report = crawl(&format!(
        "{url} -n 300 --shards 1 -c 2 --streams 10 --http 2"
    ));
    report.assert_states(&[("ok", 300)]);
    // Those that wait for a stream are not in flight.
    report.holds(&json!({"/totals/resent": 0, "/totals/peak_in_flight": 6}));
    let found = report.finding("few_streams");
    assert_eq!(
        (&found["allowed"], &found["connections"]),
        (&json!(3), &json!(7))
    );
    assert_eq!(protocols(&report), [("HTTP/2".to_owned(), 2)]);
}

#[test]
fn whatever_a_server_does_wrong_over_http_2_has_a_name() {
    type Script<'a> = &'a (dyn Fn(Peer) + Sync);
    let junk = "junk".repeat(100);
    let begins_with = |text: &str, mut peer: Peer| {
        peer.bytes(PREFACE.len());
        peer.send(text);
        peer.drain();
    };
    // `content-length: 2`, and other content.
    let lies = |content: &'static [u8]| {
        move |peer: Peer| {
            serve(peer, |peer, stream| {
                let fields = [STATUS_200, &[0x0f, 13, 1, b'2']].concat();
                send(peer, (HEADERS, END_HEADERS), stream, &fields);
                send(peer, (DATA, 1), stream, content);
            });
        }
    };
    let (nothing, less, more) = (lies(b""), lies(b"o"), lies(b"okay"));
    let refuses_its_answer = |peer: Peer| {
        serve(peer, |peer, stream| {
            send(peer, (HEADERS, END_HEADERS), stream, STATUS_200);
            reset(peer, stream, 7);
        });
    };
    let promise = [0, 0, 0, 2, 0x82, 0x86, 0x84, 0x41, 1, b'h'];
    let pushes = |peer: Peer| {
        serve(peer, |peer, stream| {
            send(peer, (PUSH_PROMISE, END_HEADERS), stream, &promise);
            answer(peer, stream);
        });
    };
    let hangs_up = |peer: Peer| {
        serve(peer, |peer, stream| {
            if stream == 7 {
                peer.hang_up();
            }
        });
    };
    let of_1 = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
    let none_allowed = [0, 3, 0, 0, 0, 0];
    let (slow, streams) = ("--connect-timeout 200ms", "--streams 2");
    let cases: [(Script, &str, &str, &str); 15] = [
        (&|peer| begins_with(&junk, peer), "", "http2_protocol", ""),
        (
            &|peer| serve(peer, |peer, _| peer.send(&junk)),
            "--streams 4",
            "http2_protocol",
            "",
        ),
        (
            &|mut peer| drop(peer.bytes(PREFACE.len())),
            "",
            "http2_protocol",
            "before its HTTP/2 settings",
        ),
        (
            &|mut peer| peer.drain(),
            slow,
            "connect_timeout",
            "no settings of HTTP/2 came",
        ),
        (
            &|peer| serve_with(&none_allowed, peer, |_, _| {}),
            slow,
            "connect_timeout",
            "MAX_CONCURRENT_STREAMS 0",
        ),
        (&nothing, "", "http2_protocol", "content-length of 2"),
        (&less, "", "http2_protocol", "content-length of 2"),
        (&more, "", "http2_protocol", "content-length of 2"),
        // Not tried again: the next connection would be no other.
        (
            &|peer| begins_with(of_1, peer),
            "--retries 2",
            "http2_not_offered",
            "answered with HTTP/1",
        ),
        (
            &|peer| serve(peer, |peer, stream| reset(peer, stream, 2)),
            streams,
            "http2_reset",
            "code 2",
        ),
        (
            &|peer| serve(peer, |peer, stream| reset(peer, stream, 7)),
            streams,
            "http2_refused",
            "REFUSED_STREAM",
        ),
        (
            &refuses_its_answer,
            streams,
            "http2_refused",
            "REFUSED_STREAM",
        ),
        (&pushes, "", "http2_protocol", ""),
        (&hangs_up, "--streams 4", "closed", ""),
        (
            &|peer| serve(peer, |peer, _| goaway(peer, 0)),
            "",
            "http2_goaway",
            "GOAWAY with code 0",
        ),
    ];
    for (number, (server, flags, kind, details)) in cases.into_iter().enumerate() {
        let report = over(server, &format!("-n 4 {flags}"));
        assert_failed_as(&report, kind, details);
        let resent = report.count("/totals/resent");
        let opened = report.count("/totals/connections_opened");
        match number {
            // Each was sent twice more, as one attempt.
            10 => assert_eq!((resent, opened), (8, 1)),
            // What was begun does not go again, though it is refused then.
            11 => assert_eq!(resent, 0),
            14 => assert_eq!(resent, opened - 4),
            _ => {}
        }
    }
}

#[test]
fn a_refused_request_goes_again_and_a_stream_that_times_out_leaves_the_others_alone() {
    let refuses_one = |peer: Peer| {
        serve(peer, |peer, stream| match stream {
            1 => reset(peer, stream, 7),
            _ => answer(peer, stream),
        });
    };
    let report = over(&refuses_one, "-n 8 --streams 2 --rate '8 per 20s'");
    report.assert_states(&[("ok", 8)]);
    report.holds(&json!({"/totals/resent": 1, "/totals/attempts": 8}));
    // Charged once: the ninth of a window waits for the next one.
    assert!(report.number("/totals/duration_s") < 20.0);
    let forgets_one = |peer: Peer| {
        serve(peer, |peer, stream| {
            if stream > 1 {
                answer(peer, stream);
            }
        });
    };
    let report = over(&forgets_one, "-n 8 --streams 2 --timeout 1s");
    report.assert_states(&[("ok", 7), ("failed", 1)]);
    assert_eq!(report.errors(), [("timeout".to_owned(), 1)].into());
    report.holds(&json!({"/totals/connections_opened": 1}));
    // A connection that is silent while a request times out is not used again.
    let report = over(&|peer| serve(peer, |_, _| {}), "-n 2 --timeout 300ms");
    report.assert_states(&[("failed", 2)]);
    report.holds(&json!({"/totals/connections_opened": 2}));
}
