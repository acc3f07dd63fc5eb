//! The crawl against servers that no decent person would run. Each failure has its name, each item
//! ends in one state, and nothing waits for ever.
#![expect(clippy::unwrap_used, reason = "a test without a socket is over")]

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, getsockname, listen, socket,
};

use serde_json::json;

use crate::report::Report;
use crate::run::{Run, crawl_once};
use crate::scripted::{OK, Peer, with_server};

/// The items of each crawl.
const IDS: u64 = 12;

/// Crawls a server whose connections are served by `serve`.
#[track_caller]
fn crawl_served(serve: impl Fn(Peer) + Sync, flags: &str) -> Report {
    with_server(serve, |address| {
        crawl_once(&format!(
            "http://{address}/{{id}} -n {IDS} --shards 2 -c 4 {flags}"
        ))
    })
}

/// Every item failed, of one and the same.
#[track_caller]
fn assert_all_failed(report: &Report, kind: &str) {
    report.assert_states(&[("failed", IDS)]);
    assert_eq!(report.errors(), [(kind.to_owned(), IDS)].into());
}

fn statuses(of: &[(&str, u64)]) -> BTreeMap<String, u64> {
    of.iter()
        .map(|(status, count)| ((*status).to_owned(), *count))
        .collect()
}

#[test]
fn a_connection_that_is_closed_at_once_fails_its_item() {
    let report = crawl_served(drop, "");
    report.assert_states(&[("failed", IDS)]);
    // Whether the end or the refusal of what was sent is seen first is a race.
    assert!(
        report
            .errors()
            .keys()
            .all(|kind| kind == "closed" || kind == "reset"),
        "{:?}",
        report.errors()
    );
    assert!(report.statuses().is_empty());
}

#[test]
fn a_connection_that_is_closed_after_the_request_is_closed() {
    let report = crawl_served(|mut peer| drop(peer.request()), "");
    assert_all_failed(&report, "closed");
    assert_eq!(report.count("/totals/attempts_sent"), IDS);
    assert_eq!(report.count("/totals/connections_opened"), IDS);
}

#[test]
fn a_head_that_breaks_off_is_closed() {
    let serve = |mut peer: Peer| {
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\ncontent-le");
    };
    let report = crawl_served(serve, "");
    assert_all_failed(&report, "closed");
    assert!(report.statuses().is_empty());
}

#[test]
fn an_answer_that_is_no_http_is_malformed() {
    for garbage in [
        "220 mail.example.org ESMTP\r\n",
        "HTTP/1.1 abc OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
        "\0\0\0\0\0\0\0\0",
    ] {
        let serve = |mut peer: Peer| {
            peer.request();
            peer.send(garbage);
            // The client must not need the end of the connection to know.
            peer.wait_for_the_end();
        };
        let report = crawl_served(serve, "");
        assert_eq!(
            report.errors(),
            [("malformed".to_owned(), IDS)].into(),
            "{garbage:?}"
        );
        report.assert_states(&[("failed", IDS)]);
    }
}

#[test]
fn a_body_that_breaks_off_is_incomplete() {
    for (head, part) in [
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n",
            "only this",
        ),
        ("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n", ""),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            "4\r\nonly\r\n",
        ),
    ] {
        let serve = |mut peer: Peer| {
            peer.request();
            peer.send(&[head, part].concat());
        };
        let report = crawl_served(serve, "");
        assert_all_failed(&report, "incomplete");
        // The answer had begun, so it has a status.
        assert_eq!(report.statuses(), statuses(&[("200", IDS)]));
    }
}

/// The timeout counts from the request on, whatever other timeouts there are; only a hang takes a
/// minute.
fn assert_timed_out_in_time(report: &Report) {
    let us = |key: &str| report.number(&format!("/latency/service_error/{key}"));
    assert!(
        us("min_us") >= 1e5 && us("max_us") < 6e7,
        "{} to {}",
        us("min_us"),
        us("max_us")
    );
}

#[test]
fn a_body_that_goes_on_too_long_is_a_timeout() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nand now we wait";
    let serve = |mut peer: Peer| {
        peer.request();
        peer.send(answer);
        peer.wait_for_the_end();
    };
    let report = crawl_served(serve, "--timeout 100ms --connect-timeout 1h");
    assert_all_failed(&report, "timeout");
    assert_timed_out_in_time(&report);
    assert_eq!(report.statuses(), statuses(&[("200", IDS)]));
    assert_eq!(
        report.count("/totals/bytes_received"),
        answer.len() as u64 * IDS,
        "what had come"
    );
}

#[test]
fn a_server_that_never_answers_is_a_timeout() {
    let report = crawl_served(
        |mut peer| peer.wait_for_the_end(),
        "--timeout 100ms --connect-timeout 1h",
    );
    assert_all_failed(&report, "timeout");
    assert_timed_out_in_time(&report);
    assert_eq!(report.count("/totals/attempts_sent"), IDS);
}

#[test]
fn a_chunked_answer_is_read_to_its_end() {
    let parts = [
        "HTTP/1.1 200 OK\r\ntransfer-encoding: ch",
        "unked\r\n\r\n2\r\no",
        "k\r\n1\r\n!\r\n0",
        "\r\n\r\n",
    ];
    let serve = |mut peer: Peer| {
        while peer.request().is_some() {
            for part in parts {
                peer.send(part);
            }
        }
    };
    let report = crawl_served(serve, "");
    report.assert_states(&[("ok", IDS)]);
    assert_eq!(
        report.count("/totals/bytes_received"),
        parts.concat().len() as u64 * IDS
    );
    assert_eq!(report.count("/totals/connections_opened"), 4);
}

#[test]
fn the_first_byte_of_an_answer_is_timed_and_not_the_end_of_its_head() {
    const LATER: Duration = Duration::from_millis(300);
    for (first, rest) in [
        ("H", "TTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"),
        ("HTTP/1.1 103 Early Hints\r\n\r\n", OK),
        ("HTTP/1.1 200 OK\r\n", "content-length: 2\r\n\r\nok"),
    ] {
        let serve = |mut peer: Peer| {
            while peer.request().is_some() {
                peer.send(first);
                // The fault under test, not a wait for anything.
                std::thread::sleep(LATER);
                peer.send(rest);
            }
        };
        let report = crawl_served(serve, "");
        report.assert_states(&[("ok", IDS)]);
        let us = |key: &str| report.number(&format!("/latency/{key}"));
        let later = LATER.as_micros() as f64;
        // However long the client took to look: the end of the head came as late as the answer.
        let apart = us("service/mean_us") - us("ttfb/mean_us");
        assert!(
            us("service/min_us") >= later && apart >= later / 2.0,
            "{first:?}: {apart} us"
        );
    }
}

#[test]
fn an_interim_answer_is_not_the_answer() {
    let serve = |mut peer: Peer| {
        while peer.request().is_some() {
            peer.send("HTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n");
            peer.send(OK);
        }
    };
    let report = crawl_served(serve, "");
    report.assert_states(&[("ok", IDS)]);
    assert_eq!(report.statuses(), statuses(&[("200", IDS)]));
}

#[test]
fn a_body_that_ends_with_its_connection_is_whole() {
    let answer = "HTTP/1.0 200 OK\r\n\r\nuntil the end";
    let serve = |mut peer: Peer| {
        peer.request();
        peer.send(answer);
    };
    let report = crawl_served(serve, "");
    report.assert_states(&[("ok", IDS)]);
    assert_eq!(
        report.count("/totals/bytes_received"),
        answer.len() as u64 * IDS
    );
}

#[test]
fn a_server_that_wants_a_connection_for_each_request_gets_it() {
    let serve = |mut peer: Peer| {
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
        // A client that believes the answer leaves first, and sends nothing more.
        assert_eq!(peer.request(), None, "a request after `connection: close`");
    };
    let report = crawl_served(serve, "");
    report.assert_states(&[("ok", IDS)]);
    assert_eq!(report.count("/totals/connections_opened"), IDS);
}

#[test]
fn a_connection_that_is_closed_at_rest_costs_at_most_the_request_on_its_way() {
    const PER_CONNECTION: usize = 3;
    let serve = |mut peer: Peer| {
        for _ in 0..PER_CONNECTION {
            if peer.request().is_none() {
                return;
            }
            peer.send(OK);
        }
    };
    let report = crawl_served(serve, "");
    let lost: u64 = report.errors().values().sum();
    report.assert_states(&[("ok", IDS - lost), ("failed", lost)]);
    assert!(
        report
            .errors()
            .keys()
            .all(|kind| kind == "closed" || kind == "reset"),
        "{:?}",
        report.errors()
    );
}

#[test]
fn a_connection_closed_while_it_rests_costs_nothing() {
    // One request in a third of a second: the goodbye comes once nothing came for a while, and long
    // before the next request.
    let serve = |mut peer: Peer| {
        if peer.request().is_some() {
            peer.send(OK);
            peer.leave_when_idle(Duration::from_millis(50));
            peer.request();
        }
    };
    let report = with_server(serve, |address| {
        crawl_once(&format!(
            "http://{address}/ -n 4 --shards 1 -c 1 --rate 3/s --burst 1 --timeout 5s"
        ))
    });
    // On a machine that stalls for that long, a request may meet the goodbye on its way.
    let lost: u64 = report.errors().values().sum();
    report.assert_states(&[("ok", 4 - lost), ("failed", lost)]);
    assert!(
        report
            .errors()
            .keys()
            .all(|kind| kind == "closed" || kind == "reset"),
        "{:?}",
        report.errors()
    );
    assert_eq!(report.count("/totals/connections_opened"), 4);
}

#[test]
fn an_answer_before_its_request_is_not_taken_for_the_next() {
    // In one piece with the answer that was asked for: what comes later nobody can tell from the
    // next answer.
    let twice = [OK, "HTTP/1.1 500 Nobody Asked\r\ncontent-length: 0\r\n\r\n"].concat();
    let serve = |mut peer: Peer| {
        while peer.request().is_some() {
            peer.send(&twice);
        }
    };
    let report = crawl_served(serve, "");
    report.assert_states(&[("ok", IDS)]);
    assert_eq!(report.statuses(), statuses(&[("200", IDS)]));
    assert_eq!(
        (
            report.count("/totals/connections_opened"),
            report.count("/totals/unsolicited")
        ),
        (IDS, IDS)
    );
}

#[test]
fn a_greeting_is_malformed_whether_it_comes_before_the_request_or_after_it() {
    let serve = |mut peer: Peer| {
        peer.send("220 mail.example.org ESMTP\r\n");
        peer.drain();
    };
    assert_all_failed(&crawl_served(serve, ""), "malformed");
}

#[test]
fn a_report_says_what_an_error_page_means_and_what_was_wrong_with_a_response() {
    const NGINX: &str = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n\
                         <html>\n<title>400 The plain HTTP request was sent to HTTPS port</title>\n</html>\n";
    for (answer, said, of_status) in [
        (NGINX, "Use https://.", json!(400)),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 300\r\n\r\nabc",
            "200, 3 of 300 bytes",
            json!(200),
        ),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\n",
            "200, the chunk size is not hexadecimal",
            json!(200),
        ),
        (
            "SSH-2.0-OpenSSH_9.6\r\n",
            "the head cannot be read: invalid HTTP version",
            json!(null),
        ),
    ] {
        let serve = |mut peer: Peer| {
            if peer.request().is_some() {
                peer.send(answer);
            }
        };
        let ended = with_server(serve, |address| {
            Run::start(
                format!("http://{address}/{{id}} -n 4 --shards 2 -c 4 --retries 0").split(' '),
            )
            .end()
        });
        let failures = ended.report(0).at("/failures").clone();
        let summary = std::fs::read_to_string(ended.result().join("summary.md")).unwrap();
        assert!(summary.contains(said), "{said}: {summary}");
        let first = failures
            .as_object()
            .and_then(|all| all.values().next())
            .unwrap();
        assert_eq!(first["status"], of_status, "{failures}");
    }
}

/// An address that refuses connections, as long as the socket lives: bound and not listening, so
/// nobody else gets it.
pub(crate) fn nobody() -> (OwnedFd, String) {
    let socket = socket(
        AddressFamily::Inet,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    )
    .unwrap();
    bind(socket.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).unwrap();
    let port = getsockname::<SockaddrIn>(socket.as_raw_fd())
        .unwrap()
        .port();
    (socket, format!("127.0.0.1:{port}"))
}

#[test]
fn nobody_at_home_is_known_before_the_run() {
    let (_socket, address) = nobody();
    let ended = Run::start(format!("http://{address}/ -n {IDS} --shards 2 -c 4").split(' ')).end();
    assert_eq!(ended.code(), Some(1));
    assert!(
        ended.stderr().contains(&address) && ended.stderr().contains("refused"),
        "{}",
        ended.stderr()
    );
    assert_eq!((ended.stdout().as_str(), ended.left()), ("", Vec::new()));
}

#[test]
fn a_target_that_stops_listening_refuses_the_rest() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            // The program's look at whether anybody is there at all; then nobody is.
            drop(listener.accept().unwrap());
            drop(listener);
        });
        crawl_once(&format!("http://{address}/ -n {IDS} --shards 2 -c 4"))
    });
    report.assert_states(&[("failed", IDS)]);
    // A connection may open in the moment before.
    let refused = report.errors().get("connect_refused").copied().unwrap_or(0);
    let known = ["closed", "connect_failed", "connect_refused", "reset"];
    assert!(
        refused > 0
            && report
                .errors()
                .keys()
                .all(|kind| known.contains(&kind.as_str())),
        "{:?}",
        report.errors()
    );
}

#[test]
fn a_connection_that_does_not_open_is_a_timeout_of_its_own() {
    let socket = socket(
        AddressFamily::Inet,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    )
    .unwrap();
    bind(socket.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).unwrap();
    // The queue has room for one: the program's look at whether anybody is there. The kernel lets
    // the rest wait.
    listen(&socket, Backlog::new(0).unwrap()).unwrap();
    let port = getsockname::<SockaddrIn>(socket.as_raw_fd())
        .unwrap()
        .port();
    let report = crawl_once(&format!(
        "http://127.0.0.1:{port}/ -n 4 --shards 2 -c 4 --connect-timeout 200ms"
    ));
    report.assert_states(&[("failed", 4)]);
    assert_eq!(report.errors(), [("connect_timeout".to_owned(), 4)].into());
    assert_eq!(
        (
            report.count("/totals/attempts_sent"),
            report.count("/totals/connections_opened")
        ),
        (0, 0)
    );
    assert_eq!(
        (
            report.count("/totals/attempts"),
            report.count("/totals/bytes_sent")
        ),
        (4, 0)
    );
}
