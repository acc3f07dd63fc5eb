//! Example runs for the tests of the live view.

use std::time::Duration;

use crawlmark_harness::adaptive::ControllerState;
use crawlmark_harness::clock::Nanos;
use crawlmark_harness::plan::{
    Arrivals, Pacing, PerHost, Pinning, RunPlan, ThrottlingPolicy, WorkloadSettings,
};
use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::stats::{Counters, Percentile, SecondCounts, Series};
use crawlmark_harness::supervisor::{Live, LivePause, LiveShard, LiveState, Recent, Stopping};
use crawlmark_harness::units::{IdRange, Rate, RateShape};
use crawlmark_harness::wire::{BindingTimes, Progress};
use crawlmark_results::run::report::IntervalRow;
use proptest::prelude::*;

/// A closed loop over so many shards.
pub(super) fn plan(shards: u32) -> RunPlan {
    RunPlan {
        target: "test".to_owned(),
        workload: WorkloadSettings::default(),
        ids: IdRange {
            start: 0,
            end: 1_000_000,
        },
        finished: Vec::new(),
        shards,
        connections: shards * 8,
        streams: 1,
        rate: None,
        shape: RateShape::Constant,
        burst: 0,
        at_start: 0,
        arrivals: Arrivals::Asap,
        recorded: crawlmark_harness::plan::Recorded::default(),
        queue: None,
        deadline: None,
        objectives: Vec::new(),
        pacing: Pacing::Sleep,
        linger: Duration::ZERO,
        throttling: ThrottlingPolicy::default(),
        per_host: PerHost::default(),
        duration: Some(Duration::from_mins(1)),
        warmup: Duration::ZERO,
        grace: Duration::from_secs(10),
        timeout: Duration::from_secs(10),
        shard_deadline: Duration::from_secs(10),
        seed: 1,
        pinning: Pinning::None,
    }
}

/// An open loop of 1,000/s over so many shards.
pub(super) fn open(shards: u32) -> RunPlan {
    let rate = Some(Rate {
        permits: 1_000,
        period_ns: 1_000_000_000,
    });
    RunPlan {
        arrivals: Arrivals::Constant,
        rate,
        ..plan(shards)
    }
}

/// A shard that did so many items of 100,000 until `ms` after the start.
pub(super) fn shard(ms: u64, items: u64) -> LiveShard {
    LiveShard {
        pid: 4_711,
        planned: 100_000,
        progress: Progress {
            at: Nanos(ms * 1_000_000),
            counters: counters(items, items),
            in_flight: 8,
            binding: BindingTimes {
                concurrency_ns: ms * 1_000_000,
                ..BindingTimes::default()
            },
            ..Progress::default()
        },
        recent: Some(recent(1_000_000)),
        lag: Some(Duration::from_micros(120)),
        state: LiveState::Running,
        replaced: None,
    }
}

fn counters(ok: u64, attempts: u64) -> Counters {
    let mut counters = Counters::default();
    (counters.items.ok, counters.requests.attempts) = (ok, attempts);
    counters
}

/// The first `seconds` of 1,200 requests each with times of about 10 ms, which all fail from
/// `fails_at` on.
pub(super) fn rows(seconds: u64, fails_at: u64) -> Vec<IntervalRow> {
    let row = |start_s| {
        let attempts = 1_000 + start_s % 5 * 50;
        let ok = if start_s < fails_at { attempts } else { 0 };
        let ms = |ms: f64| (ok > 0).then_some((ms + (start_s % 3) as f64) * 1e3);
        IntervalRow {
            start_s,
            counts: SecondCounts {
                attempts,
                ok,
                failed: attempts - ok,
                ..SecondCounts::default()
            },
            p50_us: ms(8.0),
            p90_us: ms(20.0),
            p99_us: ms(40.0),
            response_p99_us: ms(40.0),
            max_us: ms(90.0),
            ..IntervalRow::default()
        }
    };
    (0..seconds).map(row).collect()
}

/// Times about so long, ns.
pub(super) fn recent(ns: u64) -> Recent {
    let [p50, p90, p99] = [1, 2, 4].map(|times| Percentile::Exact(ns * times));
    Recent {
        of: Series::ServiceOk,
        p50,
        p90,
        p99,
        max_ns: ns * 8,
    }
}

/// Create the live state of these shards, `ms` after the start.
pub(super) fn live(ms: u64, shards: Vec<LiveShard>) -> Live {
    Live {
        elapsed: Duration::from_millis(ms),
        shards,
        at: Nanos(ms * 1_000_000),
        last_second: (ms / 1_000).checked_sub(1),
        recent: Some(recent(1_000_000)),
        controller: None,
        pause: None,
        stopping: None,
    }
}

fn any_percentile() -> impl Strategy<Value = Percentile> {
    let any_ns = || (0..42_u32).prop_map(|bits| (1 << bits) - 1);
    prop_oneof![
        Just(Percentile::TooFew),
        any_ns().prop_map(Percentile::Exact),
        any_ns().prop_map(Percentile::AtLeast)
    ]
}

fn any_recent() -> impl Strategy<Value = Recent> {
    (
        any_percentile(),
        any_percentile(),
        any_percentile(),
        0..1_u64 << 42,
    )
        .prop_map(|(p50, p90, p99, max_ns)| Recent {
            of: Series::ResponseOk,
            p50,
            p90,
            p99,
            max_ns,
        })
}

fn any_shard() -> impl Strategy<Value = LiveShard> {
    let state = prop_oneof![4 => Just(LiveState::Running), 1 => Just(LiveState::Done), 1 => Just(LiveState::Lost), 1 => Just(LiveState::Restarting)];
    let counts = prop::array::uniform6((0..45_u32).prop_flat_map(|bits| 0..1_u64 << bits));
    (
        state,
        counts,
        prop::option::of(any_recent()),
        0..20_000_u64,
        any::<u32>(),
    )
        .prop_map(|(state, counts, recent, ms, in_flight)| {
            let [ok, throttled, failed, retries, waiting_again, behind] = counts;
            let behind_ms = u32::try_from(behind / 1_000_000).unwrap_or(u32::MAX);
            let mut counters = counters(ok, ok + throttled + failed);
            counters.items.failed = failed;
            (counters.requests.throttled, counters.requests.retries) = (throttled, retries);
            counters.requests.errors_by_kind = [(ErrorKind::Timeout, failed)].into();
            let in_flight = in_flight / 100;
            let progress = Progress {
                counters,
                in_flight,
                waiting_again,
                behind_ms,
                ..shard(ms, ok).progress
            };
            LiveShard {
                progress,
                recent,
                state,
                ..shard(ms, ok)
            }
        })
}

/// Any run, and what it was a moment before.
pub(super) fn any_run() -> impl Strategy<Value = [Live; 2]> {
    let pause = (1..4_u32, 0..100_000_u64).prop_map(|(hosts, ms)| LivePause {
        hosts,
        of: 3.max(hosts),
        left: Duration::from_millis(ms),
    });
    let controller = (any::<u32>(), prop::option::of(0.1..1e9))
        .prop_map(|(limit, pace_per_s)| ControllerState { limit, pace_per_s });
    let stopping = prop::sample::select(vec![
        Stopping::ByObserver,
        Stopping::ByWorkload,
        Stopping::BySignal,
        Stopping::AtOnce,
    ]);
    let beside = (
        prop::option::of(pause),
        prop::option::of(controller),
        prop::option::of(stopping),
        prop::option::of(any_recent()),
    );
    (
        prop::collection::vec(any_shard(), 1..70),
        beside,
        0..100_000_u64,
    )
        .prop_map(|(shards, (pause, controller, stopping, recent), ms)| {
            let before = Live {
                recent,
                ..live(ms, shards.iter().map(|_| shard(0, 0)).collect())
            };
            [
                before,
                Live {
                    pause,
                    controller,
                    stopping,
                    recent,
                    ..live(ms + 1_000, shards)
                },
            ]
        })
}
