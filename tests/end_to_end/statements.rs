//! Statements that a script would act on: validity of runs with failures, rates, counts of what was
//! sent.

use std::net::TcpListener;

use serde_json::json;

use crate::report::Report;
use crate::run::{ONE_ATTEMPT, ended};
use crate::scripted::{OK, Peer, with_server};

/// The ID in the path of a request; 0 without one.
fn id(path: &str) -> u64 {
    path.rsplit('/').next().unwrap().parse().unwrap_or(0)
}

#[test]
fn a_run_whose_responses_fail_is_not_valid_whatever_the_status() {
    for (status, one_in, code) in [
        (500, 1, 1),
        (999, 1, 1),
        (401, 2, 4),
        (302, 20, 4),
        (500, 300, 0),
    ] {
        let serve = |mut peer: Peer| {
            let bad = format!("HTTP/1.1 {status} Bad\r\ncontent-length: 0\r\n\r\n");
            while let Some(path) = peer.request() {
                peer.send(if id(&path).is_multiple_of(one_in) {
                    &bad
                } else {
                    OK
                });
            }
        };
        let ended = with_server(serve, |address| {
            let line = format!("--ids 0..600 -s 1 -c 4 --strict {ONE_ATTEMPT}");
            ended(&format!("http://{address}/{{id}} {line}"))
        });
        let report = Report::read(&ended.result().join("result.json"));
        let kinds = [
            "requests_failed",
            "all_failed",
            "target_down",
            "no_good_response",
        ];
        let texts = kinds
            .map(|kind| report.finding(kind)["text"].to_string())
            .concat();
        if code == 0 {
            // A busy machine may have other findings.
            assert_eq!(texts, "null".repeat(4));
            continue;
        }
        assert_eq!(
            ended.code(),
            Some(code),
            "{status}, 1 in {one_in}: {}",
            report.at("/validity")
        );
        assert_ne!(report.text("/validity/verdict"), "valid");
        let named = format!("{} × status {status}", 600 / one_in);
        assert!(texts.contains(&named), "{texts}");
        let [all, ok] =
            ["items_per_s", "ok_per_s"].map(|key| report.number(&format!("/totals/{key}")));
        let good = 1.0 - 1.0 / one_in as f64;
        assert!((ok - all * good).abs() < all * 1e-9, "{ok} of {all}");
    }
}

#[test]
fn what_found_no_connection_was_not_sent() {
    // A target that answers ten requests, and is gone.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let target = move || {
        let mut answered = 0;
        while answered < 10 {
            let mut peer = Peer::of(listener.accept().unwrap().0);
            while answered < 10 && peer.request().is_some() {
                peer.send(OK);
                answered += 1;
            }
        }
    };
    let flags = format!("--ids 0..200 -R 200 --arrivals constant -s 1 -c 1 {ONE_ATTEMPT}");
    let ended = std::thread::scope(|scope| {
        scope.spawn(target);
        ended(&format!("http://{address}/{{id}} {flags}"))
    });
    let report = Report::read(&ended.result().join("result.json"));
    let sent = report.count("/totals/attempts_sent");
    assert!((10..20).contains(&sent), "{sent}");
    report.holds(&json!({
        "/schedule/scheduled": 200, "/schedule/sent_share": sent as f64 / 200.0,
    }));
    let summary = ended.file("summary.md");
    assert!(summary.contains("| scheduled | 200 |"), "{summary}");
}

#[test]
fn no_threshold_passes_because_it_leaves_out_requests_that_hang() {
    // Nothing for the first ten IDs, half a response for the next ten, and all for the others.
    let hang = |mut peer: Peer| {
        while let Some(path) = peer.request() {
            let part = match id(&path) {
                0..10 => "",
                10..20 => &OK[..OK.len() - 1],
                _ => OK,
            };
            peer.send(part);
            if part != OK {
                return peer.wait_for_the_end();
            }
        }
    };
    let conditions = [
        "ttfb_max < 500ms",
        "item_max < 500ms",
        "service_max < 500ms",
        "error_rate < 10%",
    ];
    let thresholds = conditions
        .map(|condition| format!("--threshold '{condition}'"))
        .join(" ");
    let ended = with_server(hang, |address| {
        let line = format!("--ids 0..100 -s 1 -c 30 -d 2s --grace 20ms {ONE_ATTEMPT} {thresholds}");
        ended(&format!("http://{address}/{{id}} {line}"))
    });
    assert_eq!(ended.code(), Some(3), "{}", ended.stderr());
    let report = Report::read(&ended.result().join("result.json"));
    let times = |series: &str| {
        ["count", "censored"].map(|of| report.count(&format!("/latency/{series}/{of}")))
    };
    assert_eq!(report.items("aborted"), 20);
    // A first byte that came is timed, whatever became of the rest.
    let all = ["service", "ttfb", "item", "pool_wait"].map(times);
    assert_eq!(all, [[80, 20], [90, 10], [80, 20], [100, 0]]);
    for (n, condition) in conditions.iter().enumerate() {
        assert_eq!(*report.at(&format!("/gates/{n}/ok")), false, "{condition}");
    }
}
