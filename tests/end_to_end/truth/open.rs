//! The rows of open loops: requests are scheduled by a timetable, whatever becomes of those before
//! them.

use std::num::NonZeroU64;
use std::time::Duration;

use crawlmark::crawl::Reuse;
use crawlmark_harness::plan::{Arrivals, RunPlan};
use crawlmark_harness::rehearse::Incident;
use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::units::IdRange;
use crawlmark_results::judge::{Finding, FindingKind};
use crawlmark_results::run::report::Verdict;
use crawlmark_results::run::words;

use super::rehearsal::{MS, Ran, S, assert_ms, budgeted, closed_loop, open_loop, run, run_with};
use super::script::{Script, Server};

/// More connections than are ever wanted here.
const ENOUGH: u32 = 2_000;

/// 1000/s for so long.
fn thousand_per_s(connections: u32, duration: Duration) -> RunPlan {
    open_loop(
        closed_loop(connections, duration),
        Arrivals::Constant,
        1_000,
    )
}

/// A target that stands still for a second, ten seconds after the start.
fn stalling(base: Duration) -> Script {
    Script {
        base,
        stall: 10 * S..11 * S,
        ..Script::default()
    }
}

/// Fails unless as many requests were scheduled, and as many of them went.
#[track_caller]
fn assert_sent(ran: &Ran, scheduled: u64, sent: u64) {
    let schedule = ran
        .report
        .schedule
        .as_ref()
        .map(|schedule| (schedule.scheduled, schedule.dropped));
    assert_eq!(
        (schedule, ran.report.totals.attempts),
        (Some((scheduled, scheduled - sent)), sent)
    );
}

/// Fails unless the run is judged so, and says why in these words.
#[track_caller]
fn assert_verdict(ran: &Ran, verdict: Verdict, why: &str) {
    let (is, reasons) = (ran.report.validity.verdict, ran.report.reasons());
    assert_eq!(is, verdict, "{reasons:?}");
    assert!(
        why.is_empty() || reasons.iter().any(|reason| reason.contains(why)),
        "{reasons:?}"
    );
}

#[test]
fn v1_an_open_loop_sees_all_of_a_stall() {
    let ran = run(thousand_per_s(ENOUGH, 30 * S), stalling(MS), &[]);
    assert_sent(&ran, 30_000, 30_000);
    let response = ran.latency("response");
    assert_eq!(response.count, 30_000);
    let p95_us = Some(ran.quantile_us("response", 0.95));
    for (us, ms) in [
        (p95_us, 1.0),
        (response.p99_us, 701.0),
        (response.p999_us, 971.0),
        (response.max_us, 1_001.0),
    ] {
        assert_ms(us, ms, 2.0);
    }
    let longer = ran.longer("response", 100 * MS);
    assert!(longer.abs_diff(901) <= 2, "{longer}");
    assert!(
        !words::doc(&ran.report, &[])
            .terminal(120)
            .contains("not corrected")
    );
    assert_verdict(&ran, Verdict::Valid, "");
}

#[test]
fn v3_too_few_connections_are_told_from_a_slow_target() {
    let ran = run(thousand_per_s(10, 30 * S), stalling(8 * MS), &[]);
    assert_sent(&ran, 30_000, 30_000);
    assert_ms(ran.latency("response").p99_us, 948.0, 0.02 * 948.0);
    assert_ms(ran.latency("service").p99_us, 8.0, 0.02 * 8.0);
    // The rest is the time that a connection was waited for, and nobody else's.
    assert_ms(ran.latency("pool_wait").p99_us, 940.0, 0.02 * 940.0);
    assert_eq!(
        (
            ran.latency("sched_lag").max_us,
            ran.latency("budget_wait").max_us
        ),
        (Some(0.0), Some(0.0))
    );
    assert_verdict(&ran, Verdict::ConcurrencyLimited, "for connections");
}

#[test]
fn v4_a_client_that_was_blocked_says_that_it_was_late() {
    let blocked = Incident::Block {
        at: 10 * S,
        lasts: 300 * MS,
    };
    let ran = run(
        thousand_per_s(ENOUGH, 30 * S),
        Script {
            base: MS,
            ..Script::default()
        },
        &[blocked],
    );
    assert_sent(&ran, 30_000, 30_000);
    assert_ms(ran.latency("service").p999_us, 1.0, 0.0);
    assert_ms(Some(ran.quantile_us("response", 0.995)), 151.0, 2.0);
    assert_ms(ran.latency("response").p999_us, 271.0, 2.0);
    // All of the difference is the client's own lateness.
    assert_ms(ran.latency("sched_lag").p999_us, 270.0, 2.0);
    assert_ms(ran.latency("pool_wait").p999_us, 0.0, 0.0);
    assert_verdict(&ran, Verdict::ClientLimited, "did not run for");
}

#[test]
fn v11_a_gate_sees_a_stall_in_an_open_loop_only() {
    let gate = "service_p99 < 250ms";
    let closed = budgeted(closed_loop(64, 12 * S), 1_000, 1);
    let closed = run(closed, stalling(MS), &[]).gate(gate);
    assert_eq!((closed.ok, closed.corrected), (Some(true), Some(false)));
    let open = run(thousand_per_s(ENOUGH, 12 * S), stalling(MS), &[]);
    let open = open.gate("response_p99 < 250ms");
    assert_eq!((open.ok, open.corrected), (Some(false), Some(true)));
}

#[test]
fn v12_a_threshold_that_the_client_broke_is_undecided() {
    let base = Script {
        base: MS,
        ..Script::default()
    };
    for (script, gates) in [
        (base, &[("response_p(99.5) < 100ms", None)][..]),
        // The target's part is 701 ms, and of 300 ms nobody knows whose they are.
        (
            stalling(MS),
            &[
                ("response_p99 < 100ms", Some(false)),
                ("response_p99 < 650ms", None),
                ("response_p99 < 750ms", Some(true)),
            ],
        ),
    ] {
        let blocked = Incident::Block {
            at: 20 * S,
            lasts: 300 * MS,
        };
        let ran = run(thousand_per_s(ENOUGH, 30 * S), script, &[blocked]);
        for (text, ok) in gates {
            let gate = ran.gate(text);
            assert_eq!(gate.ok, *ok, "{text}: {gate:?}");
        }
    }
}

#[test]
fn v13_a_rate_that_was_sent_is_not_missed_because_the_last_answers_are_slow() {
    let items = |plan| RunPlan {
        ids: IdRange { start: 0, end: 300 },
        duration: None,
        ..plan
    };
    let lanes = closed_loop(16, S);
    for plan in [
        budgeted(lanes.clone(), 150, 5),
        open_loop(lanes, Arrivals::Constant, 150),
    ] {
        for stall_ms in [0, 1_500, 6_000] {
            let script = Script {
                base: 2 * MS,
                stall: 1_950 * MS..(1_950 + stall_ms) * MS,
                ..Script::default()
            };
            let report = run(items(plan.clone()), script, &[]).report;
            let kinds: Vec<_> = report.findings.iter().map(Finding::kind).collect();
            assert!(!kinds.contains(&FindingKind::RateMissed), "{kinds:?}");
            let ratio = report.rate_ratio.unwrap();
            assert!((0.97..=1.001).contains(&ratio), "{ratio}");
        }
    }
}

#[test]
fn v5_what_is_under_way_at_the_end_is_censored_and_counted() {
    let plan = RunPlan {
        grace: 200 * MS,
        ..thousand_per_s(ENOUGH, 10_500 * MS)
    };
    let ran = run(plan, stalling(MS), &[]);
    assert_sent(&ran, 10_500, 10_500);
    assert_eq!(
        (ran.report.ledger.ok, ran.report.ledger.aborted),
        (10_000, 500)
    );
    let response = ran.latency("response");
    assert_eq!((response.count, response.censored), (10_000, 500));
    assert!(response.is_at_least("p99_us"));
    let times = |series: &str| (ran.latency(series).count, ran.latency(series).censored);
    assert_eq!(
        ["ttfb", "item", "pool_wait"].map(times),
        [(10_000, 500), (10_000, 500), (10_500, 0)]
    );
    assert!(
        words::doc(&ran.report, &[])
            .terminal(120)
            .contains("p99 >= "),
        "{}",
        words::doc(&ran.report, &[]).terminal(120)
    );
}

#[test]
fn v6_every_attempt_of_an_open_loop_is_the_sum_of_its_parts() {
    // Few connections that take time to open, a stall that some requests do not survive, a client
    // that is held up.
    let mut plan = open_loop(closed_loop(30, 13 * S), Arrivals::Poisson, 700);
    (plan.shards, plan.timeout) = (3, 800 * MS);
    let server = Some(Server::new(MS, 1));
    let script = Script {
        connect: 3 * MS,
        server,
        ..stalling(7 * MS)
    };
    let ran = run(
        plan,
        script,
        &[Incident::Block {
            at: 5 * S,
            lasts: 250 * MS,
        }],
    );
    let good_us = ran.assert_identity();
    // Those with a good answer are the ones whose response is reported.
    let response = ran.latency("response");
    assert!(
        response
            .mean_us
            .is_some_and(|mean| (mean * response.count as f64 - good_us).abs() < 1.0)
    );
    assert!(ran.report.totals.errors_by_kind[&ErrorKind::Timeout] > 0);
    let [lag, wait] = ["sched_lag", "pool_wait"].map(|series| ran.latency(series).max_us);
    assert!(
        lag >= Some(200_000.0) && wait >= Some(400_000.0),
        "{lag:?}, {wait:?}"
    );
}

#[test]
fn opening_a_connection_for_every_request_is_a_wait_before_it_and_no_time_of_the_target() {
    let script = Script {
        connect: 3 * MS,
        base: 7 * MS,
        ..Script::default()
    };
    let ran = run_with(
        Reuse::Requests(NonZeroU64::MIN),
        thousand_per_s(ENOUGH, 2 * S),
        script,
        &[],
    );
    assert_sent(&ran, 2_000, 2_000);
    assert_eq!(
        (
            ran.report.totals.connections_opened,
            ran.latency("connect").count
        ),
        (2_000, 2_000)
    );
    for (series, ms) in [
        ("connect", 3.0),
        ("pool_wait", 3.0),
        ("service", 7.0),
        ("response", 10.0),
    ] {
        let latency = ran.latency(series);
        for us in [latency.min_us, latency.p50_us, latency.max_us] {
            assert_ms(us, ms, 0.002 * ms);
        }
    }
    ran.assert_identity();
}

#[test]
fn a_connection_that_hangs_is_in_the_times_of_connections_and_of_what_waited_for_them() {
    for timeout in [200 * MS, 60 * S] {
        let plan = RunPlan {
            timeout,
            grace: MS,
            ..thousand_per_s(5, 500 * MS)
        };
        let ran = run(
            plan,
            Script {
                connect: 3_600 * S,
                ..Script::default()
            },
            &[],
        );
        let totals = &ran.report.totals;
        let timed_out = totals.errors_of(ErrorKind::ConnectTimeout);
        assert_eq!(
            (timed_out > 0, timed_out + ran.report.ledger.aborted),
            (timeout < S, totals.attempts)
        );
        let due = totals.attempts + totals.dropped;
        for (series, cut_off) in [
            ("connect", totals.attempts),
            ("pool_wait", due),
            ("response", due),
        ] {
            let latency = ran.latency(series);
            assert_eq!(
                (latency.count, latency.censored),
                (0, cut_off),
                "{series}, {timeout:?}"
            );
        }
        assert_eq!(ran.latency("item").count, 0);
        assert!(ran.latency("item").censored >= 500 - timed_out);
        assert_ms(ran.latency("item").max_us, 495.0, 10.0);
    }
}

#[test]
fn v10_a_queue_is_as_long_as_theory_says() {
    // Timers of virtual time have whole milliseconds, so everything here takes five times as long
    // as the row says.
    let plan = open_loop(closed_loop(ENOUGH, 3_000 * S), Arrivals::Poisson, 20);
    let script = Script {
        server: Some(Server::new(25 * MS, 7)),
        ..Script::default()
    };
    let ran = run(plan, script, &[]);
    let response = ran.latency("response");
    assert!(
        response.count.abs_diff(60_000) < 1_000,
        "{}",
        response.count
    );
    for (us, ms, part) in [
        (response.p50_us, 6.93, 0.04),
        (response.p90_us, 23.0, 0.05),
        (response.p99_us, 46.1, 0.1),
    ] {
        assert_ms(us.map(|us| us / 5.0), ms, ms * part);
    }
}
