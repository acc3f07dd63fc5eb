//! Properties of a controller as a whole: in simulated crawls, and under any sequence of calls.

mod simulation;

use std::time::Duration;

use proptest::prelude::*;

use self::simulation::{Algorithm, SimulatedCrawl, Simulation};
use super::*;
use crate::sample::Outcome;
use crate::stats::tests::attempt_of;

/// Crawls with 1, 2 and 4 shards at round trips of so many microseconds: the mean share of the
/// limit that is used, and the least of all, in percent.
#[test]
fn a_limit_is_used_as_well_as_its_distance_lets_it() {
    use Algorithm::{Bucket, FixedWindow, SlidingWindow};
    for (algorithms, rtts_us, mean, least) in [
        (
            &[Bucket(10.0), Bucket(100.0), Bucket(1_000.0)][..],
            &[100, 2_000][..],
            0.91,
            0.86,
        ),
        (&[FixedWindow, SlidingWindow], &[100, 2_000], 0.89, 0.85),
        (
            &[Bucket(10.0), Bucket(100.0), FixedWindow],
            &[20_000],
            0.86,
            0.82,
        ),
        (
            &[Bucket(10.0), Bucket(100.0), SlidingWindow],
            &[200_000],
            0.77,
            0.65,
        ),
    ] {
        let mut shares = Vec::new();
        for &algorithm in algorithms {
            for ((shards, &rtt_us), kind) in [1, 2, 4]
                .into_iter()
                .flat_map(|n| rtts_us.iter().map(move |rtt| (n, rtt)))
                .flat_map(|case| [(case, Some(AdaptiveKind::Aimd)), (case, None)])
            {
                let outcomes = Simulation::run(&SimulatedCrawl {
                    kind,
                    ..SimulatedCrawl::new(algorithm, shards, rtt_us)
                });
                let (share, throttled) = (
                    outcomes.accepted_share(0..60, 1_000.0),
                    outcomes.throttled_share(5),
                );
                assert!(
                    share >= least && throttled <= 0.02,
                    "{algorithm:?}, {kind:?}, {shards} shards, {rtt_us} us: {share}, {throttled} throttled"
                );
                shares.push(share);
            }
        }
        let reached = shares.iter().sum::<f64>() / shares.len() as f64;
        assert!(reached >= mean, "{algorithms:?}: {reached}");
    }
}

#[test]
fn a_limit_without_bursts_refuses_no_more_of_four_shards_than_of_one() {
    for (kind, rate, least) in [
        (AdaptiveKind::Aimd, 10.0, 0.6),
        (AdaptiveKind::Aimd, 50.0, 0.75),
        (AdaptiveKind::Gradient, 50.0, 0.75),
        (AdaptiveKind::Aimd, 200.0, 0.7),
    ] {
        for shards in [1, 2, 4] {
            for rtt_us in [100, 2_000] {
                let outcomes = Simulation::run(&SimulatedCrawl {
                    kind: Some(kind),
                    rates: vec![(0, rate)],
                    late_ns: 100_000,
                    ..SimulatedCrawl::new(Algorithm::Bucket(1.0), shards, rtt_us)
                });
                let share = outcomes.accepted_share(0..60, rate);
                assert!(share >= least, "{rate}/s, {shards} shards: {share}");
            }
        }
    }
}

#[test]
fn the_gradient_settles_where_latency_begins_to_grow() {
    const SERVICE_NS: u64 = 2_000_000;
    for rtt_us in [100, 2_000] {
        for workers in [1, 4, 16, 60] {
            for shards in [1, 4] {
                let outcomes = Simulation::run(&SimulatedCrawl {
                    kind: Some(AdaptiveKind::Gradient),
                    workers: Some((workers, SERVICE_NS)),
                    seconds: 8,
                    ..SimulatedCrawl::new(Algorithm::None, shards, rtt_us)
                });
                let case = format!("{workers} workers, {shards} shards, {rtt_us} us");
                // A shard has one request in flight at least. What the way takes is not the
                // target's work.
                let least = (SERVICE_NS * u64::from(shards).div_ceil(workers as u64)
                    + rtt_us * 1_000) as f64;
                let mut took: Vec<u64> = outcomes
                    .took
                    .iter()
                    .filter(|(sent, _)| *sent > 1_000_000_000)
                    .map(|(_, took)| *took)
                    .collect();
                took.sort_unstable();
                let growth = took[took.len() / 2] as f64 / least;
                let most = workers as f64 * 1e9 / SERVICE_NS as f64;
                let used = outcomes.accepted_share(1..8, most);
                assert!(growth <= 2.02, "{case}: {growth}");
                assert!(
                    used >= if rtt_us == 100 || workers > 1 {
                        0.8
                    } else {
                        0.6
                    },
                    "{case}: {used}"
                );
            }
        }
    }
}

#[test]
fn the_gradient_follows_a_target_that_becomes_slower_and_does_not_mistake_chance_for_a_queue() {
    let mut gradient =
        Adaptive::new(0.0, Nanos(0)).limiting(AdaptiveKind::Gradient, 200, 10, Nanos(0));
    let mut draws = 1_u64;
    // Latencies from 0 to twice their mean, whatever is in flight; then ten times as long.
    let mut now = 0;
    let mut least = u32::MAX;
    for mean_ns in [5_000_000, 50_000_000] {
        for _ in 0..400 {
            let in_flight = gradient.limit().unwrap();
            for _ in 0..in_flight.max(16) {
                draws = draws
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let attempt =
                    attempt_of(Nanos(now), Nanos(now + draws % (2 * mean_ns)), Outcome::Ok);
                gradient.ended(Nanos(now + 2 * mean_ns), in_flight, &attempt);
            }
            now += 2 * mean_ns + 1;
        }
        least = least.min(gradient.limit().unwrap());
    }
    assert!(least >= 100, "{least}");
}

#[test]
fn other_limits_are_found_as_well() {
    for (rate, lanes, seconds) in [(2.0_f64, 16, 300), (50.0, 256, 60), (20_000.0, 1_024, 20)] {
        for algorithm in [
            Algorithm::Bucket((rate / 2.0).max(10.0)),
            Algorithm::Bucket(rate.max(10.0)),
            Algorithm::FixedWindow,
        ] {
            let base = SimulatedCrawl::new(algorithm, 2, 2_000);
            let outcomes = Simulation::run(&SimulatedCrawl {
                rates: vec![(0, rate)],
                lanes,
                seconds,
                ..base
            });
            let share = outcomes.accepted_share(0..seconds, rate);
            assert!(share >= 0.75, "{algorithm:?} of {rate}/s: {share}");
        }
    }
}

#[test]
fn a_limit_that_changes_is_followed() {
    for to in [2_000.0, 500.0, 100.0] {
        for algorithm in [
            Algorithm::Bucket(10.0),
            Algorithm::Bucket(100.0),
            Algorithm::SlidingWindow,
        ] {
            let rates = vec![(0, 1_000.0), (70, to)];
            let outcomes = Simulation::run(&SimulatedCrawl {
                rates,
                seconds: 160,
                ..SimulatedCrawl::new(algorithm, 2, 2_000)
            });
            let before = outcomes.accepted_share(10..70, 1_000.0);
            let after = outcomes.accepted_share(140..160, to);
            assert!(before >= 0.9, "{algorithm:?}: {before} of the first limit");
            assert!(after >= 0.85, "{algorithm:?}: {after} of {to}/s");
            assert!(
                outcomes.throttled_share(5) <= 0.02,
                "{algorithm:?}, then {to}/s"
            );
        }
    }
}

#[test]
fn a_target_without_a_limit_costs_nothing() {
    for kind in [AdaptiveKind::Aimd, AdaptiveKind::Gradient] {
        let case = SimulatedCrawl {
            kind: Some(kind),
            seconds: 2,
            lanes: 64,
            ..SimulatedCrawl::new(Algorithm::None, 2, 2_000)
        };
        let outcomes = Simulation::run(&case);
        for state in outcomes.states {
            assert_eq!(
                state,
                ControllerState {
                    limit: 64,
                    pace_per_s: None
                },
                "{kind:?}"
            );
        }
    }
}

#[test]
fn without_throttling_there_is_no_pace_and_with_it_there_is() {
    let at = |ms: u64| Nanos(ms * 1_000_000);
    let mut adaptive = Adaptive::new(0.0, at(0)).limiting(AdaptiveKind::Aimd, 10, 10, at(0));
    assert_eq!(adaptive.poll(at(1)), Pace::Go(Nanos(0)));
    adaptive.admitted();
    assert_eq!(
        adaptive.state().unwrap(),
        ControllerState {
            limit: 10,
            pace_per_s: None
        }
    );
    adaptive.throttled(at(2), at(1_002));
    adaptive.throttled(at(3), at(2_002));
    adaptive.throttled(at(4), at(1_002));
    assert_eq!(adaptive.limit().unwrap(), 7, "one episode, one cut");
    assert_eq!(adaptive.poll(at(5)), Pace::Wait(at(2_002)));
    let Pace::Wait(first) = adaptive.poll(at(2_002)) else {
        panic!("the search begins slowly");
    };
    assert!((at(2_052)..at(2_302)).contains(&first), "{first:?}");
    let paced = adaptive.state().unwrap().pace_per_s.unwrap();
    assert!((0.1..=1.0).contains(&paced), "{paced}");
}

/// A controller that was throttled once, after 1,000 accepted requests in a second, and whose pause
/// ended at 2 s.
fn throttled_once() -> Adaptive {
    let mut adaptive =
        Adaptive::new(0.0, Nanos(0)).limiting(AdaptiveKind::Aimd, 1_000, 1_000, Nanos(0));
    for request in 0..1_000 {
        let sent = Nanos(request * 1_000_000);
        adaptive.admitted();
        let attempt = attempt_of(sent, sent, Outcome::Ok);
        adaptive.ended(sent, 1, &attempt);
    }
    adaptive.throttled(Nanos(1_000_000_000), Nanos(2_000_000_000));
    adaptive
}

#[test]
fn a_pace_that_is_not_used_does_not_grow() {
    let mut adaptive = throttled_once();
    for ms in 2_000..12_000 {
        let now = Nanos(ms * 1_000_000);
        if let Pace::Go(_) = adaptive.poll(now)
            && ms % 100 == 0
        {
            adaptive.admitted();
        }
    }
    let unused = adaptive.state().unwrap().pace_per_s.unwrap();
    assert!(
        (1.0..100.0).contains(&unused),
        "from 1/s, with 10/s sent: {unused}"
    );
}

#[test]
fn a_late_shard_catches_up_with_no_more_than_four_milliseconds() {
    let mut adaptive = throttled_once();
    for ms in (2_000..2_500).chain([3_000]) {
        let now = Nanos(ms * 1_000_000);
        let mut at_once = 0.0;
        while let Pace::Go(_) = adaptive.poll(now) {
            adaptive.admitted();
            at_once += 1.0;
        }
        let per_s = adaptive.state().unwrap().pace_per_s.unwrap();
        assert!(
            at_once <= per_s * 0.004 + 2.0,
            "{at_once} at once at {ms} ms, at a pace of {per_s}/s"
        );
    }
}

#[test]
fn where_nobody_waits_what_was_under_way_is_no_news() {
    let mut adaptive = throttled_once();
    let refused = |sent_ms: u64, done_ms: u64| {
        attempt_of(
            Nanos(sent_ms * 1_000_000),
            Nanos(done_ms * 1_000_000),
            Outcome::Throttled,
        )
    };
    let mut limits = Vec::new();
    for (sent_ms, done_ms) in [
        (3_000, 3_100),
        (3_050, 3_150),
        (3_099, 3_199),
        (3_101, 3_201),
    ] {
        adaptive.poll(Nanos(done_ms * 1_000_000));
        let attempt = refused(sent_ms, done_ms);
        adaptive.ended(attempt.done, 1, &attempt);
        adaptive.throttled(attempt.done, attempt.done);
        limits.push(adaptive.limit().unwrap());
    }
    assert_eq!(
        limits,
        [489, 489, 489, 342],
        "the second and third were sent before the first was refused"
    );
}

/// Something that may happen to a controller.
#[derive(Debug, Clone)]
enum Call {
    Later(u64),
    Ask,
    AskAndGo,
    End {
        took_ns: u64,
        outcome: Outcome,
        in_flight: u32,
    },
    Throttle {
        ago_ns: u64,
        pause_ns: u64,
    },
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        4 => Just(Outcome::Ok),
        2 => Just(Outcome::Throttled),
        1 => Just(Outcome::Rejected),
        1 => Just(Outcome::Error(crate::sample::ErrorKind::Timeout)),
        1 => Just(Outcome::Error(crate::sample::ErrorKind::ConnectRefused)),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    // From a nanosecond to half an hour, evenly over the magnitudes.
    let span = (0..41_u32, 1..3_u64).prop_map(|(bits, factor)| factor << bits);
    prop_oneof![
        3 => span.clone().prop_map(Call::Later),
        2 => Just(Call::Ask),
        4 => Just(Call::AskAndGo),
        3 => (span.clone(), outcome(), 0..40_u32)
            .prop_map(|(took_ns, outcome, in_flight)| Call::End { took_ns, outcome, in_flight }),
        1 => (0..1_000_000_u64, span).prop_map(|(ago_ns, pause_ns)| Call::Throttle { ago_ns, pause_ns }),
    ]
}

proptest! {
    #[test]
    fn it_keeps_its_promises_whatever_happens(
        gradient: bool, lanes in 0..40_u32, first in 0..50_u32, calls in prop::collection::vec(call(), 1..300),
    ) {
        let kind = if gradient { AdaptiveKind::Gradient } else { AdaptiveKind::Aimd };
        let mut now = Nanos(1_000_000);
        let mut adaptive = Adaptive::new(0.5, now).limiting(kind, lanes, first, now);
        for call in calls {
            match call {
                Call::Later(ns) => now = now.plus(Duration::from_nanos(ns)),
                Call::Ask | Call::AskAndGo => match adaptive.poll(now) {
                    Pace::Go(since) => {
                        prop_assert!(since <= now);
                        if matches!(call, Call::AskAndGo) {
                            adaptive.admitted();
                        }
                    }
                    Pace::Wait(next) => prop_assert!(next > now, "{next:?} at {now:?}"),
                },
                Call::End { took_ns, outcome, in_flight } => {
                    let attempt = attempt_of(Nanos(now.0.saturating_sub(took_ns)), now, outcome);
                    adaptive.ended(now, in_flight, &attempt);
                }
                Call::Throttle { ago_ns, pause_ns } => {
                    adaptive.throttled(Nanos(now.0.saturating_sub(ago_ns)), now.plus(Duration::from_nanos(pause_ns)));
                }
            }
            prop_assert!((1..=lanes.max(1)).contains(&adaptive.limit().unwrap()));
            if let Some(per_s) = adaptive.state().unwrap().pace_per_s {
                prop_assert!((0.1..=1e9).contains(&per_s), "{per_s}");
            }
        }
        // However it was treated, it lets a request go in the end: no pace is slower than one in
        // ten seconds.
        let mut asked = 0;
        while let Pace::Wait(next) = adaptive.poll(now) {
            now = next;
            asked += 1;
            prop_assert!(asked < 3_000, "starved at {now:?}: {:?}", adaptive.state());
        }
    }
}
