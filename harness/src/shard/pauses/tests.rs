//! Throttle pauses under waits and quotas that targets may send, sensible or not.

use proptest::prelude::*;

use super::*;
use crate::fixtures::plan;
use crate::pacer::Pace;
use crate::sample::{Advice, ErrorKind, Quota};
use crate::stats::tests::{attempt_of, permit_at};

const S: u64 = 1_000_000_000;

fn pauses(shard: usize, throttling: ThrottlingPolicy) -> ThrottlePauses {
    let mut run = plan();
    (run.shards, run.connections, run.throttling) = (4, 4, throttling);
    ThrottlePauses::new(0, &run.split(&[])[shard])
}

fn ended(at: u64, outcome: Outcome, advice: Advice) -> (Permit, Attempt) {
    let at = Nanos(at);
    let attempt = Attempt {
        advice,
        ..attempt_of(at, at, outcome)
    };
    (permit_at(at), attempt)
}

fn end(
    pauses: &mut ThrottlePauses,
    at: u64,
    outcome: Outcome,
    advice: Advice,
) -> Option<PauseOrder> {
    let (permit, attempt) = ended(at, outcome, advice);
    pauses.ended(&permit, &attempt)
}

fn wait(seconds: u64) -> Advice {
    Advice {
        wait: Some(Duration::from_secs(seconds)),
        ..Advice::default()
    }
}

#[test]
fn the_shards_resume_one_after_another_each_of_them_first_at_times_and_none_too_early() {
    let mut first = [0; 4];
    for at in (0..100).map(|pause| 5 + 11 * S * pause) {
        let mut shards: Vec<ThrottlePauses> = (0..4)
            .map(|shard| pauses(shard, ThrottlingPolicy::default()))
            .collect();
        let order = end(&mut shards[2], at, Outcome::Throttled, wait(10)).unwrap();
        assert_eq!(
            (order.until, order.promised),
            (Nanos(at + 10 * S), Nanos(at + 10 * S))
        );
        for i in [0, 1, 3] {
            shards[i].ordered(order);
        }
        let places: Vec<u64> = shards
            .iter()
            .map(|pauses| pauses.resume().since(order.until) / (S / 4))
            .collect();
        assert!((0..4).all(|place| places.contains(&place)), "{places:?}");
        first[places.iter().position(|place| *place == 0).unwrap()] += 1;
    }
    assert!(first.iter().all(|times| *times >= 10), "{first:?}");
}

#[test]
fn a_promise_is_kept_or_broken_once_however_often_it_is_made() {
    let mut pauses = pauses(0, ThrottlingPolicy::default());
    for at in [0, 10, 20] {
        end(&mut pauses, at, Outcome::Throttled, wait(1));
    }
    assert_eq!(pauses.counts(Nanos(5 * S)).honoured, 1);
    pauses.sent(Nanos(2 * S));
    end(&mut pauses, 2 * S, Outcome::Throttled, wait(1));
    pauses.sent(Nanos(2 * S + S / 2));
    pauses.sent(Nanos(2 * S + S / 2));
    let counts = pauses.counts(Nanos(5 * S));
    assert_eq!(
        (
            counts.promises,
            counts.honoured,
            counts.violated,
            counts.early_attempts
        ),
        (4, 1, 1, 2)
    );
    assert!(counts.paused_ns >= 2 * S && counts.paused_ns <= 2 * S + S / 5 + 40);
}

#[test]
fn a_wait_that_is_cut_is_a_promise_that_may_be_broken() {
    let throttling = ThrottlingPolicy {
        max_pause: Duration::from_secs(2),
        ..ThrottlingPolicy::default()
    };
    let mut pauses = pauses(3, throttling);
    let order = end(&mut pauses, 0, Outcome::Throttled, wait(60)).unwrap();
    assert_eq!(
        (order.until, pauses.resume(), order.promised),
        (Nanos(2 * S), Nanos(2 * S), Nanos(60 * S))
    );
    pauses.sent(Nanos(2 * S));
    let counts = pauses.counts(Nanos(3 * S));
    assert_eq!(
        (counts.cut_pauses, counts.violated, counts.paused_ns),
        (1, 1, 2 * S)
    );
}

#[test]
fn a_refusal_without_a_time_is_answered_by_ever_longer_waits() {
    let mut pauses = pauses(0, ThrottlingPolicy::default());
    let mut at = 0;
    for base_ms in [100, 200, 400, 800] {
        let order = end(&mut pauses, at, Outcome::Throttled, Advice::default()).unwrap();
        let waited_ms = order.until.since(Nanos(at)) / 1_000_000;
        assert!(
            (base_ms / 2..=base_ms).contains(&waited_ms),
            "{waited_ms} of {base_ms}"
        );
        // Its aftermath is no other refusal.
        end(&mut pauses, at + 1, Outcome::Throttled, Advice::default());
        at = pauses.resume().0;
    }
    end(&mut pauses, at, Outcome::Ok, Advice::default());
    let order = end(&mut pauses, at, Outcome::Throttled, Advice::default()).unwrap();
    assert!(order.until.since(Nanos(at)) <= 100_000_000);
    assert_eq!(
        (
            pauses.counts(order.until).promises,
            pauses.counts(order.until).honoured
        ),
        (0, 0)
    );
}

#[test]
fn recovery_is_timed_from_the_first_refusal_to_the_next_good_answer_though_the_target_throttles_again()
 {
    let mut pauses = pauses(0, ThrottlingPolicy::default());
    end(&mut pauses, 7 * S, Outcome::Throttled, wait(1));
    // Sent before the pause: no sign that it is over.
    end(&mut pauses, 7 * S + 5, Outcome::Ok, Advice::default());
    end(
        &mut pauses,
        9 * S,
        Outcome::Error(ErrorKind::Reset),
        Advice::default(),
    );
    end(&mut pauses, 10 * S, Outcome::NotFound, Advice::default());
    end(&mut pauses, 11 * S, Outcome::Ok, Advice::default());
    let recovered = |pauses: &ThrottlePauses| {
        let counts = pauses.counts(Nanos(60 * S));
        (
            counts.recoveries,
            counts.recovery_sum_ns,
            counts.recovery_max_ns,
        )
    };
    assert_eq!(recovered(&pauses), (1, 3 * S, 3 * S));
    // Each time requests go, the target answers one and throttles the next, and what it throttles
    // arrives first.
    for pause in 0..10 {
        let went = Nanos((20 + 2 * pause) * S);
        end(&mut pauses, went.0 + 5, Outcome::Throttled, wait(1));
        let (mut permit, attempt) = ended(went.0 + 7, Outcome::Ok, Advice::default());
        permit.admitted = went;
        pauses.ended(&permit, &attempt);
        assert_eq!(
            recovered(&pauses).0,
            1 + pause,
            "what went at {went:?} ends the pause before"
        );
    }
    assert_eq!(recovered(&pauses), (10, 3 * S + 9 * (2 * S + 2), 3 * S));
}

fn left(remaining: u64, limit: Option<u64>, resets_in_s: u64) -> Advice {
    let quota = Quota {
        remaining,
        limit,
        resets_in: Some(Duration::from_secs(resets_in_s)),
    };
    Advice {
        quota: Some(Box::new(quota)),
        ..Advice::default()
    }
}

/// Requests that go between two instants at most.
fn greedy(pauses: &mut ThrottlePauses, from: u64, to: u64) -> u64 {
    let (mut now, mut went) = (Nanos(from), 0);
    while now.0 < to {
        match pauses.quota.poll(now) {
            Pace::Go(_) => {
                pauses.admitted(now);
                went += 1;
                now.0 += 1_000;
            }
            Pace::Wait(next) => {
                assert!(next > now);
                now = next;
            }
        }
    }
    went
}

#[test]
fn the_second_half_of_a_quota_is_spread_over_the_time_it_has_to_last() {
    let mut pauses = pauses(0, ThrottlingPolicy::default());
    end(&mut pauses, 0, Outcome::Ok, left(60, Some(100), 10));
    assert_eq!(
        greedy(&mut pauses, 0, S / 1_000),
        1_000,
        "more than half is left"
    );
    end(&mut pauses, S, Outcome::Ok, left(40, Some(100), 10));
    let went = greedy(&mut pauses, S, 11 * S - 1);
    // A fourth of them, for there are four shards.
    assert!((10..=11).contains(&went), "{went}");
    assert!(
        greedy(&mut pauses, 11 * S, 11 * S + 1_000_000) > 100,
        "there is more after the reset"
    );
    let order = end(&mut pauses, 20 * S, Outcome::Ok, left(0, Some(100), 10)).unwrap();
    assert_eq!(
        (order.until, order.promised),
        (Nanos(30 * S), Nanos(20 * S)),
        "nothing is left, nothing was promised"
    );
}

#[test]
fn a_quota_with_nothing_left_pauses_whatever_its_size() {
    for (limit, resets_in_s) in [(None, 60), (None, 1), (Some(5), 60), (Some(100), 1)] {
        let mut pauses = pauses(0, ThrottlingPolicy::default());
        let order = end(&mut pauses, 0, Outcome::Ok, left(0, limit, resets_in_s)).unwrap();
        assert_eq!(
            (order.cause, order.until),
            (PauseCause::UsedUp, Nanos(resets_in_s * S)),
            "{limit:?}"
        );
    }
}

#[test]
fn a_quota_too_small_to_plan_with_does_not_slow_anybody() {
    let mut pauses = pauses(0, ThrottlingPolicy::default());
    assert_eq!(end(&mut pauses, 0, Outcome::Ok, left(0, Some(1), 1)), None);
    assert_eq!(greedy(&mut pauses, 0, S / 1_000), 1_000);
}

fn any_advice() -> impl Strategy<Value = Advice> {
    let span =
        || prop_oneof![0..100_000_u64, Just(0), Just(u64::MAX / 2)].prop_map(Duration::from_millis);
    let quota = (
        any::<u64>(),
        prop::option::of(any::<u64>()),
        prop::option::of(span()),
    )
        .prop_map(|(remaining, limit, resets_in)| Quota {
            remaining,
            limit,
            resets_in,
        });
    (prop::option::of(span()), prop::option::of(quota)).prop_map(|(wait, quota)| Advice {
        wait,
        quota: quota.map(Box::new),
        ..Advice::default()
    })
}

proptest! {
    /// Whatever a target says, it neither stops a shard for longer than allowed nor has anything go
    /// early.
    #[test]
    fn nothing_that_a_target_says_stops_a_shard_for_longer_than_allowed(
        said in prop::collection::vec((0..50_000_u64, 0..3_u8, any_advice()), 1..60), max_pause_ms in 1..20_000_u64,
    ) {
        let max_pause = Duration::from_millis(max_pause_ms);
        let mut pauses = pauses(1, ThrottlingPolicy { max_pause, ..ThrottlingPolicy::default() });
        let mut now = 0;
        for (later_ms, kind, advice) in said {
            now += later_ms * 1_000_000;
            let before = pauses.resume();
            let outcome = [Outcome::Ok, Outcome::Throttled, Outcome::Rejected][usize::from(kind)];
            let order = end(&mut pauses, now, outcome, advice.clone());
            prop_assert!(pauses.resume() >= before, "a pause is never shortened");
            let longest = duration_ns(max_pause) + duration_ns(max_pause) / u64::from(SPREAD);
            prop_assert!(pauses.resume().since(Nanos(now)) <= longest);
            if let (Some(order), Some(wait), Outcome::Throttled) = (order, advice.wait, outcome) {
                prop_assert!(pauses.resume() >= Nanos(now).plus(wait.min(max_pause)));
                prop_assert!(order.promised == Nanos(now).plus(wait));
            }
            if let Pace::Wait(next) = pauses.quota.poll(Nanos(now)) {
                prop_assert!(next > Nanos(now) && next <= Nanos(now).plus(max_pause));
            }
            pauses.admitted(Nanos(now));
            prop_assert!(pauses.counts(Nanos(now)).paused_ns <= now);
        }
    }
}
