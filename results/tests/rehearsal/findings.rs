//! Findings and verdicts over shapes of runs: what was cut off, what was in the warm-up, and limits
//! that held or did not.

use std::cell::Cell;

use crawlmark_harness::plan::{AdaptiveKind, OnThrottle};
use crawlmark_harness::units::ShapedRate;
use crawlmark_results::run::report::{BindingReport, Group, GroupRow, Verdict};

use super::stalls::{Answer, Takes, closed, open};
use super::*;

/// One answer every 20 ms, to one request after another.
fn serial(_: u32, sent: Nanos) -> Duration {
    thread_local!(static NEXT: Cell<u64> = const { Cell::new(0) });
    // Another run begins.
    let before = if sent == Nanos::default() && NEXT.get() > 30_000_000_000 {
        0
    } else {
        NEXT.get()
    };
    NEXT.set(before.max(sent.0) + 20_000_000);
    Duration::from_nanos(NEXT.get() - sent.0)
}

fn fast(_: u32, _: Nanos) -> Duration {
    20 * MS
}

/// Answers good ones, and `other` in the milliseconds of the run from `FROM` to `TO`.
fn between<const FROM: u64, const TO: u64>(sent: Nanos, other: Outcome) -> (Outcome, Advice) {
    let is_other = (FROM..TO).contains(&(sent.0 / 1_000_000));
    if is_other { (other, GOOD.1) } else { GOOD }
}

/// One request in a hundred is let through, and nothing is said of the others' wait.
fn refuses(_: u32, sent: Nanos) -> (Outcome, Advice) {
    if (sent.0 / 20_000_000).is_multiple_of(100) {
        GOOD
    } else {
        throttled(None)
    }
}

#[test]
fn a_finding_says_what_held_and_nothing_else() {
    let good: Answer = |_, _| GOOD;
    let cut = |grace, plan| RunPlan {
        grace,
        timeout: 60 * S,
        ..plan
    };
    let mut ignoring = closed(32, 6);
    ignoring.throttling.on_throttle = OnThrottle::Ignore;
    ignoring.throttling.retries = 0;
    let paced = |s| RunPlan {
        rate: Some(per_s(30)),
        ..closed(8, s)
    };
    let warm = RunPlan {
        duration: None,
        rate: None,
        arrivals: Arrivals::Asap,
        warmup: 5 * S,
        ..run_of(1, 64, 5)
    };
    let cases: [(&str, RunPlan, Takes, Answer, Verdict, FindingKind); 12] = [
        (
            "more than half cut off",
            cut(100 * MS, closed(250, 4)),
            serial,
            good,
            Verdict::TargetLimited,
            FindingKind::CutOff,
        ),
        (
            "cut off in an open loop",
            cut(200 * MS, open(400, 100, 5)),
            serial,
            good,
            Verdict::TargetLimited,
            FindingKind::CutOff,
        ),
        (
            "a quarter cut off",
            cut(100 * MS, closed(60, 4)),
            serial,
            good,
            Verdict::Errors,
            FindingKind::CutOff,
        ),
        (
            "cut off at once",
            cut(Duration::ZERO, closed(60, 4)),
            serial,
            good,
            Verdict::Errors,
            FindingKind::CutOff,
        ),
        (
            "some cut off",
            cut(10 * MS, closed(10, 4)),
            serial,
            good,
            Verdict::Valid,
            FindingKind::LimitedBy,
        ),
        (
            "failures in the warm-up",
            RunPlan {
                warmup: 3 * S,
                ..paced(8)
            },
            fast,
            |_, sent| between::<0, 2_900>(sent, Outcome::Rejected),
            Verdict::Valid,
            FindingKind::LimitedBy,
        ),
        (
            "failures after the warm-up",
            RunPlan {
                warmup: 3 * S,
                ..paced(8)
            },
            fast,
            |_, sent| between::<4_000, 7_500>(sent, Outcome::Rejected),
            Verdict::TargetLimited,
            FindingKind::NoGoodResponse,
        ),
        (
            "a warm-up only",
            warm,
            fast,
            good,
            Verdict::NothingMeasured,
            FindingKind::WithinWarmUp,
        ),
        (
            "refused",
            ignoring,
            fast,
            refuses,
            Verdict::TargetLimited,
            FindingKind::Throttled,
        ),
        (
            "less than half not found",
            paced(8),
            fast,
            |_, sent| between::<0, 3_900>(sent, Outcome::NotFound),
            Verdict::Valid,
            FindingKind::NotFound,
        ),
        (
            "most not found",
            paced(8),
            fast,
            |_, sent| between::<0, 6_000>(sent, Outcome::NotFound),
            Verdict::Errors,
            FindingKind::NotFound,
        ),
        (
            "a rate",
            paced(8),
            fast,
            good,
            Verdict::Valid,
            FindingKind::LimitedBy,
        ),
    ];
    for (name, plan, takes, answer, verdict, first) in cases {
        let run = || run_against(&plan, &[], takes, answer).report(&plan);
        let report = std::thread::scope(|scope| scope.spawn(run).join().unwrap());
        let found = (report.validity.verdict, kinds(&report)[0]);
        assert_eq!(found, (verdict, first), "{name}: {:?}", report.findings);
    }
}

#[test]
fn hosts_that_are_down_are_named_beside_others_that_had_nothing_left_to_send() {
    let plan = RunPlan {
        rate: Some(per_s(30)),
        ..closed(8, 8)
    };
    let mut report = run_against(&plan, &[], fast, |_, sent| {
        between::<4_000, 8_000>(sent, Outcome::Rejected)
    })
    .report(&plan);
    let ok = report.ledger.ok;
    let failed = report.totals.attempts - ok;
    let row = |n, ok, errors| GroupRow {
        group: Group::Host(Some(n)),
        name: Some(format!("{n}.test")),
        attempts: ok + errors,
        ok,
        not_found: 0,
        throttled: 0,
        errors,
        p50_us: None,
        p99_us: None,
        at_least: Vec::new(),
        service_p50_us: None,
        service_p99_us: None,
        exceeded_us: None,
        service_exceeded_us: None,
        dropped: None,
        met: None,
        lasted_s: None,
        limited_by: None,
    };
    report.plan.run.per_host.hosts = 3;
    let mut down = |rows| {
        report.by_host = rows;
        report.judge();
        report.findings.iter().find_map(|finding| match finding {
            Finding::HostsDown {
                hosts, requests, ..
            } => Some((hosts.len(), *requests)),
            _ => None,
        })
    };
    assert_eq!(
        down(vec![row(0, ok, 0), row(1, 0, failed)]),
        Some((1, failed))
    );
    let two = vec![row(0, ok, 0), row(1, 0, failed - 1), row(2, 0, 1)];
    assert_eq!(down(two), Some((2, failed)));
    assert_eq!(down(vec![row(0, ok, 1), row(1, 0, failed - 1)]), None);
}

#[test]
fn a_limit_is_named_only_where_it_held_for_long_and_was_reached() {
    let plan = RunPlan {
        rate: Some(per_s(30)),
        ..closed(8, 8)
    };
    let healthy = run(&plan, &[], fast).report(&plan);
    let slow = |report: &mut Report, per_s: f64| {
        (report.totals.attempts_per_s, report.totals.ok_per_s) = (per_s, per_s);
        report.budget.as_mut().unwrap().achieved_per_s = per_s;
    };
    let full = |report: &mut Report| {
        for shard in &mut report.shards {
            shard.totals.peak_in_flight = u64::from(shard.connections);
        }
    };
    let judged = |change: &dyn Fn(&mut Report)| {
        let mut report = healthy.clone();
        change(&mut report);
        report.judge();
        let missed = kinds(&report).contains(&FindingKind::RateMissed);
        (missed, limited_by(&report))
    };
    let binding = |rate, concurrency| BindingReport {
        rate,
        concurrency,
        ..BindingReport::default()
    };
    assert_eq!(judged(&|_| {}), (false, Some(Limit::Rate)));
    let missed = |report: &mut Report| {
        slow(report, 20.0);
        report.binding = binding(0.999, 0.001);
    };
    assert_eq!(
        judged(&missed),
        (true, None),
        "a rate limits nothing that missed it"
    );
    let connections = |report: &mut Report| {
        slow(report, 20.0);
        full(report);
        report.binding = binding(0.6, 0.4);
    };
    assert_eq!(judged(&connections), (true, Some(Limit::Connections)));
    let ramp = |report: &mut Report| {
        report.plan.run.shape = "10:30".parse::<ShapedRate>().unwrap().shape;
        slow(report, 5.0);
        full(report);
        report.binding = binding(0.1, 0.9);
    };
    assert_eq!(judged(&ramp), (true, Some(Limit::Connections)));
    // All was sent at the rate, in the first third of the time: the last response took the rest.
    let tail = |report: &mut Report| {
        let totals = &mut report.totals;
        totals.duration_s = 3.0 * totals.sent_until_s;
        totals.attempts_per_s /= 3.0;
    };
    assert!(!judged(&tail).0);
    let adaptive = |report: &mut Report| {
        report.plan.run.throttling.adaptive = Some(AdaptiveKind::Aimd);
        report.binding = BindingReport {
            target: 0.9,
            concurrency: 0.1,
            ..BindingReport::default()
        };
    };
    assert_eq!(judged(&adaptive), (false, Some(Limit::Adaptive)));
}
