//! Servers that send without end: no loop that reads from a target may pass `--timeout`, keep other
//! hosts waiting, or keep the shard from reporting.

use std::io::Write as _;
use std::time::Duration;

use serde_json::json;

use crate::run::crawl_once;
use crate::scripted::{OK, Peer, with_server};

/// Answer a request with `start`, and then `part` again and again, with this pause before each.
fn serve(mut peer: Peer, start: &str, part: &str, pause: Duration) {
    if peer.request().is_none() {
        return;
    }
    peer.send(start);
    let times = if pause.is_zero() {
        16_384_usize.div_ceil(part.len())
    } else {
        1
    };
    let block = part.repeat(times);
    while peer.try_send(&block) {
        // A trickle is the fault under test, not a wait for anything.
        std::thread::sleep(pause);
    }
}

#[test]
fn a_response_without_end_ends_in_time_and_starves_no_other_host() {
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    const LONG: &str = "HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n";
    const HEAD: &str = "HTTP/1.1 200 OK\r\n";
    let healthy = |mut peer: Peer| {
        while peer.request().is_some() {
            peer.send(OK);
        }
    };
    // One for each loop that reads from a target.
    for (start, part, pause_ms, kind) in [
        ("", "HTTP/1.1 100\r\n\r\n", 0, "malformed"),
        (HEAD, "a: b\r\n", 0, "malformed"),
        (HEAD, "a: b\r\n", 20, "timeout"),
        (CHUNKED, "10\r\n0123456789abcdef\r\n", 0, "timeout"),
        (CHUNKED, "1\r\nx\r\n", 5, "timeout"),
        (LONG, "0123456789abcdef", 0, "timeout"),
    ] {
        let pause = Duration::from_millis(pause_ms);
        let report = with_server(
            |peer| serve(peer, start, part, pause),
            |hostile| {
                with_server(healthy, |healthy| {
                    let mut urls = tempfile::NamedTempFile::new().unwrap();
                    write!(urls, "http://{hostile}/{{id}}\nhttp://{healthy}/{{id}}\n").unwrap();
                    let urls = urls.path().display();
                    crawl_once(&format!(
                        "--urls {urls} -n 32 --shards 1 -c 16 --timeout 1s"
                    ))
                })
            },
        );
        let name = format!("{start:?} {part:?}");
        report.assert_states(&[("ok", 16), ("failed", 16)]);
        let errors = report.errors();
        // Where the client has too much to do it finds out too late.
        assert!(
            errors
                .keys()
                .all(|found| found == kind || found == "timeout"),
            "{name}: {errors:?}"
        );
        report.holds(&json!({"/shards/0/fault": null}));
        // Two timeouts, beside the time for which the shard was given no CPU; where the kernel does
        // not say how long that was, four.
        let most_us = 2e6 + report.at("/shards/0/run_delay_s").as_f64().unwrap_or(2.0) * 1e6;
        for series in ["service", "service_error"] {
            let longest_us = report.number(&format!("/latency/{series}/max_us"));
            assert!(
                longest_us <= most_us,
                "{name}: {series} {longest_us} of {most_us}"
            );
        }
    }
}
