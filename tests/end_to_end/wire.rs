//! A rate budget as a target sees it: by when requests arrive, over connections that open late, from
//! several shards. The target is a server of the test's own, with a clock of its own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{Backlog, listen};
use serde_json::json;

use crate::run::crawl_once;
use crate::scripted::{Closing, OK};

/// Runs `test` beside a server that lets no more than one connection in before 500 ms have passed
/// since the first one came: to the others it seems not to be there, so that they come again after
/// a second, all together. Returns what `test` does, and when requests arrived, in order, s.
fn arrivals_at_a_late_door<T>(test: impl FnOnce(SocketAddr) -> T) -> (T, Vec<f64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listen(&listener, Backlog::new(0).unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let (clock, arrived, over) = (
        Clock::start(),
        Mutex::new(Vec::new()),
        AtomicBool::new(false),
    );
    let tested = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Also a test that fails before it sends anything comes to the door at its end.
            while poll(
                &mut [PollFd::new(listener.as_fd(), PollFlags::POLLIN)],
                PollTimeout::NONE,
            ) == Err(Errno::EINTR)
            {}
            std::thread::sleep(Duration::from_millis(500));
            listen(&listener, Backlog::new(1_024).unwrap()).unwrap();
            for stream in listener.incoming().map_while(Result::ok) {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                scope.spawn(|| {
                    answer_all(stream, || {
                        arrived.lock().unwrap().push(clock.now().0 as f64 / 1e9);
                    });
                });
            }
        });
        let _closing = Closing {
            over: &over,
            address,
        };
        test(address)
    });
    let mut arrived = arrived.into_inner().unwrap();
    arrived.sort_by(f64::total_cmp);
    (tested, arrived)
}

/// Answers requests without bodies, which come one at a time, and notes each.
fn answer_all(mut stream: TcpStream, note: impl Fn()) {
    let mut buffer = [0; 4_096];
    while stream.read(&mut buffer).is_ok_and(|read| read > 0) {
        note();
        if stream.write_all(OK.as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn requests_whose_connections_open_all_at_once_arrive_within_the_budget() {
    const RATE: f64 = 50.0;
    const BURST: f64 = 100.0;
    // What the machine may hold a request up for on its way.
    const NOISE_S: f64 = 0.1;
    let (report, arrived) = arrivals_at_a_late_door(|address| {
        crawl_once(&format!(
            "http://{address}/{{id}} --ids 0..260 --rate {RATE}/s --burst {BURST} --shards 2 -c 260 --connect-timeout 20s"
        ))
    });
    assert_eq!(arrived.len(), 260);
    for (first, from) in arrived.iter().enumerate() {
        for (last, to) in arrived.iter().enumerate().skip(first) {
            let (count, allowed) = (last - first + 1, BURST + RATE * (to - from + NOISE_S));
            assert!(
                count as f64 <= allowed,
                "{count} requests from {from} s to {to} s, where {allowed} are allowed"
            );
        }
    }
    report.assert_states(&[("ok", 260)]);
    assert_eq!(
        *report.at("/budget/kept"),
        json!(true),
        "{}",
        report.at("/budget")
    );
    // Each of about a hundred had to wait for its connection, and some of them for the budget after
    // that.
    assert!(
        report.number("/latency/pool_wait/max_us") > 400_000.0,
        "{}",
        report.at("/latency/pool_wait")
    );
    assert!(
        report.number("/latency/budget_wait/max_us") > 0.0,
        "{}",
        report.at("/latency/budget_wait")
    );
}
