//! Findings and verdicts over shapes of runs: what was cut off, what was in the warm-up, and limits
//! that held or did not.

use std::cell::Cell;

use crawlmark_harness::plan::{AdaptiveKind, OnThrottle};
use crawlmark_harness::units::RateShape;
use crawlmark_results::export::{Format, export};
use crawlmark_results::run::report::{BindingReport, Group, GroupRow, Verdict};
use serde_json::Value;

use super::outcomes::{judged, shown};
use super::stalls::{Answer, Takes, closed, finding, open};
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

type Change = fn(&mut Report);

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
    let asks = Advice {
        repeat: Repeat::MayHelp,
        wait: None,
        quota: None,
        held_ns: None,
    };
    if (sent.0 / 20_000_000).is_multiple_of(100) {
        GOOD
    } else {
        (Outcome::Throttled, asks)
    }
}

/// A run of a plan against [`serial`], in a thread of its own: the target begins with it.
fn overloaded(plan: &RunPlan) -> Report {
    std::thread::scope(|scope| {
        scope
            .spawn(|| run(plan, &[], serial).report(plan))
            .join()
            .unwrap()
    })
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
    let few = RunPlan {
        duration: None,
        rate: None,
        arrivals: Arrivals::Asap,
        ..run_of(1, 64, 5)
    };
    let warm = RunPlan {
        warmup: 5 * S,
        ..few.clone()
    };
    let cases: [(&str, RunPlan, Takes, Answer, Verdict, &str); 12] = [
        (
            "more than half cut off",
            cut(100 * MS, closed(250, 4)),
            serial,
            good,
            Verdict::TargetLimited,
            "The target answered 50.0/s of the 110/s that were sent",
        ),
        (
            "cut off in an open loop",
            cut(200 * MS, open(400, 100, 5)),
            serial,
            good,
            Verdict::TargetLimited,
            "The target answered 50.",
        ),
        (
            "a quarter cut off",
            cut(100 * MS, closed(60, 4)),
            serial,
            good,
            Verdict::Errors,
            "21 % of requests were cut off at the end",
        ),
        (
            "cut off at once",
            cut(Duration::ZERO, closed(60, 4)),
            serial,
            good,
            Verdict::Errors,
            "that were sent. Give them longer with --grace.",
        ),
        (
            "some cut off",
            cut(10 * MS, closed(10, 4)),
            serial,
            good,
            Verdict::Valid,
            "49.9/s: all 10 connections in use",
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
            "/s of 30/s requested",
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
            "No good response from 4 s to 7 s",
        ),
        (
            "a warm-up only",
            warm,
            fast,
            good,
            Verdict::NothingMeasured,
            "Nothing was measured: the run ended",
        ),
        (
            "refused",
            ignoring,
            fast,
            refuses,
            Verdict::TargetLimited,
            "99.0 % of requests were throttled; finished after ",
        ),
        (
            "half not found",
            paced(8),
            fast,
            |_, sent| between::<0, 4_000>(sent, Outcome::NotFound),
            Verdict::Valid,
            " % of requests were not found (404 or 410)",
        ),
        (
            "few items",
            few,
            fast,
            good,
            Verdict::Valid,
            "250/s good: at most 5 of the 64 connections were in use",
        ),
        (
            "a rate",
            paced(8),
            fast,
            good,
            Verdict::Valid,
            "/s of 30/s requested",
        ),
    ];
    let wrong = cases
        .into_iter()
        .filter_map(|(name, plan, takes, answer, verdict, expected)| {
            let run = || run_against(&plan, &[], takes, answer).report(&plan);
            let report = std::thread::scope(|scope| scope.spawn(run).join().unwrap());
            let (said, is) = (finding(&report), report.validity.verdict);
            let is_right = said.contains(expected) && is == verdict;
            (!is_right).then(|| format!("{name}: {is:?} {said} {:?}", report.validity.reasons))
        });
    assert_eq!(wrong.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn a_silence_begins_after_the_last_good_response() {
    let plan = RunPlan {
        rate: Some(per_s(30)),
        ..closed(8, 8)
    };
    let stray = |_, sent: Nanos| match sent.0 / 1_000_000 {
        5_100..5_200 | 6_000.. => (Outcome::Rejected, GOOD.1),
        _ => GOOD,
    };
    let said = finding(&run_against(&plan, &[], fast, stray).report(&plan));
    assert!(said.contains("No good response from 6.00 s on"), "{said}");
}

#[test]
fn a_run_without_a_good_response_is_valid_with_a_restriction_only() {
    let plan = RunPlan {
        rate: Some(per_s(30)),
        ..closed(8, 8)
    };
    let missing = run_against(&plan, &[], fast, |_, _| (Outcome::NotFound, GOOD.1)).report(&plan);
    let said = words::doc(&missing, &[]).terminal(usize::MAX);
    assert!(
        said.contains("valid, with a restriction")
            && said.contains("But no response was good: items were not found"),
        "{said}"
    );
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
        limited_by: None,
    };
    report.plan.run.per_host.hosts = 3;
    let mut said = |rows| {
        report.by_host = rows;
        shown(&report, "outcome")
    };
    let one = said(vec![row(0, ok, 0), row(1, 0, failed)]);
    assert!(
        one.contains(&format!("ll {failed} requests to 1.test failed: ")),
        "{one}"
    );
    let two = said(vec![row(0, ok, 0), row(1, 0, failed - 1), row(2, 0, 1)]);
    assert!(
        two.contains(&format!("ll {failed} requests to 2 of 3 hosts failed: ")),
        "{two}"
    );
    let others = said(vec![row(0, ok, 1), row(1, 0, failed - 1)]);
    assert!(others.contains("o good response from "), "{others}");
}

#[test]
fn a_limit_is_named_only_where_it_held_for_long_and_was_reached() {
    let plan = RunPlan {
        rate: Some(per_s(30)),
        ..closed(8, 8)
    };
    let healthy = run(&plan, &[], fast).report(&plan);
    let slow_client: Change = |report| {
        report.validity.verdict = Verdict::ClientLimited;
        report.shards[0].usage.run_delay_share = Some(0.054);
    };
    let missed: Change = |report| {
        let binding = BindingReport {
            rate: 0.999,
            concurrency: 0.001,
            ..BindingReport::default()
        };
        (
            report.totals.attempts_per_s,
            report.totals.ok_per_s,
            report.binding,
        ) = (20.0, Some(20.0), binding);
        report.budget.as_mut().unwrap().achieved_per_s = 20.0;
    };
    let adaptive: Change = |report| {
        report.plan.run.throttling.adaptive = Some(AdaptiveKind::Aimd);
        report.binding = BindingReport {
            target: 0.9,
            concurrency: 0.1,
            ..BindingReport::default()
        };
    };
    let ramp: Change = |report| {
        report.plan.run.shape = RateShape::Ramp {
            from: per_s(10),
            to: per_s(30),
        };
        report.binding = BindingReport {
            concurrency: 0.9,
            rate: 0.1,
            ..BindingReport::default()
        };
        (report.totals.items_per_s, report.totals.ok_per_s) = (5.0, Some(5.0));
        report
            .shards
            .iter_mut()
            .for_each(|shard| shard.totals.peak_in_flight = u64::from(shard.connections));
    };
    let stopped_beside_pauses: Change = |report| {
        report.validity.verdict = Verdict::ClientLimited;
        report.binding = BindingReport {
            rate: 0.6,
            pause: 0.4,
            ..BindingReport::default()
        };
        (report.totals.attempts_per_s, report.totals.ok_per_s) = (6.0, Some(6.0));
        report.totals.items_per_s = 18.0;
        report.budget.as_mut().unwrap().achieved_per_s = 6.0;
    };
    let stopped_once: Change = |report| {
        (report.validity.verdict, report.plan.run.rate) = (Verdict::ClientLimited, None);
        report.binding = BindingReport {
            concurrency: 0.99,
            idle: 0.01,
            ..BindingReport::default()
        };
        report
            .shards
            .iter_mut()
            .for_each(|shard| shard.totals.peak_in_flight = u64::from(shard.connections));
    };
    let without_cpu: Change = |report| {
        (report.validity.verdict, report.plan.run.rate) = (Verdict::ClientLimited, None);
        report.binding = BindingReport {
            concurrency: 1.0,
            ..BindingReport::default()
        };
        report
            .shards
            .iter_mut()
            .for_each(|shard| shard.totals.peak_in_flight = u64::from(shard.connections));
        (
            report.shards[1].usage.cpu_share,
            report.shards[1].usage.run_delay_share,
        ) = (Some(0.6), Some(0.31));
    };
    let by_minute: Change = |report| {
        report.plan.run.rate = Some(Rate {
            permits: 1_800,
            period_ns: 60_000_000_000,
        });
    };
    let cases: [(&str, Change, &str); 10] = [
        (
            "a client that was stopped while the target throttled",
            stopped_beside_pauses,
            "6.00/s of 30/s: limited by throttle pauses 40 % of the time. Lower --rate, or use --adaptive, which finds the rate. This \
             client was slow, too: times include its delays",
        ),
        (
            "a client that was stopped once",
            stopped_once,
            "/s: all 8 connections in use 99.0 % of the time. This client was slow, too: times include its delays",
        ),
        (
            "a client without CPU",
            without_cpu,
            "/s: this client was the bottleneck",
        ),
        (
            "a ramp",
            ramp,
            "5.00/s instead of 20.0/s (mean of 10:30/s): all connections were in use 90 % of the time",
        ),
        (
            "a rate by the minute",
            by_minute,
            "/s of 30.0/s (1,800/min) requested",
        ),
        (
            "an adaptive run that met no limit of the target",
            adaptive,
            "limited by --adaptive 90 % of the time",
        ),
        (
            "a rate that was reached",
            slow_client,
            "This client was slow (shard 0 waited for a CPU 5.4 % of the time)",
        ),
        (
            "a rate that was missed",
            missed,
            "20.0/s of 30/s: no limit explains it; see ",
        ),
        (
            "a rate missed by a slow client",
            |report| {
                report.validity.verdict = Verdict::ClientLimited;
                report.shards[0].usage.run_delay_share = Some(0.054);
                (report.totals.attempts_per_s, report.totals.ok_per_s) = (20.0, Some(20.0));
                report.budget.as_mut().unwrap().achieved_per_s = 20.0;
            },
            "20.0/s of 30/s: this client was the bottleneck",
        ),
        (
            "connections in use for some of the time",
            |report| {
                report.binding = BindingReport {
                    rate: 0.6,
                    concurrency: 0.4,
                    ..BindingReport::default()
                };
                (report.totals.attempts_per_s, report.totals.ok_per_s) = (20.0, Some(20.0));
                report
                    .shards
                    .iter_mut()
                    .for_each(|shard| shard.totals.peak_in_flight = u64::from(shard.connections));
            },
            "20.0/s of 30/s: all 8 connections in use 40 % of the time",
        ),
    ];
    let wrong = cases.into_iter().filter_map(|(name, change, expected)| {
        let mut report = healthy.clone();
        change(&mut report);
        let said = finding(&report);
        (!said.contains(expected)).then(|| format!("{name}: {said}"))
    });
    assert_eq!(wrong.collect::<Vec<_>>(), [""; 0]);
    let restricted = |report: &Report| {
        shown(report, "validity").contains("not describe the target at the requested rate")
    };
    let mut short = healthy.clone();
    missed(&mut short);
    assert!(
        restricted(&short) && !restricted(&healthy),
        "{}",
        shown(&short, "validity")
    );
}

#[test]
fn a_threshold_that_failed_says_so_beside_a_slow_client_and_has_a_figure() {
    let plan = RunPlan {
        rate: Some(per_s(500)),
        ..closed(64, 10)
    };
    let stops = [Incident::Block {
        at: 3 * S,
        lasts: 300 * MS,
    }];
    let slow = judged(
        run(&plan, &stops, fast).report(&plan),
        &plan,
        &["service_p90 < 5ms"],
    );
    let expected = "×FAILED: service_p90 is 20.0 ms, must be < 5ms (4.00 times the limit); this client was slow (shard 1 did not run for 300 ms); ";
    assert!(
        shown(&slow, "outcome").starts_with(expected),
        "{}",
        shown(&slow, "outcome")
    );
    let figures = shown(&slow, "figures");
    assert!(
        figures.contains(" | service_p90 | 20.0 ms | must be < 5ms: FAILED | p50 |"),
        "{figures}"
    );
    let fast = judged(
        run(&plan, &[], fast).report(&plan),
        &plan,
        &["service_p90 < 5ms", "rate > 900"],
    );
    assert!(
        finding(&fast).contains("/s of 500/s requested"),
        "the pace explains a rate: {}",
        finding(&fast)
    );
}

#[test]
fn all_that_is_shown_of_a_run_counts_what_was_cut_off_alike() {
    let plan = RunPlan {
        grace: 100 * MS,
        timeout: 60 * S,
        ..closed(60, 4)
    };
    let mut report = judged(
        overloaded(&plan),
        &plan,
        &["error_rate < 1%", "ok_rate > 99%"],
    );
    let (ok, aborted) = (report.ledger.ok, report.ledger.aborted);
    assert!(
        report.totals.attempts == ok + aborted && aborted > 50,
        "{aborted}"
    );
    report.totals.attempts_by_status.insert(200, ok);
    let measured = |metric: &str| {
        let condition: Condition = format!("{metric} >= 0").parse().unwrap();
        of_report(condition.metric, &report).value().unwrap()
    };
    let [errors, per_s] = [
        aborted as f64 / report.totals.attempts as f64,
        ok as f64 / report.totals.duration_s,
    ];
    let k6: Value = serde_json::from_str(&export(&report, Format::K6Summary).unwrap()).unwrap();
    let k6 = |metric: &str| k6["metrics"][metric]["values"]["rate"].as_f64().unwrap();
    let points: Value =
        serde_json::from_str(&export(&report, Format::GithubBenchmarkBigger).unwrap()).unwrap();
    let points = points.as_array().unwrap();
    let point = points.iter().find(|point| {
        point["name"]
            .as_str()
            .unwrap()
            .ends_with("attempts per second")
    });
    let figures = [
        ("error_rate", measured("error_rate"), errors),
        ("1 - ok_rate", 1.0 - measured("ok_rate"), errors),
        ("k6 http_req_failed", k6("http_req_failed"), errors),
        ("attempts_rate", measured("attempts_rate"), per_s),
        ("rate", measured("rate"), per_s),
        ("k6 http_reqs", k6("http_reqs"), per_s),
        ("k6 iterations", k6("iterations"), per_s),
        (
            "github-benchmark",
            point.unwrap()["value"].as_f64().unwrap(),
            per_s,
        ),
    ];
    for (name, is, wanted) in figures {
        assert!((is - wanted).abs() < 1e-9, "{name}: {is}, not {wanted}");
    }
    let junit = export(&report, Format::Junit).unwrap();
    assert!(
        junit.contains("tests=\"2\" failures=\"2\"") && junit.contains("value=\"errors\""),
        "{junit}"
    );
    let shown = shown(&report, "figures");
    let percent = format!("{:.0} %", errors * 100.0);
    assert!(
        shown.contains(&format!(
            "errors | {percent} | {aborted} cut off at the end"
        )),
        "{shown}"
    );
    assert!(
        shown.contains(&format!("requests | {per_s:.1}/s")),
        "{shown}"
    );
}

#[test]
fn connections_in_use_are_blamed_on_a_client_that_has_no_cpu_left() {
    let mut report = overloaded(&open(400, 100, 5));
    let title = |report: &Report| shown(report, "outcome");
    report.plan.run.rate = Some(per_s(1_000));
    report.binding = BindingReport {
        concurrency: 1.0,
        ..BindingReport::default()
    };
    report.shards[0].totals.peak_in_flight = report.shards[0].connections.into();
    assert!(
        title(&report).contains("all connections were in use"),
        "{}",
        title(&report)
    );
    let usage = &mut report.shards[0].usage;
    (usage.cpu_share, usage.run_delay_share) = (Some(0.7), Some(0.25));
    let short = "this client was short of CPU (shard 0 used a CPU 70 % of the time and waited for one 25 %)";
    assert!(title(&report).contains(short), "{}", title(&report));
}

#[test]
fn the_time_to_connect_is_shown_where_it_is_a_notable_part_of_a_request() {
    for (part, is_shown) in [(0.09, false), (0.11, true), (3.0, true)] {
        let mut report = overloaded(&open(400, 100, 5));
        let mut connect = report.latency["service"].clone();
        connect.mean_us = connect.mean_us.map(|us| us * part);
        report.latency.insert("connect".to_owned(), connect);
        let text = words::doc(&report, &[]).terminal(usize::MAX);
        assert_eq!(
            text.lines()
                .any(|line| line.trim_start().starts_with("connect ")),
            is_shown,
            "{part}: {text}"
        );
    }
}
