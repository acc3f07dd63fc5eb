//! Statements that a script would act on: validity of runs with failures, rates, counts of what was
//! sent, percentiles.

use std::fs;
use std::net::TcpListener;

use crawlmark_harness::units::rounded_percent;

use crate::command::Started;
use crate::report::Report;
use crate::run::{Ended, ONE_ATTEMPT, Run};
use crate::scripted::{OK, Peer, with_server};
use crate::target::Target;

/// Runs `line`, whose spaces separate arguments, with `more`, which may hold spaces.
fn run(line: &str, more: &[&str]) -> Ended {
    Run::start(line.split_whitespace().chain(more.iter().copied())).end()
}

/// The text of the finding on failed requests; empty without any.
fn reasons(report: &Report) -> String {
    let texts = [
        "requests_failed",
        "all_failed",
        "target_down",
        "no_good_response",
    ]
    .map(|kind| {
        report.finding(kind)["text"]
            .as_str()
            .unwrap_or("")
            .to_owned()
    });
    texts.concat()
}

/// Answers with `status` for each ID that `is_bad`, and well for the others.
fn serve(mut peer: Peer, status: u16, is_bad: impl Fn(u64) -> bool) {
    while let Some(target) = peer.request() {
        let id: u64 = target
            .rsplit('/')
            .next()
            .and_then(|id| id.parse().ok())
            .unwrap_or(0);
        if is_bad(id) {
            peer.send(&format!(
                "HTTP/1.1 {status} Bad\r\ncontent-length: 0\r\n\r\n"
            ));
        } else {
            peer.send(OK);
        }
    }
}

#[test]
fn a_run_whose_answers_fail_is_not_valid_whatever_the_status() {
    for status in [500, 401, 302, 999] {
        for (one_in, verdict) in [
            (1, "target_limited"),
            (2, "target_limited"),
            (20, "errors"),
            (300, ""),
        ] {
            with_server(
                |peer| serve(peer, status, |id| id % one_in == 0),
                |address| {
                    let line = format!(
                        "http://{address}/{{id}} --ids 0..600 -s 1 -c 4 --strict {ONE_ATTEMPT}"
                    );
                    let ended = run(&line, &[]);
                    let saved = ended.result().join("result.json");
                    let (report, failed) = (Report::read(&saved), 600 / one_in);
                    let summary = fs::read_to_string(ended.result().join("summary.md")).unwrap();
                    if verdict.is_empty() {
                        assert!(reasons(&report).is_empty(), "{}", reasons(&report));
                        return;
                    }
                    let code = if one_in == 1 { 1 } else { 4 };
                    assert_eq!(
                        ended.code(),
                        Some(code),
                        "{status}, 1 in {one_in}: {}",
                        report.at("/validity")
                    );
                    // On a busy machine there are graver findings as well.
                    assert_ne!(report.text("/validity/verdict"), "valid");
                    assert!(
                        reasons(&report).contains(&format!("{failed} × status {status}")),
                        "{}",
                        reasons(&report)
                    );
                    let (all, ok) = (
                        report.number("/totals/items_per_s"),
                        report.number("/totals/ok_per_s"),
                    );
                    let good = 1.0 - 1.0 / one_in as f64;
                    assert!((ok - all * good).abs() < all * 1e-9, "{ok} of {all}");
                    let errors = format!("| errors | {} |", rounded_percent(1.0 / one_in as f64));
                    assert!(summary.contains(&errors), "{errors}: {summary}");
                },
            );
        }
    }
}

#[test]
fn an_open_loop_with_failing_answers_is_not_valid_from_one_in_a_hundred_on() {
    with_server(
        |peer| serve(peer, 401, |id| id % 50 == 0),
        |address| {
            let line = format!(
                "http://{address}/{{id}} --ids 0..200 -R 400 --arrivals constant -s 1 -c 40 {ONE_ATTEMPT}"
            );
            let report = run(&line, &[]).report(0);
            assert_ne!(report.text("/validity/verdict"), "valid");
            assert!(
                reasons(&report).contains("2.0 % of requests failed: 4 × status 401"),
                "{}",
                reasons(&report)
            );
        },
    );
}

#[test]
fn an_open_loop_is_never_faster_than_its_connections() {
    // Five connections of 300 ms each carry 16.7/s, however many requests were started in the last
    // moment.
    let target = Target::start("--processes 1 --latency 300ms");
    let line = format!("{} -R 50 -d 1s --arrivals constant -s 1 -c 5", target.url());
    let ended = run(
        &line,
        &[
            "--threshold",
            "rate <= 16.67",
            "--threshold",
            "attempts_rate <= 16.67",
        ],
    );
    let report = ended.report(0);
    let (items, attempts) = (
        report.number("/totals/items_per_s"),
        report.number("/totals/attempts_per_s"),
    );
    assert!(
        items <= 5.0 / 0.3 && attempts <= 5.0 / 0.3,
        "{items} {attempts}"
    );
    let exact = report.count("/totals/attempts") as f64 / report.number("/totals/duration_s");
    assert!((attempts - exact).abs() < 1e-9, "{attempts} {exact}");
}

#[test]
fn a_stall_is_a_hole_in_the_rate_of_each_second() {
    // A stall of 2.5 s holds a whole second, whenever the run starts, and 5 s hold a stall.
    let target = Target::start("--processes 1 --stall 3s,2500ms");
    let line = format!(
        "{} -R 100 -d 6s --arrivals constant -s 1 -c 600",
        target.url()
    );
    let report = run(&line, &["--threshold", "rate[1s] > 1"]).report(3);
    assert_eq!(
        report.at("/gates/0/value").as_f64(),
        Some(0.0),
        "{}",
        report.at("/gates")
    );
    let column = |name: &str| -> Vec<u64> {
        report
            .at("/intervals")
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row[name].as_u64().unwrap())
            .collect()
    };
    // The 250 that waited end together, perhaps in two seconds; by their schedule two seconds would
    // have 200.
    assert!(
        column("items").windows(2).any(|two| two[0] + two[1] >= 250),
        "{:?}",
        column("items")
    );
    assert_eq!(column("scheduled")[..6], [100; 6]);
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
    let line = format!(
        "http://{address}/{{id}} --ids 0..200 -R 200 --arrivals constant -s 1 -c 1 {ONE_ATTEMPT}"
    );
    let ended = std::thread::scope(|scope| {
        scope.spawn(target);
        run(&line, &[])
    });
    let report = Report::read(&ended.result().join("result.json"));
    let (scheduled, sent) = (
        report.count("/schedule/scheduled"),
        report.count("/totals/attempts_sent"),
    );
    assert!(
        scheduled == 200 && (10..20).contains(&sent),
        "{scheduled} {sent}"
    );
    assert!(
        (report.number("/schedule/sent_share") - sent as f64 / 200.0).abs() < 1e-9,
        "{}",
        report.at("/schedule")
    );
    let summary = fs::read_to_string(ended.result().join("summary.md")).unwrap();
    assert!(summary.contains("| scheduled | 200 |"), "{summary}");
    assert!(
        reasons(&report).contains(" connection refused"),
        "{}",
        reasons(&report)
    );
}

#[test]
fn a_budget_that_was_kept_was_not_exceeded_on_average() {
    let target = Target::start("--processes 1");
    for (flags, asked) in [
        ("-R 100 --ids 0..11 -s 1", 100.0),
        ("-R 600/min --ids 0..3 -s 2", 10.0),
    ] {
        let report = run(&format!("{} {flags} -c 4", target.url()), &[]).report(0);
        let achieved = report.number("/budget/achieved_per_s");
        assert!(
            report.at("/budget/kept").as_bool().unwrap(),
            "{}",
            report.at("/budget")
        );
        assert!(achieved <= asked, "{flags}: {achieved}");
        // However long the run took: no less than what ended in that time, each with its place in
        // the budget.
        let (attempts, took_s) = (
            report.count("/totals/attempts") as f64,
            report.number("/totals/duration_s"),
        );
        let least = attempts / (took_s + attempts / asked);
        assert!(achieved >= least, "{flags}: {achieved}, at least {least}");
    }
}

#[test]
fn a_percentile_is_printed_with_exactly_ten_samples_beyond_it() {
    let target = Target::start("--processes 1");
    for (items, known) in [(99, false), (100, true)] {
        let report = run(&format!("{} --ids 0..{items} -s 1 -c 2", target.url()), &[]).report(0);
        assert_eq!(
            report.at("/latency/service/p90_us").is_null(),
            !known,
            "{}",
            report.at("/latency/service")
        );
    }
}

#[test]
fn one_result_has_no_history() {
    let target = Target::start("--processes 1");
    let url = target.url();
    let one = Started::new(&[
        "run", &url, "--ids", "0..50", "-s", "1", "-c", "2", "--quiet", "--out", "one",
    ])
    .end();
    assert_eq!(one.code, Some(0), "{}", one.stderr);
    let place = one.work().join("one").display().to_string();
    let history = Started::new(&["compare", "--history", &place]).end();
    assert_eq!(
        history.code,
        Some(5),
        "{}{}",
        history.stdout,
        history.stderr
    );
    assert!(!history.stdout.contains("no change"), "{}", history.stdout);
    assert!(
        history
            .stdout
            .contains("1 result is not enough to find a change: 10 needed"),
        "{}",
        history.stdout
    );
    let json = Started::new(&["compare", "--history", &place, "--json"]).end();
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["results_needed"], 10, "{json}");
}

/// Answers nothing to the first ten IDs, half an answer to the next ten, and all to the others.
fn hang(mut peer: Peer) {
    while let Some(target) = peer.request() {
        let id: u64 = target
            .rsplit('/')
            .next()
            .and_then(|id| id.parse().ok())
            .unwrap_or(0);
        match id / 10 {
            0 => return peer.wait_for_the_end(),
            1 => {
                peer.send(&OK[..OK.len() - 1]);
                return peer.wait_for_the_end();
            }
            _ => peer.send(OK),
        }
    }
}

#[test]
fn no_threshold_passes_because_it_leaves_out_requests_that_hang() {
    let conditions = [
        "ttfb_max < 500ms",
        "item_max < 500ms",
        "service_max < 500ms",
        "error_rate < 10%",
        "errors == 0",
    ];
    let more: Vec<&str> = conditions
        .iter()
        .flat_map(|condition| ["--threshold", condition])
        .collect();
    with_server(hang, |address| {
        let line = format!(
            "http://{address}/{{id}} --ids 0..100 -s 1 -c 30 -d 2s --grace 20ms {ONE_ATTEMPT}"
        );
        let ended = run(&line, &more);
        assert_eq!(ended.code(), Some(3), "{}", ended.stderr());
        let report = Report::read(&ended.result().join("result.json"));
        let times = |series: &str| {
            ["count", "censored"].map(|of| report.count(&format!("/latency/{series}/{of}")))
        };
        assert_eq!(report.count("/ledger/aborted"), 20);
        // A first byte that came is timed, whatever became of the rest.
        assert_eq!(
            ["service", "ttfb", "item", "pool_wait"].map(times),
            [[80, 20], [90, 10], [80, 20], [100, 0]]
        );
        for (n, condition) in conditions.iter().enumerate() {
            assert_eq!(*report.at(&format!("/gates/{n}/ok")), false, "{condition}");
        }
    });
}
