//! Shapes of load on a target that stalls, and on others that must not be said to.

use std::cell::Cell;

use super::*;

/// Time of an answer outside of stalls.
const FAST: Duration = Duration::from_millis(20);

/// Answers wait for the end of the first `SILENT` of each `PERIOD` ms; the first period has no
/// stall.
fn periodic<const PERIOD: u64, const SILENT: u64>(_: u32, sent: Nanos) -> Duration {
    let (ms, of) = (sent.0 / 1_000_000, sent.0 % (PERIOD * 1_000_000));
    let left = Duration::from_nanos((SILENT * 1_000_000).saturating_sub(of));
    if ms < PERIOD { FAST } else { left + FAST }
}

/// Answers wait from `FROM` to `TO` ms.
fn once<const FROM: u64, const TO: u64>(_: u32, sent: Nanos) -> Duration {
    let end = Nanos(TO * 1_000_000);
    if sent.0 >= FROM * 1_000_000 && sent < end {
        Duration::from_nanos(end.since(sent)) + FAST
    } else {
        FAST
    }
}

/// Clients give up after 300 ms.
fn timed_out(shard: u32, sent: Nanos) -> Duration {
    periodic::<2_000, 1_000>(shard, sent).min(300 * MS)
}

fn times_out(shard: u32, sent: Nanos) -> (Outcome, Advice) {
    let is_late = periodic::<2_000, 1_000>(shard, sent) > 300 * MS;
    if is_late {
        (Outcome::Error(ErrorKind::Timeout), GOOD.1)
    } else {
        GOOD
    }
}

/// `PERCENT` of the answers take `SLOW` ms, at random.
fn mixed<const PERCENT: u64, const SLOW: u64>(_: u32, _: Nanos) -> Duration {
    thread_local!(static ANSWERS: Cell<u64> = const { Cell::new(0) });
    // Requests that are sent at one time take different ones.
    let random = ANSWERS
        .replace(ANSWERS.get() + 1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let random = (random ^ (random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32;
    if random % 100 < PERCENT {
        Duration::from_millis(SLOW)
    } else {
        Duration::from_millis(15 + random % 10)
    }
}

/// Every answer takes a second.
fn slow(_: u32, _: Nanos) -> Duration {
    S
}

/// A quota of ten requests in every two seconds.
fn by_quota(_: u32, sent: Nanos) -> (Outcome, Advice) {
    let wait = Some(Duration::from_nanos(2_000_000_000 - sent.0 % 2_000_000_000));
    if sent.0 % 2_000_000_000 < 100_000_000 {
        GOOD
    } else {
        throttled(wait)
    }
}

/// Two requests of half a second at 3 s, and one of two seconds at 7 s, that others overtake.
fn three_slow(_: u32, sent: Nanos) -> Duration {
    match sent.0 / 1_000_000 {
        3_160..3_180 | 3_660..3_680 => 500 * MS,
        7_160..7_180 => 2 * S,
        _ => Duration::from_millis(1),
    }
}

/// Requests of the second shard that are sent just before the end of 8 s time out.
fn last_ones_time_out(shard: u32, sent: Nanos) -> (Outcome, Advice) {
    let is_last = shard == 1 && sent >= Nanos::default().plus(7_980 * MS);
    if is_last {
        (Outcome::Error(ErrorKind::Timeout), GOOD.1)
    } else {
        GOOD
    }
}

fn last_ones_take_3_s(shard: u32, sent: Nanos) -> Duration {
    if matches!(last_ones_time_out(shard, sent).0, Outcome::Error(_)) {
        3 * S
    } else {
        FAST
    }
}

/// Number of stalls, and their period, s.
type Count = (usize, Option<f64>);

/// Number of stalls, and the period of those that have one, s.
fn stalled(report: &Report) -> Option<Count> {
    report.findings.iter().find_map(|finding| match finding {
        Finding::Stalled {
            count, period_s, ..
        } => Some((*count, period_s.map(f64::round))),
        _ => None,
    })
}

pub(super) type Takes = fn(u32, Nanos) -> Duration;
pub(super) type Answer = fn(u32, Nanos) -> (Outcome, Advice);

const ALWAYS: Answer = |_, _| GOOD;

pub(super) fn closed(connections: u32, s: u32) -> RunPlan {
    RunPlan {
        rate: None,
        arrivals: Arrivals::Asap,
        duration: Some(s * S),
        ..run_of(2, connections, 1 << 40)
    }
}

pub(super) fn open(connections: u32, rate: u64, s: u32) -> RunPlan {
    timed(connections, rate, s * S)
}

#[test]
fn stalls_are_counted_with_their_time_and_share() {
    let poisson = RunPlan {
        arrivals: Arrivals::Poisson,
        ..open(1_000, 100, 20)
    };
    let cases: [(&str, RunPlan, Takes, Answer, Option<Count>); 10] = [
        (
            "one",
            open(1_000, 500, 12),
            once::<4_000, 4_800>,
            ALWAYS,
            Some((1, None)),
        ),
        (
            "half of the time, 64 connections",
            closed(64, 24),
            periodic::<2_000, 1_000>,
            ALWAYS,
            Some((11, Some(2.0))),
        ),
        (
            "half of the time, open loop",
            open(1_000, 500, 24),
            periodic::<2_000, 1_000>,
            ALWAYS,
            Some((11, Some(2.0))),
        ),
        (
            "half of the time, Poisson",
            poisson,
            periodic::<2_000, 1_000>,
            ALWAYS,
            Some((9, Some(2.0))),
        ),
        (
            "half of each half second",
            closed(64, 8),
            periodic::<500, 250>,
            ALWAYS,
            Some((15, Some(1.0))),
        ),
        (
            "a tenth",
            closed(64, 12),
            periodic::<2_000, 200>,
            ALWAYS,
            Some((5, Some(2.0))),
        ),
        (
            "nine tenths",
            closed(64, 22),
            periodic::<2_000, 1_800>,
            ALWAYS,
            Some((10, Some(2.0))),
        ),
        (
            "nine tenths, open loop",
            open(2_000, 500, 22),
            periodic::<2_000, 1_800>,
            ALWAYS,
            Some((10, Some(2.0))),
        ),
        (
            "timeouts",
            RunPlan {
                timeout: 300 * MS,
                ..closed(64, 12)
            },
            timed_out,
            times_out,
            Some((5, Some(2.0))),
        ),
        (
            "until the end",
            closed(64, 12),
            once::<8_000, 60_000>,
            ALWAYS,
            None,
        ),
    ];
    for (name, plan, takes, answer, expected) in cases {
        let report = run_against(&plan, &[], takes, answer).report(&plan);
        assert_eq!(stalled(&report), expected, "{name}: {:?}", report.findings);
    }
}

#[test]
fn slow_idle_and_throttled_targets_do_not_stall() {
    let warm_up = RunPlan {
        warmup: 5 * S,
        ..open(1_000, 500, 12)
    };
    let poisson = |rate, s| RunPlan {
        arrivals: Arrivals::Poisson,
        ..open(1_000, rate, s)
    };
    let paced = RunPlan {
        rate: Some(per_s(2)),
        ..closed(64, 20)
    };
    let cases: [(&str, RunPlan, Takes, Answer); 14] = [
        ("fast", closed(64, 8), |_, _| FAST, ALWAYS),
        ("slow throughout", closed(64, 20), slow, ALWAYS),
        (
            "slow throughout, open loop",
            open(1_000, 50, 20),
            slow,
            ALWAYS,
        ),
        (
            "a tenth slow, eight connections",
            closed(8, 60),
            mixed::<10, 2_000>,
            ALWAYS,
        ),
        (
            "half slow, two connections",
            closed(2, 60),
            mixed::<50, 1_000>,
            ALWAYS,
        ),
        (
            "a tenth slow, open loop",
            open(1_000, 500, 20),
            mixed::<10, 1_000>,
            ALWAYS,
        ),
        (
            "three slow answers that others overtake",
            open(50, 30, 10),
            three_slow,
            ALWAYS,
        ),
        ("idle by rate", paced, |_, _| FAST, ALWAYS),
        ("Poisson at a low rate", poisson(2, 60), |_, _| FAST, ALWAYS),
        (
            "Poisson at a low rate, a tenth slow",
            poisson(5, 120),
            mixed::<10, 1_000>,
            ALWAYS,
        ),
        (
            "one connection, one slow answer",
            RunPlan {
                shards: 1,
                ..closed(1, 12)
            },
            once::<4_000, 4_800>,
            ALWAYS,
        ),
        ("throttled", closed(64, 12), |_, _| FAST, by_quota),
        (
            "timeouts alone after the end",
            closed(64, 8),
            last_ones_take_3_s,
            last_ones_time_out,
        ),
        ("in the warm-up", warm_up, once::<3_000, 4_000>, ALWAYS),
    ];
    for (name, plan, takes, answer) in cases {
        let report = run_against(&plan, &[], takes, answer).report(&plan);
        assert_eq!(stalled(&report), None, "{name}");
    }
    let plan = RunPlan {
        rate: Some(per_s(500)),
        ..closed(64, 10)
    };
    let blocked = run(
        &plan,
        &[Incident::Block {
            at: 3 * S,
            lasts: 600 * MS,
        }],
        |_, _| FAST,
    )
    .report(&plan);
    assert_eq!(stalled(&blocked), None, "it was this client");
}
