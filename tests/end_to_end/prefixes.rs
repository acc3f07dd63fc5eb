//! Limits by IPv6 prefix over real connections: a thread of this test has a network of its own, in
//! which whole prefixes are this machine's. Nothing is installed, and the network is gone with its
//! last process and thread.
//!
//! That takes root and the program `ip`; without them it is skipped, and says so.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, unshare};
use serde_json::{Value, json};

use crate::process::wait_for;
use crate::report::counts;
use crate::run::crawl_once;
use crate::target::Target;

/// Where the target listens.
const HOME: &str = "2001:db8::1";

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
    // Without a search for others who have it: there is nobody.
    ip(&format!("-6 addr add {HOME}/128 dev lo nodad"))?;
    // The kernel adds its route later, in a task of its own.
    wait_for("a route", || {
        let socket = UdpSocket::bind((HOME, 0)).ok()?;
        socket.connect((HOME, 9)).ok()
    });
    Ok(())
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
fn a_routed_prefix_reaches_many_times_the_limit_of_an_address_and_once_that_of_a_prefix() {
    in_own_network(|| {
        for (key, source, admitted, used, throttled_at_first) in [
            ("address", "2001:db8:5::7", 50, 1, 0),
            ("address", "2001:db8:5::1-2001:db8:5::14", 1_000, 20, 0),
            ("address", ROUTED, 1_000, 1_000, 0),
            ("/64", ROUTED, 50, 1_000, 950),
        ] {
            let flags = format!("--processes 1 --limit 50/h:burst=50:key={key}");
            let target = Target::start_on(&format!("[{HOME}]:0"), &flags);
            let report = crawl_once(&format!(
                "{} -n 1000 --rate 100k --shards 1 -c 8 --disable-keepalive --robots ignore \
                 --local-ips {source}",
                target.url()
            ));
            report.holds(&json!({
                "/ledger/ok": admitted, "/totals/throttled": 1_000 - admitted,
                "/totals/sources_used": used, "/totals/sources_throttled_at_first": throttled_at_first,
            }));
            let is_shared = !report.finding("sources_throttled").is_null();
            assert_eq!(is_shared, throttled_at_first > 0, "{key} {source}");
            // A row for each of the first addresses and one for the others; none of a single
            // address, which has made all requests.
            let rows = report.json().get("by_source").and_then(Value::as_array);
            let rows = rows.cloned().unwrap_or_default();
            assert_eq!(
                rows.len(),
                if used == 1 { 0 } else { used.min(51) },
                "{rows:?}"
            );
            let attempts = |row: &Value| row["attempts"].as_u64().unwrap();
            assert!(
                used == 1 || rows.iter().map(attempts).sum::<u64>() == 1_000,
                "{rows:?}"
            );
            if used == 20 {
                let row = |row: &Value| (row["name"].as_str().unwrap().to_owned(), attempts(row));
                let ledger = counts(&target.stop()["by_source"]);
                assert_eq!(rows.iter().map(row).collect::<BTreeMap<_, _>>(), ledger);
            }
        }
    });
}
