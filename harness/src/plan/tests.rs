//! The laws of splitting, and plans that make no sense.

use proptest::prelude::*;

use super::*;
use crate::fixtures::plan;

const fn ids(start: u64, end: u64) -> IdRange {
    IdRange { start, end }
}

#[test]
fn a_plan_that_makes_no_sense_names_its_flag() {
    type Spoil = fn(&mut RunPlan);
    let cases: [(Spoil, &str); 19] = [
        (|p| p.ids.end = p.ids.start, "--ids"),
        (|p| p.shards = 0, "--shards"),
        (|p| p.connections = 1, "--connections"),
        (|p| p.connections = u32::MAX, "--connections"),
        (
            |p| {
                (p.rate, p.burst) = ("5/s".parse().ok(), 1);
            },
            "--burst",
        ),
        (|p| p.timeout = Duration::from_hours(2), "--timeout"),
        (|p| p.duration = Some(Duration::ZERO), "--duration"),
        (|p| p.throttling.max_pause = Duration::ZERO, "--max-pause"),
        (|p| p.shard_deadline = Duration::ZERO, "--shard-deadline"),
        (|p| p.arrivals = Arrivals::Constant, "--arrivals constant"),
        (|p| p.queue = Some(3), "--queue"),
        (|p| p.pacing = Pacing::Spin, "--pacing"),
        (
            |p| {
                (p.arrivals, p.rate, p.burst) = (Arrivals::Poisson, "5/s".parse().ok(), 8);
            },
            "--burst",
        ),
        (
            |p| (p.warmup, p.duration) = (Duration::from_secs(1), Some(Duration::from_secs(1))),
            "--warmup",
        ),
        (
            |p| p.finished = vec![ids(3, 5), ids(4, 6)],
            "finished IDs 4..6",
        ),
        (
            |p| p.finished = vec![ids(990, 1_001)],
            "finished IDs 990..1001",
        ),
        (
            |p| p.finished = vec![ids(0, 7), ids(7, 1_000)],
            "all IDs of --ids 0..1000 are finished",
        ),
        (
            |p| {
                (p.arrivals, p.recorded) = (Arrivals::Replay, Recorded((0..1_000).collect()));
                (p.rate, p.finished) = ("5/s".parse().ok(), vec![ids(0, 7)]);
            },
            "--arrivals replay cannot be resumed",
        ),
        (|p| p.grace = Duration::from_hours(2), "--grace"),
    ];
    for (spoil, flag) in cases {
        let mut spoilt = plan();
        spoil(&mut spoilt);
        let message = spoilt.validate().unwrap_err().to_string();
        assert!(message.starts_with(flag), "{message}");
    }
    assert!(plan().validate().is_ok());
}

#[test]
fn a_plan_survives_json() {
    let mut run = plan();
    run.duration = Some(Duration::from_millis(1500));
    let json = serde_json::to_string(&run).unwrap();
    assert!(json.contains("\"duration_us\":1500000"), "{json}");
    assert_eq!(serde_json::from_str::<RunPlan>(&json).unwrap(), run);
}

proptest! {
    #[test]
    fn parts_are_disjoint_ordered_covering_and_even(total: u64, parts in 1..2000_u64) {
        let shares: Vec<u64> = (0..parts).map(|i| split_share(total, parts, i)).collect();
        prop_assert_eq!(shares.iter().map(|share| u128::from(*share)).sum::<u128>(), u128::from(total));
        let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
        prop_assert!(most - least <= 1);
        prop_assert_eq!(split_point(total, parts, 0), 0);
        prop_assert_eq!(split_point(total, parts, parts), total);
        for i in 0..parts {
            prop_assert!(split_point(total, parts, i) <= split_point(total, parts, i + 1));
        }
    }

    #[test]
    fn the_default_burst_is_alike_in_all_shards_and_forgives_its_time(
        permits in 1..10_000_000_u64, period_s in 1..4_000_u64, shards in 1..=MAX_SHARDS,
    ) {
        let rate = Rate { permits, period_ns: period_s * 1_000_000_000 };
        let burst = default_burst(&rate, shards);
        for i in [0, u64::from(shards) - 1] {
            let budget = Budget::of(&rate, Bursts { any: burst, at_start: burst }, u64::from(shards), i);
            prop_assert_eq!(budget.burst * u64::from(shards), burst);
            let forgiven = (budget.burst - 1) * budget.interval_ns;
            prop_assert_eq!(budget.apart_ns > 0, permits <= 200 * period_s);
            if budget.apart_ns == 0 {
                prop_assert!((25_000_000..25_000_000 + budget.interval_ns).contains(&forgiven));
            } else {
                prop_assert_eq!(forgiven, 0);
            }
        }
    }

    #[test]
    fn shards_cover_the_run(
        start in 0..u64::MAX / 2, len in 1..1_000_000_u64, shards in 1..64_u32, more in 0..500_u32,
        permits in 1..1_000_000_u64, spare in 0..500_u64,
        finished in prop::collection::vec((0..50_000_u64, 0..50_000_u64), 0..20),
    ) {
        let mut run = plan();
        run.ids = IdRange { start, end: start + len };
        (run.shards, run.connections) = (shards, shards + more);
        run.rate = Some(Rate { permits, period_ns: 1_000_000_000 });
        run.burst = u64::from(shards) + spare;
        run.queue = Some(more);
        let mut next = start;
        for (gap, len) in finished {
            let range = ids((next + gap).min(run.ids.end), (next + gap + len).min(run.ids.end));
            next = range.end;
            run.finished.extend(Some(range).filter(|range| !range.is_empty()));
        }
        let left = run.items();
        prop_assert_eq!(run.validate_finished().is_ok(), left > 0);
        let parts = run.split(&[]);
        // The shards' ranges and the finished ones, one after another, are all IDs; the shards come
        // in order.
        let own: Vec<IdRange> = parts.iter().flat_map(|part| part.ids.clone()).collect();
        prop_assert!(own.is_sorted_by_key(|range| range.start));
        let mut all = [own, run.finished.clone()].concat();
        all.sort_by_key(|range| range.start);
        prop_assert!(all.iter().all(|range| !range.is_empty()));
        let end = all.iter().try_fold(run.ids.start, |at, range| (at == range.start).then_some(range.end));
        prop_assert_eq!(end, Some(run.ids.end));
        for (i, part) in (0..).zip(&parts) {
            prop_assert_eq!(part.items(), split_share(left, shards.into(), i));
            prop_assert_eq!(part.items_of_run, left);
        }
        prop_assert_eq!(parts.iter().map(|p| p.connections).sum::<u32>(), run.connections);
        prop_assert_eq!(parts.iter().filter_map(|p| p.queue).sum::<usize>(), more as usize);
        let budgets: Vec<Budget> = parts.iter().filter_map(|p| p.budget).collect();
        prop_assert_eq!(budgets.iter().map(|b| b.burst).sum::<u64>(), run.burst);
        // The shards together never exceed the rate, and fall short of it by rounding only.
        let per_second: f64 = budgets.iter().map(|b| 1e9 / b.interval_ns as f64).sum();
        let asked = permits as f64;
        prop_assert!(per_second <= asked * (1.0 + 1e-12), "{} of {}", per_second, asked);
        prop_assert!(per_second >= asked * (1.0 - asked / (1e9 * f64::from(shards)) - 1e-12));
    }
}
