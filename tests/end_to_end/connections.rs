//! How long connections live: closed after so many requests, as the target sees it and as its books have it.
#![expect(clippy::unwrap_used, reason = "a test without its server is over")]

use std::sync::Mutex;

use serde_json::json;

use crate::bad_input::assert_refused;
use crate::run::crawl_once;
use crate::scripted::{OK, with_server};
use crate::target::{Target, confirmed};

#[test]
fn a_new_connection_for_every_request_and_both_sides_count_it() {
    let target = Target::start("--processes 2 --fault error:0.1");
    let (report, books) = confirmed(&target, "-n 300 --shards 2 -c 6 --disable-keepalive --retries 0");
    assert_eq!(report.count("/totals/attempts"), 300);
    assert_eq!((report.count("/totals/connections_opened"), &books["connections"]), (300, &json!(300)));
    assert_eq!(report.count("/latency/connect/count"), 300);
    assert_eq!(report.text("/plan/workload/requests_per_connection"), "1");
}

#[test]
fn a_connection_carries_so_many_requests_and_no_more() {
    let target = Target::start("--processes 1");
    let (report, books) = confirmed(&target, "-n 95 --shards 1 -c 1 --max-requests-per-connection 10");
    report.assert_states(&[("ok", 95)]);
    assert_eq!((report.count("/totals/connections_opened"), &books["connections"]), (10, &json!(10)));
}

#[test]
fn the_bundled_target_of_a_run_confirms_the_connections() {
    let report = crawl_once("-n 200 --shards 2 -c 4 --disable-keepalive --target-processes 1");
    assert_eq!(*report.at("/witness/agrees"), json!(true), "{}", report.at("/witness/differences"));
    assert_eq!(report.count("/witness/ledger/connections"), 200);
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
        |address| crawl_once(&format!("http://{address}/{{id}} -n 7 --shards 1 -c 1 --max-requests-per-connection 3")),
    );
    report.assert_states(&[("ok", 7)]);
    let mut connections = connections.into_inner().unwrap();
    // The one that only asked whether anybody listens.
    connections.retain(|heads| !heads.is_empty());
    let closes: Vec<Vec<bool>> = connections
        .iter()
        .map(|heads| heads.iter().map(|head| head.contains("\r\nconnection: close\r\n")).collect())
        .collect();
    assert_eq!(closes, [vec![false, false, true], vec![false, false, true], vec![false]]);
    let bytes: usize = connections.iter().flatten().map(String::len).sum();
    assert_eq!(report.count("/totals/bytes_sent"), bytes as u64);
}

#[test]
fn how_long_connections_live_is_said_once_and_makes_sense() {
    assert_refused(&[
        (&["URL", "--max-requests-per-connection", "0"], "--max-requests-per-connection"),
        (&["URL", "--max-requests-per-connection", "few"], "--max-requests-per-connection"),
        (&["URL", "--max-requests-per-connection", "5", "--disable-keepalive"], "--disable-keepalive"),
    ]);
}
