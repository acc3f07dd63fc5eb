//! The crawl over HTTP/2: nginx and the bundled target as servers, and servers that do as the test
//! says.
#![expect(
    clippy::unwrap_used,
    reason = "a test without its certificates is over"
)]

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::bad_input::assert_refused;
use crate::foreign::Nginx;
use crate::process::{DEADLINE, wait_for};
use crate::report::Report;
use crate::run::{Run, crawl};
use crate::scripted::{Peer, with_server};
use crate::target::Target;
use crate::tls::{Authority, GOOD, program, start_with};

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

#[test]
fn nginx_logs_over_both_versions_of_both_protocols_what_the_report_counts() {
    let Some(program) = program() else { return };
    let authority = Authority::new("one");
    let identity = authority.sign("127.0.0.1", GOOD);
    for (tls, name) in [("TLSv1.2", "1.2"), ("TLSv1.3", "1.3")] {
        let nginx = start_with(
            &program,
            "ssl http2",
            &identity,
            &format!("ssl_protocols {tls};"),
        );
        let mut logged = 0;
        for (http, protocol, streams) in [
            ("1.1", "HTTP/1.1", ""),
            ("2", "HTTP/2", "--streams 5"),
            ("auto", "HTTP/2", ""),
        ] {
            let report = crawl(&format!(
                "https://127.0.0.1:{}/items/{{id}} --cacert {} --ids 0..400 --shards 2 -c 4 --http {http} {streams} \
                 --expect regex:^an.item$ --tls-min {name} --tls-max {name}",
                nginx.port,
                authority.authority()
            ));
            report.assert_states(&[("ok", 400)]);
            assert_eq!(
                (
                    report.count("/totals/attempts"),
                    report.count("/totals/retries")
                ),
                (400, 0)
            );
            let all = wait_for("the log", || {
                Some(nginx.log()).filter(|log| log.len() >= logged + 400)
            });
            let log = &all[logged..];
            logged = all.len();
            let column = |number: usize| {
                log.iter()
                    .map(move |line| line.split(' ').nth(number).unwrap())
            };
            assert_eq!(
                column(2).collect::<BTreeSet<_>>().len(),
                400,
                "each item once"
            );
            assert!(
                column(3).all(|spoken| spoken.starts_with(protocol)),
                "{}",
                log[0]
            );
            let opened = report.count("/totals/connections_opened");
            assert_eq!(column(1).collect::<BTreeSet<_>>().len() as u64, opened);
            assert_eq!(protocols(&report), [(protocol.to_owned(), opened)]);
            let sessions = report.counts("/tls/sessions");
            assert!(
                sessions.keys().all(|session| session.starts_with(tls))
                    && report.count("/tls/full") == opened
            );
        }
    }
}

#[test]
fn a_goaway_in_mid_run_loses_and_repeats_nothing() {
    let Some(program) = program() else { return };
    let settings = "keepalive_requests 1000; location /items/ { return 200 'an item'; }";
    let nginx = Nginx::start_on(&program, "http2", settings);
    let report = crawl(&format!(
        "http://127.0.0.1:{}/items/{{id}} --ids 0..5000 --shards 1 -c 1 --http 2 --streams 100",
        nginx.port
    ));
    report.assert_states(&[("ok", 5_000)]);
    assert_eq!(
        (
            report.count("/totals/attempts"),
            report.count("/totals/retries")
        ),
        (5_000, 0)
    );
    assert_eq!(
        (
            report.count("/plan/connections"),
            report.count("/plan/streams")
        ),
        (1, 100)
    );
    assert_eq!(report.count("/totals/peak_in_flight"), 100);
    let log = wait_for("the log", || {
        Some(nginx.log()).filter(|log| log.len() >= 5_000)
    });
    let items: BTreeSet<_> = log
        .iter()
        .map(|line| line.split(' ').nth(2).unwrap())
        .collect();
    assert_eq!((log.len(), items.len()), (5_000, 5_000));
    let connections: BTreeSet<_> = log
        .iter()
        .map(|line| line.split(' ').nth(1).unwrap())
        .collect();
    assert_eq!(
        connections.len() as u64,
        report.count("/totals/connections_opened")
    );
    assert!(
        (5..=8).contains(&connections.len()),
        "{}",
        connections.len()
    );
    // Those on their way to a connection that closes go again, and each is one attempt.
    assert!(report.count("/totals/resent") > 0);
}

#[test]
fn a_hundred_streams_share_a_connection_and_long_bodies_pass_the_windows() {
    let target = Target::start("--processes 1 --latency 20ms");
    let report = crawl(&format!(
        "{} -n 1000 --shards 1 -c 1 --http 2 --streams 100",
        target.url()
    ));
    report.assert_states(&[("ok", 1_000)]);
    assert_eq!(protocols(&report), [("HTTP/2".to_owned(), 1)]);
    for times in ["service", "ttfb"] {
        assert_eq!(report.count(&format!("/latency/{times}/count")), 1_000);
        assert!(
            report.number(&format!("/latency/{times}/min_us")) >= 20_000.0,
            "{}",
            report.at("/latency")
        );
    }
    let books = target.stop();
    assert_eq!(
        (
            &books["requests"],
            &books["connections"],
            &books["unique_ids"]
        ),
        (&json!(1_000), &json!(1), &json!(1_000))
    );
    assert!(
        report.count("/totals/bytes_received") > 1_000 * 50
            && report.count("/totals/bytes_sent") > 1_000 * 5
    );
    let Some(program) = program() else { return };
    let place = tempfile::tempdir().unwrap();
    let body = place.path().join("body");
    std::fs::write(&body, vec![b'x'; 300_000]).unwrap();
    let nginx = Nginx::start_on(
        &program,
        "http2",
        "location /items/ { return 200 'an item'; }",
    );
    let report = crawl(&format!(
        "http://127.0.0.1:{}/items/{{id}} -n 40 --shards 1 -c 2 --http 2 --streams 4 --body @{}",
        nginx.port,
        body.display()
    ));
    report.assert_states(&[("ok", 40)]);
    // Responses that are longer than the windows, and not paid for with a window update for every
    // few bytes.
    std::fs::write(&body, vec![b'x'; 3_000_000]).unwrap();
    let settings = format!(
        "location /items/ {{ root /; try_files {} =404; }}",
        body.display()
    );
    let nginx = Nginx::start_on(&program, "http2", &settings);
    let url = format!("http://127.0.0.1:{}/items/{{id}}", nginx.port);
    let report = crawl(&format!(
        "{url} -n 20 --shards 1 -c 1 --http 2 --streams 4 --expect len:3000000"
    ));
    report.assert_states(&[("ok", 20)]);
    assert!(
        report.count("/totals/bytes_sent") < 10_000,
        "{}",
        report.count("/totals/bytes_sent")
    );
}

#[test]
fn a_connection_that_goes_away_makes_room_for_another_while_its_last_stream_ends() {
    let (is_replaced, replaced) = std::sync::mpsc::channel();
    let (connections, replaced) = (AtomicU32::new(0), Mutex::new(replaced));
    let is_replaced = Mutex::new(is_replaced);
    let server = |peer: Peer| {
        let is_first = connections.fetch_add(1, Ordering::SeqCst) == 1;
        serve(peer, |peer, stream| match (is_first, stream) {
            // The answer to the first request waits for one on the next connection, which GOAWAY
            // asks for.
            (true, 1) => {}
            (true, _) => {
                send(peer, (GOAWAY, 0), 0, &[0, 0, 0, 1, 0, 0, 0, 0]);
                if replaced.lock().unwrap().recv_timeout(DEADLINE).is_ok() {
                    send(peer, (HEADERS, END), 1, STATUS_200);
                }
            }
            (false, _) => {
                let _ = is_replaced.lock().unwrap().send(());
                send(peer, (HEADERS, END), stream, STATUS_200);
            }
        });
    };
    let report = with_server(server, |address| {
        crawl(&format!(
            "http://{address}/{{id}} -n 4 -s 1 -c 1 --http 2 --streams 2 --retries 0"
        ))
    });
    report.assert_states(&[("ok", 4)]);
    assert_eq!(
        (
            report.count("/totals/resent"),
            report.count("/totals/connections_opened")
        ),
        (1, 2)
    );
}

#[test]
fn the_bundled_targets_counts_agree() {
    for flags in ["--http 2", "--target-tls --http auto"] {
        let report = crawl(&format!(
            "{flags} --streams 4 -n 400 --shards 2 -c 4 --target-processes 2"
        ));
        report.assert_states(&[("ok", 400)]);
        assert_eq!(
            *report.at("/witness/agrees"),
            json!(true),
            "{}",
            report.at("/witness/differences")
        );
        let opened = report.count("/totals/connections_opened");
        assert_eq!(report.count("/witness/ledger/http2_connections"), opened);
        assert!(opened <= 4, "{opened}");
    }
}

#[test]
fn throttling_is_the_same_over_http_2() {
    let target = Target::start("--processes 1 --limit 40/s:burst=20");
    let report = crawl(&format!(
        "{} -n 150 --shards 1 -c 2 --http 2 --streams 10 --expect json",
        target.url()
    ));
    report.assert_states(&[("ok", 150)]);
    let books = target.stop();
    assert!(report.count("/totals/throttled") > 0);
    assert_eq!(
        report.statuses(),
        crate::report::counts(&books["by_status"])
    );
    assert_eq!(books["early_retries"], json!(0), "pauses are honoured");
}

#[test]
fn http_2_goes_through_proxies() {
    let target = Target::start("--processes 1 --tls");
    let proxy = Target::start("--processes 1 --proxy");
    let report = crawl(&format!(
        "{} -n 60 -s 1 -c 2 --http 2 --streams 3 --insecure --proxy http://{}",
        target.url(),
        proxy.address()
    ));
    report.assert_states(&[("ok", 60)]);
    assert_eq!(
        protocols(&report),
        [(
            "HTTP/2".to_owned(),
            report.count("/totals/connections_opened")
        )]
    );
    assert_eq!(
        proxy.stop()["proxy"]["tunnels"],
        json!(report.count("/totals/connections_opened"))
    );
    assert_eq!(
        target.stop()["http2_connections"],
        json!(report.count("/totals/connections_opened"))
    );
}

#[test]
fn streams_that_a_target_does_not_allow_wait_and_auto_falls_back() {
    let Some(program) = program() else { return };
    let settings = "http2_max_concurrent_streams 3; keepalive_requests 1000; location /items/ { return 200 'an item'; }";
    let nginx = Nginx::start_on(&program, "http2", settings);
    let url = format!(
        "http://127.0.0.1:{}/items/{{id}} -n 300 --shards 1 -c 2 --streams 10",
        nginx.port
    );
    let report = crawl(&format!("{url} --http 2"));
    report.assert_states(&[("ok", 300)]);
    assert_eq!(
        (report.count("/totals/resent"), protocols(&report)),
        (0, vec![("HTTP/2".to_owned(), 2)])
    );
    // Without HTTP/2 each connection carries one request at a time, and there are no more of them.
    let target = Target::start("--processes 1 --tls --http 1.1");
    let report = crawl(&format!(
        "{} -n 300 -s 1 -c 2 --streams 10 --http auto -k",
        target.url()
    ));
    report.assert_states(&[("ok", 300)]);
    assert_eq!(protocols(&report), [("HTTP/1.1".to_owned(), 2)]);
}

/// Every item failed at its only attempt, for this reason and with these details.
#[track_caller]
fn assert_failed_as(report: &Report, kind: &str, details: &str) {
    report.assert_all_failed(kind);
    let said = report.text(&format!("/failures/{kind}/details"));
    assert!(said.contains(details), "{said:?} holds {details:?}");
}

#[test]
fn whatever_a_server_does_wrong_over_http_2_has_a_name() {
    let over = |server: &(dyn Fn(Peer) + Sync), flags: &str| {
        with_server(server, |address| {
            crawl(&format!(
                "http://{address}/{{id}} -n 4 -s 1 -c 1 --http 2 {flags}"
            ))
        })
    };
    let junk = |mut peer: Peer| {
        peer.bytes(PREFACE.len());
        peer.send(&"junk".repeat(100));
        peer.drain();
    };
    assert_failed_as(&over(&junk, "--retries 0"), "http2_protocol", "");
    let later = |peer: Peer| serve(peer, |peer, _| peer.send(&"junk".repeat(100)));
    assert_failed_as(
        &over(&later, "--retries 0 --streams 4"),
        "http2_protocol",
        "",
    );
    let leaves = |mut peer: Peer| drop(peer.bytes(PREFACE.len()));
    assert_failed_as(
        &over(&leaves, "--retries 0"),
        "http2_protocol",
        "before its HTTP/2 settings",
    );
    let silent = |mut peer: Peer| peer.drain();
    let report = over(&silent, "--retries 0 --connect-timeout 200ms");
    assert_failed_as(&report, "connect_timeout", "no settings of HTTP/2 came");
    let closed = |peer: Peer| serve_with(&[0, 3, 0, 0, 0, 0], peer, |_, _| {});
    assert_failed_as(
        &over(&closed, "--retries 0 --connect-timeout 200ms"),
        "connect_timeout",
        "MAX_CONCURRENT_STREAMS 0",
    );
    // `content-length: 2`, and other content.
    for content in ["", "o", "okay"] {
        let lies = |peer: Peer| {
            serve(peer, |peer, stream| {
                send(
                    peer,
                    (HEADERS, END_HEADERS),
                    stream,
                    &[STATUS_200, &[0x0f, 13, 1, b'2']].concat(),
                );
                send(peer, (DATA, 1), stream, content.as_bytes());
            });
        };
        assert_failed_as(
            &over(&lies, "--retries 0"),
            "http2_protocol",
            "content-length of 2",
        );
    }
    // HTTP/1.1 alone. Not tried again: the next connection would be no other.
    let of_1 = |mut peer: Peer| {
        peer.bytes(PREFACE.len());
        peer.send("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        peer.drain();
    };
    assert_failed_as(
        &over(&of_1, ""),
        "http2_not_offered",
        "answered with HTTP/1",
    );
    let resets = |peer: Peer| serve(peer, |peer, stream| reset(peer, stream, 2));
    assert_failed_as(
        &over(&resets, "--retries 0 --streams 2"),
        "http2_reset",
        "code 2",
    );
    let refuses = |peer: Peer| serve(peer, |peer, stream| reset(peer, stream, 7));
    let report = over(&refuses, "--retries 0 --streams 2");
    assert_failed_as(&report, "http2_refused", "REFUSED_STREAM");
    // Each was sent twice more, as one attempt.
    assert_eq!(
        (
            report.count("/totals/resent"),
            report.count("/totals/connections_opened")
        ),
        (8, 1)
    );
    // What was begun does not go again, though it is refused then.
    let answers_and_refuses = |peer: Peer| {
        serve(peer, |peer, stream| {
            send(peer, (HEADERS, END_HEADERS), stream, STATUS_200);
            reset(peer, stream, 7);
        });
    };
    let report = over(&answers_and_refuses, "--retries 0 --streams 2");
    assert_failed_as(&report, "http2_refused", "REFUSED_STREAM");
    assert_eq!(report.count("/totals/resent"), 0);
    let pushes = |peer: Peer| {
        serve(peer, |peer, stream| {
            send(
                peer,
                (PUSH_PROMISE, END_HEADERS),
                stream,
                &[0, 0, 0, 2, 0x82, 0x86, 0x84, 0x41, 1, b'h'],
            );
            send(peer, (HEADERS, END), stream, STATUS_200);
        });
    };
    assert_failed_as(&over(&pushes, "--retries 0"), "http2_protocol", "");
    let hangs_up = |peer: Peer| {
        serve(peer, |peer, stream| {
            if stream == 7 {
                peer.hang_up();
            }
        });
    };
    let report = over(&hangs_up, "--retries 0 --streams 4");
    report.assert_states(&[("failed", 4)]);
    assert_eq!(report.errors(), [("closed".to_owned(), 4)].into());
    let goes_away = |peer: Peer| serve(peer, |peer, _| send(peer, (GOAWAY, 0), 0, &[0; 8]));
    let report = over(&goes_away, "--retries 0");
    assert_failed_as(&report, "http2_goaway", "GOAWAY with code 0");
    assert_eq!(
        report.count("/totals/resent"),
        report.count("/totals/connections_opened") - 4
    );
    // HTTP/1.1 within TLS alone, as the handshake says.
    let target = Target::start("--processes 1 --tls --http 1.1");
    let report = crawl(&format!("{} -n 4 -s 1 -c 1 --http 2 -k", target.url()));
    assert_failed_as(&report, "http2_not_offered", "");
}

#[test]
fn a_refused_request_goes_again_and_a_stream_that_times_out_leaves_the_others_alone() {
    let refuses_one = |peer: Peer| {
        serve(peer, |peer, stream| match stream {
            1 => reset(peer, stream, 7),
            _ => send(peer, (HEADERS, END), stream, STATUS_200),
        });
    };
    let report = with_server(refuses_one, |address| {
        let rate = ["--rate", "8 per 20s"];
        let line =
            format!("http://{address}/{{id}} -n 8 -s 1 -c 1 --http 2 --streams 2 --retries 0");
        Run::start(line.split(' ').chain(rate)).end().report(0)
    });
    report.assert_states(&[("ok", 8)]);
    assert_eq!(
        (
            report.count("/totals/resent"),
            report.count("/totals/attempts")
        ),
        (1, 8)
    );
    // Charged once: the ninth of a window waits for the next one.
    assert!(report.number("/totals/duration_s") < 20.0);
    let forgets_one = |peer: Peer| {
        serve(peer, |peer, stream| {
            if stream > 1 {
                send(peer, (HEADERS, END), stream, STATUS_200);
            }
        });
    };
    let report = with_server(forgets_one, |address| {
        crawl(&format!(
            "http://{address}/{{id}} -n 8 -s 1 -c 1 --http 2 --streams 2 --retries 0 --timeout 2s"
        ))
    });
    report.assert_states(&[("ok", 7), ("failed", 1)]);
    assert_eq!(
        (report.errors(), report.count("/totals/connections_opened")),
        ([("timeout".to_owned(), 1)].into(), 1)
    );
    // One stream at a time: those that wait for it have not been sent, and so do not time out with
    // the first.
    let (one_stream, requests) = ([0, 3, 0, 0, 0, 1], AtomicU32::new(0));
    let forgets_one = |peer: Peer| {
        serve_with(&one_stream, peer, |peer, stream| {
            if requests.fetch_add(1, Ordering::SeqCst) > 0 {
                send(peer, (HEADERS, END), stream, STATUS_200);
            }
        });
    };
    let report = with_server(forgets_one, |address| {
        crawl(&format!(
            "http://{address}/{{id}} -n 4 -s 1 -c 1 --http 2 --streams 4 --retries 0 --timeout 1s"
        ))
    });
    report.assert_states(&[("ok", 3), ("failed", 1)]);
    // A connection that is silent while a request times out is not used again.
    let report = with_server(
        |peer| serve(peer, |_, _| {}),
        |address| {
            crawl(&format!(
                "http://{address}/{{id}} -n 2 -s 1 -c 1 --http 2 --retries 0 --timeout 300ms"
            ))
        },
    );
    report.assert_states(&[("failed", 2)]);
    assert_eq!(report.count("/totals/connections_opened"), 2);
}

#[test]
fn the_time_of_a_request_begins_when_it_is_handed_over() {
    let greets_late = |peer: Peer| {
        // The fault under test, not a wait for anything.
        std::thread::sleep(Duration::from_millis(300));
        serve(peer, |peer, stream| {
            send(peer, (HEADERS, END), stream, STATUS_200);
        });
    };
    let report = with_server(greets_late, |address| {
        crawl(&format!(
            "http://{address}/{{id}} -n 2 -s 1 -c 1 --http 2 --streams 2 --retries 0"
        ))
    });
    report.assert_states(&[("ok", 2)]);
    let least_us = |series: &str| report.number(&format!("/latency/{series}/min_us"));
    assert!(
        least_us("item") >= 300_000.0 && least_us("service") < 300_000.0,
        "{}",
        report.at("/latency")
    );
}

#[test]
fn combinations_without_effect_are_refused() {
    let url = "https://127.0.0.1:9/{id}";
    let plain = "http://127.0.0.1:9/{id}";
    assert_refused(&[
        (&[url, "-k", "--http", "3"], "none of auto, 1.1 and 2"),
        (
            &[url, "-k", "--streams", "10"],
            "--streams 10 needs HTTP/2: pass --http 2",
        ),
        (
            &[url, "-k", "--streams", "10", "--http", "1.1"],
            "--streams 10 needs HTTP/2",
        ),
        (
            &[plain, "--streams", "10", "--http", "auto"],
            "uses for https:// URLs only: pass --http 2",
        ),
        (&[plain, "--streams", "0", "--http", "2"], "--streams"),
        (
            &[plain, "--streams", "100000", "-c", "100", "--http", "2"],
            "--streams 100000 with --connections 100",
        ),
        (
            &[
                plain,
                "--streams",
                "2",
                "--http",
                "2",
                "--disable-keepalive",
            ],
            "no effect with --disable-keepalive",
        ),
        (
            &[plain, "--http", "2", "-H", "Upgrade: x"],
            "--header Upgrade is not allowed in HTTP/2",
        ),
        (
            &[plain, "--http", "2", "-H", "Host: a b"],
            "--header Host is the authority",
        ),
        (
            &[plain, "--http", "2", "--proxy", "http://127.0.0.1:9"],
            "--http 2 cannot go through an http:// proxy",
        ),
    ]);
}
