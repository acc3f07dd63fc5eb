//! Lifetime and source addresses of connections, as the target sees and counts them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::bad_input::assert_refused;
use crate::report::counts;
use crate::run::{Run, crawl_once};
use crate::scripted::{OK, with_server};
use crate::target::{Target, confirmed};

#[test]
fn a_new_connection_for_every_request_and_both_sides_count_it() {
    let target = Target::start("--processes 2 --fault error:0.1");
    let (report, books) = confirmed(
        &target,
        "-n 300 --shards 2 -c 6 --disable-keepalive --retries 0",
    );
    assert_eq!(report.count("/totals/attempts"), 300);
    assert_eq!(
        (
            report.count("/totals/connections_opened"),
            &books["connections"]
        ),
        (300, &json!(300))
    );
    assert_eq!(report.count("/latency/connect/count"), 300);
    assert_eq!(report.text("/plan/workload/requests_per_connection"), "1");
}

#[test]
fn a_connection_counts_when_it_is_open_wherever_its_first_request_ends() {
    // No request ends by itself: the answers would begin long after the run.
    let target = Target::start("--processes 1 --latency 60s");
    let report = Run::start(
        format!(
            "{} -d 2s --grace 100ms --timeout 2m --shards 2 -c 40 -R 100 --arrivals constant",
            target.url()
        )
        .split(' ')
        .chain(["--threshold", "connections_opened == 40"]),
    )
    .end()
    .report(0);
    let books = target.books();
    assert_eq!(
        (
            report.count("/totals/connections_opened"),
            &books["connections"]
        ),
        (40, &json!(40))
    );
    assert_eq!(report.count("/latency/connect/count"), 40);
    // In the second in which they opened, not in the one in which the run ended.
    let opened = |row: &Value| row["connections_opened"].as_u64().unwrap();
    let rows: Vec<u64> = report
        .at("/intervals")
        .as_array()
        .unwrap()
        .iter()
        .map(opened)
        .collect();
    assert_eq!(rows.iter().sum::<u64>(), 40, "{rows:?}");
    assert!(rows[0] >= 30 && rows.len() >= 2, "{rows:?}");
}

#[test]
fn a_connection_carries_so_many_requests_and_no_more() {
    let target = Target::start("--processes 1");
    let (report, books) = confirmed(
        &target,
        "-n 95 --shards 1 -c 1 --max-requests-per-connection 10",
    );
    report.assert_states(&[("ok", 95)]);
    assert_eq!(
        (
            report.count("/totals/connections_opened"),
            &books["connections"]
        ),
        (10, &json!(10))
    );
}

#[test]
fn the_bundled_target_of_a_run_confirms_the_connections() {
    let report = crawl_once("-n 200 --shards 2 -c 4 --disable-keepalive --target-processes 1");
    assert_eq!(
        *report.at("/witness/agrees"),
        json!(true),
        "{}",
        report.at("/witness/differences")
    );
    assert_eq!(report.count("/witness/ledger/connections"), 200);
}

#[test]
fn every_connection_that_a_target_accepts_is_in_a_count() {
    let accepted = AtomicU64::new(0);
    let report = with_server(
        |mut peer| {
            accepted.fetch_add(1, Ordering::SeqCst);
            while peer.request().is_some() {
                peer.send(OK);
            }
        },
        |address| {
            crawl_once(&format!(
                "http://{address}/{{id}} -n 30 --shards 1 -c 1 --disable-keepalive"
            ))
        },
    );
    let [opened, checks] =
        ["/totals/connections_opened", "/check_connections"].map(|place| report.count(place));
    assert_eq!((opened, checks), (30, 1));
    assert_eq!(accepted.into_inner(), opened + checks);
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
    // The one that only asked whether anybody listens.
    connections.retain(|heads| !heads.is_empty());
    let closes: Vec<Vec<bool>> = connections
        .iter()
        .map(|heads| {
            heads
                .iter()
                .map(|head| head.contains("\r\nconnection: close\r\n"))
                .collect()
        })
        .collect();
    assert_eq!(
        closes,
        [
            vec![false, false, true],
            vec![false, false, true],
            vec![false]
        ]
    );
    let bytes: usize = connections.iter().flatten().map(String::len).sum();
    assert_eq!(report.count("/totals/bytes_sent"), bytes as u64);
}

#[test]
fn each_connection_has_an_address_of_its_own_over_all_shards() {
    let target = Target::start("--processes 2 --latency 2ms");
    let (report, books) = confirmed(
        &target,
        "-n 400 --shards 2 -c 5 --local-ips 127.9.0.1-127.9.0.3,127.9.7.1,127.9.7.2",
    );
    report.assert_states(&[("ok", 400)]);
    let sources = counts(&books["by_source"]);
    assert_eq!(
        sources.keys().collect::<Vec<_>>(),
        [
            "127.9.0.1",
            "127.9.0.2",
            "127.9.0.3",
            "127.9.7.1",
            "127.9.7.2"
        ],
        "{sources:?}"
    );
    assert_eq!(books["connections"], json!(5));
    assert_eq!(
        report.text("/plan/workload/local_ips"),
        "127.9.0.1-127.9.0.3,127.9.7.1,127.9.7.2"
    );
}

#[test]
fn a_connection_that_the_target_closed_is_opened_again_from_its_address() {
    // A quarter of all answers end their connection.
    let target = Target::start("--processes 1 --latency 1ms --fault close:0.25");
    let (report, books) = confirmed(&target, "-n 200 --shards 1 -c 3 --local-ips 127.9.0.0/24");
    assert!(report.count("/totals/connections_opened") > 20);
    let sources = counts(&books["by_source"]);
    assert_eq!(
        sources.keys().collect::<Vec<_>>(),
        ["127.9.0.1", "127.9.0.2", "127.9.0.3"],
        "{sources:?}"
    );
}

#[test]
fn with_a_new_connection_for_every_request_the_addresses_take_turns() {
    let target = Target::start("--processes 2");
    let (report, books) = confirmed(
        &target,
        "-n 120 --shards 1 -c 4 --disable-keepalive --local-ips 127.9.0.1-127.9.0.6",
    );
    report.assert_states(&[("ok", 120)]);
    let sources = counts(&books["by_source"]);
    assert_eq!(sources.len(), 6);
    assert!(
        sources.values().all(|requests| *requests == 20),
        "{sources:?}"
    );
}

#[test]
fn a_limit_for_each_address_is_one_for_each_connection() {
    let limited = |flags: &str| {
        crawl_once(&format!(
            "-n 60 --shards 1 -c 6 --target-processes 2 --target-limit 1/h:burst=10 {flags}"
        ))
    };
    assert_eq!(
        limited("--disable-keepalive --local-ips 127.9.0.1-127.9.0.6").items("ok"),
        60
    );
    assert_eq!(
        limited("--disable-keepalive --local-ips 127.9.0.1").items("ok"),
        10
    );
    assert_eq!(limited("").items("ok"), 10);
}

#[test]
fn a_target_is_reached_from_an_address_of_its_family() {
    let target = Target::start_on("[::1]:0", "--processes 1");
    let (report, books) = confirmed(
        &target,
        "-n 20 --shards 1 -c 2 --local-ips 127.9.0.0/24,::1",
    );
    report.assert_states(&[("ok", 20)]);
    assert_eq!(counts(&books["by_source"]), [("::1".to_owned(), 20)].into());
}

#[test]
fn an_address_that_cannot_be_used_is_refused_and_not_replaced() {
    assert_refused(&[
        (&["URL", "--local-ips", "nowhere"], "--local-ips"),
        (
            &["URL", "--local-ips", "127.0.0.1,127.0.0.1"],
            "was listed before",
        ),
        (
            &["URL", "--local-ips", "192.0.2.7"],
            "--local-ips: 192.0.2.7 is not an address of this machine",
        ),
        (
            &["URL", "--local-ips", "127.0.0.1,192.0.2.7"],
            "ip addr add 192.0.2.7/32",
        ),
        (&["--local-ips", "192.0.2.7"], "192.0.2.7"),
        (
            &["URL", "--local-ips", "::1"],
            "--local-ips ::1 has no IPv4 address, and 127.0.0.1 has no other",
        ),
        (
            &["--local-ips", "fd00::/80"],
            "has no IPv4 address, and the bundled target has no other",
        ),
    ]);
}

#[test]
fn a_handshake_is_held_for_each_connection_and_in_the_books() {
    let crawl = |flags: &str| {
        let report = crawl_once(&format!(
            "-n 40 --shards 2 -c 4 --target-processes 2 --target-latency 1ms --target-handshake 20ms {flags}"
        ));
        assert_eq!(
            *report.at("/witness/agrees"),
            json!(true),
            "{}",
            report.at("/witness/differences")
        );
        assert_eq!(report.text("/plan/workload/target_handshake"), "20ms");
        let held = |what: &str| report.count(&format!("/witness/ledger/held_us/{what}"));
        let [connections, count, max_us] = [
            report.count("/witness/ledger/connections"),
            held("count"),
            held("max_us"),
        ];
        (
            connections,
            count,
            max_us,
            report.number("/latency/service/p50_us"),
        )
    };
    let (connections, count, max_us, p50_us) = crawl("");
    assert_eq!((connections, count, max_us), (4, 40, 21_000));
    let (connections, count, max_us, new_p50_us) = crawl("--disable-keepalive");
    assert_eq!((connections, count, max_us), (40, 40, 21_000));
    // At least what was held; how much more is up to the machine.
    assert!(
        p50_us >= 1_000.0 && new_p50_us >= 21_000.0,
        "{p50_us} {new_p50_us}"
    );
}

#[test]
fn a_new_connection_to_the_target_of_the_article_costs_a_tenth_of_a_second() {
    let report = crawl_once("-n 6 --shards 1 -c 1 --disable-keepalive --target-profile article");
    assert_eq!(report.text("/plan/workload/target_handshake"), "100ms");
    assert!(report.number("/latency/service/min_us") >= 100_000.0);
}

#[test]
fn how_long_connections_live_is_said_once_and_makes_sense() {
    assert_refused(&[
        (
            &["URL", "--max-requests-per-connection", "0"],
            "--max-requests-per-connection",
        ),
        (
            &["URL", "--max-requests-per-connection", "few"],
            "--max-requests-per-connection",
        ),
        (
            &[
                "URL",
                "--max-requests-per-connection",
                "5",
                "--disable-keepalive",
            ],
            "--disable-keepalive",
        ),
    ]);
}
