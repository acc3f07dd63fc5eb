//! Engines in virtual time, over targets that exist in memory only.

mod hosts;
mod open_loop;
mod stopped;

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};

use super::super::intervals::Meters;
use super::*;
use crate::fixtures::{in_flight, plan, virtual_time};
use crate::plan::{AdaptiveKind, Budget, OnThrottle, ThrottlingPolicy};
use crate::sample::{Advice, Attempt, ErrorKind, Outcome, Quota, Repeat};
use crate::stats::HostTimes;
use crate::stats::tests::attempt_of;
use crate::units::{IdRange, Rate};
use crate::wire::{BindingTimes, Frame, PauseCause, PauseOrder};

/// Answer of a target to the n-th attempt (from 0) of an ID at an instant.
type Answers = fn(u64, u32, Nanos) -> (Outcome, Advice);

/// A target in virtual time: each request takes a millisecond, except in a stall.
struct SimulatedTarget {
    clock: Clock,
    answers: Answers,
    /// ID `i` is requested from host `i` modulo this number.
    hosts: u32,
    attempts: RefCell<BTreeMap<u64, u32>>,
    /// Requests sent in this time end at its end, a millisecond later.
    stall: Option<(Nanos, Nanos)>,
    /// The sum of the IDs performed.
    performed: Rc<Cell<u64>>,
    /// Requested IDs, and when their requests were sent.
    asked: Rc<RefCell<Vec<(u64, Nanos)>>>,
}

impl SimulatedTarget {
    /// One that answers without a stall.
    fn new(clock: Clock, answers: Answers) -> Self {
        Self {
            clock,
            answers,
            hosts: 1,
            attempts: RefCell::default(),
            stall: None,
            performed: Rc::default(),
            asked: Rc::default(),
        }
    }
}

const MS: Duration = Duration::from_millis(1);

/// Bytes over the connection of an attempt that is cut off.
const SENT: u64 = 90;
const RECEIVED: u64 = 7;

/// Time that each connection takes to open, ns.
const OPENED_NS: u64 = 70;

impl Workload for SimulatedTarget {
    fn host(&self, id: u64) -> u32 {
        u32::try_from(id % u64::from(self.hosts)).unwrap()
    }

    async fn perform(
        &self,
        id: u64,
        flight: &Flight,
        clearance: &impl Clearance,
        ended: &mut Attempt,
    ) -> Option<()> {
        flight.opened(OPENED_NS);
        let sent = clearance.wait().await?;
        flight.note(in_flight(sent, SENT, RECEIVED));
        self.asked.borrow_mut().push((id, sent));
        let until = self
            .stall
            .filter(|(from, to)| (*from..*to).contains(&sent))
            .map_or(sent, |(_, to)| to);
        tokio::time::sleep_until(self.clock.instant(until.plus(MS))).await;
        self.performed.set(self.performed.get() + id);
        let before = *self
            .attempts
            .borrow_mut()
            .entry(id)
            .and_modify(|n| *n += 1)
            .or_insert(0);
        let (outcome, advice) = (self.answers)(id, before, sent);
        *ended = Attempt {
            advice,
            ..attempt_of(sent, self.clock.now(), outcome)
        };
        Some(())
    }
}

fn real_time() -> LocalRuntime {
    let mut builder = Builder::new_current_thread();
    let builder = builder.enable_all();
    builder.build_local(LocalOptions::default()).unwrap()
}

fn shard(ids: u64, connections: u32, budget: Option<Budget>) -> ShardPlan {
    let mut run = plan();
    (run.shards, run.connections, run.ids) = (1, connections, IdRange { start: 0, end: ids });
    let mut shard = run.split(&[]).remove(0);
    shard.budget = budget;
    shard
}

/// One request per `interval_ns`, `burst` at once.
const fn every(interval_ns: u64, burst: u64) -> Budget {
    Budget {
        interval_ns,
        burst,
        at_start: burst,
        phase_ns: 0,
        apart_ns: 0,
    }
}

/// An engine that has run, for inspection.
struct Ran {
    engine: Rc<Engine<SimulatedTarget>>,
    sent: Vec<Nanos>,
    ended: Nanos,
}

impl std::ops::Deref for Ran {
    type Target = Engine<SimulatedTarget>;

    fn deref(&self) -> &Engine<SimulatedTarget> {
        &self.engine
    }
}

impl Ran {
    fn ran_for(&self) -> Duration {
        Duration::from_nanos(self.ended.0)
    }
}

/// Runs a shard until `ends`, in virtual time. Returns it and the sum of the IDs it performed.
fn run(plan: &ShardPlan, stall: Option<(Nanos, Nanos)>, ends: Duration) -> (Ran, u64) {
    run_against(plan, stall, ends, |_, _, _| GOOD)
}

fn run_against(
    plan: &ShardPlan,
    stall: Option<(Nanos, Nanos)>,
    ends: Duration,
    answers: Answers,
) -> (Ran, u64) {
    virtual_time().block_on(async {
        let clock = Clock::start();
        let target = SimulatedTarget {
            stall,
            ..SimulatedTarget::new(clock, answers)
        };
        let (performed, asked) = (Rc::clone(&target.performed), Rc::clone(&target.asked));
        let engine = Engine::new(target, plan, clock, clock.now());
        let mut run = std::pin::pin!(Rc::clone(&engine).run(Alarm::runtime(clock)));
        // No other task is there to read the messages.
        let until_idle = async || {
            loop {
                if engine
                    .gate()
                    .messages
                    .next()
                    .await
                    .contains(&Frame::Idle(0))
                {
                    return;
                }
            }
        };
        tokio::select! {
            () = &mut run => unreachable!("nobody closed it"),
            () = until_idle() => {}
            () = tokio::time::sleep(ends) => {}
        }
        engine.close(clock.now());
        tokio::select! {
            () = &mut run => {}
            () = async { loop { until_idle().await } } => {}
        }
        (
            Ran {
                engine,
                sent: asked.take().into_iter().map(|(_, at)| at).collect(),
                ended: clock.now(),
            },
            performed.get(),
        )
    })
}

#[test]
fn every_id_is_performed_once_and_the_rest_of_the_lanes_end() {
    for (ids, lanes) in [(0, 3), (1, 3), (1_000, 3), (1_000, 64)] {
        for budget in [
            None,
            Some(Budget {
                interval_ns: 500_000,
                burst: 1,
                at_start: 1,
                phase_ns: 7,
                apart_ns: 0,
            }),
        ] {
            let (engine, sum) = run(&shard(ids, lanes, budget), None, Duration::from_secs(100));
            assert_eq!(sum, (0..ids).sum::<u64>(), "{ids} IDs, {lanes} lanes");
            assert_eq!(engine.totals(|stats, _, _| stats.counters.items.ok), ids);
            assert_eq!(engine.progress().remaining, 0);
            if budget.is_none() {
                let rounds = ids.div_ceil(u64::from(lanes));
                let last_done = engine.totals(|_, _, last_done| last_done);
                assert_eq!(last_done.0, rounds * 1_000_000, "{ids} IDs, {lanes} lanes");
            }
        }
    }
}

#[test]
fn closing_wakes_whoever_waits_for_the_kernel() {
    real_time().block_on(async {
        let clock = Clock::start();
        let target = SimulatedTarget::new(clock, |_, _, _| GOOD);
        let budget = every(3_600_000_000_000, 1);
        let engine = Engine::new(target, &shard(100, 4, Some(budget)), clock, clock.now());
        let mut run =
            std::pin::pin!(Rc::clone(&engine).run(Alarm::kernel(clock, Duration::ZERO).unwrap()));
        tokio::select! {
            () = &mut run => panic!("the budget is an hour away"),
            () = tokio::time::sleep(20 * MS) => engine.close(clock.now()),
        }
        tokio::time::timeout(Duration::from_secs(30), run)
            .await
            .expect("nobody was told");
        let progress = engine.progress();
        assert_eq!(
            (
                progress.counters.items.ok,
                progress.remaining,
                progress.in_flight
            ),
            (1, 99, 0)
        );
    });
}

#[test]
fn shards_of_a_low_rate_interleave() {
    for (permits, per_s) in [(3, 1), (500, 60), (10, 3_600)] {
        let period_ns = per_s * 1_000_000_000;
        let mut whole = plan();
        (whole.shards, whole.connections, whole.ids.end) = (8, 8, 1 << 40);
        (whole.rate, whole.burst) = (Some(Rate { permits, period_ns }), 8);
        let rounds = Duration::from_nanos(period_ns / permits * 40);
        let mut sent: Vec<Nanos> = whole
            .split(&[])
            .iter()
            .flat_map(|shard| run(shard, None, rounds).0.sent)
            .collect();
        sent.sort_unstable();
        assert!(
            (40..=41).contains(&sent.len()),
            "{permits} in {per_s} s: {}",
            sent.len()
        );
        for pair in sent.windows(2) {
            // The timer of virtual time has whole milliseconds, and a shard that has one burst
            // forgets that it was late.
            let gap = pair[1].since(pair[0]);
            let off = gap.abs_diff(period_ns / permits);
            assert!(off <= 13_000_000, "{permits} in {per_s} s: {off} ns off");
        }
    }
}

/// Return an answer that a retry may improve on.
fn again(outcome: Outcome, wait: Option<Duration>) -> (Outcome, Advice) {
    (
        outcome,
        Advice {
            repeat: Repeat::MayHelp,
            wait,
            quota: None,
            held_ns: None,
        },
    )
}

const GOOD: (Outcome, Advice) = (
    Outcome::Ok,
    Advice {
        repeat: Repeat::Never,
        wait: None,
        quota: None,
        held_ns: None,
    },
);

#[test]
fn an_item_is_tried_again_until_it_is_good_and_ends_in_one_state() {
    // Every tenth ID fails, as often as its tens say: 0, 10, 20 ... 90 fail 0 to 9 times. A good
    // answer ends its item even if the workload would allow another request.
    let answers: Answers = |id, attempt, _| {
        let has_failed = id % 10 == 0 && u64::from(attempt) < id / 10;
        again(
            if has_failed {
                Outcome::Error(ErrorKind::Reset)
            } else {
                Outcome::Ok
            },
            None,
        )
    };
    let (engine, _) = run_against(
        &shard(100, 4, None),
        None,
        Duration::from_secs(1_000),
        answers,
    );
    engine.totals(|stats, _, _| {
        let counters = &stats.counters;
        // Five attempts at most: 0 to 4 failures pass, 5 to 9 do not.
        assert_eq!(
            (
                counters.items.ok,
                counters.items.failed,
                counters.items.ended()
            ),
            (95, 5, 100)
        );
        assert_eq!(
            (counters.requests.retries, counters.requests.attempts),
            (1 + 2 + 3 + 4 + 5 * 4, 130)
        );
        let items = stats.timing(Series::Item).unwrap().exact();
        assert_eq!(items.count, 100);
        // An attempt is a millisecond; an item that failed has waited as well.
        assert_eq!(
            stats.timing(Series::ServiceError).unwrap().exact().max_ns,
            1_000_000
        );
        assert!(items.max_ns > 10_000_000);
    });
}

#[test]
fn throttles_and_failures_of_an_item_have_limits_of_their_own() {
    /// Items before this one are good, so that there are retries for all others.
    const FIRST: u64 = 1_000;
    // Item `id` is throttled, fails and is redirected as often as its number says, in an order of
    // its own.
    fn outcome(id: u64, attempt: u32) -> (Outcome, Advice) {
        let number = id.saturating_sub(FIRST);
        let mut left = [number % 6, number / 6 % 6, number / 36];
        let mut draw = fastrand::Rng::with_seed(id);
        for number in 0.. {
            let all: u64 = left.iter().sum();
            if all == 0 {
                return GOOD;
            }
            let (mut at, mut kind) = (draw.u64(..all), 0);
            while at >= left[kind] {
                at -= left[kind];
                kind += 1;
            }
            left[kind] -= 1;
            if number == attempt {
                return [
                    again(Outcome::Throttled, None),
                    again(Outcome::Error(ErrorKind::Reset), None),
                    again(Outcome::Redirected, None),
                ][kind]
                    .clone();
            }
        }
        GOOD
    }
    let answers: Answers = |id, attempt, _| {
        let (outcome, mut advice) = outcome(id, attempt);
        if outcome == Outcome::Redirected {
            advice.repeat = Repeat::Follow;
        }
        (outcome, advice)
    };
    // What becomes of an item: each kind may occur four times until the next redirect.
    let is_good = |id: u64| {
        let mut tries = [0; 2];
        (0..).find_map(|attempt| {
            match outcome(id, attempt).0 {
                Outcome::Throttled => tries[0] += 1,
                Outcome::Redirected => tries = [0; 2],
                Outcome::Ok => return Some(true),
                _ => tries[1] += 1,
            }
            tries.iter().any(|tries| *tries > 4).then_some(false)
        })
    };
    let all = FIRST + 72;
    let good = (0..all).filter(|id| is_good(*id) == Some(true)).count() as u64;
    let mut plan = shard(all, 4, None);
    plan.throttling.retry_budget_percent = 100;
    plan.throttling.max_pause = Duration::from_millis(1);
    let (engine, _) = run_against(&plan, None, Duration::from_secs(10_000), answers);
    engine.totals(|stats, _, _| {
        let items = &stats.counters.items;
        assert_eq!((items.ok, items.ended()), (good, all));
        assert!(good > FIRST + 20 && good < all, "{good}");
    });
}

#[test]
fn retries_pass_the_same_budget_as_everything_else() {
    let answers: Answers = |_, attempt, _| {
        if attempt == 0 {
            again(Outcome::Error(ErrorKind::Reset), None)
        } else {
            GOOD
        }
    };
    let budget = every(10_000_000, 10);
    let (engine, _) = run_against(
        &shard(1 << 40, 64, Some(budget)),
        None,
        Duration::from_mins(1),
        answers,
    );
    let attempts = engine.totals(|stats, _, _| stats.counters.requests.attempts);
    assert!((6_009..=6_010).contains(&attempts), "{attempts}");
    assert!(engine.gate().limits().budget_uses()[0].1.kept);
    let (retries, denied) = engine.totals(|stats, _, last| {
        (
            stats.counters.requests.retries,
            engine.gate().limits().throttling(last).retries_denied,
        )
    });
    // One retry for five first attempts, and the reserve.
    let firsts = attempts - retries;
    assert!(
        retries <= firsts / 5 + 100 && retries >= firsts / 5 + 90,
        "{retries} of {firsts}"
    );
    assert!(denied > 0);
}

#[test]
fn redirects_go_at_once_within_the_budget_and_are_no_failures() {
    // Each item is redirected seven times, more often than one is retried, and the budget lets a
    // request through every 10 ms.
    let answers: Answers = |_, attempt, _| match attempt {
        0..7 => (
            Outcome::Redirected,
            Advice {
                repeat: Repeat::Follow,
                ..Advice::default()
            },
        ),
        _ => GOOD,
    };
    let budget = every(10_000_000, 10);
    let (engine, _) = run_against(
        &shard(1 << 40, 64, Some(budget)),
        None,
        Duration::from_mins(1),
        answers,
    );
    engine.totals(|stats, _, _| {
        let (items, requests) = (&stats.counters.items, &stats.counters.requests);
        assert!(
            (6_009..=6_010).contains(&requests.attempts),
            "{}",
            requests.attempts
        );
        assert_eq!(
            (items.failed, stats.counters.errors(), requests.failed()),
            (0, 0, 0)
        );
        assert_eq!(requests.redirects + items.ok, requests.attempts);
        assert!(
            items.ok > 700 && requests.retries >= 7 * items.ok,
            "{} of {} good",
            requests.retries,
            items.ok
        );
        assert_eq!(
            stats.timing(Series::ServiceOk).unwrap().exact().count,
            items.ok
        );
        assert_eq!(stats.timing(Series::ServiceError).unwrap().exact().count, 0);
    });
    assert!(engine.gate().limits().budget_uses()[0].1.kept);
}

#[test]
fn who_only_counts_gives_up_at_once_and_never_waits() {
    let answers: Answers = |id, _, _| {
        if id % 2 == 0 {
            again(Outcome::Throttled, Some(Duration::from_mins(1)))
        } else {
            GOOD
        }
    };
    let mut plan = shard(100, 4, None);
    plan.throttling = ThrottlingPolicy {
        on_throttle: OnThrottle::Count,
        ..ThrottlingPolicy::default()
    };
    let (engine, _) = run_against(&plan, None, Duration::from_secs(1_000), answers);
    assert_eq!(engine.ran_for(), 25 * MS);
    engine.totals(|stats, _, _| {
        assert_eq!(
            (
                stats.counters.items.gave_up,
                stats.counters.requests.retries
            ),
            (50, 0)
        );
    });
    plan.throttling.on_throttle = OnThrottle::Ignore;
    let (engine, _) = run_against(&plan, None, Duration::from_secs(1_000), answers);
    engine.totals(|stats, _, _| {
        assert_eq!(
            (stats.counters.items.gave_up, stats.counters.items.ended()),
            (50, 100)
        );
    });
    assert!(
        engine
            .gate()
            .limits()
            .throttling(engine.ended)
            .early_attempts
            > 0
    );
    assert_eq!(engine.gate().limits().throttling(engine.ended).paused_ns, 0);
}

#[test]
fn what_waits_for_another_attempt_when_time_is_up_stays_unfinished() {
    let answers: Answers = |id, _, _| match id % 3 {
        0 => again(Outcome::Throttled, Some(Duration::from_mins(1))),
        1 => again(Outcome::Error(ErrorKind::Timeout), None),
        _ => GOOD,
    };
    let mut plan = shard(6, 6, None);
    plan.throttling.backoff.base = Duration::from_secs(15);
    let (engine, _) = run_against(&plan, None, Duration::from_secs(1), answers);
    engine.totals(|stats, _, _| {
        let counters = &stats.counters;
        assert_eq!(
            (
                counters.items.ok,
                counters.items.failed,
                counters.items.gave_up,
                counters.items.unfinished
            ),
            (2, 0, 0, 4)
        );
        assert_eq!((counters.requests.attempts, counters.errors()), (6, 2));
    });
    let intervals = engine.intervals(|intervals| intervals.take_all(Meters::default()));
    assert_eq!(
        intervals
            .iter()
            .map(|interval| interval.stats.counters.items.ended())
            .sum::<u64>(),
        2
    );
}

#[test]
fn the_binding_limit_is_the_one_that_more_of_would_help() {
    let by = |plan: &ShardPlan, stall| {
        let (engine, _) = run(plan, stall, Duration::from_secs(10));
        let times = engine.gate().limits().timeline.times(engine.ended);
        assert_eq!(times.sum_ns(), engine.ended.0);
        BindingTimes {
            rate_ns: times.rate_ns / 100_000_000,
            concurrency_ns: times.concurrency_ns / 100_000_000,
            ..times
        }
    };
    let at = |s: u64| Nanos(s * 1_000_000_000);
    let slow = every(10_000_000, 1);
    // A request takes a millisecond: one connection bears a thousand a second.
    assert_eq!(by(&shard(1 << 40, 1, Some(slow)), None).rate_ns, 90);
    let fast = every(500_000, 1);
    assert_eq!(by(&shard(1 << 40, 1, Some(fast)), None).concurrency_ns, 100);
    assert_eq!(by(&shard(1 << 40, 1, None), None).concurrency_ns, 100);
    // Four seconds without an answer: after 50 ms every connection is in use.
    let stalled = by(&shard(1 << 40, 5, Some(slow)), Some((at(3), at(7))));
    assert_eq!((stalled.rate_ns, stalled.concurrency_ns), (60, 39));
}

/// A workload that never gets a connection and never waits for one.
struct Destitute {
    clock: Clock,
    tried: Rc<Cell<u64>>,
    kind: ErrorKind,
}

impl Workload for Destitute {
    fn has_one_route(&self) -> bool {
        true
    }

    async fn perform(
        &self,
        _: u64,
        _: &Flight,
        _: &impl Clearance,
        ended: &mut Attempt,
    ) -> Option<()> {
        self.tried.set(self.tried.get() + 1);
        assert!(self.tried.get() < 1_000_000, "nobody else gets to run");
        *ended = Attempt {
            sent: None,
            status: None,
            ..attempt_of(Nanos(0), self.clock.now(), Outcome::Error(self.kind))
        };
        Some(())
    }
}

#[test]
fn attempts_that_fail_without_a_wait_let_others_run() {
    real_time().block_on(async {
        let clock = Clock::start();
        let tried = Rc::new(Cell::new(0));
        let workload = Destitute {
            clock,
            tried: Rc::clone(&tried),
            kind: ErrorKind::TooManyFiles,
        };
        let engine = Engine::new(workload, &shard(1 << 40, 4, None), clock, clock.now());
        let run = Rc::clone(&engine).run(Alarm::kernel(clock, Duration::ZERO).unwrap());
        let other = async {
            while tried.get() < 100 {
                tokio::task::yield_now().await;
            }
            engine.close(clock.now());
        };
        tokio::join!(run, other);
    });
}

#[test]
fn what_would_fail_every_connection_ends_the_run_with_the_first_ones() {
    for kind in [
        ErrorKind::TlsUnknownIssuer,
        ErrorKind::ProxyAuth,
        ErrorKind::Http2NotOffered,
    ] {
        let tried = Rc::new(Cell::new(0));
        let items = real_time().block_on(async {
            let clock = Clock::start();
            let workload = Destitute {
                clock,
                tried: Rc::clone(&tried),
                kind,
            };
            let engine = Engine::new(workload, &shard(1 << 40, 4, None), clock, clock.now());
            Rc::clone(&engine)
                .run(Alarm::kernel(clock, Duration::ZERO).unwrap())
                .await;
            engine.totals(|stats, _, _| stats.counters.items)
        });
        assert!(
            (1..=4).contains(&tried.get()) && items.failed == tried.get(),
            "{kind:?}: {} {items:?}",
            tried.get()
        );
    }
}

#[test]
fn what_was_cut_off_counts_as_sent_with_its_connection_its_bytes_and_its_age() {
    virtual_time().block_on(async {
        let clock = Clock::start();
        let never = Some((clock.now(), clock.now().plus(Duration::from_hours(1))));
        let target = SimulatedTarget {
            stall: never,
            ..SimulatedTarget::new(clock, |_, _, _| GOOD)
        };
        let engine = Engine::new(target, &shard(1 << 40, 3, None), clock, clock.now());
        let mut run = Box::pin(Rc::clone(&engine).run(Alarm::runtime(clock)));
        tokio::select! {
            () = &mut run => unreachable!("nobody closed it"),
            () = tokio::time::sleep(1_500 * MS) => {}
        }
        engine.close(clock.now());
        drop(run);
        engine.abort_rest();
        assert_eq!(engine.statistics.borrow().first_sent, Nanos::default());
        let check = |stats: &ShardStats| {
            let counters = &stats.counters;
            assert_eq!(
                (
                    counters.requests.attempts,
                    counters.items.aborted,
                    counters.requests.attempts_sent
                ),
                (3, 3, 3)
            );
            assert_eq!(
                (
                    counters.requests.bytes_sent,
                    counters.requests.bytes_received
                ),
                (3 * SENT, 3 * RECEIVED)
            );
        };
        engine.totals(|stats, _, _| {
            check(stats);
            assert_eq!(stats.counters.requests.connections_opened, 3);
            assert_eq!(stats.timing(Series::ServiceOk).unwrap().exact().censored, 3);
            let connect = stats.timing(Series::Connect).unwrap().exact();
            assert_eq!(
                (connect.count, connect.min_ns, connect.max_ns),
                (3, OPENED_NS, OPENED_NS)
            );
        });
        let rest = engine.intervals(|intervals| intervals.take_all(Meters::default()));
        // The connections opened in the first second, and the requests ended in the second one.
        assert_eq!(rest.len(), 2);
        assert_eq!(
            [0, 1].map(|second| rest[second].stats.counters.requests.connections_opened),
            [3, 0]
        );
        assert_eq!(
            rest[0]
                .stats
                .timing(Series::ServiceOk)
                .unwrap()
                .exact()
                .censored,
            3
        );
        check(&rest[1].stats);
    });
}

/// A target of 200 requests per second, 20 at once, that says how many are left if `says_quota`:
/// the time until there is one more is rounded up to a second.
struct BucketTarget {
    clock: Clock,
    says_quota: bool,
    /// When all that it accepted is paid for, ns.
    tat: Cell<u64>,
}

impl Workload for BucketTarget {
    async fn perform(
        &self,
        _: u64,
        _: &Flight,
        clearance: &impl Clearance,
        ended: &mut Attempt,
    ) -> Option<()> {
        const INTERVAL: u64 = 5_000_000;
        let sent = clearance.wait().await?;
        tokio::time::sleep(MS).await;
        let now = self.clock.now();
        let ahead = self.tat.get().saturating_sub(now.0);
        let left = 20_u64.saturating_sub(ahead.div_ceil(INTERVAL));
        let second = Some(Duration::from_secs(1));
        let (outcome, mut advice) = if left == 0 {
            again(Outcome::Throttled, second)
        } else {
            self.tat.set(now.0 + ahead + INTERVAL);
            GOOD
        };
        advice.quota = self.says_quota.then(|| {
            Box::new(Quota {
                remaining: left.saturating_sub(1),
                limit: Some(20),
                resets_in: second,
            })
        });
        *ended = Attempt {
            advice,
            ..attempt_of(sent, now, outcome)
        };
        Some(())
    }
}

#[test]
fn an_adaptive_run_finds_a_rate_as_well_where_the_target_says_what_is_left() {
    let found = [false, true].map(|says_quota| {
        let mut plan = shard(1 << 40, 64, None);
        plan.throttling.adaptive = Some(AdaptiveKind::Aimd);
        virtual_time().block_on(async {
            let clock = Clock::start();
            let target = BucketTarget {
                clock,
                says_quota,
                tat: Cell::default(),
            };
            let engine = Engine::new(target, &plan, clock, clock.now());
            tokio::select! {
                () = Rc::clone(&engine).run(Alarm::runtime(clock)) => unreachable!("nobody closed it"),
                () = tokio::time::sleep(Duration::from_secs(30)) => {}
            }
            engine.totals(|stats, _, _| stats.counters.items.ok) / 30
        })
    });
    assert!(
        found.iter().all(|per_s| *per_s >= 120),
        "{found:?} per second of 200"
    );
}
