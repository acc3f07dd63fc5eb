//! The rows of closed loops and of budgets.

use crawlmark_harness::plan::ThrottlingPolicy;
use crawlmark_harness::rehearse::Incident;
use crawlmark_harness::sample::ErrorKind;
use crawlmark_results::run::words;

use super::rehearsal::{MS, S, assert_ms, budgeted, closed_loop, run};
use super::script::{Bucket, Script, Server};

#[test]
fn v2_a_closed_loop_hides_a_stall_from_all_but_its_lanes_and_says_so() {
    let at_1000_per_s = budgeted(closed_loop(10, 30 * S), 1_000, 10);
    // Without the stall the budget has 29 s and ten lanes have 2 s; a budget's burst goes at the
    // start and after the stall.
    for (plan, from, count) in [
        (at_1000_per_s, 10 * S, 29_000..=29_030),
        (closed_loop(10, 3 * S), S, 20_000..=20_000),
    ] {
        let script = Script {
            base: MS,
            stall: from..from + S,
            ..Script::default()
        };
        let ran = run(plan, script, &[]);
        let service = ran.latency("service");
        assert_ms(service.p999_us, 1.0, 0.0);
        assert_eq!(
            (ran.longer("service", 100 * MS), service.max_us),
            (10, Some(1_001_000.0))
        );
        assert!(count.contains(&service.count), "{}", service.count);
        assert!(!ran.report.latency.contains_key("response"));
        assert!(
            words::doc(&ran.report, &[])
                .markdown()
                .contains("not corrected for coordinated omission")
        );
    }
}

#[test]
fn v6_every_attempt_is_the_sum_of_its_parts() {
    // Everything that takes time at once: a budget that is hard to keep with few connections, a
    // stall that some requests do not survive, connections that take time to open, a limit, pauses,
    // other attempts, a client that is held up.
    let mut plan = budgeted(closed_loop(12, 12 * S), 500, 20);
    (plan.shards, plan.timeout, plan.throttling) = (3, 800 * MS, ThrottlingPolicy::default());
    let script = Script {
        connect: 3 * MS,
        base: 7 * MS,
        stall: 4 * S..5 * S,
        limit: Some(Bucket::new(450, 100)),
        server: Some(Server::new(MS, 1)),
    };
    let blocked = Incident::Block {
        at: 9 * S,
        lasts: 250 * MS,
    };
    let ran = run(plan, script, &[blocked]);
    ran.assert_identity();
    // All of it happened.
    let totals = &ran.report.totals;
    assert!(
        totals.errors_by_kind[&ErrorKind::Timeout] > 0
            && totals.retries > 0
            && totals.throttled > 0,
        "{totals:?}"
    );
    assert!(ran.report.throttling.pauses > 0 && ran.latency("sched_lag").max_us >= Some(200_000.0));
    assert!(ran.latency("pool_wait").max_us >= Some(3_000.0));
}

#[test]
fn v7_a_budget_is_used_whole_and_never_exceeded() {
    let ran = run(
        budgeted(closed_loop(64, 10 * S), 100, 10),
        Script {
            base: MS,
            ..Script::default()
        },
        &[],
    );
    // The burst and 100/s for 10 s; the one that falls due when the time is over may or may not go.
    let attempts = ran.report.totals.attempts;
    assert!((1_009..=1_010).contains(&attempts), "{attempts}");
    let mut admitted: Vec<u64> = ran
        .rehearsal
        .samples
        .iter()
        .map(|sample| sample.permit.admitted.0)
        .collect();
    admitted.sort_unstable();
    for (i, from) in admitted.iter().enumerate() {
        for (k, to) in admitted[i..].iter().enumerate() {
            let allowed = 10 + (to - from) / 10_000_000;
            assert!(
                (k as u64) < allowed,
                "{} admitted from {from} to {to} ns",
                k + 1
            );
        }
    }
    assert!(ran.report.budget.as_ref().unwrap().kept);
}

#[test]
fn v8_shards_share_a_budget_as_one_limiter_would() {
    for shards in [1, 2, 3, 7] {
        let mut plan = budgeted(closed_loop(63, 10 * S), 100, 10);
        plan.shards = shards;
        let ran = run(
            plan,
            Script {
                base: MS,
                ..Script::default()
            },
            &[],
        );
        let attempts = ran.report.totals.attempts;
        assert!(
            attempts.abs_diff(1_010) <= u64::from(shards),
            "{shards} shards: {attempts}"
        );
        assert_eq!(
            attempts,
            ran.report
                .shards
                .iter()
                .map(|shard| shard.totals.attempts)
                .sum::<u64>()
        );
    }
}

#[test]
fn v9_what_a_limit_refuses_is_what_it_does_not_admit() {
    for burst in [2, 20, 150] {
        let script = Script {
            base: MS,
            limit: Some(Bucket::new(80, burst)),
            ..Script::default()
        };
        let ran = run(budgeted(closed_loop(8, 10 * S), 100, 1), script, &[]);
        let (attempts, throttled) = (ran.report.totals.attempts, ran.report.totals.throttled);
        let refused = 1_000 - (burst + 800);
        assert!(
            attempts.abs_diff(1_000) <= 1 && throttled.abs_diff(refused) <= 1,
            "{throttled} of {attempts}"
        );
        // Nothing was tried again, and nobody waited although the target said for how long.
        assert_eq!(
            (ran.report.totals.retries, ran.report.throttling.pauses),
            (0, 0)
        );
        assert_eq!(ran.latency("service_throttled").count, throttled);
        assert_eq!(ran.latency("service").count, attempts - throttled);
    }
}
