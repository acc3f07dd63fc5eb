//! On series whose truth is known.

use proptest::prelude::*;

use super::*;
use crate::run::report::IntervalRow;
use crawlmark_harness::stats::SecondCounts;
use crawlmark_harness::units::Rate;

/// A run as it was saved once.
fn saved() -> Report {
    let golden = include_str!("../../../../tests/golden/whole.json.snap");
    serde_json::from_str(golden.splitn(3, "---").nth(2).unwrap()).unwrap()
}

/// A run with so many items in each second.
fn run(items: &[u64]) -> Report {
    let mut report = saved();
    let like = IntervalRow {
        p50_us: None,
        response_p50_us: None,
        ..report.intervals[0].clone()
    };
    let row = |(n, items): (usize, &u64)| IntervalRow {
        start_s: n as u64,
        counts: SecondCounts {
            items: *items,
            ..like.counts.clone()
        },
        ..like.clone()
    };
    report.intervals = items.iter().enumerate().map(row).collect();
    let seconds = items.len() as f64;
    report.totals.duration_s = seconds;
    report
        .shards
        .iter_mut()
        .for_each(|shard| shard.totals.duration_s = seconds);
    report
}

/// Add a median time to each second of the report.
fn with_medians(mut report: Report, median_us: impl Fn(u64) -> Option<f64>) -> Report {
    report
        .intervals
        .iter_mut()
        .for_each(|row| row.p50_us = median_us(row.start_s));
    report
}

fn constant(seconds: usize) -> Vec<u64> {
    vec![1_000; seconds]
}

/// Grows for `k` seconds, then stays.
fn ramp(k: usize, seconds: usize) -> Vec<u64> {
    (0..seconds)
        .map(|n| {
            if n < k {
                1_000 * (n as u64 + 1) / (k as u64 + 1)
            } else {
                1_000
            }
        })
        .collect()
}

/// Draws from the normal distribution of mean 0 and deviation 1: the sum of twelve even draws, less
/// six.
fn normal(random: &mut fastrand::Rng) -> f64 {
    (0..12).map(|_| random.f64()).sum::<f64>() - 6.0
}

/// Noise around 10,000 with a deviation of `spread`, whose values go together with the one before
/// by `memory`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "near 10,000"
)]
fn noise(seconds: usize, (spread, memory): (f64, f64), random: &mut fastrand::Rng) -> Vec<u64> {
    let mut state = normal(random);
    let step = (1.0 - memory * memory).sqrt();
    let mut draw = || {
        state = memory * state + step * normal(random);
        (10_000.0 + spread * state) as u64
    };
    (0..seconds).map(|_| draw()).collect()
}

#[test]
fn the_series_that_settles_last_decides() {
    let settles = with_medians(run(&ramp(3, 40)), |n| {
        Some(if n < 11 {
            900.0 - 50.0 * n as f64
        } else {
            300.0
        })
    });
    let steady = find(&settles).unwrap();
    assert_eq!(
        (
            steady.from_s,
            &*steady.series[1].name,
            steady.series[0].left_out_s
        ),
        (11, "service_p50", 3)
    );
    // Of a second without a median, the series of them is none.
    let gap = with_medians(run(&ramp(3, 40)), |n| {
        (n != 20).then_some(if n < 11 { 900.0 } else { 300.0 })
    });
    assert_eq!(find(&gap).unwrap().series.len(), 1);
}

#[test]
fn what_is_too_short_planned_to_change_or_without_an_item_is_refused() {
    assert_eq!(
        find(&run(&constant(19))),
        Err(NotSteady::Short { whole_s: 19 })
    );
    assert_eq!(find(&run(&[])), Err(NotSteady::Short { whole_s: 0 }));
    assert!(find(&run(&constant(20))).is_ok());
    let mut report = run(&constant(60));
    report.plan.run.duration = Some(std::time::Duration::from_secs(15));
    assert_eq!(find(&report), Err(NotSteady::Short { whole_s: 15 }));
    assert_eq!(find(&run(&[0; 60])), Err(NotSteady::Nothing));
    let mut report = run(&constant(60));
    let rate = |permits| Rate {
        permits,
        period_ns: 1_000_000_000,
    };
    report.plan.run.rate = Some(rate(900));
    assert!(find(&report).is_ok());
    report.plan.run.shape = RateShape::Ramp {
        from: rate(100),
        to: rate(900),
    };
    assert!(
        find(&report)
            .unwrap_err()
            .to_string()
            .contains("planned to change (100:900/s)")
    );
}

#[test]
fn what_falls_off_for_good_is_not_steady_and_what_recovers_is() {
    let mut falls = constant(100);
    falls[70..].fill(500);
    let refused = find(&run(&falls));
    assert_eq!(refused, Err(NotSteady::Drifting("items per second", 70)));
    let mut recovers = constant(100);
    recovers[60..62].fill(0);
    assert_eq!(find(&run(&recovers)).unwrap().from_s, 0);
    let slower = with_medians(run(&constant(100)), |n| Some(10_000.0 + 100.0 * n as f64));
    let refused = Err(NotSteady::Settling("the median service time"));
    assert_eq!(find(&slower), refused);
}

/// Return how often the method leaves something out of pure noise, how often it refuses pure noise,
/// and how much it leaves out.
fn false_cuts(seconds: usize, kind: (f64, f64)) -> (f64, f64, f64) {
    const ROUNDS: u32 = 400;
    let mut random = fastrand::Rng::with_seed(7);
    let (mut cut, mut refused, mut left_out) = (0, 0, 0.0);
    let template = run(&constant(seconds));
    for _ in 0..ROUNDS {
        let mut report = template.clone();
        let values = noise(seconds, kind, &mut random);
        report
            .intervals
            .iter_mut()
            .zip(values)
            .for_each(|(row, items)| row.items = items);
        match find(&report) {
            Ok(steady) => {
                cut += u32::from(steady.from_s > 0);
                left_out += steady.from_s as f64 / seconds as f64;
            }
            Err(_) => refused += 1,
        }
    }
    let rounds = f64::from(ROUNDS);
    (
        f64::from(cut) / rounds,
        f64::from(refused) / rounds,
        left_out / rounds,
    )
}

#[test]
fn of_mere_noise_little_is_left_out_and_seldom_is_it_refused() {
    for (seconds, spread, memory) in [
        (20, 500.0, 0.0),
        (40, 500.0, 0.0),
        (60, 500.0, 0.0),
        (60, 2_500.0, 0.0),
        (120, 500.0, 0.0),
        (600, 500.0, 0.0),
        (600, 2_500.0, 0.0),
        (120, 1_000.0, 0.7),
        (600, 1_000.0, 0.7),
    ] {
        let (cut, refused, left_out) = false_cuts(seconds, (spread, memory));
        println!(
            "{seconds} s, {spread}, {memory}: cut {cut:.3}, refused {refused:.3}, left out {left_out:.3} in the mean"
        );
        assert!(
            refused < 0.1 && left_out < 0.1,
            "{seconds} s, {spread}, {memory}: {refused} refused, {left_out} left out"
        );
    }
}

proptest! {
    #[test]
    fn a_constant_is_kept_whole(seconds in 20..400_usize, items in 1..1_000_000_u64, median in 1.0..1e7_f64) {
        let steady = find(&with_medians(run(&vec![items; seconds]), |_| Some(median))).unwrap();
        prop_assert_eq!((steady.from_s, steady.to_s), (0, seconds as u64));
    }

    #[test]
    fn a_climb_before_a_constant_is_left_out(k in 1..40_usize, after in 1..100_usize) {
        // Longer than twice the climb by more than a batch, or half of it is over before it ends.
        let seconds = 2 * k + 25 + after;
        let steady = find(&run(&ramp(k, seconds))).unwrap();
        let batch = usize::try_from(steady.batch_s).unwrap();
        // A last step of the climb may be as good as none; nothing of the constant is left out but
        // the rest of a batch.
        let from = usize::try_from(steady.from_s).unwrap();
        prop_assert!(from <= k.next_multiple_of(batch), "{from} for {k} of {seconds}");
        prop_assert!(from + batch.max(2) >= k, "{from} for {k} of {seconds}");
    }

    #[test]
    fn a_climb_to_the_end_is_refused(seconds in 20..400_usize, most in 2_000..100_000_u64) {
        let climb: Vec<u64> = (0..seconds).map(|n| most * (n as u64 + 1) / seconds as u64).collect();
        let refused = find(&run(&climb));
        prop_assert!(matches!(refused, Err(NotSteady::Settling(_))), "{refused:?}");
    }

    #[test]
    fn whatever_the_seconds_hold_it_ends(
        rows in prop::collection::vec((0..u64::MAX, 0..u64::MAX, prop::option::of(any::<f64>())), 0..60),
        ends in prop::collection::vec(any::<f64>(), 2),
    ) {
        let mut report = run(&vec![1; rows.len()]);
        for (row, (start_s, items, p50_us)) in report.intervals.iter_mut().zip(rows) {
            (row.start_s, row.items, row.p50_us) = (start_s, items, p50_us);
        }
        report.shards.iter_mut().zip(ends).for_each(|(shard, end)| shard.totals.duration_s = end);
        let _ = find(&report);
    }
}
