//! Servers that send without end: no loop that reads from a target may pass `--timeout`, keep other
//! hosts waiting, or keep the shard from reporting.

use std::fs;
use std::io::Write as _;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;

use crate::run::{crawl_once, start};
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

/// Most memory that a shard of 16 connections may take from hostile targets.
const MOST_GROWTH_KIB: u64 = 16 << 10;

/// Return a figure of the memory of a process, KiB.
fn memory(pid: i32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mut lines = status.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)).unwrap();
    value
        .trim_matches(|c: char| !c.is_ascii_digit())
        .parse()
        .unwrap()
}

/// Crawl what `serve` sends, as [`assert_bounded_at`] does.
#[track_caller]
fn assert_bounded(name: &str, flags: &str, serve: &(dyn Fn(Peer) + Sync)) {
    with_server(serve, |address| {
        assert_bounded_at(name, &format!("http://{address}/{{id}} {flags}"));
    });
}

/// Crawl a URL on 16 connections, for a second, or `CRAWLMARK_FLOOD` seconds, and check that the shard has not grown.
#[track_caller]
pub(crate) fn assert_bounded_at(name: &str, line: &str) {
    let seconds = std::env::var("CRAWLMARK_FLOOD").map_or(1, |seconds| seconds.parse().unwrap());
    let crawl = start(&format!(
        "{line} -s 1 -c 16 --rate 400 -d 1h --timeout 10s --retries 0"
    ));
    let shard = crawl.shard(0, 1);
    let before = memory(shard, "VmRSS:");
    // What grows is seen after a while, and no event says when.
    std::thread::sleep(Duration::from_secs(seconds));
    let grown = memory(shard, "VmHWM:").saturating_sub(before);
    crawl.signal(Signal::SIGKILL);
    println!("{name}: {grown} KiB in {seconds} s");
    assert!(
        grown <= MOST_GROWTH_KIB,
        "{name}: grew by more than {MOST_GROWTH_KIB} KiB"
    );
}

#[test]
fn floods_over_http_1_do_not_make_a_shard_grow() {
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let extension = format!("1;{}\r\nx\r\n", "e".repeat(4_096));
    for (name, start, part) in [
        ("interim responses", "", "HTTP/1.1 103\r\na: b\r\n\r\n"),
        ("fields", "HTTP/1.1 200 OK\r\n", "a: bcdefghijklmnop\r\n"),
        ("one field", "HTTP/1.1 200 OK\r\na: ", "b"),
        ("chunks", CHUNKED, "1\r\nx\r\n"),
        ("extensions", CHUNKED, &extension),
        ("trailers", &format!("{CHUNKED}0\r\n"), "a: b\r\n"),
    ] {
        assert_bounded(name, "", &|peer| {
            serve(peer, start, part, Duration::ZERO);
        });
    }
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [0, length[0], length[1], kind, flags, 0, 0, 0, stream];
    [&head[..], payload].concat()
}

#[test]
fn floods_over_http_2_do_not_make_a_shard_grow() {
    let ok = frame(1, 4, 1, &[0x88]);
    // `:status: 103`, a field of 3,900 bytes that the table keeps, and that field 80 times more.
    let field = [&[0x40, 1, b'a', 0x7f, 0xbd, 0x1d][..], &[b'b'; 3_900]].concat();
    let bomb = [&[8, 3, b'1', b'0', b'3'][..], &field, &[0xbe; 80]].concat();
    for (name, start, part) in [
        ("PING", vec![], frame(6, 0, 0, &[7; 8])),
        ("SETTINGS", vec![], frame(4, 0, 0, &[])),
        ("RST_STREAM", vec![], frame(3, 0, 1, &[0, 0, 0, 8])),
        ("empty DATA", ok.clone(), frame(0, 0, 1, &[])),
        (
            "interim responses",
            vec![],
            frame(1, 4, 1, &[8, 3, b'1', b'0', b'3']),
        ),
        ("large heads", vec![], frame(1, 4, 1, &bomb)),
        ("CONTINUATION", frame(1, 0, 1, &[0x88]), frame(9, 0, 1, &[])),
        ("WINDOW_UPDATE of 1", vec![], frame(8, 0, 1, &[0, 0, 0, 1])),
        ("unknown frames", ok, frame(200, 0, 1, &[7; 64])),
    ] {
        let block = part.repeat(16_384_usize.div_ceil(part.len()));
        assert_bounded(name, "--http 2", &|mut peer| {
            peer.send_bytes(&frame(4, 0, 0, &[]));
            // The preface, and frames up to the head of a request.
            let mut next = peer.bytes(24 + 9);
            while let Some(head) = next.as_deref().and_then(<[u8]>::last_chunk::<9>) {
                let is_request = head[3] == 1;
                if peer.bytes(usize::from(head[2])).is_none() || is_request {
                    break;
                }
                next = peer.bytes(9);
            }
            peer.read_slowly(4_096);
            peer.send_bytes(&start);
            while peer.send_bytes(&block) {}
        });
    }
}
