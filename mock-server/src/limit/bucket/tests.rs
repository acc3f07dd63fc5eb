//! Tests of buckets under their three names.

use super::super::algorithm::drive::{ask, fought_over, is_within};
use super::super::{Algorithm, Limit};
use super::*;
use proptest::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

const MS: u64 = 1_000_000;

fn algorithm(text: &str) -> Algorithm {
    text.parse::<Limit>().unwrap().algorithm
}

/// A bucket of this burst that gains a token in 100 ns.
fn bucket(burst: u32) -> Bucket {
    let pace = BucketPace::new(NonZeroU32::MIN, Duration::from_nanos(100)).unwrap();
    Bucket::new(pace, burst - 1, Delay::Never).unwrap()
}

#[test]
fn an_interval_is_never_rounded_down() {
    let pace = BucketPace::new(NonZeroU32::new(3).unwrap(), Duration::from_secs(1)).unwrap();
    assert_eq!(pace.interval_ns, 333_333_334);
}

#[test]
fn what_is_given_back_at_once_was_never_taken() {
    let bucket = bucket(4);
    for tat in [0, 900, 1000, 1100, 1300] {
        let LimitDecision::Admitted { next, .. } = bucket.step(tat, 1000) else {
            panic!("{tat}")
        };
        let back = bucket.give_back(next, next, 1000).unwrap();
        assert_eq!(back, tat.max(1000), "{tat}");
    }
}

proptest! {
    /// One admission is given back later, others come in between: they and those after it get no
    /// more than they would have without it, and no less than if it had been kept.
    #[test]
    fn giving_back_is_never_worth_more_than_what_was_taken(
        owed in 0_u64..600, gaps in proptest::collection::vec(0_u64..150, 0..20), burst in 1_u32..6,
    ) {
        let bucket = bucket(burst);
        let start = 10_000;
        let LimitDecision::Admitted { next: taken, .. } = bucket.step(start + owed, start) else { return Ok(()) };
        let (mut with, mut without, mut now) = (taken, start + owed, start);
        for gap in gaps {
            now += gap;
            // Only those that are admitted beside the one in doubt; without it they are admitted
            // all the more.
            if let LimitDecision::Admitted { next, .. } = bucket.step(with, now) {
                let LimitDecision::Admitted { next: alone, .. } = bucket.step(without, now) else { panic!("stricter") };
                (with, without) = (next, alone);
            }
        }
        let after = bucket.give_back(with, taken, now).unwrap_or(with);
        prop_assert!(after.max(now) >= without.max(now), "{} below {} at {}", after, without, now);
        prop_assert!(after <= with);
        // Where the bucket was never full, it is exact.
        if start + owed >= now {
            prop_assert_eq!(after, without);
        }
    }

    #[test]
    fn remaining_is_what_would_be_admitted_now_and_one_more_at_the_reset(tat in 0_u64..5_000, burst in 1_u32..9) {
        let bucket = bucket(burst);
        let now = 1_000;
        let admitted_at = |now: u64| {
            let mut word = tat;
            (0..100).take_while(|_| match bucket.step(word, now) {
                LimitDecision::Admitted { next, .. } => { word = next; true }
                LimitDecision::Rejected { .. } => false,
            }).count() as u64
        };
        let Standing { remaining, reset_ns } = bucket.standing(tat, now);
        prop_assert_eq!(remaining, admitted_at(now));
        if reset_ns > 0 {
            prop_assert_eq!(admitted_at(now + reset_ns - 1), remaining);
            // More than one bucket's worth behind, the room is gained only once the debt is paid.
            if remaining < u64::from(burst) && tat <= now + bucket.tolerance_ns + 100 {
                prop_assert_eq!(admitted_at(now + reset_ns), remaining + 1);
            }
        } else {
            prop_assert_eq!(remaining, u64::from(burst));
        }
    }
}

#[test]
fn a_refusal_says_when_to_come_back() {
    let limit = algorithm("10/s");
    let tat = AtomicU64::new(0);
    assert_eq!(ask(&tat, 5, &limit), Ok(0));
    assert_eq!(ask(&tat, 6, &limit), Err(99_999_999));
    assert_eq!(ask(&tat, 100_000_004, &limit), Err(1));
    assert_eq!(ask(&tat, 100_000_005, &limit), Ok(0));
}

#[test]
fn threads_that_share_a_word_admit_exactly_what_one_would() {
    let instants: Vec<u64> = (0..=400).map(|quarter| quarter * 250).collect();
    let admitted = fought_over(&algorithm("1000000/s:burst=10"), &instants);
    assert_eq!(admitted[0], 10);
    assert_eq!(admitted.iter().sum::<u64>(), 10 + 100);
}

#[test]
fn threads_that_fight_for_one_burst_get_exactly_the_burst() {
    assert_eq!(
        fought_over(&algorithm("1000000/s:burst=400000"), &[0]),
        [400_000]
    );
}

fn any_gcra() -> impl Strategy<Value = Bucket> {
    (1_u32..5_000, 1_u64..10_000_000, 1_u32..50).prop_filter_map(
        "valid",
        |(permits, period_us, burst)| {
            let pace = BucketPace::new(NonZeroU32::new(permits)?, Duration::from_micros(period_us))
                .ok()?;
            Bucket::new(pace, burst - 1, Delay::Never).ok()
        },
    )
}

proptest! {
    #[test]
    fn no_window_admits_more_than_its_share(
        limit in any_gcra(), quarters in proptest::collection::vec(0_u64..12, 1..300),
    ) {
        // Arrivals come at random gaps of 0 to 3 intervals; each admitted pair spans a window.
        let tat = AtomicU64::new(0);
        let mut now = 0;
        let mut admitted = Vec::new();
        for gap in quarters {
            now += gap * limit.pace.interval_ns / 4;
            if ask(&tat, now, &Algorithm::Gcra(limit)).is_ok() {
                admitted.push(now);
            }
        }
        prop_assert!(is_within(&admitted, u64::from(limit.excess) + 1, limit.pace.interval_ns));
    }

    #[test]
    fn it_admits_what_a_bucket_of_tokens_does(
        limit in any_gcra(), gaps in proptest::collection::vec(0_u64..300, 1..200),
    ) {
        // The model: tokens in 1/t, capped at the burst.
        let (tat, t) = (AtomicU64::new(0), u128::from(limit.pace.interval_ns));
        let full = (u128::from(limit.excess) + 1) * t;
        let (mut tokens, mut now) = (full, 0);
        for gap in gaps {
            let gap_ns = gap * limit.pace.interval_ns / 100;
            now += gap_ns;
            tokens = (tokens + u128::from(gap_ns)).min(full);
            let expected = tokens >= t;
            prop_assert_eq!(ask(&tat, now, &Algorithm::Gcra(limit)).is_ok(), expected);
            if expected {
                tokens -= t;
            }
            prop_assert_eq!(u128::from(limit.standing(tat.load(std::sync::atomic::Ordering::Relaxed), now).remaining), tokens / t);
        }
    }

    #[test]
    fn a_refused_client_is_admitted_when_told_and_not_before(limit in any_gcra(), start in 0_u64..1 << 40) {
        let (tat, limit) = (AtomicU64::new(0), Algorithm::Gcra(limit));
        let wait = std::iter::repeat_with(|| ask(&tat, start, &limit)).find_map(Result::err).unwrap();
        prop_assert!(wait >= 1);
        prop_assert!(ask(&tat, start + wait - 1, &limit).is_err());
        prop_assert!(ask(&tat, start + wait, &limit).is_ok());
    }

    #[test]
    fn extreme_words_and_clocks_do_not_overflow(word: u64, now: u64, taken: u64, limit in any_gcra()) {
        limit.step(word, now);
        limit.standing(word, now);
        limit.give_back(word, taken, now);
    }
}

#[test]
fn a_bucket_holds_a_period_unless_told_otherwise() {
    assert_eq!(
        fought_over(&algorithm("bucket:30000/min"), &[0, 2_000_000]),
        [30_000, 1]
    );
    assert_eq!(
        fought_over(&algorithm("bucket:30000/min:burst=7"), &[0, 2_000_000]),
        [7, 1]
    );
}

proptest! {
    /// Whole tokens of integers, refilled at each multiple of the interval after the bucket was
    /// last full.
    #[test]
    fn it_admits_what_counted_tokens_do(
        size in 1_u32..20, per_s in 1_u32..1000, gaps in proptest::collection::vec(0_u64..250, 1..200),
    ) {
        let limit = algorithm(&format!("bucket:{per_s}/s:burst={size}"));
        let t = 1_000_000_000_u64.div_ceil(per_s.into());
        let word = AtomicU64::new(0);
        let (mut tokens, mut since, mut now) = (u64::from(size), 0_u64, 0_u64);
        let mut admitted = Vec::new();
        for gap in gaps {
            now += gap * t / 100;
            if tokens < u64::from(size) {
                let gained = (now - since) / t;
                tokens += gained;
                since += gained * t;
            }
            if tokens >= u64::from(size) {
                (tokens, since) = (size.into(), now);
            }
            prop_assert_eq!(ask(&word, now, &limit).is_ok(), tokens > 0);
            if tokens > 0 {
                tokens -= 1;
                admitted.push(now);
            }
            prop_assert_eq!(limit.standing(word.load(Ordering::Relaxed), now).remaining, tokens);
        }
        prop_assert!(is_within(&admitted, size.into(), t));
    }
}

fn at_once(text: &str) -> Vec<Result<u64, u64>> {
    let (word, limit) = (AtomicU64::new(0), algorithm(text));
    (0..5).map(|_| ask(&word, 1000 * MS, &limit)).collect()
}

#[test]
fn the_excess_is_delayed_and_then_turned_away() {
    assert_eq!(
        at_once("leaky:10/s"),
        [
            Ok(0),
            Err(100 * MS),
            Err(100 * MS),
            Err(100 * MS),
            Err(100 * MS)
        ]
    );
    let waits = |waits: [u64; 3]| waits.map(|ms| Ok(ms * MS));
    let all =
        |admitted: [Result<u64, u64>; 3]| [&[Ok(0)][..], &admitted, &[Err(100 * MS)]].concat();
    assert_eq!(at_once("leaky:10/s:burst=3"), all(waits([100, 200, 300])));
    assert_eq!(
        at_once("leaky:10/s:burst=3:delay=1"),
        all(waits([0, 100, 200]))
    );
    assert_eq!(at_once("leaky:10/s:burst=3:nodelay"), all(waits([0, 0, 0])));
    assert_eq!(at_once("leaky:10/s:burst=3:delay=3"), all(waits([0, 0, 0])));
}

#[test]
fn threads_fill_exactly_the_queue() {
    let instants: Vec<u64> = (0..100).map(|half| half * 500).collect();
    let admitted = fought_over(&algorithm("leaky:1000000/s:burst=99999"), &instants);
    assert_eq!(
        (admitted[0], admitted.iter().sum::<u64>()),
        (100_000, 100_000 + 49)
    );
}

proptest! {
    /// nginx's own arithmetic, with nanoseconds for milliseconds:
    /// `excess = max(0, excess - rate * passed + 1)`.
    #[test]
    fn it_does_what_nginx_does(
        burst in 0_u32..10, undelayed in 0_u32..10, gaps in proptest::collection::vec(0_u64..250, 1..200),
    ) {
        let t = 10 * MS;
        let undelayed = undelayed.min(burst);
        let limit = algorithm(&format!("leaky:100/s:burst={burst}:delay={undelayed}"));
        let word = AtomicU64::new(0);
        // Excess in units of 1 / t; none before the first request of a key, which is free.
        let mut last: Option<(u64, u64)> = None;
        let mut now = 0;
        let mut departures = Vec::new();
        for gap in gaps {
            now += gap * t / 100;
            let excess = last.map_or(0, |(at, excess)| (excess + t).saturating_sub(now - at));
            let expected = if excess > u64::from(burst) * t {
                None
            } else {
                last = Some((now, excess));
                Some(excess.saturating_sub(u64::from(undelayed) * t))
            };
            prop_assert_eq!(ask(&word, now, &limit).ok(), expected);
            departures.extend(expected.map(|delay| now + delay));
        }
        if undelayed == 0 {
            prop_assert!(departures.windows(2).all(|pair| pair[1] - pair[0] >= t));
        }
    }
}
