//! Lifetime and source addresses of connections, as the target sees and counts them.

use std::sync::Mutex;

use crawlmark_harness::clock::{Clock, Nanos};
use serde_json::json;

use crate::report::{counts, holds};
use crate::run::crawl_once;
use crate::scripted::{OK, Peer, with_server};
use crate::target::{Target, confirmed};

#[test]
fn both_sides_count_the_connections_that_the_flags_ask_for() {
    let target = "--processes 2 --fault error:0.1";
    for (flags, opened) in [
        ("-n 300 --shards 2 -c 6 --disable-keepalive", 300),
        ("-n 95 --shards 1 -c 1 --max-requests-per-connection 10", 10),
        ("-n 30 --shards 1 -c 1 --idle-timeout 1us", 30),
        ("-n 30 --shards 1 -c 1 --idle-timeout 1h", 1),
    ] {
        let target = Target::start(target);
        let (report, ledger) = confirmed(&target, &format!("{flags} --retries 0"));
        holds(&ledger, &json!({"/connections": opened}));
        report.holds(&json!({
            "/totals/connections_opened": opened, "/latency/connect/count": opened,
        }));
    }
}

#[test]
fn the_last_request_says_so_and_the_client_closes_whatever_the_target_makes_of_it() {
    let connections = Mutex::new(Vec::new());
    let report = with_server(
        |mut peer| {
            // It never closes by itself, and it says that it will not.
            let mut heads = Vec::new();
            while let Some(head) = peer.head() {
                heads.push(head);
                peer.send(OK);
            }
            connections.lock().unwrap().push(heads);
        },
        |address| {
            crawl_once(&format!(
                "http://{address}/{{id}} -n 7 --shards 1 -c 1 --max-requests-per-connection 3"
            ))
        },
    );
    report.assert_states(&[("ok", 7)]);
    let mut connections = connections.into_inner().unwrap();
    // Every connection that a target accepts is in a count.
    report.holds(&json!({"/totals/connections_opened": 3, "/check_connections": 1}));
    assert_eq!(connections.len(), 4);
    connections.retain(|heads| !heads.is_empty());
    let closes = |head: &String| head.contains("\r\nconnection: close\r\n");
    let closes = |heads: &Vec<String>| heads.iter().map(closes).collect::<Vec<bool>>();
    let closes: Vec<Vec<bool>> = connections.iter().map(closes).collect();
    let whole = vec![false, false, true];
    assert_eq!(closes, [whole.clone(), whole, vec![false]]);
    let bytes: usize = connections.iter().flatten().map(String::len).sum();
    report.holds(&json!({"/totals/bytes_sent": bytes}));
}

#[test]
fn connections_have_addresses_of_their_own_over_all_shards() {
    let target = Target::start("--processes 2 --latency 2ms");
    let five = "--local-ips 127.9.0.1-127.9.0.3,127.9.7.1,127.9.7.2";
    let (report, ledger) = confirmed(&target, &format!("-n 400 --shards 2 -c 5 {five}"));
    assert_eq!(counts(&ledger["by_source"]).len(), 5, "{ledger}");
    report.holds(&json!({"/totals/connections_opened": 5}));
    // Only an address of the target's family reaches it.
    let target = Target::start_on("[::1]:0", "--processes 1");
    let flags = "-n 20 --shards 1 -c 2 --local-ips 127.9.0.0/24,::1";
    let (_, ledger) = confirmed(&target, flags);
    assert_eq!(ledger["by_source"], json!({"::1": 20}));
}

#[test]
fn it_is_told_who_closes_a_connection_after_how_many_requests_and_if_that_is_announced() {
    for (announcement, side) in [("connection: close\r\n", "announced"), ("", "target")] {
        let report = with_server(
            |mut peer| {
                for n in 1..=4 {
                    if peer.request().is_none() {
                        return;
                    }
                    let said = if n == 4 { announcement } else { "" };
                    peer.send(&OK.replace("content-length", &format!("{said}content-length")));
                }
            },
            |address| crawl_once(&format!("http://{address}/{{id}} -n 400 --shards 1 -c 2")),
        );
        let closed = counts(report.at("/connections/closed_by"));
        assert!(closed[side] >= 90, "{closed:?}");
        assert_eq!(closed.values().sum::<u64>(), closed[side]);
        report.holds(&json!({"/connections/served_max": 4, "/connections/served_median": 4}));
        let found = report.finding("keep_alive_limit");
        holds(
            found,
            &json!({"/requests": 4, "/announced": closed["announced"]}),
        );
    }
}

#[test]
fn what_times_out_is_told_apart_by_what_the_kernel_of_the_target_acknowledged() {
    let flags = "-n 4 --shards 1 -c 4 --timeout 300ms --retries 0";
    let report = with_server(
        |mut peer| peer.drain(),
        |address| crawl_once(&format!("http://{address}/{{id}} {flags}")),
    );
    report.holds(&json!({
        "/totals/errors_by_kind/timeout": 4, "/tcp/timeouts_acknowledged": 4, "/tcp/timeouts_unacknowledged": 0,
    }));
    holds(report.finding("not_answered"), &json!({"/requests": 4}));
    let slowest = report.array("/slowest");
    assert_eq!(slowest.len(), 4);
    for row in slowest {
        holds(
            row,
            &json!({"/outcome": "timeout", "/retransmits": 0, "/ttfb_us": null}),
        );
    }
}

#[test]
fn what_a_target_says_it_took_is_read_where_it_says_it() {
    let serve = |said: &'static str| {
        with_server(
            move |mut peer| {
                while peer.request().is_some() {
                    peer.send(&OK.replace("content-length", &format!("{said}content-length")));
                }
            },
            |address| crawl_once(&format!("http://{address}/{{id}} -n 300 --shards 1 -c 1")),
        )
    };
    let report = serve("server-timing: db;dur=9, app;dur=0.001\r\n");
    report.holds(&json!({"/latency/reported/count": 300, "/latency/reported/max_us": 1.0}));
    let report = serve("");
    report.holds(&json!({"/split": null, "/latency/body/count": 300}));
    assert!(report.at("/latency").get("reported").is_none());
    // The last request of a connection is not the first, and each is numbered.
    let numbers = report
        .array("/slowest")
        .iter()
        .map(|row| row["nth_on_connection"].as_u64().unwrap());
    assert!(numbers.clone().all(|nth| (1..=300).contains(&nth)) && numbers.max() > Some(1));
}

#[test]
fn a_connection_that_rested_for_as_long_as_its_target_keeps_it_carries_no_other_request() {
    // A target that keeps connections for a second, one for less, and one that says nothing.
    for (header, connections) in [
        ("keep-alive: timeout=1, max=9\r\n", 3),
        ("keep-alive: timeout=0\r\n", 3),
        ("", 1),
    ] {
        let (clock, latest) = (Clock::start(), Mutex::new(0));
        let response = OK.replace("content-length", &format!("{header}content-length"));
        let serve = |mut peer: Peer| {
            let mut answered = None;
            while peer.request_with_body().is_some() {
                let rested = answered.map_or(0, |at: Nanos| clock.now().since(at));
                let mut latest = latest.lock().unwrap();
                *latest = rested.max(*latest);
                peer.send(&response);
                answered = Some(clock.now());
            }
        };
        let report = with_server(serve, |address| {
            crawl_once(&format!(
                "http://{address}/{{id}} -n 3 -s 1 -c 1 --method POST --body x --rate 50/min"
            ))
        });
        report.assert_states(&[("ok", 3)]);
        report.holds(&json!({"/totals/connections_opened": connections}));
        let latest = latest.into_inner().unwrap();
        assert_eq!(latest < 1_000_000_000, connections > 1, "{latest}");
    }
}
