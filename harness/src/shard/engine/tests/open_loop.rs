//! Open loops in virtual time: due requests are sent as soon as they can be and counted once, and
//! each wait has its cause.

use super::*;
use crate::clock::duration_ns;
use crate::plan::{Arrivals, Gaps, Pacing, Recorded, RunPlan};
use crate::stats::Percentile;
use crate::wire::Binding;

/// One shard at 1,000/s for so long, over so many connections.
pub(super) fn timed(connections: u32, duration: Duration) -> ShardPlan {
    let mut run = plan();
    (run.shards, run.connections, run.ids) = (
        1,
        connections,
        IdRange {
            start: 0,
            end: 1 << 40,
        },
    );
    open(&mut run, duration);
    run.split(&[]).remove(0)
}

fn open(run: &mut RunPlan, duration: Duration) {
    (run.rate, run.arrivals) = (
        Some(Rate {
            permits: 1_000,
            period_ns: 1_000_000_000,
        }),
        Arrivals::Constant,
    );
    run.duration = Some(duration);
}

const fn ms(ms: u64) -> Nanos {
    Nanos(ms * 1_000_000)
}

#[test]
fn what_goes_together_goes_late_by_the_slack_at_most_and_says_so() {
    for (pacing, first, late) in [
        (Pacing::Sleep, [0, 1, 2, 3, 4], 0),
        (Pacing::Coarse, [0, 2, 2, 4, 4], 499),
        (Pacing::Spin, [0, 1, 2, 3, 4], 0),
    ] {
        let plan = ShardPlan {
            pacing,
            ..timed(10, Duration::from_secs(1))
        };
        let (ran, _) = run(&plan, None, Duration::from_secs(1));
        assert_eq!(ran.sent[..5], first.map(ms), "{pacing}");
        for (n, sent) in ran.sent.iter().enumerate() {
            let intended = ms(n as u64);
            assert!(
                *sent >= intended && sent.since(intended) <= duration_ns(pacing.slack(MS)),
                "{pacing}: {n} at {sent:?}"
            );
        }
        ran.totals(|stats, _, _| {
            let lag = stats.timing(Series::SchedLag).unwrap().exact();
            // Every other one is late but for the first and the last, with which nothing goes.
            let longest = u64::from(late > 0);
            assert_eq!(
                (lag.count, lag.max_ns),
                (1_000, longest * 1_000_000),
                "{pacing}"
            );
            assert_eq!(lag.sum_ns, late * 1_000_000, "{pacing}");
        });
    }
}

#[test]
fn a_shard_says_for_how_long_the_next_request_has_been_due() {
    // All ten connections are held from 10 s to 11 s; what is due at 10,010 ms is the first to
    // wait.
    let stall = Some((ms(10_000), ms(11_000)));
    virtual_time().block_on(async {
        let clock = Clock::start();
        let target = SimulatedTarget {
            stall,
            ..SimulatedTarget::new(clock, |_, _, _| GOOD)
        };
        let engine = Engine::new(
            target,
            &timed(10, Duration::from_secs(30)),
            clock,
            clock.now(),
        );
        let looks = async {
            let mut seen = Vec::new();
            for us in [9_000_500, 10_500_000, 10_900_000, 12_000_500] {
                tokio::time::sleep_until(clock.instant(Nanos(us * 1_000))).await;
                seen.push(engine.progress().behind_ms);
            }
            seen
        };
        tokio::select! {
            () = Rc::clone(&engine).run(Alarm::runtime(clock)) => unreachable!("nobody closed it"),
            seen = looks => assert_eq!(seen, [0, 490, 890, 0]),
        }
    });
}

#[test]
fn what_finds_the_queue_full_is_dropped_and_censored() {
    // All ten connections are held from 10 s to 11.001 s: those due from 10.010 s to 11 s find none
    // free.
    let stall = Some((ms(10_000), ms(11_000)));
    for (queue, dropped) in [(0, 991), (50, 941), (991, 0)] {
        let plan = ShardPlan {
            queue: Some(queue),
            ..timed(10, Duration::from_secs(12))
        };
        let (ran, _) = run(&plan, stall, Duration::from_secs(12));
        let used = ran.gate().limits().timetable_use().unwrap();
        assert_eq!((used.scheduled, used.postponed), (12_000, 0));
        assert_eq!(
            used.dropped_by,
            (dropped > 0).then_some(Binding::Concurrency)
        );
        ran.totals(|stats, _, _| {
            let requests = &stats.counters.requests;
            assert_eq!(
                (requests.dropped, requests.attempts),
                (dropped, 12_000 - dropped),
                "{queue}"
            );
            let response = stats.timing(Series::ResponseOk).unwrap().exact();
            assert_eq!(
                (response.count, response.censored),
                (12_000 - dropped, dropped)
            );
            // Slower than all others.
            let p99 = stats.timing(Series::ResponseOk).unwrap().percentile(0.99);
            let is_among = p99 == Percentile::AtLeast(response.max_ns);
            assert_eq!(is_among, dropped > 0, "{p99:?} of {response:?}");
            // They never waited.
            let ages = stats
                .timing(Series::DropAge)
                .map(crate::stats::Timing::exact);
            let ages = ages.map_or((0, 0), |ages| (ages.count, ages.max_ns));
            assert_eq!(ages, (dropped, 0));
        });
        let rows = ran.intervals(|intervals| intervals.take_all(Meters::default()));
        let counts: Vec<_> = rows
            .iter()
            .map(|row| {
                (
                    row.figures.scheduled.requests,
                    row.stats.counters.requests.dropped,
                )
            })
            .collect();
        assert!(
            counts[..12]
                .iter()
                .all(|(scheduled, _)| *scheduled == 1_000),
            "{counts:?}"
        );
        assert_eq!(counts[10].1 + counts[11].1, dropped, "{counts:?}");
    }
}

#[test]
fn what_there_is_no_item_for_is_not_dropped() {
    // Ten of 100 items are held for a second, so 90 are left for the requests that come in it.
    for (queue, dropped) in [(80, 911), (90, 0)] {
        let ids = vec![IdRange { start: 0, end: 100 }];
        let plan = ShardPlan {
            queue: Some(queue),
            ids,
            ..timed(10, Duration::from_secs(12))
        };
        let (ran, _) = run(&plan, Some((ms(0), ms(1_000))), Duration::from_secs(12));
        let scheduled = ran.gate().limits().timetable_use().unwrap().scheduled;
        ran.totals(|stats, _, _| {
            let counters = &stats.counters;
            assert_eq!(
                (counters.items.ok, counters.requests.dropped),
                (100, dropped)
            );
            assert_eq!(scheduled, 100 + dropped);
        });
    }
}

#[test]
fn shards_take_turns_and_a_warm_up_is_counted_and_not_timed() {
    let mut whole = plan();
    (whole.shards, whole.connections, whole.ids.end, whole.warmup) =
        (3, 30, 1 << 40, Duration::from_secs(1));
    open(&mut whole, Duration::from_secs(2));
    let mut sent = Vec::new();
    for part in whole.split(&[]) {
        let (ran, _) = run(&part, None, Duration::from_secs(2));
        let warm = ran.statistics.borrow().intervals.warmup.clone();
        let attempts = warm.requests.attempts;
        assert!(
            (333..=334).contains(&attempts) && warm.items.ended() == attempts,
            "{warm:?}"
        );
        ran.totals(|stats, _, _| {
            let measured = stats.timing(Series::ResponseOk).unwrap().exact().count;
            let due = ran.sent.iter().filter(|at| **at >= ms(1_000)).count() as u64;
            assert_eq!(measured, due);
            // One more may have ended at the end of the warm-up.
            let ended = stats.counters.requests.attempts - attempts;
            assert!(ended - due <= 1, "{ended} {due}");
        });
        sent.extend(ran.sent);
    }
    sent.sort_unstable();
    assert_eq!(sent, (0..2_000).map(ms).collect::<Vec<_>>());
}

#[test]
fn a_pause_puts_the_timetable_off_and_is_nobodys_latency() {
    // The 101st request is refused, with a wait of a second.
    let answers: Answers = |id, before, _| {
        if id == 100 && before == 0 {
            again(Outcome::Throttled, Some(1_000 * MS))
        } else {
            GOOD
        }
    };
    let (ran, _) = run_against(
        &timed(100, Duration::from_secs(3)),
        None,
        Duration::from_secs(3),
        answers,
    );
    let used = ran.gate().limits().timetable_use().unwrap();
    assert!(
        (1_000_000_000..1_150_000_000).contains(&used.shifted_ns),
        "{used:?}"
    );
    let shifted = used.shifted_ns / 1_000_000;
    assert!(
        used.scheduled == 3_000 && used.postponed.abs_diff(shifted) <= 1,
        "{used:?}"
    );
    ran.totals(|stats, _, _| {
        let longest = |series| stats.timing(series).unwrap().exact().max_ns;
        assert!(
            longest(Series::ResponseOk) <= 2_000_000,
            "{}",
            longest(Series::ResponseOk)
        );
        assert_eq!(
            (
                stats.counters.requests.dropped,
                stats.counters.requests.attempts
            ),
            (0, 3_000 - used.postponed)
        );
    });
    let binding = ran.gate().limits().timeline.times(ran.ended);
    assert!(
        binding.pause_ns.abs_diff(used.shifted_ns) <= 2_000_000,
        "{binding:?}"
    );
    let gap = ran
        .sent
        .windows(2)
        .map(|pair| pair[1].since(pair[0]))
        .max()
        .unwrap();
    assert!(gap >= 1_000_000_000, "{gap}");
}

#[test]
fn a_retry_takes_the_next_turn_and_the_rate_stays() {
    let answers: Answers = |id, before, _| {
        if id % 10 == 0 && before == 0 {
            again(Outcome::Rejected, None)
        } else {
            GOOD
        }
    };
    let (ran, _) = run_against(
        &timed(100, Duration::from_secs(3)),
        None,
        Duration::from_secs(3),
        answers,
    );
    let counters = ran.totals(|stats, _, _| stats.counters.clone());
    assert_eq!(counters.requests.attempts, 3_000);
    assert!(
        counters.requests.retries > 250,
        "{}",
        counters.requests.retries
    );
    assert!(
        ran.sent
            .windows(2)
            .all(|pair| pair[1].since(pair[0]) == 1_000_000),
        "an attempt at each turn"
    );
}

#[test]
fn turns_without_anything_to_do_are_not_made_up_for() {
    // Ten IDs, each tried twice with a back-off in between: then there is nothing to do until they
    // are due.
    let answers: Answers = |_, before, _| {
        if before == 0 {
            again(Outcome::Rejected, Some(500 * MS))
        } else {
            GOOD
        }
    };
    let mut plan = timed(100, Duration::from_secs(3));
    plan.ids = vec![IdRange { start: 0, end: 10 }];
    let (ran, _) = run_against(&plan, None, Duration::from_secs(3), answers);
    assert_eq!(
        (
            ran.sent.len(),
            ran.gate().limits().timetable_use().unwrap().scheduled
        ),
        (20, 20)
    );
    assert!(
        ran.sent
            .windows(2)
            .all(|pair| pair[1].since(pair[0]) >= 1_000_000),
        "{:?}",
        ran.sent
    );
    assert_eq!(
        ran.totals(|stats, _, _| stats.timing(Series::ResponseOk).unwrap().exact().max_ns),
        1_000_000
    );
}

#[test]
fn a_stall_of_the_client_is_booked_to_the_client_even_without_a_free_connection() {
    let plan = timed(3, Duration::from_secs(1));
    assert_eq!(plan.timetable.unwrap().gaps, Gaps::Even);
    virtual_time().block_on(async {
        let clock = Clock::start();
        let gate = crate::shard::gate::Gate::new(clock, &plan, clock.now(), Box::new(|_| 0));
        let mut first = gate.admit(0, clock.now()).await.unwrap();
        // Its answer comes 40 ms later; for 30 of them the client did not run.
        tokio::time::advance(40 * MS).await;
        gate.limits().stalled(ms(5), ms(35));
        let attempt = attempt_of(first.admitted, clock.now(), Outcome::Ok);
        gate.settle(0, &mut first, &attempt);
        let waits = |permit: &Permit| {
            [
                permit.ready.since(permit.intended),
                permit.admitted.since(permit.ready),
            ]
        };
        let second = gate.admit(0, clock.now()).await.unwrap();
        assert_eq!((second.intended, waits(&second)), (ms(1), [30_000_000, 0]));
        let third = gate.admit(0, clock.now()).await.unwrap();
        assert_eq!((third.intended, waits(&third)), (ms(2), [30_000_000, 0]));
    });
}

#[test]
fn a_queue_that_fills_while_the_client_does_not_run_lacks_no_connection() {
    let plan = ShardPlan {
        queue: Some(0),
        ..timed(3, Duration::from_secs(1))
    };
    virtual_time().block_on(async {
        let clock = Clock::start();
        let gate = crate::shard::gate::Gate::new(clock, &plan, clock.now(), Box::new(|_| 0));
        assert!(gate.admit(0, clock.now()).await.is_some());
        // Another lane waits for the next request, which is not let through.
        assert!(
            tokio::time::timeout(Duration::ZERO, gate.admit(1, clock.now()))
                .await
                .is_err()
        );
        tokio::time::advance(40 * MS).await;
        let due = clock.now().0.div_ceil(1_000_000) - 1;
        gate.yet_to_go(clock.now());
        assert_eq!(
            std::mem::take(&mut gate.limits().dropped).len() as u64,
            due - 2,
            "two lanes are free"
        );
        assert_eq!(
            gate.limits().timetable_use().unwrap().dropped_by,
            Some(Binding::Idle)
        );
    });
}

#[test]
fn a_recording_is_sent_at_its_times() {
    let times: Vec<u64> = (0..1_000)
        .map(|n: u64| (n * n / 50 + n / 3) * 1_000_000)
        .collect();
    let mut run_plan = plan();
    (run_plan.shards, run_plan.connections, run_plan.ids) = (
        1,
        200,
        IdRange {
            start: 0,
            end: 1_000,
        },
    );
    open(&mut run_plan, Duration::from_hours(1));
    (run_plan.arrivals, run_plan.recorded) = (Arrivals::Replay, Recorded(times.clone().into()));
    run_plan.throttling.retries = 0;
    let run_plan = run_plan.validate().unwrap();
    let (ran, ids) = run(
        &run_plan.split(&[]).remove(0),
        None,
        Duration::from_hours(1),
    );
    assert_eq!(
        (ids, ran.gate().limits().timetable_use().unwrap().scheduled),
        (499_500, 1_000)
    );
    assert_eq!(ran.sent, times.into_iter().map(Nanos).collect::<Vec<_>>());
    let none = RunPlan {
        recorded: Recorded::default(),
        ..run_plan
    };
    assert!(
        none.validate()
            .unwrap_err()
            .to_string()
            .contains("0 of 1000 have one")
    );
}

#[test]
fn retries_take_turns_of_the_schedule_or_come_on_top_of_it() {
    let answers: Answers = |_, attempt, _| match attempt {
        0 => again(Outcome::Error(ErrorKind::Timeout), None),
        _ => GOOD,
    };
    for on_top in [false, true] {
        let mut plan = timed(20, Duration::from_secs(4));
        plan.throttling.retries_on_top = on_top;
        plan.throttling.retry_budget_percent = 100;
        let (ran, _) = run_against(&plan, None, Duration::from_secs(4), answers);
        let scheduled = ran.gate().limits().timetable_use().unwrap().scheduled;
        ran.totals(|stats, _, _| {
            let requests = &stats.counters.requests;
            assert_eq!((requests.attempts, requests.dropped), (scheduled, 0));
            assert!(requests.retries >= if on_top { 3_900 } else { 1_900 });
            let firsts = if on_top {
                4_000
            } else {
                4_000 - requests.retries
            };
            assert_eq!(scheduled - requests.retries, firsts);
        });
    }
}
