//! Several hosts in virtual time: ID `i` is requested from host `i` modulo their number.

use proptest::prelude::*;

use super::*;

/// A shard of so many hosts.
fn shard_of(hosts: u32, ids: u64, connections: u32) -> ShardPlan {
    let mut plan = shard(ids, connections, None);
    plan.per_host.hosts = hosts;
    plan
}

/// Results of a shard's run.
struct Done {
    engine: Rc<Engine<SimulatedTarget>>,
    asked: Vec<(u64, Nanos)>,
    ended: Nanos,
}

impl Done {
    /// When this host was asked.
    fn of(&self, host: u64) -> Vec<Nanos> {
        let hosts = u64::from(self.engine.workload.hosts);
        self.asked
            .iter()
            .filter(|(id, _)| id % hosts == host)
            .map(|(_, at)| *at)
            .collect()
    }

    /// Longest limit of each host by its name, and true if it held nearly until the end.
    fn limits(&self) -> Vec<(&'static str, bool)> {
        let foremost = |times: HostTimes| {
            let (limit, ns) = times.iter().max_by_key(|(_, ns)| *ns).unwrap();
            (limit.name, ns >= self.ended.0 / 100 * 99)
        };
        self.engine
            .gate()
            .limits()
            .host_times(self.ended)
            .into_iter()
            .map(foremost)
            .collect()
    }

    /// Checks that each of so many items ended once, is to be tried again, or was not started.
    fn assert_adds_up(&self, ids: u64) {
        let progress = self.engine.progress();
        assert_eq!((progress.in_flight, progress.waiting_again), (0, 0));
        let counters = &progress.counters;
        assert_eq!(counters.items.begun() + progress.remaining, ids);
        let started: std::collections::BTreeSet<u64> =
            self.asked.iter().map(|(id, _)| *id).collect();
        assert_eq!(started.len() as u64, ids - progress.remaining);
    }
}

/// Runs a shard until it is idle, or until `ends`; in the meantime does `also`.
fn run_hosts(
    plan: &ShardPlan,
    ends: Duration,
    answers: Answers,
    also: impl AsyncFnOnce(&Engine<SimulatedTarget>),
) -> Done {
    virtual_time().block_on(async {
        let clock = Clock::start();
        let hosts = plan.per_host.hosts;
        let target = SimulatedTarget {
            hosts,
            ..SimulatedTarget::new(clock, answers)
        };
        let asked = Rc::clone(&target.asked);
        let engine = Engine::new(target, plan, clock, clock.now());
        let run = Rc::clone(&engine).run(Alarm::runtime(clock));
        let until = async {
            also(&engine).await;
            let idle = async {
                while !engine
                    .gate()
                    .messages
                    .next()
                    .await
                    .contains(&Frame::Idle(0))
                {}
            };
            tokio::select! {
                () = idle => {}
                () = tokio::time::sleep(ends) => {}
            }
            engine.close(clock.now());
        };
        tokio::join!(run, until);
        Done {
            engine,
            asked: asked.take(),
            ended: clock.now(),
        }
    })
}

fn just_run(plan: &ShardPlan, ends: Duration, answers: Answers) -> Done {
    run_hosts(plan, ends, answers, async |_| {})
}

const S: Duration = Duration::from_secs(1);

#[test]
fn a_host_that_asks_for_patience_does_not_stop_the_others() {
    let answers: Answers = |id, _, _| {
        if id % 2 == 0 {
            again(Outcome::Throttled, Some(60 * S))
        } else {
            GOOD
        }
    };
    // Two of the first four requests met the refusal; from then on the four connections work for
    // the other host, as far as it may have them.
    for (at_each, went, limit) in [
        (4, 2 + 4 * 2_999, "connections_ns"),
        (2, 2 * 3_000, "own_connections_ns"),
    ] {
        let mut plan = shard_of(2, 1 << 40, if at_each == 2 { 8 } else { 4 });
        plan.per_host.connections = at_each;
        let done = just_run(&plan, 3 * S, answers);
        assert_eq!([done.of(0).len(), done.of(1).len()], [2, went]);
        assert_eq!(done.limits(), [("pause_ns", true), (limit, true)]);
        let counts = done.engine.gate().limits().throttling(done.ended);
        assert_eq!(counts.early_attempts, 0);
        done.assert_adds_up(1 << 40);
        done.engine.totals(|stats, _, _| {
            let items = &stats.counters.items;
            assert_eq!((items.ok, items.unfinished), (went as u64, 2));
        });
    }
}

#[test]
fn a_host_that_was_left_alone_is_asked_for_all_it_missed_in_order() {
    let answers: Answers = |id, _, sent| {
        if id % 2 == 0 && sent < Nanos(1_000_000_000) {
            again(Outcome::Throttled, Some(2 * S))
        } else {
            GOOD
        }
    };
    let done = just_run(&shard_of(2, 10_000, 4), 1_000 * S, answers);
    done.assert_adds_up(10_000);
    done.engine.totals(|stats, _, _| {
        assert_eq!(
            (stats.counters.items.ok, stats.counters.requests.retries),
            (10_000, 2)
        );
    });
    // Those that go at one moment have no order.
    let mut later: Vec<(Nanos, u64)> = done
        .asked
        .iter()
        .filter(|(_, at)| at.0 >= 2_000_000_000)
        .map(|(id, at)| (*at, *id))
        .collect();
    later.sort_unstable();
    let ids = later.iter().map(|(_, id)| *id);
    assert!(
        ids.eq((0..10_000).step_by(2)),
        "{} later, or in disorder",
        later.len()
    );
    // The other host's 5,000 took 1.25 s in the meantime, over four connections.
    assert!(done.of(1).iter().all(|at| at.0 < 1_252_000_000));
}

#[test]
fn no_host_has_more_under_way_than_it_may_and_each_as_many() {
    let mut plan = shard_of(3, 3_000, 64);
    plan.per_host.connections = 5;
    let done = just_run(&plan, 1_000 * S, |_, _, _| GOOD);
    done.assert_adds_up(3_000);
    for host in 0..3 {
        let mut per_instant: BTreeMap<Nanos, u64> = BTreeMap::new();
        done.of(host)
            .iter()
            .for_each(|at| *per_instant.entry(*at).or_default() += 1);
        assert_eq!(per_instant.len(), 200, "{per_instant:?}");
        assert!(
            per_instant.values().all(|together| *together == 5),
            "{per_instant:?}"
        );
    }
}

#[test]
fn each_host_has_a_budget_of_its_own_within_that_of_the_run() {
    let mut plan = shard_of(3, 1 << 40, 64);
    plan.per_host.budget = Some(every(10_000_000, 1));
    let counts = |plan: &ShardPlan| {
        let done = just_run(plan, 10 * S, |_, _, _| GOOD);
        done.assert_adds_up(1 << 40);
        ([0, 1, 2].map(|host| done.of(host).len()), done.limits())
    };
    let (own, limits) = counts(&plan);
    assert!(
        own.iter().all(|count| (1_000..=1_001).contains(count)),
        "{own:?}"
    );
    assert_eq!(limits, [("own_rate_ns", true); 3]);
    // 150/s for three hosts that would take 300: none starves.
    plan.budget = Some(every(6_666_667, 2));
    let (shared, _) = counts(&plan);
    assert!(
        (1_499..=1_502).contains(&shared.iter().sum::<usize>()),
        "{shared:?}"
    );
    assert!(
        shared.iter().all(|count| (450..=550).contains(count)),
        "{shared:?}"
    );
}

#[test]
fn a_host_without_work_is_not_held_back_by_the_rate_of_another() {
    // The items of the second host are requested again and again.
    let answers: Answers = |id, _, _| {
        if id % 2 == 1 {
            again(Outcome::Rejected, None)
        } else {
            GOOD
        }
    };
    let mut plan = shard_of(2, 2, 8);
    plan.per_host.budget = Some(every(1_000_000_000, 1));
    plan.budget = Some(every(10_000_000, 2));
    let done = just_run(&plan, 60 * S, answers);
    let times = done.engine.gate().limits().host_times(done.ended);
    assert!(times[1].own_rate_ns > 1_000_000_000, "{times:?}");
    assert!(times[0].rate_ns < 50_000_000, "{times:?}");
}

#[test]
fn a_pause_that_another_shard_was_told_of_is_kept_for_that_host_only() {
    let done = run_hosts(
        &shard_of(2, 1 << 40, 4),
        2 * S,
        |_, _, _| GOOD,
        async |engine| {
            tokio::time::sleep(500 * MS).await;
            let at = engine.clock().now();
            let (host, cause, until) = (1, PauseCause::Refused, at.plus(S));
            engine.gate().pause(PauseOrder {
                host,
                cause,
                at,
                until,
                spread_ns: 0,
                promised: until,
            });
        },
    );
    let within = |at: &&Nanos| (500_000_001..1_500_000_000).contains(&at.0);
    assert_eq!(done.of(1).iter().filter(within).count(), 0);
    assert!(done.of(0).iter().filter(within).count() >= 4 * 999 - 2);
    assert!(done.of(1).iter().any(|at| at.0 >= 1_500_000_000));
    let counts = done.engine.gate().limits().throttling(done.ended);
    assert_eq!(
        (counts.honoured, counts.violated, counts.early_attempts),
        (1, 0, 0)
    );
    done.assert_adds_up(1 << 40);
}

#[test]
fn what_is_deferred_is_neither_given_away_nor_forgotten_when_ranges_move() {
    let answers: Answers = |id, _, sent| {
        if id % 2 == 0 && sent < Nanos(50_000_000) {
            again(Outcome::Throttled, Some(S))
        } else {
            GOOD
        }
    };
    let done = run_hosts(&shard_of(2, 1_000, 4), 1_000 * S, answers, async |engine| {
        tokio::time::sleep(50 * MS).await;
        // IDs that were not begun yet are given away; a part of them comes back.
        let before = engine.progress().remaining;
        engine.gate().shed();
        let frames = engine.gate().messages.next().await;
        let shed = frames.iter().find_map(|frame| {
            if let Frame::Shed(range) = frame {
                Some(*range)
            } else {
                None
            }
        });
        let shed = shed.unwrap();
        assert_eq!(shed.end, 1_000);
        assert_eq!(engine.progress().remaining, before - shed.len());
        let middle = u64::midpoint(shed.start, shed.end);
        engine.gate().receive(IdRange {
            start: middle,
            end: 1_000,
        });
        engine.gate().receive(IdRange {
            start: 2_000,
            end: 2_100,
        });
        engine.gate().receive(IdRange {
            start: shed.start,
            end: middle,
        });
    });
    done.assert_adds_up(1_100);
    done.engine
        .totals(|stats, _, _| assert_eq!(stats.counters.items.ok, 1_100));
    assert_eq!(
        done.asked
            .iter()
            .filter(|(id, _)| (2_000..2_100).contains(id))
            .count(),
        100
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_the_hosts_do_the_ledger_adds_up(
        hosts in 1..6_u32, ids in 0..400_u64, connections in 1..9_u32, at_each in 1..9_u32,
        rate in prop::option::of(1..20_u64), of_each in prop::option::of(1..20_u64), ends_ms in 1..400_u64,
    ) {
        let answers: Answers = |id, attempt, _| match (id % 7, attempt) {
            (0, 0) => again(Outcome::Throttled, Some(Duration::from_millis(id))),
            (1, 0 | 1) => again(Outcome::Throttled, None),
            (2, 0) => again(Outcome::Error(ErrorKind::Reset), None),
            (3, _) if id % 3 == 0 => again(Outcome::Error(ErrorKind::Reset), None),
            _ => GOOD,
        };
        let mut plan = shard_of(hosts, ids, connections);
        let budget = |ms: u64| every(ms * 1_000_000, 1);
        plan.budget = rate.map(budget);
        (plan.per_host.connections, plan.per_host.budget) = (at_each, of_each.map(budget));
        let done = just_run(&plan, Duration::from_millis(ends_ms), answers);
        done.assert_adds_up(ids);
        // Given enough time, everything comes to an end.
        let done = just_run(&plan, 10_000 * S, answers);
        done.assert_adds_up(ids);
        let progress = done.engine.progress();
        prop_assert_eq!((progress.remaining, progress.counters.items.unfinished), (0, 0));
    }
}

#[test]
fn in_an_open_loop_nothing_takes_the_turn_of_a_host_that_has_to_wait() {
    // One of two hosts asks for patience, for a second: what is due in the meantime waits, and the
    // wait is a limit's.
    let answers: Answers = |id, before, _| {
        if id == 100 && before == 0 {
            again(Outcome::Throttled, Some(S))
        } else {
            GOOD
        }
    };
    let mut plan = super::open_loop::timed(2_000, 3 * S);
    plan.per_host.hosts = 2;
    let done = just_run(&plan, 3 * S, answers);
    let (even, odd) = (done.of(0).len(), done.of(1).len());
    assert!(
        even.abs_diff(odd) <= 3,
        "{even} and {odd}: neither has the other's turns"
    );
    done.engine.totals(|stats, _, _| {
        assert_eq!(stats.counters.requests.attempts, 3_000);
        let longest = |series| stats.timing(series).unwrap().exact().max_ns;
        assert!(
            (990_000_000..1_200_000_000).contains(&longest(Series::BudgetWait)),
            "{}",
            longest(Series::BudgetWait)
        );
        assert!(longest(Series::ResponseOk) > 990_000_000);
        // The timer of virtual time has whole milliseconds.
        assert!(longest(Series::SchedLag) <= 1_000_000);
    });
}
