//! Limits by IPv6 prefix over real connections: a thread of this test has a network of its own, in which whole prefixes
//! are this machine's. Nothing is installed, and the network is gone with its last process and thread.
//!
//! That takes root and the program `ip`; without them it is skipped, and says so.
#![expect(clippy::unwrap_used, reason = "a test whose client cannot go on is over")]

use std::net::Ipv6Addr;
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, unshare};
use serde_json::{Value, json};

use crate::client::Client;
use crate::target::Target;

/// Where the target listens.
const HOME: &str = "2001:db8::1";

/// Who asks, and how often. The first two are neighbours in one /64, the third is in their /48.
const CLIENTS: [(&str, u64); 4] =
    [("2001:db8:1:1::1", 40), ("2001:db8:1:1:ffff::2", 40), ("2001:db8:1:2::1", 40), ("2001:db8:2:1::1", 60)];

/// Gives this thread, and what it starts, a network with these addresses, or says why not.
fn enter_own_network() -> Result<(), String> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(|error| format!("a network of its own: {error}"))?;
    let ip = |arguments: &str| {
        let output = Command::new("ip").args(arguments.split(' ')).stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("`ip` cannot be started: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.success() { Ok(()) } else { Err(format!("ip {arguments}: {said}")) }
    };
    ip("link set lo up")?;
    CLIENTS.iter().map(|(address, _)| *address).chain([HOME]).try_for_each(|address| {
        // Without a search for others who have it: there is nobody.
        ip(&format!("-6 addr add {address}/128 dev lo nodad"))
    })
}

#[test]
fn clients_of_one_prefix_share_what_the_limit_admits() {
    let network = || match enter_own_network() {
        Ok(()) => ask_in_own_network(),
        Err(reason) => println!("skipped: {reason}"),
    };
    // The network is this thread's: the other tests stay in theirs.
    std::thread::scope(|scope| scope.spawn(network).join().unwrap());
}

fn ask_in_own_network() {
    for (key, admitted) in [("/64", [50, 40, 50]), ("/48", [50, 0, 50]), ("address", [80, 40, 50])] {
        for processes in [1, 2, 4] {
            let flags = format!("--processes {processes} --limit 50/h:burst=50:key={key}");
            let target = Target::start_on(&format!("[{HOME}]:0"), &flags);
            let ask = |(source, times): (&str, u64)| -> u64 {
                let source: Ipv6Addr = source.parse().unwrap();
                // Several connections: with several processes, they are at different ones.
                let mut clients: Vec<Client> = (0..8).map(|_| Client::connect_from(&target, source)).collect();
                let turns = (0..times).zip((0..clients.len()).cycle());
                let statuses: Vec<u16> =
                    turns.map(|(id, turn)| clients[turn].get(&format!("/items/{id}"), "").status).collect();
                assert!(statuses.iter().all(|status| [200, 429].contains(status)), "{statuses:?}");
                statuses.iter().filter(|status| **status == 200).count() as u64
            };
            let [one, neighbour, same_48, stranger] = CLIENTS.map(ask);
            assert_eq!([one + neighbour, same_48, stranger], admitted, "{key} of {processes}");
            let books: Value = target.stop();
            let (all, asked): (u64, u64) = (admitted.iter().sum(), CLIENTS.iter().map(|(_, times)| times).sum());
            let of_limit = json!({ "admitted": all, "rejected": asked - all, "delayed": 0 });
            assert_eq!(books["by_limit"]["gcra"], of_limit, "{key} of {processes}");
            assert_eq!(books["by_source"], Value::from_iter(CLIENTS.map(|(source, times)| (source, times))));
        }
    }
}
