//! The crawl against servers that no decent person would run. Each failure has its name, each item
//! ends in one state, and nothing waits for ever. How bytes are read is tested in `crawl::codec`.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, getsockname, listen, socket,
};
use serde_json::json;

use crate::command::names;
use crate::report::Report;
use crate::run::{crawl_once, ended};
use crate::scripted::{OK, Peer, with_server};

/// The items of each crawl.
const IDS: u64 = 12;

/// Crawl a server whose connections are served by `serve`.
#[track_caller]
fn crawl_served(serve: impl Fn(Peer) + Sync, flags: &str) -> Report {
    with_server(serve, |address| {
        crawl_once(&format!(
            "http://{address}/{{id}} -n {IDS} --shards 2 -c 4 {flags}"
        ))
    })
}

/// Check that no item failed in another way than of a connection that ended.
#[track_caller]
fn assert_ended_only(report: &Report, items: u64) {
    let errors = report.errors();
    let lost = errors.values().sum();
    report.assert_states(&[("ok", items - lost), ("failed", lost)]);
    // Whether the end or the refusal of what was sent is seen first is a race.
    assert!(
        errors
            .keys()
            .all(|kind| kind == "closed" || kind == "reset"),
        "{errors:?}"
    );
}

/// What a server does after its response.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    Closes,
    Waits,
    Serves,
}

#[test]
fn each_way_to_answer_has_its_outcome() {
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let twice = [OK, "HTTP/1.1 500 Nobody Asked\r\ncontent-length: 0\r\n\r\n"].concat();
    let hint = ["HTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n", OK].concat();
    let whole = [chunked, "2\r\nok\r\n1\r\n!\r\n0\r\n\r\n"].concat();
    let broken = [chunked, "4\r\nonly\r\n"].concat();
    let short = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nand now we wait";
    let bye = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
    // The error, true if the response has a status here, and the connections.
    for (answer, then, error, has_status, connections) in [
        ("", Then::Closes, "closed", false, IDS),
        (
            "HTTP/1.1 200 OK\r\ncontent-le",
            Then::Closes,
            "closed",
            false,
            IDS,
        ),
        // The client must not need the end of the connection to know.
        (
            "220 mail.example.org ESMTP\r\n",
            Then::Waits,
            "malformed",
            false,
            IDS,
        ),
        (
            "HTTP/1.1 abc OK\r\n\r\n",
            Then::Waits,
            "malformed",
            false,
            IDS,
        ),
        (
            "HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
            Then::Waits,
            "malformed",
            false,
            IDS,
        ),
        ("\0\0\0\0\0\0\0\0", Then::Waits, "malformed", false, IDS),
        (short, Then::Closes, "incomplete", true, IDS),
        (&broken, Then::Closes, "incomplete", true, IDS),
        (short, Then::Waits, "timeout", true, IDS),
        ("", Then::Waits, "timeout", false, IDS),
        (&whole, Then::Serves, "", true, 4),
        (&hint, Then::Serves, "", true, 4),
        (
            "HTTP/1.0 200 OK\r\n\r\nuntil the end",
            Then::Closes,
            "",
            true,
            IDS,
        ),
        (bye, Then::Waits, "", true, IDS),
        // In one piece with the response that was asked for: it is not taken for the next one.
        (&twice, Then::Serves, "", true, IDS),
    ] {
        let serve = |mut peer: Peer| {
            while peer.request().is_some() {
                peer.send(answer);
                match then {
                    Then::Closes => return,
                    // A client that knows its response leaves first, and sends nothing more.
                    Then::Waits => return assert_eq!(peer.request(), None, "{answer:?}"),
                    Then::Serves => {}
                }
            }
        };
        let patience = if error == "timeout" { "100ms" } else { "1m" };
        let report = crawl_served(serve, &format!("--timeout {patience} --connect-timeout 1h"));
        report.assert_states(&[(if error.is_empty() { "ok" } else { "failed" }, IDS)]);
        let errors = (!error.is_empty()).then(|| (error.to_owned(), IDS));
        assert_eq!(report.errors(), BTreeMap::from_iter(errors), "{answer:?}");
        let statuses = has_status.then(|| ("200".to_owned(), IDS));
        assert_eq!(
            report.statuses(),
            BTreeMap::from_iter(statuses),
            "{answer:?}"
        );
        report.holds(&json!({
            "/totals/attempts_sent": IDS, "/totals/connections_opened": connections,
            "/totals/unsolicited": if answer == twice { IDS } else { 0 },
        }));
        if error.is_empty() || error == "timeout" {
            let received = if answer == twice {
                OK.len()
            } else {
                answer.len()
            };
            let bytes = report.count("/totals/bytes_received");
            assert!(bytes >= received as u64 * IDS, "{answer:?}: {bytes}");
        }
        if error == "timeout" {
            // It counts from the request on, whatever other timeouts there are; only a hang takes a
            // minute.
            let us = |key: &str| report.number(&format!("/latency/service_error/{key}"));
            assert!(
                us("min_us") >= 1e5 && us("max_us") < 6e7,
                "{}",
                us("max_us")
            );
        }
    }
}

#[test]
fn a_connection_that_ends_costs_at_most_the_request_on_its_way() {
    assert_ended_only(&crawl_served(drop, ""), IDS);
    let three = |mut peer: Peer| {
        for _ in 0..3 {
            if peer.request().is_none() {
                return;
            }
            peer.send(OK);
        }
    };
    assert_ended_only(&crawl_served(three, ""), IDS);
    // One request in a third of a second: the goodbye comes once nothing came for a while, and long
    // before the next request.
    let leaves = |mut peer: Peer| {
        if peer.request().is_some() {
            peer.send(OK);
            peer.leave_when_idle(Duration::from_millis(50));
            peer.request();
        }
    };
    let report = with_server(leaves, |address| {
        crawl_once(&format!(
            "http://{address}/ -n 4 --shards 1 -c 1 --rate 3/s --burst 1"
        ))
    });
    assert_ended_only(&report, 4);
    report.holds(&json!({"/totals/connections_opened": 4}));
}

/// An address that refuses connections, as long as the socket lives: bound and not listening, so
/// nobody else gets it.
pub(crate) fn nobody() -> (OwnedFd, String) {
    let kind = SockType::Stream;
    let socket = socket(AddressFamily::Inet, kind, SockFlag::SOCK_CLOEXEC, None).unwrap();
    bind(socket.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).unwrap();
    let port = getsockname::<SockaddrIn>(socket.as_raw_fd())
        .unwrap()
        .port();
    (socket, format!("127.0.0.1:{port}"))
}

#[test]
fn a_target_that_does_not_listen_is_known_before_the_run_or_refuses_the_rest() {
    let (socket, address) = nobody();
    let line = format!("-n {IDS} --shards 2 -c 4");
    let ended = ended(&format!("http://{address}/ {line}"));
    assert_eq!(
        (ended.code, &*ended.stdout, names(&ended.work())),
        (Some(1), "", Vec::new())
    );
    assert!(ended.stderr.contains(&address) && ended.stderr.contains("refused"));
    // The queue has room for one: the program's look at whether anybody is there. The kernel lets
    // the rest wait.
    listen(&socket, Backlog::new(0).unwrap()).unwrap();
    let report = crawl_once(&format!(
        "http://{address}/ -n 4 -s 2 -c 4 --connect-timeout 200ms"
    ));
    report.assert_states(&[("failed", 4)]);
    assert_eq!(report.errors(), [("connect_timeout".to_owned(), 4)].into());
    report.holds(&json!({
        "/totals/attempts": 4, "/totals/attempts_sent": 0, "/totals/connections_opened": 0,
        "/totals/bytes_sent": 0,
    }));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            // The program's look at whether anybody is there at all; then nobody is.
            drop(listener.accept().unwrap());
            drop(listener);
        });
        crawl_once(&format!("http://{address}/ {line}"))
    });
    report.assert_states(&[("failed", IDS)]);
    // A connection may open in the moment before.
    let errors = report.errors();
    let known = ["closed", "connect_failed", "connect_refused", "reset"];
    assert!(errors.contains_key("connect_refused"), "{errors:?}");
    assert!(
        errors.keys().all(|kind| known.contains(&kind.as_str())),
        "{errors:?}"
    );
}
