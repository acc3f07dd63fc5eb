//! Servers that send without end: no loop that reads from a target may pass `--timeout`, keep other
//! hosts waiting, or keep the shard from reporting.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot write its URLs is over"
)]

use std::io::Write;
use std::time::Duration;

use crate::run::{Ended, ONE_ATTEMPT, Run};
use crate::scripted::{OK, Peer, with_server};

/// `--timeout` of each crawl.
const TIMEOUT: Duration = Duration::from_secs(1);

/// An attempt ends within this many timeouts, beside the time for which the shard was given no CPU.
const RATIO: f64 = 2.0;

/// An answer that does not end.
struct Case {
    /// Sent once.
    start: &'static str,
    /// Sent again and again after it.
    part: &'static str,
    /// The pause before each part.
    pause: Duration,
    /// The error kind; `timeout` where the client has too much to do to find out in time.
    kind: &'static str,
}

const fn case(start: &'static str, part: &'static str, kind: &'static str) -> Case {
    Case {
        start,
        part,
        pause: Duration::ZERO,
        kind,
    }
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
const CHUNK_LINE: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;";
const TRAILERS: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n";
const LONG: &str = "HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n";
const HEAD: &str = "HTTP/1.1 200 OK\r\n";

/// One for each loop that reads from a target.
const CASES: [Case; 17] = [
    case("", "HTTP/1.1 100\r\n\r\n", "malformed"),
    case(
        "",
        "HTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n",
        "malformed",
    ),
    case("\r\n", "\r\n", "malformed"),
    case(HEAD, "a: b\r\n", "malformed"),
    case(HEAD, "a", "malformed"),
    Case {
        start: HEAD,
        part: "a: b\r\n",
        pause: Duration::from_millis(20),
        kind: "timeout",
    },
    case(CHUNKED, "1\r\nx\r\n", "timeout"),
    case(CHUNKED, "10\r\n0123456789abcdef\r\n", "timeout"),
    case(
        CHUNKED,
        "00000000000000000000000000000001\r\nx\r\n",
        "malformed",
    ),
    case(CHUNKED, "0", "malformed"),
    case(CHUNK_LINE, "x", "malformed"),
    case(CHUNKED, "1;extension=x\r\nx\r\n", "malformed"),
    case(TRAILERS, "a: b\r\n", "malformed"),
    Case {
        start: CHUNKED,
        part: "1\r\nx\r\n",
        pause: Duration::from_millis(5),
        kind: "timeout",
    },
    case(LONG, "0123456789abcdef", "timeout"),
    Case {
        start: LONG,
        part: "x",
        pause: Duration::from_millis(5),
        kind: "timeout",
    },
    case("HTTP/1.1 200 OK\r\n\r\n", "0123456789abcdef", "timeout"),
];

impl Case {
    /// Answers a request without end.
    fn serve(&self, mut peer: Peer) {
        if peer.request().is_none() {
            return;
        }
        peer.send(self.start);
        let times = if self.pause.is_zero() {
            16_384_usize.div_ceil(self.part.len())
        } else {
            1
        };
        let block = self.part.repeat(times);
        while peer.try_send(&block) {
            // A trickle is the fault under test, not a wait for anything.
            std::thread::sleep(self.pause);
        }
    }

    /// Crawls `items` of it over `connections`, and as many of a healthy host beside it.
    #[track_caller]
    fn check(&self, connections: u64, items: u64) {
        let flags = format!(
            "--shards 1 -c {connections} --timeout {}ms",
            TIMEOUT.as_millis()
        );
        let ended = crawl_beside_a_healthy_host(|peer| self.serve(peer), items, &flags);
        let report = ended.report(0);
        let name = format!("{:?} {:?} at {connections}", self.start, self.part);
        report.assert_states(&[("ok", items), ("failed", items)]);
        let errors = report.errors();
        assert!(
            errors
                .keys()
                .all(|kind| kind == self.kind || kind == "timeout"),
            "{name}: {errors:?}"
        );
        assert!(
            connections > 1 || errors.len() == 1 && errors.contains_key(self.kind),
            "{name}: {errors:?}"
        );
        // What other programs took is not the client's; where the kernel does not say how long that
        // was, four timeouts are.
        let waited_us = report
            .at("/shards/0/run_delay_s")
            .as_f64()
            .map_or(RATIO * TIMEOUT.as_secs_f64(), |s| s)
            * 1e6;
        let most_us = RATIO * TIMEOUT.as_micros() as f64 + waited_us;
        let longest = report.number("/latency/service_error/max_us");
        assert!(longest <= most_us, "{name}: {longest} us, of {most_us}");
        let healthy = report.number("/latency/service/max_us");
        assert!(
            healthy <= most_us,
            "{name}: the healthy host took {healthy} us, of {most_us}"
        );
        assert!(report.at("/shards/0/fault").is_null(), "{name}");
    }
}

/// Crawls `items` of a host that is served by `hostile`, and as many of a healthy one, in turn.
fn crawl_beside_a_healthy_host(hostile: impl Fn(Peer) + Sync, items: u64, flags: &str) -> Ended {
    let healthy = |mut peer: Peer| {
        while peer.request().is_some() {
            peer.send(OK);
        }
    };
    with_server(hostile, |hostile| {
        with_server(healthy, |healthy| {
            let mut urls = tempfile::NamedTempFile::new().unwrap();
            write!(urls, "http://{hostile}/{{id}}\nhttp://{healthy}/{{id}}\n").unwrap();
            let line = format!(
                "--urls {} -n {} {flags} {ONE_ATTEMPT}",
                urls.path().display(),
                2 * items
            );
            Run::start(line.split(' ')).end()
        })
    })
}

#[test]
fn an_answer_without_end_ends_in_time_at_one_connection() {
    for case in &CASES {
        case.check(1, 2);
    }
}

#[test]
fn an_answer_without_end_does_not_starve_another_host() {
    for case in &CASES {
        case.check(64, 64);
    }
}

#[test]
fn interim_answers_are_allowed_up_to_64_and_the_next_one_is_malformed_at_once() {
    // No client needs the timeout to know, nor the bytes: 65 of these are far below the limit on a
    // head.
    for interim in [
        "HTTP/1.1 100\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\n",
    ] {
        for (count, last, expected) in [
            (64, OK, [("ok", 40), ("failed", 0)]),
            (65, "", [("ok", 20), ("failed", 20)]),
        ] {
            let serve = |mut peer: Peer| {
                while peer.request().is_some() {
                    peer.send(&(interim.repeat(count) + last));
                }
            };
            let report =
                crawl_beside_a_healthy_host(serve, 20, "--shards 1 -c 4 --timeout 10s").report(0);
            report.assert_states(&expected);
            let failed = expected[1].1;
            let errors: Vec<_> = report.errors().into_iter().collect();
            assert_eq!(
                errors,
                if failed > 0 {
                    vec![("malformed".to_owned(), failed)]
                } else {
                    vec![]
                },
                "{interim:?}"
            );
            assert_eq!(
                report.statuses(),
                [("200".to_owned(), 40 - failed)].into(),
                "an interim answer is no answer"
            );
        }
    }
}
