//! Limits by IPv6 prefix over real connections: a thread of this test has a network of its own, in
//! which whole prefixes are this machine's. Nothing is installed, and the network is gone with its
//! last process and thread.
//!
//! That takes root and the program `ip`; without them it is skipped, and says so.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose client cannot go on is over"
)]
#![expect(
    clippy::print_stdout,
    reason = "a test that is skipped says so, and one by hand its figures"
)]

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv6Addr;
use std::process::{Command, Stdio};

use crawlmark_results::show::text::grouped;
use nix::sched::{CloneFlags, unshare};
use serde_json::{Value, json};

use crate::client::Client;
use crate::report::{Report, counts};
use crate::run::{ONE_ATTEMPT, Run, crawl};
use crate::scripted::{OK, Peer, with_server};
use crate::target::Target;

/// Where the target listens.
const HOME: &str = "2001:db8::1";

/// Who asks, and how often. The first two are neighbours in one /64, the third is in their /48.
const CLIENTS: [(&str, u64); 4] = [
    ("2001:db8:1:1::1", 40),
    ("2001:db8:1:1:ffff::2", 40),
    ("2001:db8:1:2::1", 40),
    ("2001:db8:2:1::1", 60),
];

/// A prefix of which every address is this machine's, though no interface has one.
const ROUTED: &str = "2001:db8:5::/64";

/// Gives this thread, and what it starts, a network with these addresses, or says why not.
fn enter_own_network() -> Result<(), String> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(|error| format!("a network of its own: {error}"))?;
    let ip = |arguments: &str| {
        let output = Command::new("ip")
            .args(arguments.split(' '))
            .stdin(Stdio::null())
            .output();
        let output = output.map_err(|error| format!("`ip` cannot be started: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() {
            Ok(())
        } else {
            Err(format!("ip {arguments}: {said}"))
        }
    };
    ip("link set lo up")?;
    ip(&format!("-6 route add local {ROUTED} dev lo"))?;
    CLIENTS
        .iter()
        .map(|(address, _)| *address)
        .chain([HOME])
        .try_for_each(|address| {
            // Without a search for others who have it: there is nobody.
            ip(&format!("-6 addr add {address}/128 dev lo nodad"))
        })
}

/// Run a test in a network of its own.
fn in_own_network(test: fn()) {
    let network = || match enter_own_network() {
        Ok(()) => test(),
        Err(reason) => println!("skipped: {reason}"),
    };
    // The network is this thread's: the other tests stay in theirs.
    std::thread::scope(|scope| scope.spawn(network).join().unwrap());
}

#[test]
fn clients_of_one_prefix_share_what_the_limit_admits() {
    in_own_network(ask_in_own_network);
}

#[test]
fn a_routed_prefix_reaches_twenty_times_the_limit_of_an_address_and_once_that_of_a_prefix() {
    in_own_network(|| {
        for (key, source, admitted, used, throttled_at_first) in [
            ("address", "2001:db8:5::7", 50, 1, 0),
            ("address", "2001:db8:5::1-2001:db8:5::14", 1_000, 20, 0),
            ("address", ROUTED, 1_000, 1_000, 0),
            ("/64", ROUTED, 50, 1_000, 950),
        ] {
            let flags = format!("--processes 1 --limit 50/h:burst=50:key={key}");
            let target = Target::start_on(&format!("[{HOME}]:0"), &flags);
            let flags = format!(
                "-n 1000 --rate 100k --shards 1 -c 8 --disable-keepalive --robots ignore {ONE_ATTEMPT} --local-ips {source}"
            );
            let ended = Run::start(format!("{} {flags}", target.url()).split(' ')).end();
            let (report, books) = (ended.report(0), counts(&target.stop()["by_source"]));
            let (ok, throttled) = (report.items("ok"), report.count("/totals/throttled"));
            assert_eq!(
                (ok, throttled),
                (admitted, 1_000 - admitted),
                "{key} {source}"
            );
            let counted = ["used", "throttled_at_first"]
                .map(|n| report.count(&format!("/totals/sources_{n}")));
            assert_eq!(counted, [used, throttled_at_first], "{key} {source}");
            let is_shared = !report.finding("sources_throttled").is_null();
            assert_eq!(is_shared, throttled_at_first > 0, "{key} {source}");
            let rows = report
                .json()
                .get("by_source")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default();
            // One for each of the first addresses and one for the others; none of a single address,
            // which has made all requests.
            assert_eq!(
                rows.len() as u64,
                if used == 1 { 0 } else { used.min(51) },
                "{rows:?}"
            );
            let sum = |key: &str| {
                rows.iter()
                    .map(|row| row[key].as_u64().unwrap())
                    .sum::<u64>()
            };
            assert!(
                used == 1 || (sum("attempts"), sum("throttled")) == (1_000, throttled),
                "{rows:?}"
            );
            if used == 20 {
                let row = |row: &Value| {
                    (
                        row["name"].as_str().unwrap().to_owned(),
                        row["attempts"].as_u64().unwrap(),
                    )
                };
                assert_eq!(rows.iter().map(row).collect::<BTreeMap<_, _>>(), books);
            }
        }
    });
}

/// Crawl `requests` items with a new connection for each, in a network of its own with so many
/// local ports, from `sources` addresses. Return the report and its reasons not to be believed.
fn spend_ports(ports: u32, requests: u64, sources: u8) -> (Report, String) {
    let limit =
        |name: &str, value: &str| fs::write(format!("/proc/sys/net/ipv4/{name}"), value).unwrap();
    // A port in TIME_WAIT is not used again, as it is not between two machines.
    limit("tcp_tw_reuse", "0");
    limit(
        "ip_local_port_range",
        &format!("20000 {}", 20_000 + ports - 1),
    );
    let flags = format!("-n {requests} --shards 1 -c 16 --disable-keepalive {ONE_ATTEMPT}");
    // It leaves it to the client to close first, who then has the port in TIME_WAIT.
    let serve = |mut peer: Peer| {
        while peer.head().is_some() {
            peer.send(OK);
        }
    };
    let report = with_server(serve, |address| {
        crawl(&format!(
            "http://{address}/{{id}} {flags} --local-ips 127.0.1.1-127.0.1.{sources}"
        ))
    });
    let reasons = report.at("/findings").to_string();
    (report, reasons)
}

fn eight_addresses_are_enough(ports: u32, requests: u64) {
    let (report, reasons) = spend_ports(ports, requests, 8);
    report.assert_states(&[("ok", requests)]);
    assert!(!reasons.contains("local port"), "{reasons}");
    println!(
        "8 addresses: {requests} ok in {} s",
        report.number("/totals/duration_s")
    );
}

/// Spend all ports of one address. Each request that finds none has looked at all of them, so of
/// many ports the first are free again, a minute later, before the last are spent.
fn one_address_is_not(ports: u32) {
    let requests = u64::from(ports) + 2_000;
    let (report, reasons) = spend_ports(ports, requests, 1);
    let failed = report.errors()["address_unavailable"];
    assert_eq!(report.items("ok") + failed, requests);
    assert!(failed >= requests - u64::from(ports), "{failed} failed");
    let named = format!("{} requests found no free local port", grouped(failed));
    assert!(
        reasons.contains(&named) && reasons.contains("--local-ips"),
        "{reasons}"
    );
    println!(
        "1 address: {failed} of {requests} failed in {} s",
        report.number("/totals/duration_s")
    );
}

#[test]
fn eight_addresses_have_ports_for_what_one_has_not() {
    in_own_network(|| {
        eight_addresses_are_enough(500, 3_500);
        one_address_is_not(500);
    });
}

#[test]
#[ignore = "takes a minute: 200,000 requests, with the usual number of ports"]
fn eight_addresses_have_ports_for_200_000_requests() {
    in_own_network(|| eight_addresses_are_enough(28_232, 200_000));
}

fn ask_in_own_network() {
    for (key, admitted) in [
        ("/64", [50, 40, 50]),
        ("/48", [50, 0, 50]),
        ("address", [80, 40, 50]),
    ] {
        for processes in [1, 2, 4] {
            let flags = format!("--processes {processes} --limit 50/h:burst=50:key={key}");
            let target = Target::start_on(&format!("[{HOME}]:0"), &flags);
            let ask = |(source, times): (&str, u64)| -> u64 {
                let source: Ipv6Addr = source.parse().unwrap();
                // Several connections: with several processes, they are at different ones.
                let mut clients: Vec<Client> = (0..8)
                    .map(|_| Client::connect_from(&target, source))
                    .collect();
                let turns = (0..times).zip((0..clients.len()).cycle());
                let statuses: Vec<u16> = turns
                    .map(|(id, turn)| clients[turn].get(&format!("/items/{id}"), "").status)
                    .collect();
                assert!(
                    statuses.iter().all(|status| [200, 429].contains(status)),
                    "{statuses:?}"
                );
                statuses.iter().filter(|status| **status == 200).count() as u64
            };
            let [one, neighbour, same_48, stranger] = CLIENTS.map(ask);
            assert_eq!(
                [one + neighbour, same_48, stranger],
                admitted,
                "{key} of {processes}"
            );
            let books: Value = target.stop();
            let (all, asked): (u64, u64) = (
                admitted.iter().sum(),
                CLIENTS.iter().map(|(_, times)| times).sum(),
            );
            let of_limit = json!({ "admitted": all, "rejected": asked - all, "delayed": 0 });
            assert_eq!(books["by_limit"]["gcra"], of_limit, "{key} of {processes}");
            assert_eq!(
                books["by_source"],
                Value::from_iter(CLIENTS.map(|(source, times)| (source, times)))
            );
        }
    }
}
